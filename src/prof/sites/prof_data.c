/*
 * The tables of allocation sites and counts, the list of thread records, and the sweeper that
 * removes what has been empty for a while (prof_data.h describes the scheme).
 *
 * Invariant: a site or count gets PROF_DEAD and leaves its table under one hold of its shard's
 * lock. Removed objects collect in the limbo list; a batch of them starts a new pin_epoch and is
 * freed when no thread is pinned in an earlier one. There are two kinds of pins. The pin of a
 * thread (td->pinned), while it reads the tables, keeps removed objects from being freed. A pin of
 * a count (PROF_PIN in `live`) keeps that count from being removed. Locks: the shards of the two
 * tables; `pass`, held by a dump from the snapshot until all is written and by prof_mark.c while it
 * sets the mark, and only tried by the sweeper; `limbo_mtx`, under which no other lock is taken.
 * A thread pushes onto a list with compare-and-swap; only the holder of `pass` removes from it.
 * Called by prof.c for samples, frees, lock statistics and in a forked child, by prof_log.c and
 * prof_recent.c for pins and the places of frees, by prof_snap.c, prof_age.c and prof_dump.c for
 * dumps, by prof_mark.c for the mark, by prof_thread.c for thread records, by prof_switch.c for
 * resets, by prof_session.c for prof_accum and to take the mark off, by prof_start.c at boot.
 */
#include "prof/sites/prof_data.h"

#include "meta/freepool.h"
#include "meta/region.h"
#include "os/gate.h"
#include "os/mutex.h"
#include "prof/sites/prof_root.h"
#include "prof/sites/prof_sample.h"
#include "prof/sites/prof_table.h"
#include "unwind/module_history.h"
#include "util/hash.h"

/*
 * Counts and sites that are examined for each new count and each reset, and thread records that are
 * examined for each new record.
 */
#define SWEEP_STEP 16
#define SWEEP_TDATAS 4
/* Empty counts (no live sample, no pin) that may stay, however few counts there are in all. */
#define SWEEP_SPARES 256
/* Least number of objects in the limbo list that become a batch, which then waits to be freed. */
#define LIMBO_BATCH 64
/*
 * Removed objects are freed at every 16th sweep, and at each reset; not more often, because that
 * reads the pins of all threads.
 */
#define RECLAIM_EVERY 16

/* More than 2^32 live objects and 2^20 pins fit below the PROF_DEAD mark. */
cassert(PROF_PIN > UINT32_MAX && PROF_DEAD / PROF_PIN > UINT64_C(1) << 20);
cassert((PROF_LIVE_MASK & PROF_PIN) == 0 && (PROF_DEAD & PROF_LIVE_MASK) == 0);
/* Lists are chained through the link, which is the first member of each type. */
cassert(offsetof(prof_site_t, link) == 0 && offsetof(prof_cnt_t, link) == 0);
cassert(offsetof(prof_tdata_t, link) == 0);
cassert(sizeof(((prof_tdata_t *)NULL)->name.words) == PROF_THREAD_NAME_MAX);
cassert(PROF_FRAME_BYTES + PROF_FRAMES_PAD == sizeof(uint64_t));
/* The tables use at most 400 bytes for a site of depth 20 with its count. */
cassert(sizeof(prof_site_t) + 20 * PROF_FRAME_BYTES + PROF_FRAMES_PAD + sizeof(prof_cnt_t) <= 400);

static LARGE_BSS struct {
	prof_table_t sites;
	prof_table_t counts;
	/*
	 * has the heads of the lists of sites and of records, the epoch, and in its flags whether new
	 * counts have sums of what was allocated in all (prof_accum)
	 */
	image_root_t *root;
	atomic_u64_t mark;         /* 1 + the epoch in which the sites were marked; 0: they are not */
	atomic_u64_t next_uid;     /* uid of the next thread record */

	mutex_t pass;
	/*
	 * Where the sweep goes on, under pass. sweep_prev: the last site that was swept and stays
	 * (NULL: begin at the head of the list). sweep_site: the site being swept (NULL: take the one
	 * after sweep_prev). sweep_cnt: the last count of sweep_site that was swept and stays (NULL:
	 * begin at the head of the site's list).
	 */
	prof_site_t *sweep_prev;
	prof_site_t *sweep_site;
	prof_link_t *sweep_cnt;
	/*
	 * Under pass: number of counts and of empty counts that this round, one walk over all sites,
	 * has examined. sweep_takes: the previous round found more empty counts than may stay, so this
	 * round removes idle ones.
	 */
	size_t sweep_nseen;
	size_t sweep_nempty;
	bool sweep_takes;
	prof_tdata_t *tsweep_prev; /* under pass: the last thread record that was swept and stays */
	/* advances with each batch; starts at 1, because 0 in td->pinned means "not pinned" */
	atomic_u64_t pin_epoch;
	/* under pass: the batch to free when all pins are of waiting_epoch or later */
	prof_link_t *waiting;
	uint64_t waiting_epoch;
	unsigned reclaim_calls; /* under pass: number of sweeps, for RECLAIM_EVERY */

	/* Under limbo_mtx: the objects taken out of the tables that belong to no batch yet. */
	mutex_t limbo_mtx;
	prof_link_t *limbo;
	size_t nlimbo;             /* their number */
} tables;

