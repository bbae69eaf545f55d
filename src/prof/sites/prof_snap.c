/*
 * Copies the site tables for a dump. Items lie in chunks of two mebibytes, aligned to their size
 * and filled from the front, so that the chunk of an item follows from its address.
 *
 * Invariant: after a successful prof_snap_take() or prof_snap_take_delta() the `pass` of the tables
 * (prof_data.h: nothing is removed from them) is held until prof_snap_drop(); a forked child, in
 * which no thread holds it, calls prof_snap_forget() instead. Locks: none of its own; `pass` keeps
 * sites, counts and thread records from being freed. Called by prof_dump.c, and by prof_age.c and
 * prof_label_sums.c, which find items and get memory (prof_snap_piece()) for what they add.
 */
#include "prof/sites/prof_snap.h"

#include "os/gate.h"
#include "os/pages.h"
#include "prof/sites/prof_data.h"

#define CHUNK_BYTES ((size_t)2 << 20)
/*
 * The number of an item is that of its chunk shifted left by LG_CHUNK_ITEMS, plus its place among
 * the items of the chunk.
 */
#define LG_CHUNK_ITEMS 16u

/* A chunk of items, or of pieces (prof_snap_piece()), which then lie where the items would. */
struct prof_chunk_s {
	prof_chunk_t *next;
	size_t used; /* bytes of items or pieces */
	prof_item_t items[];
};

/*
 * In this order: the chunk is found by masking the address; every item fits into a chunk; items
 * need no padding; numbers of items fit into 32 bits; nor do pieces need padding.
 */
cassert((CHUNK_BYTES & (CHUNK_BYTES - 1)) == 0 && CHUNK_BYTES >= PAGE_MAX);
cassert(sizeof(prof_chunk_t) + sizeof(prof_item_t) + sizeof(prof_counts_t) <= CHUNK_BYTES);
cassert(sizeof(prof_item_t) % _Alignof(prof_item_t) == 0);
cassert(sizeof(prof_counts_t) % _Alignof(prof_item_t) == 0);
cassert(CHUNK_BYTES / sizeof(prof_item_t) < 1u << LG_CHUNK_ITEMS);
cassert(PROF_SNAP_CHUNKS < 1u << (32 - LG_CHUNK_ITEMS));
cassert(sizeof(prof_sum_t) % sizeof(uint64_t) == 0);

/* The copying of one site. */
typedef struct {
	prof_snap_t *snap;
	prof_item_t *site;  /* item of the site that is being copied */
	uint32_t number;    /* its number */
	bool has_share;     /* at least one thread has a share in the site; `sole` tells if just one */
	prof_tdata_t *sole; /* the only one that has; NULL: several have, each with an item, or none */
} copier_t;

static prof_item_t *
item_at(prof_chunk_t *c, size_t offset) {
	return (prof_item_t *)((char *)c->items + offset);
}

static bool
chunk_has_room(const prof_chunk_t *c, size_t bytes) {
	return c != NULL && sizeof(prof_chunk_t) + c->used + bytes <= CHUNK_BYTES;
}

/*
 * Maps a chunk and appends it to the list; NULL without memory. A list has huge pages from its
 * second chunk on, where their size is that of a chunk: there is one page to fault in and clear
 * instead of 512 of 4 KiB.
 */
static prof_chunk_t *
chunk_new(prof_chunks_t *chunks) {
	prof_chunk_t *c = pages_map(NULL, CHUNK_BYTES, CHUNK_BYTES, NULL);
	if (c == NULL) {
		return NULL;
	}
	if (chunks->last == NULL) {
		chunks->first = c;
	} else {
		chunks->last->next = c;
		if (pages_huge_size() == CHUNK_BYTES) {
			pages_advise(c, CHUNK_BYTES, PAGES_HUGE);
		}
	}
	chunks->last = c;
	return c;
}

