/*
 * Writes one profile. The steps: wait for the dump in progress, or return EBUSY; check the limits
 * of automatic dumps (prof_keep), which may mean EAGAIN; copy the site tables and the statistics
 * inside the gate (os/gate.h: fork waits until no thread is inside); format and write outside of
 * it; record the outcome; call the user's dump hook. From the FAILS_BEFORE_BACKOFF-th failure of
 * automatic dumps in a row on, automatic dumps except the final one are left out for a time that
 * doubles with each failure.
 *
 * Invariant: dumper's buffers and file are in use only while dumper.mtx is held; outside of a dump
 * dumper.file is closed and the snapshot is empty. Locks: prof_dump, held for long and outside the
 * gate; under it `pass` (prof_data.h), which prof_snap_take() locks and dump_drop() unlocks, also
 * outside the gate, so that no site is freed; prof_known, taken inside the gate, for the last
 * outcome, no lock under it. Called for dumps by prof_auto.c, prof_trigger.c, prof_session.c and
 * prof_request.c; by prof_box.c and prof_auto.c (prof_mark) to keep dumps off; for its numbers and
 * last outcome by prof.c, prof_course.c, prof_trigger.c and prof_request.c; by prof_control.c,
 * prof_session.c and prof_trigger.c to ask who holds the lock; by prof.c in a forked child and for
 * the statistics of the lock; by prof_start.c for the reserve; dump_at_exit() by the C library.
 */
#include "prof/file/prof_dump.h"

#include <stdlib.h>

#include "arena/arenas.h"
#include "extent/piece.h"
#include "meta/freepool.h"
#include "os/gate.h"
#include "os/malloc_io.h"
#include "os/nstime.h"
#include "os/pages.h"
#include "os/room_group.h"
#include "os/sys.h"
#include "os/thread.h"
#include "prof/file/prof_dump_label.h"
#include "prof/file/prof_keep.h"
#include "prof/file/prof_log.h"
#include "prof/file/prof_recent.h"
#include "prof/file/prof_write.h"
#include "prof/sites/prof_age.h"
#include "prof/sites/prof_backtrace.h"
#include "prof/sites/prof_data.h"
#include "prof/sites/prof_frag.h"
#include "prof/sites/prof_hook.h"
#include "prof/sites/prof_mark.h"
#include "prof/sites/prof_root.h"
#include "prof/sites/prof_sample.h"
#include "prof/sites/prof_switch.h"
#include "thread/tcache_limits.h"
#include "unwind/module_history.h"
#include "unwind/unwind.h"
#include "util/fmt.h"

/*
 * When this many automatic dumps have failed in a row, no automatic one except the final one is
 * tried for 1 s; each further failure doubles that time.
 */
#define FAILS_BEFORE_BACKOFF 3
/* The longest such time in ns. */
#define BACKOFF_MAX_NS (UINT64_C(60) * NSTIME_PER_SEC)

/* Bytes of dumper.maps. */
#define MAPS_BUF 8192
/* Frames that are written after one check of the room left in the buffer. */
#define FRAMES_AT_ONCE 64
/* log2 of the slots in the cache of printed numbers: many sites have the same counts. */
#define PAIR_SLOTS_LG 6
/* Most bytes of "OBJECTS: BYTES", with two numbers of 20 digits. */
#define PAIR_MAX (2 * 20 + 2)
/* Most bytes of the two lines of counts of a site: its sums, and its only thread. */
#define SITE_LINES 512
/* Items by which prefetching is ahead of writing, and bytes of a site that are prefetched. */
#define FETCH_AHEAD 4
#define FETCH_BYTES 384u
/* Longest bounded wait for a dump that another thread is writing (prof_dump_t.is_bounded). */
#define LOCK_TIMEOUT_NS (2 * NSTIME_PER_SEC)
/* Longest wait for the dump hook (prof_dump_t.is_hook_bounded), which may send the profile away. */
#define HOOK_TIMEOUT_NS (10 * NSTIME_PER_SEC)
/* Time after its last look for the lock until a thread no longer counts as waiting for it. */
#define WAITER_NS (NSTIME_PER_SEC / 10)

cassert(BACKOFF_MAX_NS >= NSTIME_PER_SEC);
/* dumper.maps also has to hold the path of the program. */
cassert(MAPS_BUF >= PROF_PATH_SIZE);
cassert(2 * (2 * PAIR_MAX + 32) + PROF_WRITER_ROOM <= SITE_LINES);
cassert(FRAMES_AT_ONCE * PROF_WRITER_ROOM <= PROF_WRITER_BYTES);
cassert(prof_kind_final == 0 && prof_kind_log == prof_kind_n - 1);

static LARGE_BSS struct {
	/*
	 * protects all below but the atomic fields; held for long, outside the gate; made new in a
	 * forked child, because a thread of the parent may have held it
	 */
	mutex_t mtx;
	prof_file_t file;        /* dump_at_exit() also uses it, without the lock */
	prof_writer_t writer;
	prof_snap_t snap;
	prof_pair_t pairs[1u << PAIR_SLOTS_LG]; /* a cache of this dump, by a hash of the counts */
	prof_frag_t frag;        /* where the heap's bytes were when the tables were copied */
	uint32_t last_module;    /* after the copy: number of the last module_history record */
	bool has_shadows; /* an object was loaded where an unloaded one had been (module_history) */
	uint64_t now_ns;         /* when the dump had its lock, UTC in ns */
	uint64_t mark_ns;        /* when the mark (prof_mark.h) was set, UTC in ns; 0: there is none */
	uint64_t monotonic_ns;   /* the same by the monotonic clock, in ns */
	unsigned fails;          /* failed automatic dumps in a row */
	uint64_t retry_ns; /* monotonic time in ns until which automatic dumps are left out; 0: none */
	char maps[MAPS_BUF];     /* for the program's path, or a piece of the memory map */
	atomic_u64_t nerrors;    /* failed dumps since the start, or since the fork in a forked child */
	atomic_u64_t nwritten;   /* profiles written, counted alike */
	atomic_b_t is_in_hook;   /* the dump hook runs; read without the lock */
	/* monotonic time of the last attempt of lock_timed() to take mtx; 0: nobody waits there */
	atomic_u64_t waiter_ns;
	atomic_p_t reserve;      /* RESERVE_BYTES of address space; NULL: none */
} dumper = {.mtx = MUTEX_INITIALIZER("prof_dump", WITNESS_RANK_PROF_DUMP)};

/*
 * A dump may have begun. A dump stores this before it asks prof_sys_is_ending(), and exit calls
 * prof_sys_end() before it reads this, so at least one of the two threads sees the other. Kept out
 * of `dumper` so that the exit of a process without dumps does not touch its pages.
 */
