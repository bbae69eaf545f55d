/*
 * The interface of the unwinding methods: the start of a walk over a stack, the memo that it keeps
 * for the next one, the reasons for its end, and the table of functions of each method. This header
 * is apart from unwind.h, which selects a method, so that no method depends on unwind.h. The
 * counters of walks are relaxed atomics; no lock. Used by unwind.c, by the methods (unwind_fp.c,
 * unwind_libgcc.c, unwind_libunwind.c) and the modules below them; the memory of a memo is made and
 * freed by prof_backtrace.c and prof_data.c; prof_dump.c and prof_root.c name the reasons. A row
 * says how to get from the registers at one code address to those of the caller (unwind_rows.h).
 */
#pragma once

#include "util/atomic.h"
#include "util/bits.h"
#include "util/compiler.h"

/* Why a walk ended; counted for statistics. */
typedef enum {
	unwind_stop_end,       /* the outermost frame was reached */
	/* as many frames as were asked for; of libgcc and libunwind also if the stack has no more */
	unwind_stop_full,
	/* a return address is in no known object or function, and no other way to go on was found */
	unwind_stop_no_module,
	/* unwind information cannot be used: not supported, or it needs a register that is not known */
	unwind_stop_no_row,
	/* a frame lies outside of the stack, or is not above the one before */
	unwind_stop_bad_frame,
	unwind_stop_count      /* number of reasons */
} unwind_stop_t;

/* Buckets of the statistics of depths; the last one counts all greater depths. */
#define UNWIND_DEPTH_BUCKETS 10

/* Counters of all walks since the start. */
struct unwind_stats_s {
	uint64_t samples;     /* stacks that were read: calls of unwind_at() */
	uint64_t fallbacks;   /* walks of "auto", "fp" that computed a row which cannot be cached */
	uint64_t rows_made;   /* rows read from unwind tables and stored in the cache */
	uint64_t generations; /* times that all cached rows became invalid */
	uint64_t without_hdr; /* objects without .eh_frame_hdr that were seen */
	uint64_t scanned;     /* of these, those whose .eh_frame was found by a scan */
	uint64_t stops[unwind_stop_count]; /* walks by the reason for their end */
	/* Bucket b counts stacks of depth d with lg_floor(d) == b; d == 0 counts in bucket 0. */
	uint64_t depths[UNWIND_DEPTH_BUCKETS];
};

/* The start of a walk: registers as they are when the function that used UNWIND_HERE() returns. */
struct unwind_where_s {
	uintptr_t pc;
	uintptr_t sp;
	uintptr_t fp;
};

/*
 * Sets *where. Used in the function whose return address is to be the first frame; that function
 * must not have returned when `where` is used.
 */
#define UNWIND_HERE(where) \
	(where)->pc = (uintptr_t)__builtin_extract_return_addr(__builtin_return_address(0)); \
	(where)->sp = (uintptr_t)__builtin_dwarf_cfa(); \
	(where)->fp = *(const uintptr_t *)__builtin_frame_address(0)

/*
 * The registers of a frame, and the addresses from which its pc (a return address, kept in the
 * array of frames) and its fp were read. ra_at is NOT_READ if pc was not found by a row alone; it
 * has the flag RA_AT_SIGNED if the word there is signed (both unwind_step.h). fp_at is 0 if fp is
 * the same as in the frame that this one called, or is lost.
 */
struct unwind_mark_s {
	uintptr_t sp;
	uintptr_t fp;
	uintptr_t ra_at;
	uintptr_t fp_at;
};

/*
 * Two words that the last walk read, and their addresses. The next walk compares both with what is
 * there now, in one operation.
 */
typedef uint64_t unwind_words_t __attribute__((vector_size(16)));
struct unwind_check_s {
	uintptr_t at[2];
	unwind_words_t words;
};

/*
 * State that a thread keeps from walk to walk, to continue with frames that are unchanged. All 0 at
 * first. It belongs to one array of frames. If anything but a walk writes that array,
 * unwind_memo_forget() must be called.
 */
