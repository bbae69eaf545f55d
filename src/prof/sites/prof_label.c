/*
 * The table of labels (prof_label.h): texts, found by their hash and by their number.
 *
 * It is one mapping, made with the first label, to which entries are only added: an entry is
 * complete before its chain or its number lead to it, and never changes or goes. Invariant: a text
 * is in one entry of the chains. If two threads add a text at the same moment, the second finds the
 * entry of the first on the chain and gives that one's number; its own is given to nobody, but
 * leads to the same text. Locks: none to intern and to look up, so neither a fork nor a signal
 * handler finds one held; a forked child has the table as it was. Called by ctl_thread.c and
 * ctl_prof.c, by prof.c to show the label of a sample, and for the texts by prof_label_sums.c and
 * prof_dump_label.c.
 *
 * Readers outside the process do not read this table. Those of a box (the region in shared memory)
 * see the region only, and to allocate there takes a lock. So a text is copied by the first sample
 * that has it, which may wait, and not by whoever interns it: into the region, up to a limit
 * (may_use_region()), or else into other metadata, which only readers of a core and of a living
 * process see.
 */
#include "prof/sites/prof_label.h"

#include "meta/freepool.h"
#include "meta/region.h"
#include "os/pages.h"
#include "util/atomic.h"
#include "util/hash.h"

/* Number of chains of entries with the same hash; a power of two. */
#define CHAINS 8192u

typedef struct {
	uint32_t next; /* place of the next entry of its chain, 0: none */
	uint32_t id;   /* the number of the text, from 1 on */
	char text[];   /* with its NUL */
} entry_t;

/* Places are offsets in `bytes`; 0 is none: labels_make() leaves the first bytes unused. */
typedef struct {
	atomic_u32_t chains[CHAINS]; /* place of the first entry, the newest */
	atomic_u32_t of_id[PROF_LABELS_MAX + 1]; /* place of the entry of each number */
	atomic_u32_t used;  /* bytes of `bytes` that are taken */
	atomic_u32_t count; /* the last number that was given */
	/* a bit for each number: its text is copied for readers outside, or is being copied */
	atomic_u32_t shown[(PROF_LABELS_MAX + 1) / 32];
	atomic_zu_t in_region; /* bytes that such copies take in the region */
	char bytes[PROF_LABEL_TEXTS];
} labels_t;

cassert((CHAINS & (CHAINS - 1)) == 0);
cassert(sizeof(entry_t) + PROF_LABEL_TEXT_MAX + 1 + sizeof(uint32_t) < PROF_LABEL_TEXTS);

/* NULL until the first label; set once. */
static labels_t *labels;

static labels_t *
labels_get(void) {
	return __atomic_load_n(&labels, MO_ACQUIRE);
}

/* Maps the table; of several threads that do so at once all get the first one. NULL: no memory. */
static NOINLINE labels_t *
labels_make(void) {
	size_t bytes = PAGE_CEILING(sizeof(labels_t));
	labels_t *made = pages_map(NULL, bytes, PAGE, NULL), *other = NULL;
	if (made == NULL) {
		return NULL;
	}
	(void)pages_advise(made, bytes, PAGES_NO_HUGE); /* most of it is never used */
	atomic_store_u32(&made->used, sizeof(uint32_t), MO_RELAXED);
	if (!__atomic_compare_exchange_n(&labels, &other, made, false, MO_ACQ_REL, MO_ACQUIRE)) {
		pages_unmap_in_time(made, bytes);
		return other;
	}
	return made;
}

static entry_t *
entry_at(labels_t *l, uint32_t place) {
	assert(place != 0 && place % _Alignof(entry_t) == 0);
	return (entry_t *)(void *)&l->bytes[place];
}

/*
 * Looks for the entry of a text in its chain: from `place` on, and before `end` (0: to the end of
 * the chain). NULL: it is not there.
 */
static entry_t *
entry_find(labels_t *l, uint32_t place, uint32_t end, const char *text) {
	for (; place != end; place = entry_at(l, place)->next) {
		if (strcmp(entry_at(l, place)->text, text) == 0) {
			return entry_at(l, place);
		}
	}
	return NULL;
}

/* Adds n to *sum unless it would exceed `most`, and returns whether; *before: the sum before. */
static bool
sum_try_take(atomic_u32_t *sum, uint32_t n, uint32_t most, uint32_t *before) {
	uint32_t old = atomic_load_u32(sum, MO_RELAXED);
	do {
		if (most - old < n) {
			return false;
		}
	} while (!atomic_cas_weak_u32(sum, &old, old + n, MO_RELAXED, MO_RELAXED));
	*before = old;
	return true;
}

/* Makes an entry with a new number, on no chain yet. Its place, or 0: a limit is reached. */
static uint32_t
entry_make(labels_t *l, const char *text, size_t len) {
	uint32_t bytes = (uint32_t)(sizeof(entry_t) + len + sizeof(uint32_t))
	    & ~(uint32_t)(sizeof(uint32_t) - 1);
	uint32_t place, before;
	if (atomic_load_u32(&l->count, MO_RELAXED) == PROF_LABELS_MAX
	    || !sum_try_take(&l->used, bytes, PROF_LABEL_TEXTS, &place)
	    || !sum_try_take(&l->count, 1, PROF_LABELS_MAX, &before)) {
		return 0;
	}
	entry_t *e = entry_at(l, place);
	e->id = before + 1;
	memcpy(e->text, text, len + 1);
	return place;
}

