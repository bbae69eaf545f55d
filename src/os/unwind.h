/*
 * Stacks: who called?
 *
 * One front over several methods, each a file with a table; which ones exist is chosen by
 * configure.  "auto" takes frame pointers where the unwind table of the return address says that
 * they hold, the cached row of that table where they do not, and asks the next method for a single
 * sample when a chain breaks.
 *
 * A walk takes no lock, allocates nothing and may run on any thread; the caller holds no lock of
 * the allocator and has marked the thread as inside.
 */
#ifndef OS_UNWIND_H
#define OS_UNWIND_H

#include "util/atomic.h"
#include "util/compiler.h"

/* Why a walk ended, and what befell samples. */
typedef enum {
	unwind_stop_end,          /* The outermost frame was reached. */
	unwind_stop_full,         /* More frames than asked for. */
	unwind_stop_no_module,    /* A return address in no known object. */
	unwind_stop_no_row,       /* No usable unwind information for the address. */
	unwind_stop_bad_frame,    /* A frame outside of the stack, or one that does not grow. */
	unwind_stop_count
} unwind_stop_t;

#define UNWIND_DEPTH_BUCKETS 10

struct unwind_stats_s {
	uint64_t samples;
	uint64_t fallbacks;
	uint64_t rows_made;
	uint64_t generations;
	uint64_t stops[unwind_stop_count];
	/* Bucket b counts stacks of depth d with lg_floor(d) == b; d == 0 counts in bucket 0. */
	uint64_t depths[UNWIND_DEPTH_BUCKETS];
};

/* A place to start from: registers in the caller of the function that took them. */
struct unwind_where_s {
	uintptr_t pc;
	uintptr_t sp;
	uintptr_t fp;
};

/* In the function whose return address shall be the first frame; that function has not returned when `where` is used. */
#define UNWIND_HERE(where) \
	(where)->pc = (uintptr_t)__builtin_extract_return_addr(__builtin_return_address(0)); \
	(where)->sp = (uintptr_t)__builtin_dwarf_cfa(); \
	(where)->fp = *(const uintptr_t *)__builtin_frame_address(0)

/* What a frame's registers were, and where its return address and frame pointer were read. */
struct unwind_mark_s {
	uintptr_t sp;
	uintptr_t fp;
	uintptr_t ra_at;
	uintptr_t fp_at;
};

/*
 * What one thread keeps from walk to walk, zeroed at first.  It belongs to one array of frames, which
 * nobody else writes unless unwind_memo_forget() is called.
 */
struct unwind_memo_s {
	uintptr_t lo;          /* stack that the kernel has confirmed */
	uintptr_t hi;
	uint64_t salt;         /* generation of the rows that the marks were made by */
	unsigned room;         /* of marks, at most that of frames; the marks of the last walk: from known on */
	unsigned known;
	unsigned first;        /* the last walk's frames begin here */
	bool is_same;          /* and are those of the walk before it */
	bool is_whole;         /* and end with the outermost one */
	struct unwind_mark_s *marks;
};

static inline void
unwind_memo_forget(struct unwind_memo_s *m) {
	m->known = m->room;
	m->first = 0;
	m->is_same = false;
}

/* Room for n marks, all that was remembered is forgotten. */
static inline void
unwind_memo_set_room(struct unwind_memo_s *m, struct unwind_mark_s *marks, unsigned n) {
	m->marks = marks;
	m->room = n;
	unwind_memo_forget(m);
}

struct unwind_backend_s {
	const char *name;
	/* 0, or errno if the method cannot work here.  At a safe point: it may take any lock. */
	int (*boot)(void);
	/*
	 * Return addresses, innermost first (an interrupted instruction counts as a call: plus 1), from
	 * frames[memo->first] on; the first is where->pc.  Methods that make no use of the memo find it
	 * forgotten.  errno is kept.
	 */
	unsigned (*capture)(void **frames, unsigned max, const struct unwind_where_s *where,
	    struct unwind_memo_s *memo);
	bool has_memo;
};

/*
 * Selects and boots a method: "auto", "fp", "libgcc", "libunwind", "none"; NULL means "auto".
 * EINVAL: no such name; ENOTSUP: not built in or does not work here (the old one stays).
 * Call it at a safe point: no lock held, constructors of the program under way.
 */
int unwind_select(const char *name);
/* Name of the method that runs; "none" before the first selection. */
const char *unwind_name(void);
bool unwind_has(const char *name);

/* frames[0] is an address in the caller of unwind(). */
unsigned unwind(void **frames, unsigned max);
/* From `where` on, frames[memo->first] is where->pc. */
unsigned unwind_at(void **frames, unsigned max, const struct unwind_where_s *where,
    struct unwind_memo_s *memo);

/* To be called now and then at a safe point: learns of objects loaded and unloaded. */
void unwind_refresh(void);
void unwind_stats_read(struct unwind_stats_s *dst);
/* For reports: how the stop is named. */
const char *unwind_stop_name(unwind_stop_t stop);

/* For the backends. */
void unwind_count_stop(unwind_stop_t stop);
void unwind_count_fallback(void);

#if CONFIG_PROF_FRAMEPTR
extern HIDDEN const struct unwind_backend_s unwind_fp;
extern HIDDEN const struct unwind_backend_s unwind_auto;
void unwind_fp_refresh(void);
void unwind_fp_stats(struct unwind_stats_s *dst);
#endif
#if CONFIG_PROF_LIBGCC
extern HIDDEN const struct unwind_backend_s unwind_libgcc;
#endif
#if CONFIG_PROF_LIBUNWIND
extern HIDDEN const struct unwind_backend_s unwind_libunwind;
#endif

#endif