/* The next bytes of the last chunk, which has room for them; zero, as its pages are new. */
ALWAYS_INLINE void *
chunk_take(prof_chunk_t *c, size_t bytes) {
	void *p = item_at(c, c->used);
	c->used += bytes;
	assert(sizeof(prof_chunk_t) + c->used <= CHUNK_BYTES);
	return p;
}

/* The next item, zero but for kind and who; NULL without memory. */
static prof_item_t *
item_new(prof_snap_t *snap, prof_item_kind_t kind, const void *who) {
	if (!chunk_has_room(snap->items.last, snap->item_bytes)) {
		prof_chunk_t *c = chunk_new(&snap->items);
		if (c == NULL) {
			return NULL;
		}
		snap->next_number = snap->nnumbered << LG_CHUNK_ITEMS;
		if (snap->nnumbered < PROF_SNAP_CHUNKS) {
			snap->numbered[snap->nnumbered++] = c;
		}
	}
	prof_item_t *item = chunk_take(snap->items.last, snap->item_bytes);
	snap->next_number++;
	item->kind = (uint8_t)kind;
	item->who = who;
	return item;
}

prof_item_t *
prof_snap_item(const prof_snap_t *snap, uint32_t number) {
	unsigned k = number >> LG_CHUNK_ITEMS;
	size_t offset = number % (1u << LG_CHUNK_ITEMS) * snap->item_bytes;
	return k < snap->nnumbered && offset < snap->numbered[k]->used
	    ? item_at(snap->numbered[k], offset) : NULL;
}

void *
prof_snap_piece(prof_snap_t *snap, size_t bytes) {
	assert(bytes % sizeof(uint64_t) == 0);
	if (!chunk_has_room(snap->pieces.last, bytes) && chunk_new(&snap->pieces) == NULL) {
		return NULL;
	}
	return chunk_take(snap->pieces.last, bytes);
}

bool
prof_snap_try_sum(prof_snap_t *snap, prof_sum_t **list, uint32_t key, const prof_counts_t *c) {
	prof_sum_t *s = *list;
	for (unsigned i = 0; s != NULL && s->key != key; i++) {
		s = i + 1 < PROF_AGES ? s->next : NULL;
	}
	if (s == NULL) {
		s = prof_snap_piece(snap, sizeof(*s));
		if (s == NULL) {
			return false;
		}
		s->key = key;
		s->next = *list;
		*list = s;
	}
	prof_counts_add(&s->cur, c);
	return true;
}

/* Keeps the first sampling rate (bytes), and whether there is another. */
static void
rate_note(prof_snap_t *snap, uint64_t rate) {
	assert(rate > 0);
	if (snap->rate == 0) {
		snap->rate = rate;
	} else if (snap->rate != rate) {
		snap->is_mixed = true;
	}
}

/* Makes the thread's item for the current site; all sampling rates share it. */
static prof_item_t *
thread_item_new(copier_t *cp, prof_tdata_t *td) {
	assert(td->snap_site != cp->site);
	td->snap_item = item_new(cp->snap, prof_item_thread, td);
	td->snap_site = td->snap_item == NULL ? NULL : cp->site;
	return td->snap_item;
}

/*
 * Called when a second thread gets a share: makes an item for the first thread with the sums that
 * the site has so far. 0 or ENOMEM.
 */
static int
sole_split(copier_t *cp) {
	prof_item_t *item = thread_item_new(cp, cp->sole);
	if (item == NULL) {
		return ENOMEM;
	}
	memcpy(&item->cur, &cp->site->cur, cp->snap->item_bytes - offsetof(prof_item_t, cur));
	cp->sole = NULL;
	return 0;
}

/*
 * Finds the item for the share of a thread in the site, and makes it if it is missing. *item is
 * NULL as long as no other thread has a share: then the sums of the site's item are those of the
 * thread, and no second item is needed. 0 or ENOMEM.
 */
