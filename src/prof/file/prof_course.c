/*
 * Stores the course of the heap's figures in the root (prof_course.h). "To tell" is to store where
 * other processes may be reading.
 *
 * Invariant: one thread at a time tells (course.is_telling); a line of the ring has time_ns 0 while
 * it is written, and a block of lines is zeroed before the root names it. rss, limit and faults
 * cost system calls: only the profiler's thread reads them, and only with a black box. Without a
 * box all three are told as 0. With one, another thread tells rss as 0 and leaves limit and faults
 * as they were. Locks: none of its own; telling is done inside the gate (os/gate.h: fork waits
 * until no thread is inside). Called by prof_start.c, prof_session.c and prof_box.c when something
 * begins; each second at heartbeats (thread/thread_event.h) by prof.c, or in rounds of the
 * profiler's thread by prof_control.c; by prof.c in a forked child.
 */
#include "prof/file/prof_course.h"

#include <sys/resource.h>

#include "meta/region.h"
#include "os/gate.h"
#include "os/nstime.h"
#include "os/room_group.h"
#include "prof/file/prof_dump.h"
#include "prof/file/prof_keep.h"
#include "prof/file/prof_sys.h"
#include "prof/sites/prof_backtrace.h"
#include "prof/sites/prof_figures.h"
#include "prof/sites/prof_root.h"
#include "unwind/unwind.h"
#include "util/bits.h"

/*
 * The limit of memory changes rarely: it is read for one of so many lines of the ring that the
 * profiler's thread stores, which is once a minute.
 */
#define LIMIT_EVERY 60u

static struct {
	atomic_b_t is_telling;
	atomic_u64_t next_ns;   /* monotonic time of the next line */
	/* the next two belong to the thread that has set is_telling */
	unsigned limit_age;     /* calls of process_tell() since sampling, a session or a box began */
	uint64_t limit;         /* of memory, in bytes, as it was read last; 0: none, or not known */
} course;

cassert(sizeof(image_line_t) == CACHELINE);
cassert(ARRAY_LEN(((image_root_t *)NULL)->stops) >= unwind_stop_count);
cassert(ARRAY_LEN(((image_root_t *)NULL)->depths) >= UNWIND_DEPTH_BUCKETS);

/* Stores a word that others may be reading. */
static void
tell(uint64_t *to, uint64_t value) {
	__atomic_store_n(to, value, MO_RELAXED);
}

/* Tells the name of the unwinding method and its statistics. */
static void
unwinder_tell(image_root_t *root) {
	struct unwind_stats_s st;
	unwind_stats_read(&st);
	tell(&root->figures.samples, st.samples);
	tell(&root->figures.fallbacks, st.fallbacks);
	for (unsigned i = 0; i < unwind_stop_count; i++) {
		tell(&root->stops[i], st.stops[i]);
	}
	for (unsigned i = 0; i < UNWIND_DEPTH_BUCKETS; i++) {
		tell(&root->depths[i], st.depths[i]);
	}
	tell(&root->without_hdr, st.without_hdr);
	tell(&root->scanned, st.scanned);
	root->nstops = unwind_stop_count;
	root->ndepths = UNWIND_DEPTH_BUCKETS;
	prof_root_unwinder_set(unwind_name());
}

/*
 * Tells the figures that cost system calls. Only the profiler's thread calls this, and only with a
 * black box: a filter of system calls may end the process for them (os/sys.h), but the black box
 * itself needs such calls.
 */
static void
process_tell(image_figures_t *f) {
	struct rusage usage;
	if (course.limit_age++ % LIMIT_EVERY == 0) {
		course.limit = room_limit();
	}
	tell(&f->rss, prof_sys_rss(NULL));
	tell(&f->limit, course.limit);
	tell(&f->faults, getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_majflt : 0);
}