/* The heads of the two lists, which lie in the root so that other programs find them. */
static atomic_p_t *
all_sites(void) {
	return (atomic_p_t *)(void *)&tables.root->sites;
}

static atomic_p_t *
all_tdatas(void) {
	return (atomic_p_t *)(void *)&tables.root->threads;
}

/* The key by which a site or count is looked up. */
typedef struct {
	void *const *frames;
	unsigned nframes;
	uint64_t site_hash;
	uint64_t cnt_hash;
	uint64_t rate; /* sampling interval in bytes; 0: the backtrace is that of a free */
	prof_tdata_t *tdata;
	uint32_t epoch;
	/*
	 * As prof_site_t.stamp: hash of the loaded objects that contain the frames, 0 if these are
	 * never unloaded. Computed (has_stamp) only for a new site, or when a site with the same frames
	 * has a stamp that is not 0.
	 */
	uint32_t stamp;
	bool has_stamp;
	/* key of the site IMAGE_NO_ROOM: its objects may use the last bytes of a full box */
	bool is_last;
} tables_key_t;

uint32_t
prof_data_epoch(void) {
	return (uint32_t)__atomic_load_n(&tables.root->epoch, MO_RELAXED);
}

/* ---------------------------------------------------------------- keys */

static void
frames_pack(uint8_t *out, void *const *vec, unsigned n) {
	for (unsigned i = 0; i < n; i++) {
		uint64_t v = (uint64_t)(uintptr_t)vec[i];
		uint32_t low = (uint32_t)v;
		uint16_t high = (uint16_t)(v >> 32);
		memcpy(out, &low, sizeof(low));
		memcpy(out + sizeof(low), &high, sizeof(high));
		out += PROF_FRAME_BYTES;
	}
}

/*
 * Whether the word loaded from a stored frame is this frame. Its 48 bits are the low ones of the
 * word; where the high byte comes first, their low half is the word's upper half.
 */
ALWAYS_INLINE bool
frame_is(uint64_t word, uintptr_t frame) {
	uint64_t stored = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? word
	    : word >> 32 | (word & UINT64_C(0xffff0000)) << 16;
	return ((stored ^ frame) & ((UINT64_C(1) << (8 * PROF_FRAME_BYTES)) - 1)) == 0;
}

static uint64_t
frames_hash(void *const *vec, unsigned n) {
	uint64_t h = n;
	for (unsigned i = 0; i < n; i++) {
		h = image_hash_frame(h, (uintptr_t)vec[i]);
	}
	return hash_mix64(h);
}

static void
key_init(tables_key_t *k, prof_tdata_t *td, const prof_bt_t *bt, uint64_t rate) {
	k->frames = bt->vec;
	k->nframes = bt->len;
	k->site_hash = frames_hash(bt->vec, bt->len);
	k->rate = rate;
	k->tdata = td;
	k->epoch = prof_data_epoch();
	k->has_stamp = false;
	k->is_last = false;
	k->cnt_hash = image_hash_count(k->site_hash, (uintptr_t)td, k->epoch, rate);
}

static COLD uint32_t
key_stamp(tables_key_t *k) {
	if (!k->has_stamp) {
		k->stamp = module_history_stamp(k->frames, k->nframes);
		k->has_stamp = true;
	}
	return k->stamp;
}

/*
 * Whether the site has the frames of the key, and its stamp; a site with stamp 0 matches any stamp.
 * Reading a word at the last frame stays inside the site because of PROF_FRAMES_PAD.
 */
static bool
site_is(const prof_site_t *s, tables_key_t *k) {
	if (prof_site_nframes(s) != k->nframes) {
		return false;
	}
	for (unsigned i = 0; i < k->nframes; i++) {
		uint64_t word;
		memcpy(&word, &s->frames[i * PROF_FRAME_BYTES], sizeof(word));
		if (!frame_is(word, (uintptr_t)k->frames[i])) {
			return false;
		}
	}
	return likely(s->stamp == 0) || s->stamp == key_stamp(k);
}

static bool
site_node_is(const prof_node_t *node, const void *key) {
	return site_is(container_of(node, const prof_site_t, node), (tables_key_t *)(uintptr_t)key);
}

static bool
cnt_node_is(const prof_node_t *node, const void *key) {
	const prof_cnt_t *c = container_of(node, const prof_cnt_t, node);
	tables_key_t *k = (tables_key_t *)(uintptr_t)key;
	return c->tdata == k->tdata && c->rate == k->rate && c->link.extra == k->epoch
	    && c->site->node.hash == k->site_hash && site_is(c->site, k);
}

/* ---------------------------------------------------------------- retiring */

/*
 * Puts what was taken out of a table (site, count, bucket array) onto the limbo list. A tool may be
 * reading it from another process; PROF_RETIRED is set before the link changes, so that the tool
 * sees that it is no object now and does not follow the link (meta/image.h).
 */
static void
tables_retire(prof_link_t *link) {
	assert(link->bytes >= sizeof(*link) && link->bytes < PROF_RETIRED);
	mutex_lock(&tables.limbo_mtx);
	__atomic_store_n(&link->bytes, link->bytes | PROF_RETIRED, MO_RELAXED);
	__atomic_store_n(&link->next, tables.limbo, MO_RELEASE);
	tables.limbo = link;
	tables.nlimbo++;
	mutex_unlock(&tables.limbo_mtx);
}