static atomic_b_t is_used;

/*
 * The outcome of the last dumps, for mallctl and the request status. The lock is taken inside the
 * gate, and no other one under it.
 */
static LARGE_BSS struct {
	mutex_t mtx;
	char last_path[PROF_PATH_SIZE];   /* of the last profile written to a file; "": none */
	char last_failed[PROF_PATH_SIZE]; /* path of the last failed dump; "-" for a sink */
	int last_err;                     /* its errno; 0: none has failed */
	uint64_t last_written;            /* bytes that the failed dump had written */
} known = {.mtx = MUTEX_INITIALIZER("prof_known", WITNESS_RANK_PROF_MISC)};

/* ---------------------------------------------------------------- metadata */

/* Begins a line "# jemalloc.KEY=VALUE"; the functions below write the value and end the line. */
static void
meta_key(prof_writer_t *w, const char *key) {
	assert(strchr(key, '=') == NULL);
	prof_write_lit(w, "# jemalloc.");
	prof_write_text(w, key);
	prof_write_lit(w, "=");
}

static void
meta_text(prof_writer_t *w, const char *key, const char *value) {
	meta_key(w, key);
	for (; *value != '\0'; value++) {
		/* Each value is one line even if a path contains a line break. */
		prof_write_data(w, (unsigned char)*value < 0x20 ? "?" : value, 1);
	}
	prof_write_lit(w, "\n");
}

static void
meta_dec(prof_writer_t *w, const char *key, uint64_t value) {
	meta_key(w, key);
	prof_write_dec(w, value);
	prof_write_lit(w, "\n");
}

static void
meta_hex(prof_writer_t *w, const char *key, uint64_t value) {
	char text[17];
	fmt_snprintf(text, sizeof(text), "%016llx", (unsigned long long)value);
	meta_text(w, key, text);
}

static void
meta_stamp(prof_writer_t *w, const char *key, uint64_t ns) {
	char stamp[NSTIME_STAMP_SIZE];
	nstime_utc_stamp(stamp, ns);
	meta_text(w, key, stamp);
}

static void
write_part(prof_writer_t *w, const char *name, uint64_t bytes) {
	prof_write_lit(w, " ");
	prof_write_text(w, name);
	prof_write_num(w, ":", bytes);
}

static void
write_unwinder(prof_writer_t *w) {
	struct unwind_stats_s st;
	unwind_stats_read(&st);
	meta_text(w, "unwinder", unwind_name());
	meta_key(w, "unwinder_health");
	prof_write_num(w, "samples:", st.samples);
	prof_write_num(w, " fallbacks:", st.fallbacks);
	for (unsigned i = 0; i < unwind_stop_count; i++) {
		write_part(w, unwind_stop_name((unwind_stop_t)i), st.stops[i]);
	}
	prof_write_lit(w, "\n");
	meta_key(w, "unwinder_tables");
	prof_write_num(w, "without_hdr:", st.without_hdr);
	prof_write_num(w, " scanned:", st.scanned);
	prof_write_lit(w, "\n");
	meta_key(w, "unwinder_depths");
	for (unsigned i = 0; i < UNWIND_DEPTH_BUCKETS; i++) {
		prof_write_text(w, i == 0 ? "" : " ");
		prof_write_dec(w, st.depths[i]);
	}
	prof_write_lit(w, "\n");
}

/* Writes the bytes that the control group uses and its limit, if it was looked up before. */
static void
write_group(prof_writer_t *w) {
	uint64_t current = room_group_is_known() ? room_group_current() : 0;
	uint64_t limit = current == 0 ? 0 : room_group_limit();
	if (current != 0) {
		meta_dec(w, "cgroup", current);
	}
	if (limit != 0) {
		meta_dec(w, "cgroup_limit", limit);
	}
}

/* Whether the limits on files hold for this dump (prof_keep.h). */
static bool
is_limited(const prof_dump_t *d) {
	return d->path == NULL && d->sink == NULL && prof_keep_counts(d->kind);
}

/* When the running session or, if none runs, the last one began, UTC in ns; 0: none yet. */
static uint64_t
session_start_ns(void) {
	return __atomic_load_n(&prof_root()->session_start_ns, MO_RELAXED);
}

/* Writes all lines "# jemalloc.KEY=VALUE", which follow the first line of a profile. */
static void
write_metadata(prof_writer_t *w, const prof_dump_t *d) {
	char mark[PROF_KEEP_MARK_SIZE];
	meta_text(w, "version", JEMALLOC_VERSION);
	meta_text(w, "prof_ext_version", PROF_EXT_VERSION);
	meta_dec(w, "pid", (uint64_t)sys_pid());
	uint64_t instance = atomic_load_u64(&prof_sys_instance, MO_RELAXED);
	if (instance != 0) {
		meta_hex(w, "instance", instance);
	}
	if (is_limited(d)) {
		prof_keep_mark(mark, dumper.monotonic_ns, dumper.frag.live + dumper.frag.cached);
		meta_text(w, PROF_KEEP_MARK, mark);
	}
	prof_sys_exe(dumper.maps, sizeof(dumper.maps));
	meta_text(w, "exe", dumper.maps);
	uint64_t session = __atomic_load_n(&prof_root()->session, MO_RELAXED);
	meta_dec(w, "session", session);
	if (session != 0) {
		meta_stamp(w, "start_time", session_start_ns());
	}
	meta_stamp(w, "dump_time", dumper.now_ns);
	meta_dec(w, "monotonic_ms", dumper.monotonic_ns / NSTIME_PER_MSEC);
	uint64_t begun = prof_switch_begun_ns();
	if (begun != 0) {
		meta_dec(w, "profiled_ms",
		    nstime_ns_between(begun, dumper.monotonic_ns) / NSTIME_PER_MSEC);
	}
	meta_text(w, "kind", prof_kind_name(d->kind));
	if (dumper.snap.is_delta) {
		meta_stamp(w, "mark_time", dumper.mark_ns);
		meta_dec(w, "shrunk_sites", dumper.snap.nshrunk);
	}
	if (d->metric != NULL) {
		meta_text(w, "metric", d->metric);
		meta_dec(w, "metric_value", d->metric_value);
	}
	meta_dec(w, "sample_interval", prof_sample_rate());
	if (prof_sample_base() != prof_sample_rate()) {
		meta_dec(w, "sample_interval_set", prof_sample_base()); /* prof_budget has enlarged it */
	}
	meta_text(w, "mixed_rates", dumper.snap.is_mixed ? "true" : "false");
	meta_dec(w, "allocated", dumper.frag.live + dumper.frag.cached);
	meta_dec(w, "active", dumper.frag.active);
	meta_dec(w, "resident", dumper.frag.resident);
	meta_dec(w, "retained", dumper.frag.retained);
	meta_dec(w, "huge", dumper.frag.huge);
	meta_dec(w, "populated", dumper.frag.populated);
	uint64_t shared, rss = prof_sys_rss(&shared);
	meta_dec(w, "rss", rss);
	meta_dec(w, "rss_shared", shared);
	if (!d->in_handler) {
		write_group(w);
	}
	meta_dec(w, "samples", dumper.snap.cur.objs);
	meta_dec(w, "sites", dumper.snap.nsites);
	meta_dec(w, "truncated_stacks", prof_backtrace_ncut());
	meta_dec(w, "suppressed", prof_keep_suppressed());
	meta_dec(w, "overlapped", prof_keep_overlapped());
	meta_dec(w, "dump_errors", prof_dump_nerrors());
	write_unwinder(w);
}