static int
share_find(copier_t *cp, prof_tdata_t *td, prof_item_t **item) {
	*item = NULL;
	if (!cp->has_share) {
		cp->has_share = true;
		cp->sole = td;
	}
	if (cp->sole == td) {
		return 0;
	}
	if (cp->sole != NULL && sole_split(cp) != 0) {
		return ENOMEM;
	}
	*item = td->snap_site == cp->site ? td->snap_item : thread_item_new(cp, td);
	return *item == NULL ? ENOMEM : 0;
}

/*
 * In debug builds: checks that the sites' counts add up to the total. The counts of the threads in
 * the list may add up to less, because threads may have begun after the list was made.
 */
static void
snap_check(const prof_snap_t *snap) {
	prof_counts_t sites = {0, 0, 0, 0};
	prof_counts_t threads = {0, 0, 0, 0};
	size_t nsites = 0;
	for (const prof_item_t *i = prof_snap_next(snap, NULL); i != NULL;
	    i = prof_snap_next(snap, i)) {
		assert(i->kind <= prof_item_void && i->who != NULL);
		if (i->kind == prof_item_site) {
			prof_counts_add(&sites, &i->cur);
			nsites++;
		}
	}
	for (size_t i = 0; i < snap->nthreads; i++) {
		prof_counts_add(&threads, &snap->threads[i]->snap_cur);
		assert(i == 0 || snap->threads[i - 1]->uid < snap->threads[i]->uid);
	}
	assert(nsites == snap->nsites && snap->nlive <= nsites);
	assert(sites.objs == snap->cur.objs && sites.bytes == snap->cur.bytes);
	assert(threads.objs <= snap->cur.objs);
	assert(snap->rate != 0 || (nsites == 0 && !snap->is_mixed));
}

/*
 * Adds a count to the items of its site and thread and to the totals, if it is of the present epoch
 * and has anything that the snapshot tells. In a delta only to the item of its site. 0 or ENOMEM.
 */
static int
cnt_copy(copier_t *cp, prof_cnt_t *c) {
	prof_counts_t cur;
	prof_counts_t accum;
	prof_data_counts_read(c, &cur, &accum);
	bool is_empty = cur.objs == 0 && (!cp->snap->is_accum || accum.objs == 0);
	if (is_empty || !prof_data_is_current(c)) {
		return 0;
	}
	if (cp->snap->is_delta) {
		prof_counts_add(&cp->site->cur, &cur);
		return 0;
	}
	prof_item_t *item;
	if (share_find(cp, c->tdata, &item) != 0) {
		return ENOMEM;
	}
	rate_note(cp->snap, c->rate);
	c->snap_number = cp->number;
	if (item != NULL) {
		prof_counts_add(&item->cur, &cur);
	}
	prof_counts_add(&cp->site->cur, &cur);
	prof_counts_add(&c->tdata->snap_cur, &cur);
	prof_counts_add(&cp->snap->cur, &cur);
	if (cp->snap->is_accum) {
		if (item != NULL) {
			prof_counts_add(item->accum, &accum);
		}
		prof_counts_add(cp->site->accum, &accum);
		prof_counts_add(&c->tdata->snap_accum, &accum);
		prof_counts_add(&cp->snap->accum, &accum);
	}
	return 0;
}

/*
 * Fills *c in as if each object were a sample (rate 1). c16 is an estimate of objects in units of
 * 1/65536 (1 / IMAGE_WEIGHT_ONE), est one of their bytes; both are differences. A site with objects
 * of several sizes may grow in bytes and not in objects. Then c16 is 0, or negative modulo 2^64,
 * and counts as one object, because a reader would drop bytes without objects.
 */
static void
delta_set(prof_counts_t *c, uint64_t c16, uint64_t est) {
	assert(est > 0);
	bool has_objects = c16 > 0 && c16 <= INT64_MAX;
	c->c16 = has_objects ? c16 : IMAGE_WEIGHT_ONE;
	uint64_t objs = (c->c16 + IMAGE_WEIGHT_ONE / 2) / IMAGE_WEIGHT_ONE;
	c->objs = objs != 0 ? objs : 1;
	c->bytes = est;
	c->est = est;
}

