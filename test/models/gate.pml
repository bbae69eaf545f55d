/*
 * os/gate.c: an ordinary fork finds nobody else inside, and nobody waits for ever, though a signal handler forks at
 * any instruction of a thread.
 *
 * Three threads, each registered from the first or not, pass the gate and register or unregister inside; the first
 * two may fork instead, and may pass the gate that they have closed.  A handler interrupts thread 0 anywhere and
 * forks, and another one interrupts that.  One step (atomic) is one access to what others change, with what concerns
 * only the thread itself (and handlers, which leave that as they find it).  Memory is sequentially consistent, as the
 * gate's marks and gate_forker are; that a thread's mark is written before it looks at gate_forker is what the
 * exchange in gate_mark is for, and MUTANT_LATE_MARK is a plain store instead.
 *
 * The last thread, when it was refused, may enter the closed gate nevertheless: late (patience is left out: it may be
 * at any time), or because another one has.  That all three may is left out, because the search would take hours.
 *
 * Asserted where the fork is, unless the child is lost: no other thread is inside, the list's lock is free, and this
 * thread is not counted where the child begins to count anew.  The child is lost only if a handler interrupted its
 * thread inside, or a fork that was not alone yet, or if a thread has entered the closed gate.  Who waits for ever is an
 * invalid end state: waiting is modelled as sleeping until what was seen has changed.  Left out: gate_try_stop().
 *
 * A thread that comes to the closed gate goes to the shelter, and one inside may free what lies there.  Nobody waits
 * in it; so there is a step for it only in the mutant that has a lock there.
 *
 * MUTANT_LATE_MARK   marks after the look: a store that the processor delays
 * MUTANT_EXIT        the last level is left before the mark is removed
 * MUTANT_NEST        a fork inside a fork that is not alone yet is taken for one that is
 * MUTANT_PATIENT     a handler that has interrupted its thread inside waits like any other
 * MUTANT_TRUSTING    the child of such a handler relies on what the fork outside of it has seen
 * MUTANT_TWO_WORDS   that the forking thread is alone is kept apart from gate_forker, and cleared when it has closed
 * MUTANT_BLIND       the child does not ask whether a thread has entered the closed gate
 * MUTANT_LATE_CLEAR  is_passed is cleared behind the look at the marks
 * MUTANT_EARLY_PASS  is_passed is set and read before the mark
 * MUTANT_SHELTER     the shelter has a lock, taken inside the gate and outside of it
 */
#define N 3
#ifndef ROUNDS
#define ROUNDS 1
#endif
#define NOBODY N

byte forker = NOBODY;   /* gate_forker */
bool alone = false;     /* its lowest bit is 0 */
byte mtx = NOBODY;      /* gate.mtx */
byte nesting = 0;       /* gate.nesting */
bool passed = false;    /* gate.is_passed */
byte count = 0;         /* gate.n_unlisted */
#ifdef MUTANT_SHELTER
byte shelter = NOBODY;  /* its lock */
#endif
bool listed[N];         /* on the list */
bool reg[N], in[N];     /* the two bits of the word `gate` of each thread */
bool counted[N];        /* has its part in count */
byte levels[N];         /* gate_depth */
bool inside[N];         /* what the gate is about: has entered, may hold locks */
byte handlers = 0;      /* running on thread 0 */
bool is_begun = false;  /* who is registered has been chosen */

#define MARKED(t) (listed[t] && in[t])

#ifdef MUTANT_BLIND
#define WAS_PASSED false
#else
#define WAS_PASSED passed
#endif

#ifdef MUTANT_NEST
#define IS_ALONE true
#else
#define IS_ALONE alone
#endif

inline count_in(t) {
	d_step { count++; counted[t] = true }
}

inline count_out(t) {
	d_step { count--; counted[t] = false }
}

inline mark(t) {
	atomic {
		if
		:: reg[t] -> in[t] = true
		:: else -> count_in(t)
		fi
	}
}

inline unmark(t) {
	atomic {
		if
		:: reg[t] -> in[t] = false
		:: else -> count_out(t)
		fi
	}
}

inline uses_shelter(t) {
#ifdef MUTANT_SHELTER
	atomic { shelter == NOBODY -> shelter = t };
	shelter = NOBODY
#else
	skip
#endif
}

/* gate_try_enter; is_in: the answer. */
inline enter(t) {
	levels[t] = 1;
#ifdef MUTANT_LATE_MARK
	is_in = (forker == NOBODY || forker == t);
	mark(t);
	inside[t] = is_in;
#else
	mark(t);
	atomic { is_in = (forker == NOBODY || forker == t); inside[t] = is_in }
#endif
	if
	:: !is_in -> unmark(t); levels[t] = 0
	:: else
	fi
}

/* gate_try_pass */
inline pass(t) {
	levels[t] = 1;
#ifndef MUTANT_EARLY_PASS
	mark(t);
#endif
	if
	:: passed = true
	:: true
	fi;
#ifdef MUTANT_EARLY_PASS
	is_in = passed;
	mark(t);
	inside[t] = is_in;
#else
	atomic { is_in = passed; inside[t] = is_in }
#endif
	if
	:: !is_in -> unmark(t); levels[t] = 0
	:: else
	fi
}