/*
 * Keeps all objects that the thread finds from now on from being freed until tables_unpin(). Pairs
 * with the fence in limbo_take_batch_locked(): either the reclaimer sees our pin, or we see that
 * the objects of its batch are no longer in the table.
 */
static void
tables_pin(prof_tdata_t *td) {
	uint64_t epoch = atomic_load_u64(&tables.pin_epoch, MO_RELAXED);
	assert(epoch > 0 && atomic_load_u64(&td->pinned, MO_RELAXED) == 0);
	atomic_store_u64(&td->pinned, epoch, MO_SEQ_CST);
	atomic_fence(MO_SEQ_CST);
}

static void
tables_unpin(prof_tdata_t *td) {
	assert(atomic_load_u64(&td->pinned, MO_RELAXED) != 0);
	atomic_store_u64(&td->pinned, 0, MO_RELEASE);
}

/* Whether any thread is pinned in a pin_epoch before this one; needs pass. */
static bool
is_pinned_before(uint64_t epoch) {
	for (prof_tdata_t *td = prof_data_tdatas(); td != NULL; td = prof_tdata_next(td)) {
		uint64_t pinned = atomic_load_u64(&td->pinned, MO_SEQ_CST);
		if (pinned != 0 && pinned < epoch) {
			return true;
		}
	}
	return false;
}

/* Makes a limbo list of at least min objects the waiting batch, and starts a new pin_epoch. */
static void
limbo_take_batch_locked(size_t min) {
	mutex_assert_owner(&tables.pass);
	assert(tables.waiting == NULL);
	mutex_lock(&tables.limbo_mtx);
	assert((tables.limbo == NULL) == (tables.nlimbo == 0));
	if (tables.nlimbo >= min) {
		tables.waiting = tables.limbo;
		tables.limbo = NULL;
		tables.nlimbo = 0;
	}
	mutex_unlock(&tables.limbo_mtx);
	if (tables.waiting != NULL) {
		tables.waiting_epoch = atomic_fetch_add_u64(&tables.pin_epoch, 1, MO_SEQ_CST) + 1;
		atomic_fence(MO_SEQ_CST);
	}
}

/*
 * Frees the waiting batch if no thread is pinned in an earlier pin_epoch; needs pass. If no batch
 * waits, the objects in limbo become one first, if they are at least min.
 */
static void
limbo_reclaim_locked(size_t min) {
	mutex_assert_owner(&tables.pass);
	if (tables.waiting == NULL) {
		limbo_take_batch_locked(min);
	}
	if (tables.waiting == NULL || is_pinned_before(tables.waiting_epoch)) {
		return;
	}
	prof_link_t *link = tables.waiting;
	tables.waiting = NULL;
	while (link != NULL) {
		prof_link_t *next = link->next;
		region_free(link, link->bytes & ~PROF_RETIRED);
		link = next;
	}
}

/* ---------------------------------------------------------------- sweeping, all under pass */

/*
 * Whether to remove the count. Adds it to the figures of this round. Only an empty count (`live` is
 * 0) can be removed, and none with sums of all that was allocated while these are wanted. If
 * nothing can be added to an empty count any more, because of a reset or because its thread has
 * ended, the result is true at once. Any other empty count is marked idle at its first visit, and
 * cnt_try_add() clears the mark. At a later visit of an idle one the result is true if the previous
 * round found more empty counts than SWEEP_SPARES plus half of all. So where objects are freed
 * soon, the next sample finds its count still there.
 */
static bool
cnt_judge(prof_cnt_t *c) {
	mutex_assert_owner(&tables.pass);
	bool is_current = prof_data_is_current(c);
	tables.sweep_nseen++;
	bool is_wanted = is_current && prof_cnt_has_accum(c) && prof_data_is_accum();
	if (atomic_load_u64(&c->live, MO_RELAXED) != 0 || is_wanted) {
		return false;
	}
	tables.sweep_nempty++;
	if (!is_current || !atomic_load_b(&c->tdata->attached, MO_RELAXED)) {
		return true;
	}
	if (!atomic_load_b(&c->is_idle, MO_RELAXED)) {
		atomic_store_b(&c->is_idle, true, MO_RELAXED);
		return false;
	}
	return tables.sweep_takes;
}

static void
sweep_round_ends(void) {
	mutex_assert_owner(&tables.pass);
	tables.sweep_takes = tables.sweep_nempty > tables.sweep_nseen / 2 + SWEEP_SPARES;
	tables.sweep_nseen = 0;
	tables.sweep_nempty = 0;
	tables.sweep_prev = NULL;
}

/*
 * Removes a count or a site from its table if the word that says who needs it (`live` or `refs`) is
 * still 0; a thread that finds it from then on sees the PROF_DEAD mark. Returns whether it did.
 */
static bool
node_try_kill(prof_table_t *table, prof_node_t *node, atomic_u64_t *users) {
	uint64_t none = 0;
	mutex_assert_owner(&tables.pass);
	prof_table_lock(table, node->hash);
	bool is_dead = atomic_cas_strong_u64(users, &none, PROF_DEAD, MO_ACQ_REL, MO_RELAXED);
	if (is_dead) {
		prof_table_remove_locked(table, node);
	}
	prof_table_unlock(table, node->hash);
	return is_dead;
}

/*
 * Unlinks `link`, which follows `prev`. With prev NULL it was the head when the sweep read that;
 * newer objects may have been pushed in front of it since.
 */
