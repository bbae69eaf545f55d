/*
 * The course of the heap in the root, which readers outside see: each figure is moved at its source
 * and read back there, in a process in which none is zero that can be moved; the lines of the ring
 * are the figures of their time.
 */
#include "ctl.h"
#include "dir.h"

#include <sys/resource.h>

#include "meta/region.h"
#include "os/nstime.h"
#include "os/room_group.h"
#include "prof/file/prof_course.h"
#include "prof/file/prof_dump.h"
#include "prof/file/prof_keep.h"
#include "prof/file/prof_sys.h"
#include "prof/sites/prof_backtrace.h"
#include "prof/sites/prof_figures.h"
#include "prof/sites/prof_root.h"
#include "unwind/unwind.h"

enum { KEPT = 300 };

static void *kept[KEPT];
static unsigned nkept;

static __attribute__((noinline)) void *
deep(unsigned depth, size_t size) {
	void *p = hide(depth) == 0 ? keep(malloc(size)) : deep(depth - 1, size);
	__asm__ volatile("" ::: "memory");
	return p;
}

/* Moves each source by a number of its own. */
static void
move(void) {
	const char *nowhere = "nowhere/x.heap";
	for (unsigned i = 0; i < 40; i++) {
		kept[nkept++] = deep(i % 20, 100000 + 1000 * i);
	}
	for (unsigned i = 0; i < 3; i++) {
		prof_keep_overlap();
	}
	for (unsigned i = 0; i < 5; i++) {
		prof_keep_suppress();
	}
	for (unsigned i = 0; i < 2; i++) {
		ctl_write("prof.dump", nowhere);
	}
	free(keep(malloc((size_t)5 << 20)));
}

/* Spoils what is told each time, so that also a number that is zero here must be told. */
static void
spoil(bool is_by_thread) {
	image_root_t *root = prof_root();
	uint64_t limit = root->figures.limit, faults = root->figures.faults;
	memset(&root->figures, 0xa5, sizeof(root->figures));
	memset(root->stops, 0xa5, sizeof(root->stops));
	memset(root->depths, 0xa5, sizeof(root->depths));
	root->without_hdr = root->scanned = ~UINT64_C(0);
	if (!is_by_thread) { /* others leave what the thread has told last */
		root->figures.limit = limit;
		root->figures.faults = faults;
	}
}

static void
is_moved(uint64_t got, uint64_t want, bool is_zero_fine, const char *name) {
	ok(got == want && (want != 0 || is_zero_fine), "%s: %llu, want %llu", name,
	    (unsigned long long)got, (unsigned long long)want);
}

static void
test_unwinder(const image_root_t *root) {
	struct unwind_stats_s st;
	unsigned bad = 0;
	unwind_stats_read(&st);
	is_moved(root->figures.samples, st.samples, false, "samples");
	is_moved(root->figures.fallbacks, st.fallbacks, true, "fallbacks");
	is_moved(root->without_hdr, st.without_hdr, true, "without_hdr");
	is_moved(root->scanned, st.scanned, true, "scanned");
	for (unsigned i = 0; i < unwind_stop_count; i++) {
		bad += root->stops[i] != st.stops[i];
	}
	for (unsigned i = 0; i < UNWIND_DEPTH_BUCKETS; i++) {
		bad += root->depths[i] != st.depths[i];
	}
	is_uint(bad, 0, "stops and depths");
	ok(root->nstops == unwind_stop_count && root->ndepths == UNWIND_DEPTH_BUCKETS
	    && strcmp(root->unwinder, unwind_name()) == 0, "their numbers, the unwinder");
}

/*
 * The figures of the root, told since before_ns; is_by_thread: by a thread that may read files, in
 * a process with a black box.
 */
