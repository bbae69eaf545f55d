/*
 * The methods "fp" and "auto", which differ by name only (prof_backtrace.c replaces "auto" by
 * another method if it does not work): stacks by frame pointers, checked by unwind rows. A
 * frame-pointer chain alone is unreliable: it loses the caller of each function that has no frame
 * pointer. So a step uses the unwind row of the return address, which says how to compute the
 * canonical frame address (CFA) and where the caller's registers are saved; only code without
 * unwind information is left by the bare frame pointer, with checks (unwind_step.c). A row is read
 * once from the object's tables and then cached: "CFA = fp + c" is the frame-pointer step, "CFA =
 * sp + c" the other common one. Cached rows become invalid together: each such generation of rows
 * has another salt, which is part of the keys of the cache.
 *
 * A thread keeps from its last walk (memo): the frames, and for each a mark with sp, fp and the
 * addresses from which the return address and fp were read. A walk compares the stack with these
 * and steps only through frames that changed (struct trail_s); a stack that comes again whole is
 * compared by a list of all words that were read (memo->checks). Invariant: only memory that is
 * known to be a stack is read (unwind_step.h). No lock and no allocation during a walk. unwind.c
 * calls the two tables at the end.
 */
#include "os/pages.h"
#include "unwind/module_history.h"
#include "unwind/unwind_step.h"
#include "util/bits.h"

static bool is_booted; /* written at boot only */

/* ---- steps ---- */

/*
 * A step by one of the two common rows: ROW_FRAME (CFA = fp + 16) or a plain one (CFA = sp + c, all
 * saved registers inside the frame). *pc, *sp and *fpr, the frame's registers, become those of the
 * caller. Returns false and leaves them unchanged if step_slow() is needed. The stack can be read
 * from sp up to hi, which must not be below sp.
 */
ALWAYS_INLINE NO_SANITIZE_ADDRESS bool
step_fast(row_t row, uintptr_t *pc, uintptr_t *sp, uintptr_t *fpr, uintptr_t hi) {
	if ((row & ~(row_t)ROW_SIGNED_HERE) == ROW_FRAME) {
		uintptr_t base = *fpr;
		if (unlikely(base < *sp || base > hi - 16)) {
			return false;
		}
		*fpr = load_word(base);
		*pc = ra_of_word(row, load_word(base + 8));
		*sp = base + 16;
		return true;
	}
	uintptr_t cfa = *sp + (uintptr_t)ROW_CFA_OFF(row);
	if (unlikely((row & ROW_PLAIN) == 0 || cfa > hi)) {
		return false;
	}
	*pc = ra_of_word(row, load_word(cfa + RA_OFF_PLAIN(row)));
	if ((row & ROW_FP_CFA << 4) != 0) {
		*fpr = load_word(cfa + (uintptr_t)ROW_FP_OFF(row));
	}
	*sp = cfa;
	return true;
}

/* unwind_step() from these registers; those of the caller are in w then. */
static NOINLINE unsigned
step_slow(struct walk_s *w, uintptr_t pc, uintptr_t sp, uintptr_t fpr) {
	w->pc = pc;
	w->sp = sp;
	w->fp = fpr;
	return unwind_step(w);
}

/* ---- walks ---- */

/*
 * Frames and marks of one walk. frames is the caller's array, which the memo belongs to, with room
 * for `max`; marks are those of the memo, `room` in number (at most max). In both arrays the
 * elements [0, n) are of this walk, and [old, room) those of the last walk that this one may still
 * reach. When the walk reaches a frame of the last one with the same registers, it continues by
 * comparing the words that the steps would read, which costs less than the steps.
 */
struct trail_s {
	void **frames;
	struct unwind_mark_s *marks;
	unsigned max;
	unsigned room;
	unsigned n;
	unsigned old;
	/* Number of frames, without those guessed by bare frame pointers since the last known code. */
	unsigned n_sure;
	/* The frames from `old` on ended the last walk and end this one too. */
	bool is_joined;
	/* The walk began with all frames of the last walk and no other. */
	bool has_all;
};

/* Begins with the marks of the last walk, unless they were made with rows of another generation. */
static void
trail_begin(struct trail_s *t, const struct walk_s *w, void **frames, unsigned max, uint64_t salt) {
	const struct unwind_memo_s *m = w->memo;
	bool is_known = m->salt == salt && m->known < m->room;
	assert(m->known <= m->room && m->room <= max);
	*t = (struct trail_s){.frames = frames, .marks = m->marks, .max = max, .room = m->room};
	t->old = is_known ? m->known : m->room;
}