struct unwind_memo_s {
	/* the thread's own stack: start of the lowest page that a walk used, and end; 0: not known */
	uintptr_t own_lo;
	uintptr_t own_hi;
	/* the range that a walk used of a stack not known as the thread's own; perhaps unmapped */
	uintptr_t lo;
	uintptr_t hi;
	/* end of the last range that was tested for being the thread's own stack; 0: none */
	uintptr_t tried_hi;
	uint64_t salt; /* of the generation of rows with which the marks were made (unwind_rows.salt) */
	unsigned room;  /* marks that there is memory for, at most the elements of the frames' array */
	unsigned known; /* marks [known, room) are those of the last walk; none if known is room */
	unsigned first; /* index in the frames' array at which the last walk's frames begin */
	bool is_same;   /* the last walk found exactly the frames of the walk before it */
	bool is_whole;  /* the last walk ended with the outermost frame */
	bool is_own;    /* all frames of the last walk lie on the thread's own stack */
	/*
	 * number of valid checks, which hold all words that the last walk read; 0: not made, because
	 * checks are made only when a walk finds the same stack again
	 */
	unsigned n_checks;
	struct unwind_mark_s *marks;
	struct unwind_check_s *checks; /* room for as many as there are marks */
};

/* Forgets the marks of the last walk; to be called when the array of frames was written. */
static inline void
unwind_memo_forget(struct unwind_memo_s *m) {
	m->known = m->room;
	m->first = 0;
	m->is_same = false;
	m->n_checks = 0;
}

/* Bytes of memory that n marks and their checks need; it must be aligned to 16. */
static inline size_t
unwind_memo_bytes(unsigned n) {
	return n * (sizeof(struct unwind_mark_s) + sizeof(struct unwind_check_s));
}

/* Sets the memory for n marks and their checks (NULL: none, n is 0), and forgets the marks. */
static inline void
unwind_memo_set_room(struct unwind_memo_s *m, void *mem, unsigned n) {
	m->marks = mem;
	m->checks = mem == NULL ? NULL : (struct unwind_check_s *)(m->marks + n);
	m->room = n;
	unwind_memo_forget(m);
}

/* A method. */
struct unwind_backend_s {
	const char *name;
	/*
	 * Returns 0, or an errno value if the method cannot work here. Called with no lock held; may
	 * take any lock and allocate.
	 */
	int (*boot)(void);
	/*
	 * Chooses memo->first and stores return addresses, innermost first, from frames[memo->first]
	 * on; the first one is where->pc; max > 0. Readers take an address for that behind a call; so
	 * for an instruction that a signal interrupted, its address plus 1 is stored, except by
	 * libunwind, whose addresses are stored as they come. A method that keeps no marks calls
	 * unwind_memo_forget(), which sets memo->first to 0. Preserves errno. Returns the number of
	 * frames.
	 */
	unsigned (*capture)(void **frames, unsigned max, const struct unwind_where_s *where,
	    struct unwind_memo_s *memo);
};

/* The counters; unwind_stats_s says what they count. */
extern HIDDEN struct unwind_counts_s {
	atomic_u64_t fallbacks;
	atomic_u64_t stops[unwind_stop_count];
	atomic_u64_t depths[UNWIND_DEPTH_BUCKETS];
} unwind_counts;

/* Counts how a walk ended. */
ALWAYS_INLINE void
unwind_count_stop(unwind_stop_t stop) {
	assert(stop < unwind_stop_count);
	atomic_fetch_add_u64(&unwind_counts.stops[stop], 1, MO_RELAXED);
}

/* Counts a walk that computed a row which cannot be cached. */
ALWAYS_INLINE void
unwind_count_fallback(void) {
	atomic_fetch_add_u64(&unwind_counts.fallbacks, 1, MO_RELAXED);
}

/* Counts a sample of n frames. */
ALWAYS_INLINE void
unwind_count_sample(unsigned n) {
	unsigned bucket = lg_floor_zu(n | 1);
	bucket = bucket < UNWIND_DEPTH_BUCKETS ? bucket : UNWIND_DEPTH_BUCKETS - 1;
	atomic_fetch_add_u64(&unwind_counts.depths[bucket], 1, MO_RELAXED);
}

/* Copies all counters of walks and rows; `samples` is the sum of the depths (unwind_rows.c). */
void unwind_stats_read(struct unwind_stats_s *dst);
/* The name of a reason in statistics, such as "end". */
const char *unwind_stop_name(unwind_stop_t stop);

/* The methods that are built; each is defined in the file of its name, "auto" with "fp". */
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
