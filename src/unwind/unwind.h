/*
 * Stacks of calls: takes the return addresses of the calling thread.
 * One interface over several methods, each in a file of its own with a table of functions;
 * configure chooses which are built. "auto" uses frame pointers where the unwind table of the
 * return address says that they are valid, the cached unwind row of that table otherwise, and asks
 * the next method for a single sample when a chain breaks. A walk takes no lock, does not allocate
 * and may run on any thread. The caller (prof_backtrace.c) holds no lock of the allocator and has
 * marked the thread as inside.
 */
#ifndef UNWIND_UNWIND_H
#define UNWIND_UNWIND_H

#include "util/atomic.h"
#include "util/compiler.h"

/* Why a walk ended; counted for statistics. */
typedef enum {
	unwind_stop_end,       /* the outermost frame was reached */
	unwind_stop_full,      /* there are more frames than were asked for */
	unwind_stop_no_module, /* a return address is in no known object */
	unwind_stop_no_row,    /* there is no usable unwind information for an address */
	/* a frame lies outside of the stack, or is not above the one before */
	unwind_stop_bad_frame,
	unwind_stop_count
} unwind_stop_t;

/* Buckets of the statistics of depths; the last one counts all greater depths. */
#define UNWIND_DEPTH_BUCKETS 10

/* Counters of all walks since the start. */
struct unwind_stats_s {
	uint64_t samples;     /* walks */
	uint64_t fallbacks;   /* samples that "auto" gave to another method */
	uint64_t rows_made;   /* rows read from unwind tables */
	uint64_t generations; /* times that cached rows became invalid */
	uint64_t stops[unwind_stop_count];
	/* Bucket b counts stacks of depth d with lg_floor(d) == b; d == 0 counts in bucket 0. */
	uint64_t depths[UNWIND_DEPTH_BUCKETS];
};

/* Where a walk starts: registers in the caller of the function that took them. */
struct unwind_where_s {
	uintptr_t pc;
	uintptr_t sp;
	uintptr_t fp;
};

/*
 * Used in the function whose return address shall be the first frame. That function must not have
 * returned when `where` is used.
 */
#define UNWIND_HERE(where) \
	(where)->pc = (uintptr_t)__builtin_extract_return_addr(__builtin_return_address(0)); \
	(where)->sp = (uintptr_t)__builtin_dwarf_cfa(); \
	(where)->fp = *(const uintptr_t *)__builtin_frame_address(0)

/*
 * The registers of a frame, and the addresses from which its return address and frame pointer were
 * read.
 */
struct unwind_mark_s {
	uintptr_t sp;
	uintptr_t fp;
	uintptr_t ra_at;
	uintptr_t fp_at;
};

/*
 * What a thread keeps from walk to walk, to continue with frames that are unchanged. Zeroed at
 * first. It belongs to one array of frames, which only walks may write unless unwind_memo_forget()
 * is called.
 */
struct unwind_memo_s {
	uintptr_t own_lo; /* the thread's own stack, as far as it is known, up to its end */
	uintptr_t own_hi;
	uintptr_t lo; /* what was seen of another stack, which may be unmapped by now */
	uintptr_t hi;
	/* end of a stack that was tested and is not the thread's own; 0: none */
	uintptr_t tried_hi;
	uint64_t salt; /* generation of the rows that the marks were made with */
	/*
	 * number of marks, at most the number of frames; those of the last walk are from `known` on
	 */
	unsigned room;
	unsigned known;
	unsigned first; /* the last walk's frames begin at this index */
	bool is_same;   /* they are those of the walk before it */
	bool is_whole;  /* they end with the outermost frame */
	bool is_own;    /* they all lie on the thread's own stack */
	struct unwind_mark_s *marks;
};

/* Forgets the marks of the last walk; to be called when the array of frames was written. */
static inline void
unwind_memo_forget(struct unwind_memo_s *m) {
	m->known = m->room;
	m->first = 0;
	m->is_same = false;
}

/* Sets the array of n marks and forgets all that was remembered. */
static inline void
unwind_memo_set_room(struct unwind_memo_s *m, struct unwind_mark_s *marks, unsigned n) {
	m->marks = marks;
	m->room = n;
	unwind_memo_forget(m);
}

/* A method. */
struct unwind_backend_s {
	const char *name;
	/*
	 * Returns 0, or an errno value if the method cannot work here. Called with no lock held;
	 * may take any lock.
	 */
	int (*boot)(void);
	/*
	 * Stores return addresses, innermost first, from frames[memo->first] on; the first one is
	 * where->pc. For an interrupted instruction its address plus 1 is stored, as if it were a
	 * call. A method without has_memo is called with a forgotten memo. Preserves errno. Returns
	 * the number of frames.
	 */
	unsigned (*capture)(void **frames, unsigned max, const struct unwind_where_s *where,
	    struct unwind_memo_s *memo);
	/* The method uses the memo. */
	bool has_memo;
};

/*
 * Selects and boots a method: "auto", "fp", "libgcc", "libunwind" or "none"; NULL means "auto".
 * EINVAL: there is no such method; ENOTSUP: it is not built in or does not work here, and the
 * selected one stays. To be called with no lock held, during or after the program's constructors.
 */
int unwind_select(const char *name);
/* Name of the selected method; "none" before the first selection. */
const char *unwind_name(void);
/* Whether a method of this name is built in. */
bool unwind_has(const char *name);

/*
 * Takes the stack of the caller: frames[0] is an address in the caller of unwind(). Returns the
 * number of frames.
 */
unsigned unwind(void **frames, unsigned max);
/* Takes the stack from `where` on; frames[memo->first] is where->pc. */
unsigned unwind_at(void **frames, unsigned max, const struct unwind_where_s *where,
    struct unwind_memo_s *memo);

/* Makes all cached rows invalid, because other code may lie at their addresses. */
void unwind_forget_rows(void);
/*
 * Learns which objects were loaded and unloaded. To be called from time to time with no lock held.
 */
void unwind_refresh(void);
void unwind_stats_read(struct unwind_stats_s *dst);
/* The name of the stop in statistics. */
const char *unwind_stop_name(unwind_stop_t stop);

/* Implemented by unwind_rows.c. */
void unwind_rows_refresh(void);
void unwind_rows_forget(void);
void unwind_rows_stats(struct unwind_stats_s *dst);

/* For the methods: count how a walk ended, and that a sample went to another method. */
void unwind_count_stop(unwind_stop_t stop);
void unwind_count_fallback(void);

#if CONFIG_PROF_FRAMEPTR
extern HIDDEN const struct unwind_backend_s unwind_fp;
extern HIDDEN const struct unwind_backend_s unwind_auto;
#endif
#if CONFIG_PROF_LIBGCC
extern HIDDEN const struct unwind_backend_s unwind_libgcc;
#endif
#if CONFIG_PROF_LIBUNWIND
extern HIDDEN const struct unwind_backend_s unwind_libunwind;
#endif

#endif