static void
list_unlink(atomic_p_t *head, prof_link_t *prev, prof_link_t *link) {
	mutex_assert_owner(&tables.pass);
	assert(prev != link && (prev == NULL || prev->next == link));
	if (prev == NULL) {
		void *expected = link;
		if (atomic_cas_strong_p(head, &expected, link->next, MO_ACQ_REL, MO_ACQUIRE)) {
			return;
		}
		prev = expected;
		while (prev->next != link) {
			prev = prev->next;
			assert(prev != NULL);
		}
	}
	prev->next = link->next;
}

/*
 * Sweeps counts of the site from where the last call ended, and takes one of *steps for each; false
 * if these were used up before the end of the site.
 */
static bool
site_sweep_counts(prof_site_t *s, unsigned *steps) {
	prof_link_t *prev = tables.sweep_cnt;
	prof_link_t *link = prev != NULL ? prev->next : atomic_load_p(&s->counts, MO_ACQUIRE);
	for (; link != NULL && *steps > 0; --*steps) {
		prof_cnt_t *c = container_of(link, prof_cnt_t, link);
		prof_link_t *next = link->next;
		if (cnt_judge(c) && node_try_kill(&tables.counts, &c->node, &c->live)) {
			list_unlink(&s->counts, prev, link);
			assert(c->site == s && atomic_load_u64(&c->tdata->ncounts, MO_RELAXED) > 0);
			atomic_fetch_sub_u64(&c->tdata->ncounts, 1, MO_RELEASE);
			uint64_t refs = atomic_fetch_sub_u64(&s->refs, 1, MO_RELEASE);
			assert((refs & PROF_DEAD) == 0 && refs > 0);
			(void)refs;
			tables_retire(link);
		} else {
			prev = link;
		}
		link = next;
	}
	tables.sweep_cnt = link == NULL ? NULL : prev;
	return link == NULL;
}

/* The site at which the sweep continues; NULL at the end of a round. */
static prof_site_t *
sweep_next_site(void) {
	if (tables.sweep_site != NULL) {
		return tables.sweep_site;
	}
	prof_site_t *prev = tables.sweep_prev;
	prof_link_t *link = prev != NULL ? prev->link.next
	    : atomic_load_p(all_sites(), MO_ACQUIRE);
	tables.sweep_site = link == NULL ? NULL : container_of(link, prof_site_t, link);
	return tables.sweep_site;
}

/* Whether the site must stay: its sums at the mark are the base of delta profiles. */
static bool
site_has_mark(const prof_site_t *s) {
	mutex_assert_owner(&tables.pass);
	return unlikely(s->mark_est != 0) && prof_data_is_marked();
}

/* Sweeps `steps` counts and sites, or fewer if the round ends; needs pass. */
static void
sweep_sites_locked(unsigned steps) {
	mutex_assert_owner(&tables.pass);
	while (steps > 0) {
		prof_site_t *s = sweep_next_site();
		if (s == NULL) {
			sweep_round_ends();
			return;
		}
		if (!site_sweep_counts(s, &steps)) {
			return;
		}
		tables.sweep_site = NULL;
		steps -= steps > 0;
		if (atomic_load_u64(&s->refs, MO_ACQUIRE) == 0 && !site_has_mark(s)
		    && node_try_kill(&tables.sites, &s->node, &s->refs)) {
			prof_site_t *prev = tables.sweep_prev;
			list_unlink(all_sites(), prev != NULL ? &prev->link : NULL, &s->link);
			tables_retire(&s->link);
		} else {
			tables.sweep_prev = s;
		}
	}
}

static void
tdata_free(prof_tdata_t *td) {
	assert(td->frames == NULL);
	region_free(td, sizeof(*td));
}

static bool
tdata_is_gone(const prof_tdata_t *td) {
	return !atomic_load_b(&td->attached, MO_ACQUIRE)
	    && atomic_load_u64(&td->ncounts, MO_ACQUIRE) == 0;
}

/*
 * Examines `steps` records and frees those of ended threads to which no count refers; needs pass.
 * That needs no limbo: other threads reach a record only through a count, or through the list while
 * they hold pass.
 */
static void
sweep_tdatas_locked(unsigned steps) {
	mutex_assert_owner(&tables.pass);
	prof_tdata_t *prev = tables.tsweep_prev;
	for (; steps > 0; steps--) {
		prof_tdata_t *td = prev != NULL ? prof_tdata_next(prev) : prof_data_tdatas();
		if (td == NULL) {
			prev = NULL;
			break;
		}
		if (tdata_is_gone(td)) {
			list_unlink(all_tdatas(), prev != NULL ? &prev->link : NULL, &td->link);
			tdata_free(td);
		} else {
			prev = td;
		}
	}
	tables.tsweep_prev = prev;
}

/* One step of the sweep; nothing if a snapshot or another thread holds pass. */
static void
tables_sweep(void) {
	if (!mutex_trylock(&tables.pass)) {
		return;
	}
	sweep_sites_locked(SWEEP_STEP);
	if (++tables.reclaim_calls % RECLAIM_EVERY == 0) {
		limbo_reclaim_locked(LIMBO_BATCH);
	}
	mutex_unlock(&tables.pass);
}

/* ---------------------------------------------------------------- finding and making */