/* Appends a frame; false if there are as many as were asked for. */
ALWAYS_INLINE bool
trail_try_add(struct trail_s *t, uintptr_t pc, struct unwind_mark_s mark) {
	unsigned i = t->n;
	if (unlikely(i == t->max)) {
		return false;
	}
	t->frames[i] = (void *)pc;
	if (likely(i < t->room)) {
		t->marks[i] = mark;
	}
	t->n = i + 1;
	if (unlikely(i >= t->old)) {
		t->old = t->room; /* the last walk's frames are overwritten */
	}
	return true;
}

/*
 * Whether the last walk had a frame with this address and these registers. Advances `old` to the
 * first frame of the last walk that is not below sp.
 */
ALWAYS_INLINE bool
trail_meets(struct trail_s *t, uintptr_t pc, uintptr_t sp, uintptr_t fpr) {
	const struct unwind_mark_s *m = &t->marks[t->old], *end = &t->marks[t->room];
	while (m < end && m->sp < sp) {
		m++;
	}
	t->old = (unsigned)(m - t->marks);
	return m < end && m->sp == sp && m->fp == fpr && t->frames[t->old] == (void *)pc;
}

/*
 * `from` is the index of a frame of the last walk that this walk has too. Returns the index of the
 * first frame behind it whose words on the stack have changed or lie above hi; `room` if there is
 * none. The words are compared in the order of the steps, so each is known to be on the stack.
 */
ALWAYS_INLINE NO_SANITIZE_ADDRESS unsigned
same_until(void *const *frames, const struct unwind_mark_s *marks, unsigned from, unsigned room,
    uintptr_t hi) {
	size_t i = from + 1;
	for (const struct unwind_mark_s *m = &marks[i]; i < room; i++, m++) {
		if (m->sp > hi || mark_load_ra(m) != (uintptr_t)frames[i]
		    || (m->fp_at != 0 && load_word(m->fp_at) != m->fp)) {
			break;
		}
	}
	return (unsigned)i;
}

/*
 * Whether the stack is that of the last walk, complete and on the thread's own stack; then nothing
 * has to be done.
 */
ALWAYS_INLINE NO_SANITIZE_ADDRESS bool
is_same_whole(void *const *frames, const struct unwind_memo_s *m) {
	return m->is_own
	    && same_until(frames, m->marks, m->known, m->room, UINTPTR_MAX) == m->room;
}

/* Adds the word `want` at an address to the list, which has n words so far; two are one check. */
static void
check_add(struct unwind_check_s *checks, unsigned n, uintptr_t at, uintptr_t want) {
	checks[n / 2].at[n % 2] = at;
	checks[n / 2].words[n % 2] = want;
}

/* Adds the word with the return address of a mark; a signed one is compared as it is. */
static void
check_add_ra(struct unwind_check_s *checks, unsigned n, const struct unwind_mark_s *mark) {
	check_add(checks, n, mark->ra_at & ~RA_AT_SIGNED, mark_load_word(mark));
}

/*
 * Lists the words that same_until() has just compared in a stack that came again. checks_hold()
 * takes two checks, which are four words, at a time: the list is filled up by the last word again.
 */
static void
checks_make(struct unwind_memo_s *m) {
	unsigned n = 0;
	for (unsigned i = m->known + 1; i < m->room; i++) {
		const struct unwind_mark_s *mark = &m->marks[i];
		if (mark->fp_at != 0) {
			check_add(m->checks, n++, mark->fp_at, mark->fp);
		}
		check_add_ra(m->checks, n++, mark);
	}
	for (; n % 4 != 0; n++) {
		check_add_ra(m->checks, n, &m->marks[m->room - 1]);
	}
	m->n_checks = n / 2;
	assert(m->n_checks <= m->room);
}

/* 0 if the two words of a check are as they were. */
ALWAYS_INLINE NO_SANITIZE_ADDRESS unwind_words_t
check_differs(const struct unwind_check_s *c) {
	return (unwind_words_t){load_word(c->at[0]), load_word(c->at[1])} ^ c->words;
}

/*
 * is_same_whole() by the list of words. All lie on the thread's own stack, so they can be read even
 * if one before them has changed.
 */
ALWAYS_INLINE bool
checks_hold(const struct unwind_memo_s *m) {
	unwind_words_t differ = {0, 0};
	for (const struct unwind_check_s *c = m->checks, *end = c + m->n_checks; c < end; c += 2) {
		differ |= check_differs(&c[0]) | check_differs(&c[1]);
	}
	return (differ[0] | differ[1]) == 0;
}