/* ---------------------------------------------------------------- counts and stacks */

/*
 * The sampling rate in the first line: mean bytes between samples, 1 if samples have several rates.
 * Unless is_raw(), a reader that scales the counts of all lines by this rate gets the estimates.
 */
static uint64_t
header_rate(const prof_snap_t *snap) {
	assert(!snap->is_mixed || snap->rate != 0);
	if (snap->is_mixed) {
		return 1;
	}
	return snap->rate != 0 ? snap->rate : prof_sample_rate();
}

/* Whether the counts of the samples themselves are printed. */
static bool
is_raw(const prof_snap_t *snap) {
	return !opt_prof_unbias && !snap->is_mixed;
}

/* The numbers to print for these counts, computed only if their slot has those of others. */
static const prof_pair_t *
pair_of(const prof_counts_t *c) {
	uint64_t mixed = (c->objs + c->bytes * 3 + c->est * 5) * UINT64_C(0x9e3779b97f4a7c15);
	prof_pair_t *p = &dumper.pairs[mixed >> (64 - PAIR_SLOTS_LG)];
	if (unlikely(memcmp(&p->counts, c, sizeof(*c)) != 0)) {
		p->counts = *c;
		prof_printed(c, header_rate(&dumper.snap), is_raw(&dumper.snap), &p->objs, &p->bytes);
	}
	return p;
}

static void
write_pair(prof_writer_t *w, const prof_counts_t *c) {
	const prof_pair_t *p = pair_of(c);
	prof_write_dec(w, p->objs);
	prof_write_num(w, ": ", p->bytes);
}

static void
write_counts(prof_writer_t *w, const prof_counts_t *cur, const prof_counts_t *accum) {
	write_pair(w, cur);
	prof_write_lit(w, " [");
	if (dumper.snap.is_accum) {
		write_pair(w, accum);
	} else {
		prof_write_lit(w, "0: 0");
	}
	prof_write_lit(w, "]");
}

static void
write_total(prof_writer_t *w, const prof_counts_t *cur, const prof_counts_t *accum) {
	prof_write_lit(w, "  t*: ");
	write_counts(w, cur, accum);
	prof_write_lit(w, "\n");
}

static void
write_uid(prof_writer_t *w, const prof_tdata_t *td) {
	prof_write_num(w, "  t", td->uid);
	prof_write_lit(w, ": ");
}

/* Writes the sums of each thread over all sites; not of ended threads whose sums are 0. */
static void
write_threads(prof_writer_t *w, const prof_snap_t *snap) {
	for (size_t i = 0; i < snap->nthreads; i++) {
		const prof_tdata_t *td = snap->threads[i];
		char name[PROF_THREAD_NAME_MAX];
		if (!atomic_load_b(&td->attached, MO_RELAXED) && td->snap_cur.objs == 0
		    && td->snap_accum.objs == 0) {
			continue;
		}
		write_uid(w, td);
		write_counts(w, &td->snap_cur, &td->snap_accum);
		prof_tdata_name_read(td, name);
		if (name[0] != '\0') {
			prof_write_lit(w, " ");
			prof_write_text(w, name);
		}
		prof_write_lit(w, "\n");
	}
}

/*
 * write_stack() for a site with frames in objects that can be unloaded, when some object has been
 * loaded where another one lay before: an address in such an earlier object is replaced by one from
 * a substitute range that is unique to that object (unwind/module_history). `now` is
 * dumper.last_module.
 */
static COLD void
write_passing_stack(prof_writer_t *w, const prof_site_t *s, uint32_t now) {
	for (unsigned i = 0; i < prof_site_nframes(s); i++) {
		uint64_t place = module_history_place(prof_site_frame(s, i), s->then, now);
		prof_write_text(w, i == 0 ? "@ 0x" : " 0x");
		prof_write_hex(w, place - (i == 0 && place != 0));
	}
	prof_write_lit(w, "\n");
}

/*
 * Writes the line "@ ADDRESS..." of a site. Readers subtract one from each address but the first,
 * so the first is written less one.
 */
static void
write_stack(prof_writer_t *w, const prof_site_t *s) {
	mutex_assert_owner(&dumper.mtx);
	unsigned n = prof_site_nframes(s);
	/*
	 * The leaf of an empty stack is 0: after a bare @ readers would add the counts to the previous
	 * stack.
	 */
	uintptr_t leaf = n == 0 ? 0 : prof_site_frame(s, 0);
	if (unlikely(s->stamp != 0 && dumper.has_shadows)) {
		write_passing_stack(w, s, dumper.last_module);
		return;
	}
	char *to = prof_writer_room(w);
	*to++ = '@';
	to = prof_frame_put(w, to, leaf != 0 ? leaf - 1 : 0);
	w->len = (size_t)(to - w->buf);
	for (unsigned i = 1; i < n;) {
		unsigned end = i + FRAMES_AT_ONCE < n ? i + FRAMES_AT_ONCE : n;
		to = prof_writer_room_for(w, FRAMES_AT_ONCE * PROF_WRITER_ROOM);
		for (; i < end; i++) {
			to = prof_frame_put(w, to, prof_site_frame(s, i));
		}
		w->len = (size_t)(to - w->buf);
	}
	prof_write_lit(w, "\n");
}

/* Brings the frames of a site that is written soon into the cache. */
static void
site_fetch(const prof_item_t *item) {
	if (item != NULL && item->kind == prof_item_site) {
		const char *s = item->who;
		for (size_t at = 0; at < FETCH_BYTES; at += 64) {
			__builtin_prefetch(s + at);
		}
	}
}

/* Writes the line of one of several threads that have a share in a site. */
static void
write_share(prof_writer_t *w, const prof_tdata_t *td, const prof_snap_t *snap,
    const prof_item_t *item) {
	write_uid(w, td);
	write_counts(w, &item->cur, prof_item_accum(snap, item));
	prof_write_lit(w, "\n");
}