/* Adds one to refs; false if the sweeper has removed the site. */
static bool
site_try_ref(prof_site_t *s) {
	uint64_t old = atomic_fetch_add_u64(&s->refs, 1, MO_ACQ_REL);
	if (likely((old & PROF_DEAD) == 0)) {
		return true;
	}
	atomic_fetch_sub_u64(&s->refs, 1, MO_RELAXED);
	return false;
}

static void
list_push(atomic_p_t *head, prof_link_t *link) {
	void *first = atomic_load_p(head, MO_RELAXED);
	do {
		link->next = first;
	} while (!atomic_cas_weak_p(head, &first, link, MO_RELEASE, MO_RELAXED));
}

/*
 * Zeroed memory for a site or count. Its link leads to itself until list_push(). A tool that reads
 * from another process may come here from a list that contained an object at this address before;
 * it must not find NULL here, which would mean the end of that list.
 */
static void *
key_alloc(const tables_key_t *k, size_t bytes) {
	prof_link_t *link = unlikely(k->is_last) ? region_alloc_last(bytes) : region_alloc(bytes);
	if (link != NULL) {
		__atomic_store_n(&link->next, link, MO_RELAXED);
		/* Before the caller stores link->bytes; for a tool it is an object from then on. */
		__atomic_thread_fence(MO_RELEASE);
	}
	return link;
}

/* Makes a site with one reference that is in no list or table yet. */
static prof_site_t *
site_new(tables_key_t *k) {
	size_t frames = (size_t)k->nframes * PROF_FRAME_BYTES;
	size_t bytes = sizeof(prof_site_t) + frames + PROF_FRAMES_PAD;
	prof_site_t *s = key_alloc(k, bytes);
	if (s != NULL) {
		s->link.bytes = (uint32_t)bytes;
		s->link.extra = k->nframes;
		s->node.hash = k->site_hash;
		atomic_store_u64(&s->refs, 1, MO_RELAXED);
		s->stamp = key_stamp(k);
		s->then = s->stamp == 0 ? 0 : module_history_note(k->frames, k->nframes);
		frames_pack(s->frames, k->frames, k->nframes);
	}
	return s;
}

/*
 * Inserts the site `fresh` and returns it. If the table has this site already, because another
 * thread was faster or the look-up missed it, frees fresh and returns that site with one more
 * reference.
 */
static prof_site_t *
site_insert(const tables_key_t *k, prof_site_t *fresh) {
	prof_table_lock(&tables.sites, k->site_hash);
	prof_node_t *node = prof_table_find(&tables.sites, k->site_hash, k);
	prof_site_t *s = node == NULL ? NULL : container_of(node, prof_site_t, node);
	if (s != NULL && site_try_ref(s)) {
		prof_table_unlock(&tables.sites, k->site_hash);
		region_free(fresh, fresh->link.bytes);
		return s;
	}
	assert(s == NULL);
	prof_table_insert_locked(&tables.sites, &fresh->node);
	/* Onto the list before a sweep could find it; our reference keeps it alive. */
	list_push(all_sites(), &fresh->link);
	prof_table_unlock(&tables.sites, k->site_hash);
	return fresh;
}

/* Returns the site of k with one more reference; NULL without memory. */
static prof_site_t *
site_get(tables_key_t *k) {
	prof_node_t *node = prof_table_find(&tables.sites, k->site_hash, k);
	if (node != NULL && site_try_ref(container_of(node, prof_site_t, node))) {
		return container_of(node, prof_site_t, node);
	}
	prof_site_t *fresh = site_new(k);
	return fresh == NULL ? NULL : site_insert(k, fresh);
}

/*
 * Adds `what` (1 for a sample, or PROF_PIN) to live and clears is_idle; false if the sweeper has
 * removed the count.
 */
static bool
cnt_try_add(prof_cnt_t *c, uint64_t what) {
	uint64_t old = atomic_fetch_add_u64(&c->live, what, MO_ACQ_REL);
	if (likely((old & PROF_DEAD) == 0)) {
		if (unlikely(atomic_load_b(&c->is_idle, MO_RELAXED))) {
			atomic_store_b(&c->is_idle, false, MO_RELAXED);
		}
		return true;
	}
	atomic_fetch_sub_u64(&c->live, what, MO_RELAXED);
	return false;
}

/* A count of k at s that has `what` in live and is in no table yet; NULL without memory. */
static prof_cnt_t *
cnt_new(const tables_key_t *k, prof_site_t *s, uint64_t what) {
	size_t bytes = sizeof(prof_cnt_t) + (prof_data_is_accum() ? sizeof(prof_acounts_t) : 0);
	prof_cnt_t *c = key_alloc(k, bytes);
	if (c != NULL) {
		c->link.bytes = (uint32_t)bytes;
		c->link.extra = k->epoch;
		c->node.hash = k->cnt_hash;
		c->site = s;
		c->tdata = k->tdata;
		c->rate = k->rate;
		atomic_store_u64(&c->live, what, MO_RELAXED);
	}
	return c;
}

/*
 * Returns the count of k with `what` added: a new one, or the one that the look-up without the lock
 * has missed (prof_table.h); NULL without memory. The caller's reference to s passes to the new
 * count, or is dropped.
 */