/*
 * Subtracts what the mark remembers from the item of a site. If the site has more bytes than at the
 * mark, the item has the difference; if it has fewer, the kind prof_item_shrunk and the difference;
 * if it has as many, zeros.
 */
static void
site_subtract_mark(prof_snap_t *snap, prof_item_t *item, const prof_site_t *s) {
	prof_counts_t *c = &item->cur;
	if (c->est > s->mark_est) {
		delta_set(c, c->c16 - s->mark_c16, c->est - s->mark_est);
		prof_counts_add(&snap->cur, c);
	} else if (c->est < s->mark_est) {
		item->kind = prof_item_shrunk;
		snap->nshrunk++;
		delta_set(c, s->mark_c16 - c->c16, s->mark_est - c->est);
	} else {
		memset(c, 0, sizeof(*c));
	}
}

/* Whether the site has nothing to tell, so that it needs no item. */
static bool
site_is_void(const prof_snap_t *snap, const prof_site_t *s, const prof_link_t *counts) {
	return counts == NULL && (!snap->is_delta || s->mark_est == 0);
}

/* Copies one site with its counts; 0 or ENOMEM. */
static int
site_copy(prof_snap_t *snap, const prof_site_t *s) {
	prof_link_t *link = atomic_load_p(&s->counts, MO_ACQUIRE);
	if (site_is_void(snap, s, link)) {
		return 0;
	}
	copier_t cp = {snap, item_new(snap, prof_item_site, s), 0, false, NULL};
	if (cp.site == NULL) {
		return ENOMEM;
	}
	cp.number = snap->next_number - 1;
	for (; link != NULL; link = link->next) {
		int err = cnt_copy(&cp, container_of(link, prof_cnt_t, link));
		if (err != 0) {
			return err;
		}
	}
	cp.site->sole = cp.sole;
	if (snap->is_delta) {
		site_subtract_mark(snap, cp.site, s);
	}
	if (cp.site->kind == prof_item_shrunk) {
		return 0;
	}
	if (cp.site->cur.objs == 0 && prof_item_accum(snap, cp.site)->objs == 0) {
		cp.site->kind = prof_item_void;
	} else {
		snap->nsites++;
		snap->nlive += cp.site->cur.objs != 0;
	}
	return 0;
}

/*
 * Sorts by uid, ascending, by insertion. threads_list() has filled the array in nearly that order,
 * so this is nearly linear.
 */
static void
threads_sort(prof_tdata_t **v, size_t n) {
	for (size_t i = 1; i < n; i++) {
		prof_tdata_t *td = v[i];
		size_t at = i;
		while (at > 0 && v[at - 1]->uid > td->uid) {
			v[at] = v[at - 1];
			at--;
		}
		v[at] = td;
	}
}

/*
 * Lists all thread records by uid and zeroes what a snapshot keeps in them. Fills the array from
 * the end, because the list has the newest record first. 0 or ENOMEM.
 */
static int
threads_list(prof_snap_t *snap) {
	prof_tdata_t *head = prof_data_tdatas();
	size_t n = 0;
	for (prof_tdata_t *td = head; td != NULL; td = prof_tdata_next(td)) {
		memset(&td->snap_cur, 0, sizeof(td->snap_cur));
		memset(&td->snap_accum, 0, sizeof(td->snap_accum));
		td->snap_site = NULL;
		n++;
	}
	if (n == 0) {
		return 0;
	}
	snap->threads_bytes = PAGE_CEILING(n * sizeof(*snap->threads));
	snap->threads = pages_map(NULL, snap->threads_bytes, PAGE, NULL);
	if (snap->threads == NULL) {
		return ENOMEM;
	}
	snap->nthreads = n;
	for (prof_tdata_t *td = head; td != NULL; td = prof_tdata_next(td)) {
		snap->threads[--n] = td;
	}
	threads_sort(snap->threads, snap->nthreads);
	return 0;
}