/* Writes the sums of a site and, if just one thread has a share, the same counts in its line. */
static void
write_site_counts(prof_writer_t *w, const prof_snap_t *snap, const prof_item_t *item) {
	prof_writer_room_for(w, SITE_LINES); /* both lines stay in the buffer */
	size_t begin = w->len + sizeof("  t*: ") - 1;
	write_total(w, &item->cur, prof_item_accum(snap, item));
	size_t len = w->len - begin;
	if (item->sole != NULL) {
		write_uid(w, item->sole);
		memcpy(w->buf + w->len, w->buf + begin, len);
		w->len += len;
	}
}

/* Writes for each site its stack, its sums, and the counts of each thread that has a share. */
static void
write_sites(prof_writer_t *w, const prof_snap_t *snap) {
	const prof_item_t *item = prof_snap_next(snap, NULL);
	const prof_item_t *ahead = item;
	for (unsigned i = 0; i < FETCH_AHEAD && ahead != NULL; i++) {
		ahead = prof_snap_next(snap, ahead);
	}
	for (; item != NULL; item = prof_snap_next(snap, item)) {
		site_fetch(ahead);
		ahead = ahead == NULL ? NULL : prof_snap_next(snap, ahead);
		if (item->kind == prof_item_site) {
			write_stack(w, item->who);
			write_site_counts(w, snap, item);
		} else if (item->kind == prof_item_thread) {
			write_share(w, item->who, snap, item);
		}
	}
}

/* ---------------------------------------------------------------- ages */

/* Writes " COLUMN:BYTES". */
static void
write_column(prof_writer_t *w, unsigned column, uint64_t bytes) {
	prof_write_num(w, " ", column);
	prof_write_num(w, ":", bytes);
}

/* Writes " COLUMN:BYTES" for each column that is not 0, and the line end. */
static void
write_columns(prof_writer_t *w, const uint64_t *columns) {
	for (unsigned i = 0; i < PROF_AGES; i++) {
		if (columns[i] != 0) {
			write_column(w, i, columns[i]);
		}
	}
	prof_write_lit(w, "\n");
}

/*
 * Writes the bytes of a site that were freed, by their age at the free, in the same units as the
 * site's printed sum of all allocated bytes.
 */
static void
write_life(prof_writer_t *w, const prof_item_t *item, uint64_t n) {
	uint64_t columns[PROF_AGES];
	const prof_counts_t *accum = prof_item_accum(&dumper.snap, item);
	if (prof_life_read(item->who, columns)) {
		prof_ages_split(columns, accum->est, pair_of(accum)->bytes);
		prof_write_num(w, "# life ", n);
		write_columns(w, columns);
	}
}

/* Writes the ages of a site with several columns, which sum to the printed bytes. */
static NOINLINE void
write_mixed_age(prof_writer_t *w, const prof_item_t *item, uint64_t bytes) {
	uint64_t columns[PROF_AGES], sum = 0;
	prof_age_read(item, columns);
	for (unsigned i = 0; i < PROF_AGES; i++) {
		sum += columns[i];
	}
	prof_ages_split(columns, sum, bytes);
	write_columns(w, columns);
}

/* Writes how old the live bytes of a site are, which are printed as `bytes`. */
static void
write_age(prof_writer_t *w, const prof_item_t *item, uint64_t bytes, uint64_t n) {
	prof_write_num(w, "# age ", n);
	if (item->age.next != NULL) {
		write_mixed_age(w, item, bytes);
	} else {
		write_column(w, item->age_column, bytes);
		prof_write_lit(w, "\n");
	}
}

/*
 * Writes for each site, by its number in the profile: how old its live samples are (# age), what
 * they hold by label (# labeled), and how old freed ones became (# life). One walk for all, so the
 * lines of a site stand together.
 */
static void
write_ages(prof_writer_t *w, const prof_snap_t *snap) {
	uint64_t n = 0;
	if (!snap->has_ages) {
		prof_write_text(w, snap->is_delta ? "# age none: a profile of growth has no ages\n"
		    : "# age none: no memory\n");
		return;
	}
	prof_write_lit(w, "# age_bounds_s" PROF_AGE_BOUNDS_TEXT "\n");
	bool has_labels = prof_dump_label_texts(w, snap);
	const prof_item_t *i = prof_snap_next(snap, NULL);
	for (; i != NULL; i = prof_snap_next(snap, i)) {
		if (i->kind != prof_item_site) {
			continue;
		}
		n++;
		const prof_pair_t *pair = pair_of(&i->cur);
		if (i->age.est != 0 && i->cur.objs != 0) {
			write_age(w, i, pair->bytes, n);
		}
		if (has_labels && i->labels != NULL && i->cur.objs != 0) {
			prof_write_num(w, "# labeled ", n);
			prof_dump_label_sums(w, i, pair, is_raw(snap));
		}
		if (snap->is_accum) {
			write_life(w, i, n);
		}
	}
}

/* ---------------------------------------------------------------- fragmentation */

/* Where the resident bytes are, also by size class, and the settings that decide what is kept. */
static void
write_heap_parts(prof_writer_t *w, const prof_frag_t *f) {
	prof_write_lit(w, "# frag_heap");
#define WRITE_PART(name, says) write_part(w, #name, f->name);
	PROF_FRAG_PARTS(WRITE_PART)
	PROF_FRAG_MORE(WRITE_PART)
#undef WRITE_PART
	write_part(w, "tcache_max", opt_tcache ? opt_tcache_max : 0);
	write_part(w, "thp_min", opt_thp_min);
	/* Times of no decay are not written. */
	ssize_t dirty_ms = arenas_decay_ms_default_get(true);
	ssize_t muzzy_ms = arenas_decay_ms_default_get(false);
	if (dirty_ms >= 0) {
		write_part(w, "dirty_decay_ms", (uint64_t)dirty_ms);
	}
	if (muzzy_ms >= 0) {
		write_part(w, "muzzy_decay_ms", (uint64_t)muzzy_ms);
	}
	prof_write_lit(w, "\n");
	for (szind_t i = 0; i < SC_NBINS; i++) {
		const prof_frag_class_t *c = &f->classes[i];
		if (c->slabs != 0) {
			prof_write_num(w, "# frag_class ", bin_infos[i].reg_size);
			write_part(w, "slabs", c->slabs);
			write_part(w, "used", c->used);
			write_part(w, "stock", c->stock);
			prof_write_lit(w, "\n");
		}
	}
}

/*
 * Writes where the heap's bytes are, then for each site that pins some, by its number in the
 * profile, these bytes and their standard error (prof_frag.h).
 */
