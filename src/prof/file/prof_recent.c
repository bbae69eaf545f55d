/*
 * The list of recent samples (experimental.prof_recent): entries in metadata memory, linked by age.
 * A new entry beyond the limit drops the oldest one.
 *
 * Invariant: an entry with rec != NULL and its sample refer to each other (recent_check). Locks:
 * `prof_recent_alloc` protects the list, its entries and the writing of links to them; it is taken
 * inside the fork gate (os/gate.h). `prof_recent_dump` is taken outside the gate and held for long:
 * while the list is copied, which is done inside the gate, and while the copy is printed; a dump
 * hook, which runs under `prof_dump`, may print. Called by prof.c for samples, frees, lock
 * statistics and in a forked child, by prof_start.c at boot, by prof_dump.c, and by
 * ctl_experimental.c.
 */
#include "prof/file/prof_recent.h"

#include "meta/freepool.h"
#include "os/gate.h"
#include "os/malloc_io.h"
#include "os/pages.h"
#include "prof/file/prof_log.h"
#include "prof/sites/prof_data.h"
#include "prof/sites/prof_sample.h"
#include "prof/sites/prof_switch.h"
#include "util/fmt.h"
#include "util/ql.h"

/* An entry. Whether the object is freed is told by rec, as `freed` may be missing. */
typedef struct {
	ql_t link;
	sample_rec_t *rec;      /* its sample; NULL: freed */
	prof_cnt_t *alloc;      /* thread and stack of the allocation */
	prof_cnt_t *freed;      /* thread and stack of the free; NULL: no backtrace, or not freed */
	uint64_t req;           /* bytes requested */
	uint64_t usize;         /* usable bytes */
	uint64_t alloc_ns;      /* by prof_log_clock(), as free_ns: the sample's time_ns */
	uint64_t free_ns;
} recent_t;

static LARGE_BSS struct {
	mutex_t mtx;            /* protects list, n, the entries, and writes of a sample's link */
	mutex_t dump_mtx;       /* one dump at a time; held for long, outside the gate */
	ql_t list;              /* oldest first */
	size_t n;               /* entries in it */
} recent = {
	.mtx = MUTEX_INITIALIZER("prof_recent_alloc", WITNESS_RANK_PROF_LOG),
	.dump_mtx = MUTEX_INITIALIZER("prof_recent_dump", WITNESS_RANK_PROF_RECENT),
};

atomic_u64_t prof_recent_max;

void
prof_recent_boot(void) {
	ql_init(&recent.list);
	atomic_store_u64(&prof_recent_max, (uint64_t)opt_prof_recent_alloc_max, MO_RELAXED);
}

ssize_t
prof_recent_alloc_max_get(void) {
	return prof_is_booted() ? (ssize_t)atomic_load_u64(&prof_recent_max, MO_RELAXED) : 0;
}

/*
 * Sets the sample's link to its entry, or to NULL; needs mtx. The thread that frees the object
 * first reads the link without mtx (prof.c). If it reads NULL, it calls nothing here, and the
 * record is reused at once. So rec must not be used any more after NULL was stored.
 */
static void
rec_link(sample_rec_t *rec, recent_t *r) {
	mutex_assert_owner(&recent.mtx);
	__atomic_store_n(&rec->link, r, MO_RELEASE);
}

/* Checks that entry and sample refer to each other; needs mtx. */
static void
recent_check(const recent_t *r) {
	mutex_assert_owner(&recent.mtx);
	assert((ql_first(&recent.list) == NULL) == (recent.n == 0));
	assert(r->rec == NULL || r->rec->link == r);
	assert(r->freed == NULL || r->rec == NULL);
}

static recent_t *
recent_first(void) {
	ql_t *link = ql_first(&recent.list);
	return link == NULL ? NULL : container_of(link, recent_t, link);
}

/* Removes the pins of an entry, or of its copy. */
static void
recent_unpin(const recent_t *r) {
	prof_data_unpin(r->alloc);
	if (r->freed != NULL) {
		prof_data_unpin(r->freed);
	}
}