/* Tells all figures. is_by_thread: the caller is the profiler's thread. */
static void
figures_tell(image_root_t *root, bool is_by_thread) {
	image_figures_t *f = &root->figures;
	prof_figures_t now;
	prof_figures_read(&now);
	tell(&f->time_ns, nstime_realtime_ns());
	tell(&f->monotonic_ns, nstime_monotonic_ns());
	tell(&f->instance, atomic_load_u64(&prof_sys_instance, MO_RELAXED));
	tell(&f->allocated, now.allocated);
	tell(&f->active, now.active);
	tell(&f->resident, now.resident);
	tell(&f->retained, now.retained);
	tell(&f->huge, now.huge);
	tell(&f->populated, now.populated);
	tell(&f->truncated_stacks, prof_backtrace_ncut());
	tell(&f->suppressed, prof_keep_suppressed());
	tell(&f->overlapped, prof_keep_overlapped());
	tell(&f->dump_errors, prof_dump_nerrors());
	unwinder_tell(root);
	bool has_box = region_box_bytes() != 0;
	if (is_by_thread && has_box) {
		process_tell(f);
	} else {
		tell(&f->rss, 0);
	}
	if (!has_box) {
		tell(&f->limit, 0);
		tell(&f->faults, 0);
	}
}

/*
 * The line of the ring (60 blocks of 60 lines) that is to be written next, the oldest one once the
 * ring is full; NULL if there is no memory for its block.
 */
static image_line_t *
line_next(image_root_t *root) {
	uint64_t *block = &root->blocks[root->nlines / IMAGE_BLOCK_LINES % IMAGE_BLOCKS];
	if (*block == 0) {
		void *p = region_alloc(IMAGE_BLOCK_LINES * sizeof(image_line_t));
		__atomic_store_n(block, (uintptr_t)p, MO_RELEASE);
	}
	image_line_t *lines = (image_line_t *)(uintptr_t)*block;
	return lines == NULL ? NULL : &lines[root->nlines % IMAGE_BLOCK_LINES];
}

/* Adds a line to the ring, with the figures that figures_tell() has just told. */
static void
line_tell(image_root_t *root) {
	const image_figures_t *f = &root->figures;
	image_line_t *line = line_next(root);
	if (line == NULL) {
		return;
	}
	tell(&line->time_ns, 0);
	atomic_fence(MO_RELEASE); /* a reader that sees a number of the new line sees the 0 */
	tell(&line->allocated, f->allocated);
	tell(&line->active, f->active);
	tell(&line->resident, f->resident);
	tell(&line->rss, f->rss);
	tell(&line->limit, f->limit);
	tell(&line->samples, f->samples);
	tell(&line->faults, f->faults);
	__atomic_store_n(&line->time_ns, f->time_ns, MO_RELEASE);
	__atomic_store_n(&root->nlines, root->nlines + 1, MO_RELEASE);
}

/*
 * Tells the figures, and with_line a line of the ring. Does nothing if another thread is telling,
 * or before there is a root.
 */
static void
course_tell(bool is_by_thread, bool with_line) {
	struct tls_s *t = tls_get();
	image_root_t *root = prof_root();
	if (root == NULL || atomic_exchange_b(&course.is_telling, true, MO_ACQUIRE)) {
		return;
	}
	int saved = errno;
	gate_enter(t);
	figures_tell(root, is_by_thread);
	if (with_line) {
		line_tell(root);
	} else {
		course.limit_age = 0; /* something begins: the limit that was read may be an old one */
	}
	gate_exit(t);
	errno = saved;
	atomic_store_b(&course.is_telling, false, MO_RELEASE);
}

void
prof_course_tick(uint64_t now_ns, bool is_by_thread) {
	uint64_t next = atomic_load_u64(&course.next_ns, MO_RELAXED);
	if (now_ns >= next && atomic_cas_strong_u64(&course.next_ns, &next, now_ns + NSTIME_PER_SEC,
	    MO_RELAXED, MO_RELAXED)) {
		course_tell(is_by_thread, true);
	}
}

void
prof_course_begin(void) {
	course_tell(false, false);
}

void
prof_course_postfork_child(void) {
	atomic_store_b(&course.is_telling, false, MO_RELAXED);
}