static void
write_frag(prof_writer_t *w, const prof_snap_t *snap) {
	uint64_t n = 0;
	write_heap_parts(w, &dumper.frag);
	bool has_any = snap->has_ages && prof_frag_has_charges(&dumper.frag);
	const prof_item_t *i = has_any ? prof_snap_next(snap, NULL) : NULL;
	for (; i != NULL; i = prof_snap_next(snap, i)) {
		if (i->kind != prof_item_site) {
			continue;
		}
		n++;
		uint64_t error, bytes = prof_frag_pinned(&dumper.frag, i, &error);
		if (bytes != 0) {
			prof_write_num(w, "# frag ", n);
			prof_write_num(w, " ", bytes);
			prof_write_num(w, " ", error);
			prof_write_lit(w, "\n");
		}
	}
}

/* ---------------------------------------------------------------- maps and modules */

static int
maps_text(void *ctx, const char *text, size_t len) {
	prof_write_data(ctx, text, len);
	return 0;
}

/*
 * Module lines are made in memory, because the loader's lock must not be held while a file is
 * written.
 */
typedef struct {
	pages_store_t store; /* the text, of len bytes */
	size_t len;
	bool is_short; /* there was no memory for all of it */
	bool as_maps;  /* write lines in the format of the memory map, for when that cannot be read */
} modules_t;

static void
modules_put(modules_t *m, const char *text, size_t len) {
	m->is_short = m->is_short || !pages_store_try_reserve(&m->store, m->len + len);
	if (!m->is_short) {
		memcpy((char *)m->store.at + m->len, text, len);
		m->len += len;
	}
}

/* Adds a text of at most 127 bytes. */
static void
modules_add(modules_t *m, const char *format, ...) {
	char text[128];
	va_list ap;
	va_start(ap, format);
	modules_put(m, text, (size_t)fmt_vsnprintf(text, sizeof(text), format, ap));
	va_end(ap);
}

/* Adds a path and a line end; control characters in the path become '?'. */
static void
modules_add_path(modules_t *m, const char *path) {
	for (; *path != '\0'; path++) {
		modules_put(m, (unsigned char)*path < 0x20 ? "?" : path, 1);
	}
	modules_put(m, "\n", 1);
}

/* Adds the line of one object. */
static int
module_line(void *ctx, const struct sys_module_s *mod) {
	modules_t *m = ctx;
	if (m->as_maps) {
		modules_add(m, "%zx-%zx r-xp 00000000 00:00 0 ", (size_t)mod->start,
		    (size_t)mod->end);
		modules_add_path(m, mod->path);
		return 0;
	}
	modules_add(m, "# module %zx-%zx %zx ", (size_t)mod->start, (size_t)mod->end,
	    (size_t)mod->bias);
	for (size_t i = 0; i < mod->build_id_len; i++) {
		modules_add(m, "%02x", mod->build_id[i]);
	}
	modules_add(m, "%s ", mod->build_id_len == 0 ? "-" : "");
	modules_add_path(m, mod->path);
	return 0;
}

/*
 * Adds the line of an object that is gone. The loader's name may be relative to the current
 * directory at the time of loading; that directory is taken to be the present one. It is not asked
 * for earlier, because a program may forbid that system call.
 */
static int
gone_line(void *m, const struct sys_module_s *mod) {
	struct sys_module_s named = *mod;
	if (strchr(named.path, '/') != NULL && strlen(named.path) < sizeof(dumper.maps)) {
		prof_sys_path_absolute(dumper.maps, sizeof(dumper.maps), named.path);
		named.path = dumper.maps;
	}
	return module_line(m, &named);
}

/* If a black box was too full for some stacks, adds a made-up object that names their site. */
static void
module_no_room(modules_t *m) {
	const image_root_t *root = prof_root();
	if (root != NULL && __atomic_load_n(&root->no_room, MO_RELAXED) != 0) {
		modules_add(m, "# module %zx-%zx %zx - " IMAGE_NO_ROOM_NAME "\n", (size_t)IMAGE_NO_ROOM - 1,
		    (size_t)IMAGE_NO_ROOM + 1, (size_t)IMAGE_NO_ROOM - 1);
	}
}

/*
 * Adds the loaded objects and, unless the lines are those of a memory map, the unloaded ones too.
 * Takes the loader's lock.
 */
static void
modules_list(modules_t *m) {
	sys_modules(module_line, m, dumper.maps);
	if (!m->as_maps) {
		module_history_gone(gone_line, m, dumper.last_module);
		module_no_room(m);
	}
}

/* Writes the list of objects, which is made in memory first; none without memory. */
static void
write_modules(prof_writer_t *w, bool as_maps) {
	assert(!gate_is_entered(tls_get()));
	modules_t m = {.as_maps = as_maps};
	module_history_try_look();
	prof_sys_exe(dumper.maps, sizeof(dumper.maps));
	modules_list(&m);
	prof_write_data(w, m.store.at, m.is_short ? 0 : m.len);
	pages_store_free(&m.store);
}

/* The sites that hold less than at the mark, by how much, with their stacks as above. */
static void
write_shrunk(prof_writer_t *w, const prof_snap_t *snap) {
	for (const prof_item_t *item = prof_snap_next(snap, NULL); item != NULL;
	    item = prof_snap_next(snap, item)) {
		if (item->kind == prof_item_shrunk) {
			prof_write_num(w, "# shrunk ", item->cur.objs);
			prof_write_num(w, " ", item->cur.bytes);
			prof_write_lit(w, " ");
			write_stack(w, item->who);
		}
	}
}

/*
 * Writes the memory map and the list of objects, by which readers name addresses, and the sites
 * that shrunk. A signal handler must not call the loader, so there is no list then.
 */
static void
write_map(prof_writer_t *w, bool in_handler) {
	prof_write_lit(w, "\nMAPPED_LIBRARIES:\n");
	uint64_t before = prof_writer_total(w);
	(void)sys_maps_copy(dumper.maps, sizeof(dumper.maps), maps_text, w);
	/* The map may exist and be empty, for example under an emulator with another root. */
	if (prof_writer_total(w) == before && !in_handler) {
		write_modules(w, true);
	}
	if (!in_handler) {
		write_modules(w, false);
	}
	write_shrunk(w, &dumper.snap);
}

/* Writes the last line: the bytes before it, by which a reader sees that no part is missing. */
static void
write_end(prof_writer_t *w) {
	uint64_t total = prof_writer_total(w);
	prof_write_num(w, "# end ", total);
	prof_write_lit(w, "\n");
}