static prof_cnt_t *
cnt_insert(const tables_key_t *k, prof_site_t *s, uint64_t what) {
	prof_cnt_t *fresh = cnt_new(k, s, what);
	prof_table_lock(&tables.counts, k->cnt_hash);
	prof_node_t *node = prof_table_find(&tables.counts, k->cnt_hash, k);
	prof_cnt_t *c = node == NULL ? NULL : container_of(node, prof_cnt_t, node);
	bool found = c != NULL && cnt_try_add(c, what);
	if (!found) {
		c = fresh;
		fresh = NULL;
	}
	if (!found && c != NULL) {
		prof_table_insert_locked(&tables.counts, &c->node);
		atomic_fetch_add_u64(&k->tdata->ncounts, 1, MO_RELAXED);
		list_push(&s->counts, &c->link);
	}
	prof_table_unlock(&tables.counts, k->cnt_hash);
	if (fresh != NULL) {
		region_free(fresh, fresh->link.bytes);
	}
	if (c == NULL || found) {
		atomic_fetch_sub_u64(&s->refs, 1, MO_RELEASE);
	}
	return c;
}

/* Finds or makes the count of k, and adds `what` to its live; NULL without memory. */
static prof_cnt_t *
cnt_get(tables_key_t *k, uint64_t what) {
	prof_node_t *node = prof_table_find(&tables.counts, k->cnt_hash, k);
	if (likely(node != NULL) && cnt_try_add(container_of(node, prof_cnt_t, node), what)) {
		return container_of(node, prof_cnt_t, node);
	}
	prof_site_t *s = site_get(k);
	return s == NULL ? NULL : cnt_insert(k, s, what);
}

/* The thread no longer keeps the count of its last backtrace. */
static void
last_drop(prof_tdata_t *td) {
	if (td->last != NULL) {
		prof_data_unpin(td->last);
		td->last = NULL;
	}
}

/*
 * Returns the count of the thread's last backtrace with `what` added, if its rate and epoch are
 * still current, else NULL. The thread's pin has kept it alive.
 */
static prof_cnt_t *
last_get(prof_tdata_t *td, uint64_t rate, uint64_t what) {
	prof_cnt_t *c = td->last;
	if (unlikely(c == NULL) || unlikely(c->rate != rate) || unlikely(!prof_data_is_current(c))) {
		return NULL;
	}
	uint64_t old = atomic_fetch_add_u64(&c->live, what, MO_RELAXED);
	assert((old & PROF_DEAD) == 0 && old >= PROF_PIN && c->tdata == td);
	(void)old;
	return c;
}

/*
 * cnt_get() for a stack that has no room in a full box: the thread's count at the site
 * IMAGE_NO_ROOM, which stands for all of these. NULL if there is no box, or no memory for this
 * count either.
 */
static COLD prof_cnt_t *
cnt_get_without_room(prof_tdata_t *td, uint64_t rate, uint64_t what) {
	void *frame = (void *)(uintptr_t)IMAGE_NO_ROOM;
	prof_bt_t bt = {.vec = &frame, .len = 1};
	tables_key_t k;
	if (region_box_bytes() == 0) {
		return NULL;
	}
	key_init(&k, td, &bt, rate);
	k.is_last = true;
	__atomic_fetch_add(&tables.root->no_room, 1, MO_RELAXED);
	return cnt_get(&k, what);
}

/* Finds or makes the count while the thread is pinned; a new count pays for a step of the sweep. */
static prof_cnt_t *
tables_find(prof_tdata_t *td, const prof_bt_t *bt, uint64_t rate, uint64_t what) {
	tables_key_t k;
	key_init(&k, td, bt, rate);
	uint64_t ncounts = atomic_load_u64(&td->ncounts, MO_RELAXED);
	tables_pin(td);
	prof_cnt_t *c = cnt_get(&k, what);
	if (unlikely(c == NULL)) {
		c = cnt_get_without_room(td, rate, what);
	}
	tables_unpin(td);
	if (unlikely(atomic_load_u64(&td->ncounts, MO_RELAXED) > ncounts)) {
		tables_sweep();
	}
	return c;
}

/* tables_get() if the thread's last count does not serve; is_again: the stack is the last one. */
static NOINLINE prof_cnt_t *
tables_get_other(prof_tdata_t *td, const prof_bt_t *bt, uint64_t rate, uint64_t what,
    bool is_again) {
	last_drop(td);
	td->last_stack = bt->stack;
	prof_cnt_t *c = tables_find(td, bt, rate, what);
	/* A site in objects that can be unloaded is looked up each time. */
	if (is_again && c != NULL && c->site->stamp == 0) {
		prof_data_pin(c);
		td->last = c;
	}
	return c;
}

/*
 * Returns the count of this thread, backtrace and rate with `what` added to live (1 for a sample,
 * or PROF_PIN); NULL without memory.
 */
ALWAYS_INLINE prof_cnt_t *
tables_get(prof_tdata_t *td, const prof_bt_t *bt, uint64_t rate, uint64_t what) {
	/* While td->busy is set, a free in a hook of the user does not write to td->frames. */
	assert(td->busy || td->frames == NULL);
	bool is_again = bt->stack != 0 && bt->stack == td->last_stack;
	prof_cnt_t *c = is_again ? last_get(td, rate, what) : NULL;
	return likely(c != NULL) ? c : tables_get_other(td, bt, rate, what, is_again);
}

/* ---------------------------------------------------------------- samples */