inline leave(t) {
	d_step { inside[t] = false; is_in = false }
#ifdef MUTANT_EXIT
	levels[t] = 0;
	unmark(t)
#else
	unmark(t);
	levels[t] = 0
#endif
}

inline registers(t) {
	atomic { mtx == NOBODY -> mtx = t }
	listed[t] = true;
	d_step { reg[t] = true; in[t] = true }
	mtx = NOBODY;
	count_out(t)
}

inline unregisters(t) {
	count_in(t);
	atomic { mtx == NOBODY -> mtx = t }
	listed[t] = false;
	d_step { reg[t] = false; in[t] = false }
	mtx = NOBODY
}

inline passes(t) {
	enter(t);
	if
	:: !is_in && t == N - 1 -> pass(t)
	:: true
	fi;
	if
	:: is_in ->
		if
		:: !reg[t] -> registers(t)
		:: reg[t] -> unregisters(t)
		:: true
		fi;
		uses_shelter(t);
		leave(t)
	:: else -> uses_shelter(t)
	fi
}

/* gate_try_see_nobody, again and again. */
inline wait_alone(t) {
	do
	/* Who waits sleeps until a look may find nobody. */
	:: mtx == NOBODY && count == 0 && !MARKED(0) && !MARKED(1) && !MARKED(2) ->
		atomic { is_busy = (mtx != NOBODY); mtx = (is_busy -> mtx : t); k = 0 }
		if
		:: !is_busy ->
#ifndef MUTANT_LATE_CLEAR
			passed = false;
#endif
			is_busy = (count != 0);
			do
			:: atomic { k < N && MARKED(k) -> is_busy = true; k++ }
			:: atomic { k < N && !MARKED(k) -> k++ }
			:: atomic { k == N -> break }
			od;
			mtx = NOBODY
		:: else
		fi;
		if
#ifdef MUTANT_LATE_CLEAR
		:: !is_busy -> passed = false; alone = true; break
#else
		:: !is_busy -> alone = true; break
#endif
		:: is_busy -> is_busy = false
		fi
	od
}

inline forks(t, may_pass) {
	d_step {
		/* What an ordinary fork is promised holds for this one. */
		is_ordinary = (levels[t] == 0 && (forker != t || alone));
		has_closed = true
	}
	if
	:: atomic { forker == t -> nesting++ }
#ifdef MUTANT_PATIENT
	:: atomic { forker == NOBODY -> forker = t;
#else
	:: atomic { forker != t && levels[t] != 0 -> has_closed = false }
	:: atomic { forker == NOBODY && levels[t] == 0 -> forker = t;
#endif
#ifndef MUTANT_TWO_WORDS
		alone = false
#endif
	}
#ifdef MUTANT_TWO_WORDS
		alone = false;
#endif
		wait_alone(t)
	fi;
	if
	:: may_pass && has_closed -> passes(t)
	:: true
	fi;
	/* The fork itself, and what the child makes of what it has. */
	atomic {
#ifdef MUTANT_TRUSTING
		is_whole = has_closed && alone && !WAS_PASSED;
#else
		is_whole = has_closed && IS_ALONE && !WAS_PASSED && levels[t] == 0;
#endif
		assert(is_whole || !is_ordinary || passed);
		assert(!is_whole || forker == t);
		assert(!is_whole || (mtx == NOBODY && !counted[t]));
		assert(!is_whole || ((t == 0 || !inside[0]) && (t == 1 || !inside[1]) && (t == 2 || !inside[2])));
		is_whole = false
	}
	/* gate_postfork_parent */
	atomic {
		if
		:: !has_closed
		:: has_closed && nesting > 0 -> nesting--
#ifdef MUTANT_TWO_WORDS
		:: has_closed && nesting == 0 -> forker = NOBODY
#else
		:: has_closed && nesting == 0 -> forker = NOBODY; alone = false
#endif
		fi;
		k = 0; is_ordinary = false; has_closed = false
	}
}

inline may_be_registered(t) {
	if
	:: true
	:: true -> listed[t] = true; reg[t] = true
	fi
}

/* A handler stops the thread that it interrupts. */
active [N] proctype thread() provided (_pid != 0 || handlers == 0) {
	byte k, rounds = 0;
	bool is_in, is_busy, is_ordinary, has_closed, is_whole;
	if
	:: atomic { _pid == 0 -> may_be_registered(0); may_be_registered(1); may_be_registered(2); is_begun = true }
	:: _pid != 0 && is_begun
	fi;
	do
	:: rounds < ROUNDS ->
		rounds++;
		passes(_pid)
	:: _pid < 2 && rounds < ROUNDS -> rounds = ROUNDS; forks(_pid, true)
	:: else -> break
	od
}

/* The second interrupts the first. */
active [2] proctype handler() provided (handlers < 2 || _pid == N + 1) {
	byte k;
	bool is_in, is_busy, is_ordinary, has_closed, is_whole;
end:	atomic { is_begun && handlers == _pid - N -> handlers++ }
	forks(0, false);
	handlers--
}