/* Writes the whole text, from the copies and from what is read meanwhile (maps, objects, rss). */
static void
write_profile(prof_writer_t *w, const prof_dump_t *d) {
	mutex_assert_owner(&dumper.mtx);
	assert(!gate_is_entered(tls_get()));
	const prof_snap_t *snap = &dumper.snap;
	if (!d->in_handler) {
		module_history_try_look();
	}
	dumper.last_module = module_history_last();
	dumper.has_shadows = module_history_has_shadows(dumper.last_module);
	/* The numbers kept from the last dump may be for another header rate. */
	memset(dumper.pairs, 0, sizeof(dumper.pairs));
	prof_write_num(w, "heap_v2/", header_rate(snap));
	prof_write_lit(w, "\n");
	write_metadata(w, d);
	write_total(w, &snap->cur, &snap->accum);
	write_threads(w, snap);
	write_sites(w, snap);
	write_map(w, d->in_handler);
	write_ages(w, snap);
	write_frag(w, snap);
	write_end(w);
}

/* ---------------------------------------------------------------- copying */

/*
 * Address space for the copy of a small profile: a chunk of 2 MiB that is aligned to its size
 * (prof_snap.c), the writer's buffer, and the list of threads. It is writable, because RLIMIT_DATA
 * counts such pages only, and never touched.
 */
#define RESERVE_BYTES ((size_t)6 << 20)

void
prof_dump_reserve(void) {
	if (atomic_load_p(&dumper.reserve, MO_RELAXED) != NULL) {
		return;
	}
	void *p = pages_map(NULL, RESERVE_BYTES, PAGE, NULL), *none = NULL;
	if (p != NULL
	    && !atomic_cas_strong_p(&dumper.reserve, &none, p, MO_ACQ_REL, MO_RELAXED)) {
		pages_unmap_in_time(p, RESERVE_BYTES);
	}
}

/* Unmaps the reserve; false if there is none. */
static bool
reserve_try_use(void) {
	void *p = atomic_exchange_p(&dumper.reserve, NULL, MO_ACQ_REL);
	if (p != NULL) {
		pages_unmap_in_time(p, RESERVE_BYTES);
	}
	return p != NULL;
}

/* dump_copy() once. */
static int
dump_try_copy(prof_kind_t kind) {
	assert(dumper.writer.buf == NULL && dumper.snap.items.first == NULL);
	int err = prof_writer_init(&dumper.writer, &dumper.file);
	if (err == 0) {
		prof_frag_read(&dumper.frag);
		dumper.mark_ns = prof_mark_time_ns();
		err = kind == prof_kind_delta ? prof_snap_take_delta(&dumper.snap)
		    : prof_snap_take(&dumper.snap);
	}
	if (err == 0 && kind != prof_kind_delta) {
		(void)prof_age_take(&dumper.snap, prof_log_clock(), &dumper.frag);
	}
	if (err != 0) {
		prof_writer_forget(&dumper.writer);
	}
	return err;
}

/*
 * Copies everything that needs locks of the allocator, inside the gate (left for a moment if a
 * thread waits to fork). 0, ENOMEM or ENODATA; after an error there is neither a buffer nor a
 * snapshot. Without memory for ages there are none. If the system refuses memory, as in a program
 * that has reached its limit, tries again with the reserve, and then with what arenas do not use.
 */
static int
dump_copy(prof_kind_t kind) {
	struct tls_s *t = tls_get();
	mutex_assert_owner(&dumper.mtx);
	assert(!prof_file_is_open(&dumper.file));
	gate_enter(t);
	int err = dump_try_copy(kind);
	if (err == ENOMEM && reserve_try_use()) {
		err = dump_try_copy(kind);
	}
	if (err == ENOMEM && arenas_try_relieve(RESERVE_BYTES)) {
		err = dump_try_copy(kind);
		arenas_relieve_end(err != ENOMEM);
	}
	gate_exit(t);
	return err;
}

/* Frees the snapshot and the buffer, and makes the reserve again if the dump has used it. */
static void
dump_drop(void) {
	struct tls_s *t = tls_get();
	mutex_assert_owner(&dumper.mtx);
	assert(!prof_file_is_open(&dumper.file));
	gate_enter(t);
	prof_snap_drop(&dumper.snap);
	prof_writer_forget(&dumper.writer);
	prof_dump_reserve();
	gate_exit(t);
}

/* ---------------------------------------------------------------- outcome */

/* Whether no mallctl, request or session is behind this dump; the final one is automatic too. */
static bool
is_automatic(const prof_dump_t *d) {
	return d->kind != prof_kind_manual && d->kind != prof_kind_delta
	    && d->kind != prof_kind_session;
}

/* Prints the failure, with at most 900 bytes of the path; `written` only if the file was open. */
static void
outcome_print(int err, bool was_open) {
	char name[16];
	malloc_printf(was_open ? "<jemalloc>: failed to write \"%.*s\": %s, %llu bytes written\n"
	    : "<jemalloc>: failed to open \"%.*s\": %s\n", 900, dumper.file.path,
	    prof_errno_name(err, name),
	    (unsigned long long)dumper.file.written);
}

/*
 * Whether this thread may write no dump any more: another thread ends the process, and abandons the
 * dump that this thread is writing (dump_at_exit); or the process is a lost child (os/gate.h).
 */
static bool
is_given_up(void) {
	return gate_is_lost() || prof_sys_is_ending();
}

/*
 * Counts a failed dump. If it is automatic, prints a message for the first of a series of failures
 * and for the final dump, aborts if the option abort is set (prof_abort), and delays the next
 * automatic dump (FAILS_BEFORE_BACKOFF). Of the others only that of a session has a message, unless
 * is_silent. No message if in_handler (never a session); nothing at all if is_given_up().
 */
static void
outcome_bad(const prof_dump_t *d, int err, bool was_open) {
	if (unlikely(is_given_up())) {
		return; /* the file is missing because dump_at_exit() removed it */
	}
	atomic_fetch_add_u64(&dumper.nerrors, 1, MO_RELAXED);
	if (!is_automatic(d)) {
		/* A session that ended by its time limit has no caller who gets the errno. */
		if (d->kind == prof_kind_session && !d->is_silent) {
			outcome_print(err, was_open);
		}
		return;
	}
	/* One line for a series of failures, and one at exit. */
	if ((dumper.fails++ == 0 || d->kind == prof_kind_final) && !d->in_handler) {
		outcome_print(err, was_open);
	}
	if (prof_abort) {
		abort();
	}
	mutex_assert_owner(&dumper.mtx);
	assert(err > 0);
	if (dumper.fails >= FAILS_BEFORE_BACKOFF) {
		unsigned doublings = dumper.fails - FAILS_BEFORE_BACKOFF;
		uint64_t wait = doublings > 6 ? BACKOFF_MAX_NS : NSTIME_PER_SEC << doublings;
		dumper.retry_ns = nstime_monotonic_ns()
		    + (wait < BACKOFF_MAX_NS ? wait : BACKOFF_MAX_NS);
	}
}