/* Whether a walk of at most max frames begins with the registers with which the last one began. */
ALWAYS_INLINE bool
is_same_start(void *const *frames, unsigned max, const struct unwind_where_s *where,
    const struct unwind_memo_s *m) {
	const struct unwind_mark_s *first = &m->marks[m->known];
	assert(m->known <= m->room);
	return m->known != m->room && m->room - m->known <= max
	    && m->salt == atomic_load_u64(&unwind_rows.salt, MO_ACQUIRE)
	    && first->sp == where->sp && first->fp == where->fp
	    && frames[m->known] == (void *)where->pc;
}

/* Moves n frames and their marks from index `from` to index `to`. */
static void
trail_move(struct trail_s *t, unsigned to, unsigned from, unsigned n) {
	assert(to + n <= t->room && from + n <= t->room);
	memmove(&t->frames[to], &t->frames[from], n * sizeof(t->frames[0]));
	memmove(&t->marks[to], &t->marks[from], n * sizeof(t->marks[0]));
}

/*
 * Called when the walk has met frame `old` of the last one: takes over the frames that both share,
 * so that t->n - 1 is the last of them. Returns false if no more steps are needed: the shared
 * frames reach the outermost one, or fill max; they then stay where they are, from `old` on.
 */
static bool
trail_follow(struct trail_s *t, const struct unwind_memo_s *m, uintptr_t hi) {
	unsigned until = same_until(t->frames, t->marks, t->old, t->room, hi);
	unsigned total = t->n + (until - t->old);
	assert(t->n <= t->old && until <= t->room);
	t->has_all = t->n == 0 && t->old == m->known && until == t->room;
	if (until == t->room && (m->is_whole || total >= t->max)) {
		t->is_joined = true;
		return false;
	}
	if (t->n != t->old) {
		trail_move(t, t->n, t->old, until - t->old);
	}
	t->n = total;
	t->old = until;
	return true;
}

/*
 * Moves all frames to the end of the first `room` elements, for the next walk, and sets the memo;
 * if there are more frames than marks they stay at index 0, and the memo forgets the walk.
 * memo->first is then the index of the innermost frame. Returns the number of frames, at most max.
 */
static unsigned
trail_end(struct trail_s *t, const struct walk_s *w, uintptr_t first_sp, uint64_t salt) {
	struct unwind_memo_s *m = w->memo;
	unsigned before = m->known;
	m->salt = salt;
	m->n_checks = 0;
	if (!t->is_joined && t->n > t->room) {
		unwind_memo_forget(m);
		return t->n;
	}
	unsigned at = (t->is_joined ? t->old : t->room) - t->n;
	if (t->n > 0 && at > 0) {
		trail_move(t, at, 0, t->n);
	}
	m->is_same = t->has_all && at == before;
	m->is_whole = t->is_joined ? m->is_whole : w->is_at_end;
	/* Shared frames lie above the new ones and below hi. */
	m->is_own = m->is_whole && !w->is_moved && first_sp >= m->own_lo && w->hi <= m->own_hi;
	m->known = at;
	m->first = at;
	return (unsigned)min_zu(t->room - at, t->max);
}

/*
 * Ends a walk that found no further step from pc: guessed frames that did not lead back to known
 * code are dropped, and a last frame whose address is 0.
 */
static void
trail_cut(struct trail_s *t, uintptr_t pc) {
	t->n = pc == 0 && t->n_sure > 0 ? t->n_sure - 1 : t->n_sure;
}

/* The walk itself; returns why it ended. */
static NO_SANITIZE_ADDRESS unwind_stop_t
walk(struct walk_s *w, struct trail_s *t, uint64_t salt) {
	uintptr_t pc = w->pc, sp = w->sp, fpr = w->fp, hi = w->hi;
	uintptr_t ra_at = NOT_READ, fp_at = 0;
	for (;;) {
		if (trail_meets(t, pc, sp, fpr)) {
			/* The last walk may have guessed this frame; this walk may have used a row. */
			t->marks[t->old].ra_at = ra_at;
			t->marks[t->old].fp_at = fp_at;
			if (!trail_follow(t, w->memo, hi)) {
				bool is_cut = !w->memo->is_whole || t->n + t->room - t->old > t->max;
				return is_cut ? unwind_stop_full : unwind_stop_end;
			}
			pc = (uintptr_t)t->frames[t->n - 1];
			sp = t->marks[t->n - 1].sp;
			fpr = t->marks[t->n - 1].fp;
		} else if (!trail_try_add(t, pc, (struct unwind_mark_s){sp, fpr, ra_at, fp_at})) {
			return unwind_stop_full;
		}
		row_t row = row_load(row_slot(pc), pc, salt);
		if (likely(step_fast(row, &pc, &sp, &fpr, hi))) {
			ra_at = mark_ra_at(row, sp + RA_OFF_PLAIN(row));
			fp_at = (row & ROW_FP_CFA << 4) != 0 ? sp + (uintptr_t)ROW_FP_OFF(row) : 0;
			continue;
		}
		t->n_sure = w->n_guessed == 0 ? t->n : t->n_sure;
		unsigned stop = step_slow(w, pc, sp, fpr);
		if (stop != 0) {
			trail_cut(t, pc);
			return (unwind_stop_t)(stop - 1);
		}
		pc = w->pc;
		sp = w->sp;
		fpr = w->fp;
		hi = w->hi;
		ra_at = w->ra_at;
		fp_at = w->fp_at;
	}
}