prof_cnt_t *
prof_data_add(prof_tdata_t *td, const prof_bt_t *bt, uint64_t rate, size_t usize, uint64_t weight) {
	prof_cnt_t *c = tables_get(td, bt, rate, 1);
	assert(rate > 0 && weight >= PROF_WEIGHT_ONE && usize > 0);
	if (c == NULL) {
		return NULL;
	}
	assert(c->tdata == td && c->rate == rate);
	uint64_t est = prof_weighted_bytes(usize, weight);
	atomic_fetch_add_u64(&c->bytes, usize, MO_RELAXED);
	atomic_fetch_add_u64(&c->c16, weight, MO_RELAXED);
	atomic_fetch_add_u64(&c->est, est, MO_RELAXED);
	if (prof_cnt_has_accum(c)) {
		atomic_fetch_add_u64(&c->accum->objs, 1, MO_RELAXED);
		atomic_fetch_add_u64(&c->accum->bytes, usize, MO_RELAXED);
		atomic_fetch_add_u64(&c->accum->c16, weight, MO_RELAXED);
		atomic_fetch_add_u64(&c->accum->est, est, MO_RELAXED);
	}
	return c;
}

/* Changes `live` last: after that the count may be swept and freed. */
void
prof_data_sub(prof_cnt_t *c, size_t usize, uint64_t weight) {
	assert((atomic_load_u64(&c->live, MO_RELAXED) & PROF_LIVE_MASK) > 0);
	assert((atomic_load_u64(&c->live, MO_RELAXED) & PROF_DEAD) == 0);
	uint64_t est = prof_weighted_bytes(usize, weight);
	uint64_t bytes = atomic_fetch_sub_u64(&c->bytes, usize, MO_RELAXED);
	uint64_t c16 = atomic_fetch_sub_u64(&c->c16, weight, MO_RELAXED);
	uint64_t old_est = atomic_fetch_sub_u64(&c->est, est, MO_RELAXED);
	/* The contribution of this sample is still in each sum. */
	assert(bytes >= usize && c16 >= weight && old_est >= est);
	(void)bytes;
	(void)c16;
	(void)old_est;
	atomic_fetch_sub_u64(&c->live, 1, MO_RELEASE);
}

void
prof_data_add_life(prof_cnt_t *c, size_t usize, uint64_t weight, uint64_t from, uint64_t to) {
	assert(prof_cnt_has_accum(c));
	atomic_fetch_add_u64(&c->accum->life[prof_age_between(from, to)],
	    prof_weighted_bytes(usize, weight), MO_RELAXED);
}

prof_cnt_t *
prof_data_note(prof_tdata_t *td, const prof_bt_t *bt) {
	return tables_get(td, bt, 0, PROF_PIN);
}

void
prof_data_pin(prof_cnt_t *c) {
	assert(atomic_load_u64(&c->live, MO_RELAXED) > 0);
	assert((atomic_load_u64(&c->live, MO_RELAXED) & PROF_DEAD) == 0);
	atomic_fetch_add_u64(&c->live, PROF_PIN, MO_RELAXED);
}

void
prof_data_unpin(prof_cnt_t *c) {
	assert(atomic_load_u64(&c->live, MO_RELAXED) >= PROF_PIN);
	assert((atomic_load_u64(&c->live, MO_RELAXED) & PROF_DEAD) == 0);
	atomic_fetch_sub_u64(&c->live, PROF_PIN, MO_RELEASE);
}

bool
prof_data_is_current(const prof_cnt_t *c) {
	return c->link.extra == prof_data_epoch();
}

/*
 * Reads `live` first. A free changes it last, so a sample that is not in the number of objects is
 * not in the sums either. The number may contain a sample that another thread has not added to all
 * sums yet, or has subtracted from some already.
 */
void
prof_data_counts_read(const prof_cnt_t *c, prof_counts_t *cur, prof_counts_t *accum) {
	memset(accum, 0, sizeof(*accum));
	cur->objs = atomic_load_u64(&c->live, MO_ACQUIRE) & PROF_LIVE_MASK;
	cur->bytes = atomic_load_u64(&c->bytes, MO_RELAXED);
	cur->c16 = atomic_load_u64(&c->c16, MO_RELAXED);
	cur->est = atomic_load_u64(&c->est, MO_RELAXED);
	if (prof_cnt_has_accum(c)) {
		accum->objs = atomic_load_u64(&c->accum->objs, MO_RELAXED);
		accum->bytes = atomic_load_u64(&c->accum->bytes, MO_RELAXED);
		accum->c16 = atomic_load_u64(&c->accum->c16, MO_RELAXED);
		accum->est = atomic_load_u64(&c->accum->est, MO_RELAXED);
	}
}

void
prof_data_accum_set(bool on) {
	if (on) {
		__atomic_fetch_or(&tables.root->flags, IMAGE_ACCUM, MO_RELAXED);
	} else {
		__atomic_fetch_and(&tables.root->flags, ~IMAGE_ACCUM, MO_RELAXED);
	}
}

bool
prof_data_is_accum(void) {
	return (__atomic_load_n(&tables.root->flags, MO_RELAXED) & IMAGE_ACCUM) != 0;
}

/*
 * If `pass` is free, sweeps one step and reclaims even a small batch. So memory does not grow to
 * LIMBO_BATCH objects in programs that reset often and make few counts.
 */
void
prof_data_reset(void) {
	assert(gate_is_entered(tls_get())); /* a fork must not copy a lock that the sweep holds */
	__atomic_fetch_add(&tables.root->epoch, 1, MO_ACQ_REL);
	if (mutex_trylock(&tables.pass)) {
		sweep_sites_locked(SWEEP_STEP);
		limbo_reclaim_locked(1);
		mutex_unlock(&tables.pass);
	}
}