/* Drops the oldest entries until the limit is met; needs mtx. */
static void
recent_trim_locked(void) {
	uint64_t max = atomic_load_u64(&prof_recent_max, MO_RELAXED);
	mutex_assert_owner(&recent.mtx);
	while (recent.n > max) {
		recent_t *r = recent_first();
		if (config_debug) {
			recent_check(r);
		}
		ql_remove(&r->link);
		recent.n--;
		if (r->rec != NULL) {
			rec_link(r->rec, NULL);
		}
		recent_unpin(r);
		meta_free(r, sizeof(*r));
	}
}

int
prof_recent_alloc_max_set(ssize_t max) {
	if (!prof_is_booted()) {
		return ENOENT;
	}
	if (max < -1) {
		return EINVAL;
	}
	mutex_lock(&recent.mtx);
	atomic_store_u64(&prof_recent_max, (uint64_t)max, MO_RELAXED);
	recent_trim_locked();
	mutex_unlock(&recent.mtx);
	return 0;
}

void
prof_recent_alloc(sample_rec_t *rec, prof_cnt_t *c, size_t usize) {
	recent_t *r = meta_alloc(sizeof(*r));
	if (r == NULL) {
		return;
	}
	r->rec = rec;
	r->alloc = c;
	r->req = rec->req_size;
	r->usize = usize;
	r->alloc_ns = rec->time_ns;
	mutex_lock(&recent.mtx);
	assert(rec->link == NULL && rec->tctx == c);
	if (prof_recent_is_on()) {
		prof_data_pin(c);
		rec_link(rec, r);
		ql_push_tail(&recent.list, &r->link);
		recent.n++;
		r = NULL;
		recent_trim_locked();
	}
	mutex_unlock(&recent.mtx);
	meta_free(r, sizeof(*r));
}

void
prof_recent_free(sample_rec_t *rec, prof_cnt_t *freed) {
	mutex_lock(&recent.mtx);
	recent_t *r = rec->link;
	if (r != NULL) {
		assert(r->rec == rec);
		r->rec = NULL;
		r->freed = freed;
		r->free_ns = prof_log_clock();
		rec_link(rec, NULL);
		if (freed != NULL) {
			prof_data_pin(freed);
		}
	}
	mutex_unlock(&recent.mtx);
}

/* ---------------------------------------------------------------- dump */

enum { PIECE_BYTES = 1024 }; /* of text with its NUL, at most, in a call of the callback */

/*
 * A copy of the list: an array of n entries in mapped memory. Each has pins of its own. Its rec may
 * be gone, and is only compared with NULL.
 */
typedef struct {
	pages_store_t store;
	size_t n;
} recent_copy_t;

static recent_t *
copy_at(const recent_copy_t *copy, size_t i) {
	return (recent_t *)copy->store.at + i;
}

/*
 * The copy that is being printed; all zeros if there is none. It changes under dump_mtx and inside
 * the gate, so it is whole in a forked child.
 */
static recent_copy_t printed;

/* Makes the copy; inside the gate. 0, or ENOMEM, and then nothing is to be freed. */
static int
recent_copy(recent_copy_t *copy) {
	memset(copy, 0, sizeof(*copy));
	size_t room = 0;
	mutex_lock(&recent.mtx);
	while (recent.n > room) {
		/* The memory is mapped without the lock, and the list may grow meanwhile. */
		room = recent.n + recent.n / 8;
		mutex_unlock(&recent.mtx);
		if (!pages_store_try_reserve(&copy->store, (room + 1) * sizeof(recent_t))) {
			pages_store_free(&copy->store);
			return ENOMEM;
		}
		mutex_lock(&recent.mtx);
	}
	for (ql_t *l = ql_first(&recent.list); l != NULL; l = ql_next(&recent.list, l)) {
		recent_t *r = container_of(l, recent_t, link);
		prof_data_pin(r->alloc);
		if (r->freed != NULL) {
			prof_data_pin(r->freed);
		}
		assert((copy->n + 1) * sizeof(recent_t) <= copy->store.bytes);
		*copy_at(copy, copy->n++) = *r;
	}
	assert(copy->n == recent.n);
	mutex_unlock(&recent.mtx);
	return 0;
}