/* A walk without statistics. Returns the number of frames, which begin at frames[memo->first]. */
static unsigned
walk_uncounted(void **frames, unsigned max, const struct unwind_where_s *where,
    struct unwind_memo_s *memo, struct walk_s *w, unwind_stop_t *stop) {
	uint64_t salt = atomic_load_u64(&unwind_rows.salt, MO_ACQUIRE);
	struct trail_s t;
	unwind_walk_begin(w, where, memo);
	trail_begin(&t, w, frames, max, salt);
	*stop = walk(w, &t, salt);
	unwind_walk_end(w, where->sp);
	return trail_end(&t, w, where->sp, salt);
}

/* Debug builds walk a second time without the memo: both must find the same frames. */
static void
walk_check(void *const *frames, unsigned n, const struct unwind_where_s *where) {
	struct unwind_memo_s nothing = {.lo = 0};
	void *plain[64];
	struct walk_s w;
	unwind_stop_t stop;
	unsigned n_plain = walk_uncounted(plain, ARRAY_LEN(plain), where, &nothing, &w, &stop);
	if (stop == unwind_stop_end) {
		assert(n_plain == n && memcmp(plain, frames, n * sizeof(plain[0])) == 0);
	}
	(void)frames;
	(void)n;
	(void)n_plain;
}

/* A walk with statistics of its end, and in debug builds with walk_check(). */
static NOINLINE unsigned
fp_walk(void **frames, unsigned max, const struct unwind_where_s *where,
    struct unwind_memo_s *memo) {
	struct walk_s w;
	unwind_stop_t stop;
	unsigned n = walk_uncounted(frames, max, where, memo, &w, &stop);
	if (config_debug && stop == unwind_stop_end && n < max) {
		walk_check(frames + memo->first, n, where);
	}
	unwind_count_stop(stop);
	if (unlikely(w.is_slow)) {
		unwind_count_fallback();
	}
	return n;
}

/* Whether the stack is that of the last walk, as a whole; if so, makes the list memo->checks. */
static NOINLINE bool
same_try_learn(void *const *frames, struct unwind_memo_s *memo) {
	if (!is_same_whole(frames, memo)) {
		return false;
	}
	if (memo->room - memo->known > 1) {
		checks_make(memo);
	}
	return true;
}

/* Returns the number of frames if they are all those of the last walk, otherwise 0. */
ALWAYS_INLINE unsigned
same_counted(void *const *frames, unsigned max, const struct unwind_where_s *where,
    struct unwind_memo_s *memo) {
	if (unlikely(!is_same_start(frames, max, where, memo))
	    || !(likely(memo->n_checks != 0) ? checks_hold(memo) : same_try_learn(frames, memo))) {
		return 0;
	}
	unsigned n = memo->room - memo->known;
	if (config_debug && n < max) {
		walk_check(frames + memo->first, n, where);
	}
	memo->is_same = true;
	unwind_count_stop(unwind_stop_end);
	return n;
}

static unsigned
fp_capture(void **frames, unsigned max, const struct unwind_where_s *where,
    struct unwind_memo_s *memo) {
	unsigned n = same_counted(frames, max, where, memo);
	return likely(n > 0) ? n : fp_walk(frames, max, where, memo);
}

/* The boot of both methods: 0, or ENOTSUP where rows cannot be read. */
static NOINLINE int
fp_boot(void) {
	if (!HAS_WALK || pages_boot_size() != 0) {
		return ENOTSUP;
	}
	if (!is_booted) {
		/* Set after the look: the child of a fork meanwhile does it anew. */
		is_booted = module_history_try_look();
	}
	/* Fails if not even our own caller is described: there is no table that can be read. */
	unsigned kind = ROW_KIND(unwind_row_find((uintptr_t)__builtin_return_address(0)));
	return kind == ROW_SP || kind == ROW_FP ? 0 : ENOTSUP;
}

const struct unwind_backend_s unwind_fp = {"fp", fp_boot, fp_capture};
const struct unwind_backend_s unwind_auto = {"auto", fp_boot, fp_capture};