/* Writes "ERRNO-NAME PATH BYTES-WRITTEN" of the last failure to buf; needs known.mtx. */
static void
error_text_locked(char *buf, size_t size) {
	mutex_assert_owner(&known.mtx);
	char name[16];
	fmt_snprintf(buf, size, "%s %s %llu", prof_errno_name(known.last_err, name),
	    known.last_failed, (unsigned long long)known.last_written);
}

/* Stores the outcome in `known` and d->told, counts it, and tells prof_keep of a written file. */
static void
outcome(const prof_dump_t *d, int err, bool was_open) {
	mutex_assert_owner(&dumper.mtx);
	gate_lock(&known.mtx);
	if (err != 0) {
		known.last_err = err;
		known.last_written = dumper.file.written;
	}
	if (d->sink == NULL) {
		prof_sys_path_absolute(err != 0 ? known.last_failed : known.last_path, PROF_PATH_SIZE,
		    dumper.file.path);
	} else if (err != 0) {
		fmt_snprintf(known.last_failed, PROF_PATH_SIZE, "-"); /* which is no path */
	}
	if (d->told != NULL && err != 0) {
		error_text_locked(d->told, PROF_TEXT_SIZE);
	} else if (d->told != NULL) {
		fmt_snprintf(d->told, PROF_PATH_SIZE, "%s", d->sink != NULL ? "-" : known.last_path);
	}
	gate_unlock(&known.mtx);
	if (err != 0) {
		outcome_bad(d, err, was_open);
		return;
	}
	atomic_fetch_add_u64(&dumper.nwritten, 1, MO_RELAXED);
	if (is_automatic(d)) {
		dumper.fails = 0;
		dumper.retry_ns = 0;
	}
	if (is_limited(d)) {
		prof_keep_written(d->kind, dumper.file.written);
	}
}

/* Prints the leak summary of the snapshot, if it is not empty, and sets d->found_leak. */
static void
print_leak(prof_dump_t *d, const prof_snap_t *snap) {
	mutex_assert_owner(&dumper.mtx);
	if (snap->cur.bytes == 0) {
		return;
	}
	uint64_t bytes = snap->cur.est;
	uint64_t objs = (snap->cur.c16 + PROF_WEIGHT_ONE / 2) / PROF_WEIGHT_ONE;
	malloc_printf("<jemalloc>: Leak approximation summary: ~%llu byte%s, ~%llu object%s, "
	    ">= %zu context%s\n", (unsigned long long)bytes, bytes != 1 ? "s" : "",
	    (unsigned long long)objs, objs != 1 ? "s" : "", snap->nlive,
	    snap->nlive != 1 ? "s" : "");
	malloc_write("<jemalloc>: Run jeprof on dump output for leak detail\n");
	d->found_leak = true;
}

/* ---------------------------------------------------------------- the dump */

/* The parts of the file's name; takes the next number of the kind if the name is to have one. */
static prof_name_t
dump_name(const prof_dump_t *d) {
	bool is_numbered = d->path == NULL && d->sink == NULL && d->kind != prof_kind_final;
	return (prof_name_t){
		.kind = d->kind,
		.kseq = is_numbered ? prof_sys_kseq_next(d->kind) : 0,
		.begin_ns = d->kind == prof_kind_session ? session_start_ns() : dumper.now_ns,
		.end_ns = dumper.now_ns,
	};
}

/*
 * Opens file or sink, writes the profile from the copies, closes it, stores the outcome. 0 or
 * errno.
 */
static int
dump_write(prof_dump_t *d) {
	assert(d->path == NULL || d->sink == NULL);
	prof_name_t name = dump_name(d);
	bool was_open = (d->sink != NULL ? prof_file_open_sink(&dumper.file, d->sink)
	    : prof_file_open(&dumper.file, d->path, &name, d->is_confined)) == 0;
	if (was_open) {
		write_profile(&dumper.writer, d);
		prof_writer_flush(&dumper.writer);
	}
	int err = prof_file_close(&dumper.file);
	outcome(d, err, was_open);
	return err;
}

/*
 * Records a dump whose copy failed, for lack of memory or of the mark of a delta, with the path
 * that it would have had.
 */
static void
dump_gave_up(const prof_dump_t *d, int err) {
	assert(err > 0);
	if (d->path != NULL || d->sink != NULL) {
		fmt_snprintf(dumper.file.path, sizeof(dumper.file.path), "%s",
		    d->path != NULL ? d->path : "-");
	} else {
		prof_name_t name = dump_name(d);
		prof_dump_filename(dumper.file.path, sizeof(dumper.file.path), &name);
	}
	dumper.file.written = 0;
	outcome(d, err, false);
}

/* The rest of prof_dump() under the lock, outside the gate, with `inside` raised. Same result. */
static int
dump_locked(prof_dump_t *d) {
	mutex_assert_owner(&dumper.mtx);
	assert(d->kind < prof_kind_log && tls_get()->inside > 0 && !gate_is_entered(tls_get()));
	dumper.now_ns = nstime_realtime_ns();
	dumper.monotonic_ns = nstime_monotonic_ns();
	if (is_automatic(d) && d->kind != prof_kind_final && dumper.retry_ns != 0
	    && dumper.monotonic_ns < dumper.retry_ns) {
		prof_keep_suppress();
		return EAGAIN;
	}
	if (!prof_keep_try_room(d->kind)) {
		prof_keep_suppress();
		return EAGAIN;
	}
	int err = dump_copy(d->kind);
	if (err != 0) {
		dump_gave_up(d, err);
	} else {
		err = dump_write(d);
		if (d->wants_leak) {
			print_leak(d, &dumper.snap);
		}
		dump_drop();
	}
	/* Also after a failed dump, as jemalloc does; the path of a sink is "-". */
	if (!d->in_handler) {
		atomic_store_b(&dumper.is_in_hook, true, MO_RELAXED);
		prof_hook_dump(dumper.file.path);
		atomic_store_b(&dumper.is_in_hook, false, MO_RELAXED);
	}
	return err;
}

/* Sleeps for a millisecond. */
static void
lock_pause(void) {
	static atomic_u32_t nobody_wakes;
	os_word_wait(&nobody_wakes, 0, NSTIME_PER_MSEC);
}

/*
 * Takes the lock; false if it is not free within timeout_ns. With only_hook the wait ends only
 * when at each look, once a millisecond for timeout_ns, a dump hook was running; so writing may
 * take any time. New dumps leave the lock to who waits here (lock_has_waiter()).
 */