/*
 * Copies all sites; 0 or ENOMEM. That may take long, so it leaves the gate for a moment between two
 * sites if a thread waits to fork.
 */
static int
sites_copy(prof_snap_t *snap) {
	struct tls_s *t = tls_get();
	int err = 0;
	assert(t->gate_depth == 1);
	for (const prof_link_t *link = (const prof_link_t *)prof_data_sites();
	    link != NULL && err == 0; link = link->next) {
		err = site_copy(snap, container_of(link, const prof_site_t, link));
		if (unlikely(gate_is_closed())) {
			gate_exit(t);
			gate_enter(t);
		}
	}
	return err;
}

/* Makes the empty snapshot and begins the pass. */
static void
snap_begin(prof_snap_t *snap, bool is_delta) {
	memset(snap, 0, sizeof(*snap));
	snap->is_delta = is_delta;
	snap->is_accum = !is_delta && prof_data_is_accum();
	snap->item_bytes = sizeof(prof_item_t) + (snap->is_accum ? sizeof(prof_counts_t) : 0);
	prof_data_pass_begin();
}

/* After an error drops the snapshot, which ends the pass; else checks it in debug builds. */
static int
snap_end(prof_snap_t *snap, int err) {
	if (err != 0) {
		prof_snap_drop(snap);
	} else if (config_debug) {
		snap_check(snap);
	}
	return err;
}

int
prof_snap_take(prof_snap_t *snap) {
	snap_begin(snap, false);
	int err = threads_list(snap);
	if (err == 0) {
		err = sites_copy(snap);
	}
	return snap_end(snap, err);
}

int
prof_snap_take_delta(prof_snap_t *snap) {
	snap_begin(snap, true);
	snap->rate = 1;
	snap->is_mixed = true; /* samples at the mark may have had other rates than those now */
	int err = prof_data_is_marked() ? sites_copy(snap) : ENODATA;
	/* A reset in the midst of the copy leaves nothing that could be compared. */
	if (err == 0 && !prof_data_is_marked()) {
		err = ENODATA;
	}
	return snap_end(snap, err);
}

void
prof_snap_drop(prof_snap_t *snap) {
	prof_data_pass_end();
	prof_snap_forget(snap);
}

static void
chunks_unmap(const prof_chunks_t *chunks) {
	prof_chunk_t *c = chunks->first;
	while (c != NULL) {
		prof_chunk_t *next = c->next;
		pages_unmap_in_time(c, CHUNK_BYTES);
		c = next;
	}
}

void
prof_snap_forget(prof_snap_t *snap) {
	chunks_unmap(&snap->items);
	chunks_unmap(&snap->pieces);
	if (snap->threads != NULL) {
		pages_unmap_in_time(snap->threads, snap->threads_bytes);
	}
	memset(snap, 0, sizeof(*snap));
}

/* The item at this offset, or the first one of the next chunk; NULL: there is none. */
static const prof_item_t *
chunk_item(prof_chunk_t *c, size_t offset) {
	if (offset < c->used) {
		return item_at(c, offset);
	}
	return c->next == NULL || c->next->used == 0 ? NULL : item_at(c->next, 0);
}

/* The chunk of an item follows from its address. */
const prof_item_t *
prof_snap_next(const prof_snap_t *snap, const prof_item_t *item) {
	if (item == NULL) {
		return snap->items.first == NULL ? NULL : chunk_item(snap->items.first, 0);
	}
	prof_chunk_t *c = (prof_chunk_t *)((uintptr_t)item & ~(CHUNK_BYTES - 1));
	assert((size_t)((const char *)item - (const char *)c->items) < c->used);
	return chunk_item(c, (size_t)((const char *)item - (const char *)c->items)
	    + snap->item_bytes);
}