/* ---------------------------------------------------------------- the mark */

bool
prof_data_is_marked(void) {
	return atomic_load_u64(&tables.mark, MO_RELAXED) == (uint64_t)prof_data_epoch() + 1;
}

void
prof_data_unmark(void) {
	atomic_store_u64(&tables.mark, 0, MO_RELAXED);
}

void
prof_data_mark_put(uint32_t epoch) {
	mutex_assert_owner(&tables.pass);
	atomic_store_u64(&tables.mark, (uint64_t)epoch + 1, MO_RELAXED);
}

/* ---------------------------------------------------------------- threads */

prof_tdata_t *
prof_data_tdata_new(bool active) {
	prof_tdata_t *td = region_alloc(sizeof(*td));
	if (td == NULL) {
		return NULL;
	}
	td->uid = atomic_fetch_add_u64(&tables.next_uid, 1, MO_RELAXED);
	td->active = active;
	atomic_store_b(&td->attached, true, MO_RELAXED);
	list_push(all_tdatas(), &td->link);
	if (mutex_trylock(&tables.pass)) {
		sweep_tdatas_locked(SWEEP_TDATAS);
		mutex_unlock(&tables.pass);
	}
	return td;
}

void
prof_data_tdata_exit(prof_tdata_t *td) {
	assert(atomic_load_u64(&td->pinned, MO_RELAXED) == 0);
	assert(atomic_load_b(&td->attached, MO_RELAXED));
	last_drop(td);
	meta_free(td->frames, td->frames_max * sizeof(void *));
	meta_free(td->memo.marks, unwind_memo_bytes(td->memo.room));
	unwind_memo_set_room(&td->memo, NULL, 0);
	for (unsigned i = 0; i < ARRAY_LEN(td->texts); i++) {
		meta_free(td->texts[i], PROF_TEXT_SIZE);
		td->texts[i] = NULL;
	}
	td->frames = NULL;
	atomic_store_b(&td->attached, false, MO_RELEASE);
}

void
prof_tdata_name_read(const prof_tdata_t *td, char name[PROF_THREAD_NAME_MAX]) {
	for (unsigned i = 0; i < ARRAY_LEN(td->name.words); i++) {
		uint64_t w = atomic_load_u64(&td->name.words[i], MO_RELAXED);
		memcpy(name + i * sizeof(w), &w, sizeof(w));
	}
	name[PROF_THREAD_NAME_MAX - 1] = '\0';
}

void
prof_tdata_name_write(prof_tdata_t *td, const char *name) {
	uint64_t words[ARRAY_LEN(td->name.words)] = {0};
	memcpy(words, name, strnlen(name, PROF_THREAD_NAME_MAX - 1));
	for (unsigned i = 0; i < ARRAY_LEN(words); i++) {
		atomic_store_u64(&td->name.words[i], words[i], MO_RELAXED);
	}
}

/* ---------------------------------------------------------------- passes, life */

void
prof_data_pass_begin(void) {
	mutex_lock(&tables.pass);
}

void
prof_data_pass_end(void) {
	mutex_unlock(&tables.pass);
}

prof_site_t *
prof_data_sites(void) {
	prof_link_t *link = atomic_load_p(all_sites(), MO_ACQUIRE);
	return link == NULL ? NULL : container_of(link, prof_site_t, link);
}

prof_tdata_t *
prof_data_tdatas(void) {
	prof_link_t *link = atomic_load_p(all_tdatas(), MO_ACQUIRE);
	return link == NULL ? NULL : container_of(link, prof_tdata_t, link);
}

/* Thread records are found without a lock; the statistics reported for them are those of `pass`. */
void
prof_data_visit_mutexes(mutex_visit_t *visit, mutex_prof_data_t *sites,
    mutex_prof_data_t *tdatas) {
	prof_table_visit_mutexes(&tables.sites, visit, sites);
	prof_table_visit_mutexes(&tables.counts, visit, sites);
	visit(&tables.pass, tdatas);
}

int
prof_data_boot(void) {
	tables.root = prof_root_boot();
	if (tables.root == NULL) {
		return ENOMEM;
	}
	prof_table_init(&tables.sites, "prof_sites", site_node_is, tables_retire);
	prof_table_init(&tables.counts, "prof_counts", cnt_node_is, tables_retire);
	mutex_init(&tables.pass, "prof_pass", WITNESS_RANK_PROF_TDATAS);
	mutex_init(&tables.limbo_mtx, "prof_limbo", WITNESS_RANK_PROF_MISC);
	atomic_store_u64(&tables.pin_epoch, 1, MO_RELAXED);
	prof_data_accum_set(opt_prof_accum);
	return 0;
}

/* A thread that does not exist in the child may have held `pass`, but no other lock used here. */
void
prof_data_postfork_child(const prof_tdata_t *self) {
	mutex_renew_in_child(&tables.pass, "prof_pass", WITNESS_RANK_PROF_TDATAS);
	for (prof_tdata_t *td = prof_data_tdatas(); td != NULL; td = prof_tdata_next(td)) {
		atomic_store_u64(&td->pinned, 0, MO_RELAXED);
		if (td != self && atomic_load_b(&td->attached, MO_RELAXED)) {
			prof_data_tdata_exit(td);
		}
	}
}