static bool
lock_timed(uint64_t timeout_ns, bool only_hook) {
	uint64_t now = nstime_monotonic_ns(), end = now + timeout_ns;
	bool is_mine = mutex_trylock(&dumper.mtx);
	while (!is_mine && now < end) {
		atomic_store_u64(&dumper.waiter_ns, now, MO_RELAXED);
		lock_pause();
		is_mine = mutex_trylock(&dumper.mtx);
		now = nstime_monotonic_ns();
		if (only_hook && !atomic_load_b(&dumper.is_in_hook, MO_RELAXED)) {
			end = now + timeout_ns;
		}
	}
	atomic_store_u64(&dumper.waiter_ns, 0, MO_RELAXED); /* another one who waits sets it again */
	return is_mine;
}

/* Whether a thread waits in lock_timed(), which tries the lock only once a millisecond. */
static bool
lock_has_waiter(void) {
	uint64_t waiter_ns = atomic_load_u64(&dumper.waiter_ns, MO_RELAXED);
	return waiter_ns != 0 && nstime_monotonic_ns() - waiter_ns < WAITER_NS;
}

/*
 * Waits for the lock and takes it; false if the wait is bounded and over. It is bounded in a thread
 * that prints the recent list, whose lock comes behind this one: a dump hook may wait for it.
 */
static bool
lock_wait(bool is_bounded) {
	if (is_bounded || prof_recent_is_mine()) {
		return lock_timed(LOCK_TIMEOUT_NS, false);
	}
	mutex_lock(&dumper.mtx);
	return true;
}

/*
 * Takes the lock for a dump, by the fields of d; without may_wait only tries once, and fails if
 * lock_has_waiter(). A dump whose wait has no is_bounded first leaves the lock for two seconds at
 * most to threads in lock_timed(): dumps in a row would leave them no moment to take it.
 */
static bool
dump_try_lock(const prof_dump_t *d) {
	if (!d->may_wait) {
		return !lock_has_waiter() && mutex_trylock(&dumper.mtx);
	}
	uint64_t nwaits = d->is_bounded ? 0 : LOCK_TIMEOUT_NS / NSTIME_PER_MSEC;
	for (uint64_t i = 0; i < nwaits && lock_has_waiter(); i++) {
		lock_pause();
	}
	return d->is_hook_bounded && !d->is_bounded ? lock_timed(HOOK_TIMEOUT_NS, true)
	    : lock_wait(d->is_bounded);
}

int
prof_dump(prof_dump_t *d) {
	int saved = errno;
	if (d->told != NULL) {
		d->told[0] = '\0';
	}
	if (prof_dump_is_mine()) {
		return EBUSY;
	}
	if (d->kind == prof_kind_delta && !prof_data_is_marked()) {
		return ENODATA;
	}
	atomic_store_b(&is_used, true, MO_SEQ_CST);
	if (unlikely(is_given_up())) {
		return EBUSY;
	}
	uint32_t depth = gate_step_out();
	int err = EBUSY;
	if (dump_try_lock(d)) {
		err = dump_locked(d);
		mutex_unlock(&dumper.mtx);
	}
	gate_step_in(depth);
	errno = saved;
	return err;
}

uint64_t
prof_dump_nwritten(void) {
	return atomic_load_u64(&dumper.nwritten, MO_RELAXED);
}

bool
prof_dump_is_mine(void) {
	return mutex_is_owner(&dumper.mtx);
}

bool
prof_dump_is_busy(void) {
	return atomic_load_u32(&dumper.mtx.word, MO_RELAXED) != 0;
}

bool
prof_dump_try_hold(bool is_bounded) {
	return !prof_dump_is_mine() && lock_wait(is_bounded);
}

void
prof_dump_release(void) {
	mutex_unlock(&dumper.mtx);
}

uint64_t
prof_dump_nerrors(void) {
	return atomic_load_u64(&dumper.nerrors, MO_RELAXED);
}

void
prof_dump_last_error(char *buf, size_t size) {
	buf[0] = '\0';
	mutex_lock(&known.mtx);
	if (known.last_err != 0) {
		error_text_locked(buf, size);
	}
	mutex_unlock(&known.mtx);
}

void
prof_dump_last_path(char *buf, size_t size) {
	mutex_lock(&known.mtx);
	fmt_snprintf(buf, size, "%s", known.last_path);
	mutex_unlock(&known.mtx);
}

void
prof_dump_visit_mutex(mutex_visit_t *visit, mutex_prof_data_t *of) {
	visit(&dumper.mtx, of);
}

/*
 * Another thread may have been in the middle of a dump, with its copy made and its file open.
 * Neither is of use in the child, and the temporary file belongs to the parent. If this thread
 * holds the lock, it has forked in the dump hook, after its dump, and keeps it. The child has
 * written nothing yet, and nothing has failed in it.
 */
void
prof_dump_postfork_child(void) {
	if (!mutex_is_owner(&dumper.mtx)) {
		prof_file_forget(&dumper.file);
		prof_snap_forget(&dumper.snap);
		prof_writer_forget(&dumper.writer);
		atomic_store_b(&dumper.is_in_hook, false, MO_RELAXED);
	}
	mutex_renew_in_child(&dumper.mtx, "prof_dump", WITNESS_RANK_PROF_DUMP);
	dumper.fails = 0;
	dumper.retry_ns = 0;
	atomic_store_u64(&dumper.nerrors, 0, MO_RELAXED);
	atomic_store_u64(&dumper.nwritten, 0, MO_RELAXED);
	if (known.last_err != 0 || known.last_path[0] != '\0') {
		known.last_err = 0;
		known.last_path[0] = '\0';
	}
}

/*
 * From prof_sys_end() on no other thread begins a profile or a log; it waits 1 s or so at most
 * for a file that is being created. Writes the log that runs. Exit does not wait for another thread
 * to finish a file, but removes its temporary file. Then prints how many automatic profiles were
 * left out as one was being written.
 */
__attribute__((destructor)) static void
dump_at_exit(void) {
	prof_sys_end();
	if (prof_log_is_running() && !gate_is_lost()) {
		prof_log_stop();
	}
	if (atomic_load_u32(&prof_log_state, MO_ACQUIRE) == prof_log_dumping) {
		prof_log_abandon();
	}
	if (!atomic_load_b(&is_used, MO_SEQ_CST)) {
		return;
	}
	if (!mutex_is_owner(&dumper.mtx)) {
		prof_file_abandon(&dumper.file);
	}
	uint64_t overlapped = prof_keep_overlapped();
	if (overlapped != 0) {
		malloc_printf("<jemalloc>: %llu automatic profiles came due while another one was written, "
		    "and were left out; %llu were written\n", (unsigned long long)overlapped,
		    (unsigned long long)prof_dump_nwritten());
	}
}