static void
test_figures(bool is_by_thread, uint64_t before_ns) {
	static bool has_limit;
	const image_root_t *root = prof_root();
	const image_figures_t *f = &root->figures;
	prof_figures_t now;
	prof_figures_read(&now);
	is_moved(f->allocated, now.allocated, false, "allocated");
	is_moved(f->active, now.active, false, "active");
	is_moved(f->resident, now.resident, false, "resident");
	is_moved(f->retained, now.retained, true, "retained");
	is_moved(f->huge, now.huge, true, "huge");
	is_moved(f->populated, now.populated, true, "populated");
	is_moved(f->truncated_stacks, prof_backtrace_ncut(), false, "truncated_stacks");
	is_moved(f->suppressed, prof_keep_suppressed(), false, "suppressed");
	is_moved(f->overlapped, prof_keep_overlapped(), false, "overlapped");
	is_moved(f->dump_errors, prof_dump_nerrors(), false, "dump_errors");
	is_moved(f->instance, atomic_load_u64(&prof_sys_instance, MO_RELAXED), false, "instance");
	ok(f->time_ns >= before_ns && f->time_ns <= nstime_realtime_ns()
	    && f->monotonic_ns <= nstime_monotonic_ns() && f->monotonic_ns != 0, "times");
	has_limit |= is_by_thread;
	is_moved(f->limit, has_limit ? room_limit() : 0, true, "limit");
	ok(is_by_thread ? f->rss > 1 << 20 && f->rss < UINT64_C(1) << 40 : f->rss == 0, "rss: %llu",
	    (unsigned long long)f->rss);
	ok(f->faults < 1 << 30, "faults: %llu", (unsigned long long)f->faults);
	test_unwinder(root);
}

/* Line n of the ring is what the figures are. */
static void
test_line(uint64_t n) {
	const image_root_t *root = prof_root();
	const image_figures_t *f = &root->figures;
	const image_line_t *lines
	    = (const image_line_t *)(uintptr_t)root->blocks[n / IMAGE_BLOCK_LINES % IMAGE_BLOCKS];
	const image_line_t *l = &lines[n % IMAGE_BLOCK_LINES];
	ok(root->nlines == n + 1 && l->time_ns == f->time_ns && l->allocated == f->allocated
	    && l->active == f->active && l->resident == f->resident && l->rss == f->rss
	    && l->limit == f->limit && l->samples == f->samples && l->faults == f->faults,
	    "line %llu is the figures of its time", (unsigned long long)n);
}

static int
child_course(void) {
	uint64_t now = nstime_monotonic_ns() + 100 * NSTIME_PER_SEC;
	bool has_box = region_box_bytes() != 0;
	prof_course_tick(now, false); /* the last one that a heartbeat might have been for */
	uint64_t first = prof_root()->nlines;
	for (unsigned i = 0; i < 6; i++) {
		bool is_by_thread = i % 2 != 0;
		uint64_t before = nstime_realtime_ns();
		move();
		spoil(is_by_thread && has_box);
		prof_course_tick(now += NSTIME_PER_SEC, is_by_thread);
		test_figures(is_by_thread && has_box, before);
		test_line(first + i);
		prof_course_tick(now + NSTIME_PER_SEC - 1, is_by_thread);
		is_uint(prof_root()->nlines, first + i + 1, "none within a second");
	}
	for (unsigned i = 6; i < 130; i++) {
		prof_course_tick(now += NSTIME_PER_SEC, false);
	}
	test_line(first + 129);
	move();
	spoil(false);
	prof_course_begin();
	test_figures(false, 0);
	is_uint(prof_root()->nlines, first + 130, "a session begins: no line");
	struct rlimit data = {(rlim_t)1 << 36, (rlim_t)1 << 36};
	setrlimit(RLIMIT_DATA, &data);
	prof_course_tick(now + NSTIME_PER_SEC, true);
	is_uint(prof_root()->figures.limit, has_box ? room_limit() : 0,
	    "and its first line has the limit of now");
	return done_testing();
}

static const struct test_child children[] = {{"course", child_course}, {NULL, NULL}};

int
main(int argc, char **argv) {
	test_children(argc, argv, children);
	if (!config_prof) {
		plan_skip_all("no profiler in this build");
	}
	dir_enter();
	child_runs("course", "prof:true,lg_prof_sample:0,prof_bt_max:8,prof_thread:false,"
	    "prof_prefix:p,populate:true,thp:always");
	child_runs("course", "prof:true,lg_prof_sample:0,prof_bt_max:8,prof_thread:false,"
	    "prof_prefix:p,prof_blackbox:true");
	dir_leave();
	return done_testing();
}