static void
recent_copy_free(recent_copy_t *copy) {
	for (size_t i = 0; i < copy->n; i++) {
		recent_unpin(copy_at(copy, i));
	}
	pages_store_free(&copy->store);
	memset(copy, 0, sizeof(*copy));
}

/* Prints thread, time and stack of the allocation or of the free; prefix is "alloc" or "dalloc". */
static void
emit_end(emitter_t *em, const char *prefix, const prof_cnt_t *c, uint64_t ns) {
	char key[32];
	char name[PROF_THREAD_NAME_MAX];
	const char *text = name;
	fmt_snprintf(key, sizeof(key), "%s_thread_uid", prefix);
	prof_log_emit(em, key, c->tdata->uid);
	prof_tdata_name_read(c->tdata, name);
	if (name[0] != '\0') {
		fmt_snprintf(key, sizeof(key), "%s_thread_name", prefix);
		emitter_json_kv(em, key, emitter_type_string, &text);
	}
	fmt_snprintf(key, sizeof(key), "%s_time", prefix);
	prof_log_emit(em, key, ns);
	fmt_snprintf(key, sizeof(key), "%s_trace", prefix);
	emitter_json_key(em, key);
	prof_log_emit_trace(em, c->site);
}

static void
emit_entry(emitter_t *em, const recent_t *r) {
	bool released = r->rec == NULL;
	emitter_json_object_begin(em);
	prof_log_emit(em, "size", r->req);
	prof_log_emit(em, "usize", r->usize);
	emitter_json_kv(em, "released", emitter_type_bool, &released);
	emit_end(em, "alloc", r->alloc, r->alloc_ns);
	if (r->freed != NULL) {
		emit_end(em, "dalloc", r->freed, r->free_ns);
	}
	emitter_json_object_end(em);
}

static void
emit_all(emitter_t *em, const recent_copy_t *copy) {
	ssize_t max = prof_recent_alloc_max_get();
	emitter_begin(em);
	prof_log_emit(em, "sample_interval", prof_sample_rate());
	emitter_json_kv(em, "recent_alloc_max", emitter_type_ssize, &max);
	emitter_json_array_kv_begin(em, "recent_alloc");
	for (size_t i = 0; i < copy->n; i++) {
		emit_entry(em, copy_at(copy, i));
	}
	emitter_json_array_end(em);
	emitter_end(em);
}

bool
prof_recent_is_mine(void) {
	return mutex_is_owner(&recent.dump_mtx);
}

int
prof_recent_alloc_dump(void (*write_cb)(void *, const char *), void *opaque) {
	if (!prof_is_booted()) {
		return ENOENT;
	}
	if (prof_recent_is_mine()) {
		return EBUSY;
	}
	struct tls_s *t = tls_get();
	uint32_t depth = gate_step_out();
	malloc_io_text_t text = {opaque, MALLOC_IO_TIMEOUT_MS};
	char buf[PIECE_BYTES];
	emitter_t em;
	if (write_cb == NULL) {
		write_cb = malloc_write_long;
		opaque = &text;
	}
	mutex_lock(&recent.dump_mtx);
	gate_enter(t);
	int err = recent_copy(&printed);
	gate_exit(t);
	if (err == 0) {
		emitter_init(&em, emitter_json, write_cb, opaque, buf, sizeof(buf));
		emit_all(&em, &printed);
		gate_enter(t);
		recent_copy_free(&printed);
		gate_exit(t);
	}
	mutex_unlock(&recent.dump_mtx);
	gate_step_in(depth);
	return err;
}

void
prof_recent_visit_mutexes(mutex_visit_t *visit, mutex_prof_data_t *alloc,
    mutex_prof_data_t *dump) {
	visit(&recent.mtx, alloc);
	visit(&recent.dump_mtx, dump);
}

/* A copy that another thread was printing is of no use in the child. */
void
prof_recent_postfork_child(void) {
	if (!mutex_is_owner(&recent.dump_mtx)) {
		recent_copy_free(&printed);
	}
	mutex_renew_in_child(&recent.dump_mtx, "prof_recent_dump", WITNESS_RANK_PROF_RECENT);
}