/*
 * Adds a text to a chain where it was not found from the entry `head` on. If another thread was
 * faster, *id becomes the number of that thread's entry. 0 or EAGAIN.
 */
static int
chain_add(labels_t *l, atomic_u32_t *chain, uint32_t head, const char *text, size_t len,
    uint32_t *id) {
	uint32_t place = entry_make(l, text, len), seen = head;
	if (place == 0) {
		return EAGAIN;
	}
	entry_t *e = entry_at(l, place);
	e->next = head;
	/* A sample has the number only after this call; so whoever reads a number finds its text. */
	atomic_store_u32(&l->of_id[e->id], place, MO_RELEASE);
	while (!atomic_cas_weak_u32(chain, &head, place, MO_ACQ_REL, MO_ACQUIRE)) {
		entry_t *other = entry_find(l, head, seen, text);
		if (other != NULL) {
			*id = other->id;
			return 0;
		}
		e->next = seen = head;
	}
	*id = e->id;
	return 0;
}

int
prof_label_intern(const char *text, uint32_t *id) {
	size_t len = text == NULL ? SIZE_MAX : strnlen(text, PROF_LABEL_TEXT_MAX + 1);
	if (len > PROF_LABEL_TEXT_MAX) {
		return EINVAL;
	}
	*id = 0;
	if (len == 0) {
		return 0;
	}
	labels_t *l = labels_get();
	if (l == NULL && (l = labels_make()) == NULL) {
		return EAGAIN;
	}
	atomic_u32_t *chain = &l->chains[hash64(text, len, 0) % CHAINS];
	uint32_t head = atomic_load_u32(chain, MO_ACQUIRE);
	const entry_t *e = entry_find(l, head, 0, text);
	if (e != NULL) {
		*id = e->id;
		return 0;
	}
	return chain_add(l, chain, head, text, len, id);
}

const char *
prof_label_text(uint32_t id) {
	labels_t *l = labels_get();
	uint32_t place = l == NULL || id > PROF_LABELS_MAX ? 0
	    : atomic_load_u32(&l->of_id[id], MO_ACQUIRE);
	return place == 0 ? "" : entry_at(l, place)->text;
}

/* ---------------------------------------------------------------- for readers outside */

/*
 * Whether labels may take so many bytes more of the region: an eighth of the box in all, without a
 * box an eighth of the smallest box there can be. Threads that ask at once may exceed it a little.
 */
static bool
may_use_region(const labels_t *l, size_t bytes) {
	return atomic_load_zu(&l->in_region, MO_RELAXED) + bytes <= region_box_part(8);
}

/* Raises the greatest number of a shown label, which the root has; the copy is listed after it. */
static void
last_tell(image_root_t *root, uint64_t id) {
	uint64_t last = __atomic_load_n(&root->label_last, MO_RELAXED);
	while (last < id && !__atomic_compare_exchange_n(&root->label_last, &last, id, true,
	    MO_RELAXED, MO_RELAXED)) {
	}
}

/*
 * Puts a copy of a text on one of the lists of the root: `labels` if it is in the region, else
 * `labels_elsewhere`. False: there is no memory.
 */
static bool
try_show(labels_t *l, uint32_t id, const char *text) {
	size_t len = strlen(text), bytes = sizeof(prof_label_shown_t) + len + 1;
	image_root_t *root = region_root();
	if (root == NULL) {
		return false;
	}
	size_t charged = region_good_size(bytes);
	prof_label_shown_t *s = may_use_region(l, charged) ? region_alloc(bytes) : NULL;
	uint64_t *list = &root->labels;
	if (s != NULL) {
		atomic_fetch_add_zu(&l->in_region, charged, MO_RELAXED);
	} else {
		s = meta_alloc(bytes);
		list = &root->labels_elsewhere;
	}
	if (s == NULL) {
		return false;
	}
	s->bytes = (uint32_t)bytes;
	s->id = id;
	memcpy(s->text, text, len + 1);
	last_tell(root, id);
	region_list_push(list, s);
	return true;
}

void
prof_label_show(uint32_t id) {
	labels_t *l = labels_get();
	id &= SAMPLE_LABEL_MASK;
	if (l == NULL || id == 0) {
		return;
	}
	atomic_u32_t *bits = &l->shown[id / 32];
	uint32_t bit = UINT32_C(1) << id % 32;
	if (likely((atomic_load_u32(bits, MO_RELAXED) & bit) != 0)) {
		return;
	}
	const char *text = prof_label_text(id);
	/* Of several threads the one that sets the bit shows it. */
	if (text[0] != '\0' && (atomic_fetch_or_u32(bits, bit, MO_RELAXED) & bit) == 0
	    && !try_show(l, id, text)) {
		atomic_fetch_and_u32(bits, ~bit, MO_RELAXED);
	}
}

/* ---------------------------------------------------------------- numbers */

unsigned
prof_label_count(void) {
	labels_t *l = labels_get();
	return l == NULL ? 0 : atomic_load_u32(&l->count, MO_RELAXED);
}
