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
 * The last thread, when it was refused, may enter the closed gate nevertheless (patience is left out: it may at any
 * time).  That all three may is left out, because the search would take hours.
 *
 * Asserted where the fork is, unless the child is lost: no other thread is inside, the list's lock is free, and this
 * thread is not counted where the child begins to count anew.  The child is lost only if a handler interrupted its
 * thread inside, or with the list's lock, or if a thread has entered the closed gate.  Who waits for ever is an
 * invalid end state: waiting is modelled as sleeping until what was seen has changed.  Left out: that a process with one thread need not look.
 *
 * A thread that comes to the closed gate goes to the shelter, and one inside may free what lies there.  Nobody waits
 * in it; so there is a step for it only in the mutant that has a lock there.
 *
 * MUTANT_LATE_MARK   marks after the look: a store that the processor delays
 * MUTANT_EXIT        the last level is left before the mark is removed
 * MUTANT_NEST        a fork inside a fork does not wait
 * MUTANT_PATIENT     a handler that has interrupted its thread inside waits like any other
 * MUTANT_TRUSTING    the child of such a handler relies on what the fork outside of it has seen
 * MUTANT_TWO_WORDS   that the forking thread is alone is kept apart from gate_forker, and cleared when it has closed
 * MUTANT_BLIND       the child does not ask whether a thread has entered the closed gate
 * MUTANT_LATE_CLEAR  is_passed is cleared behind the look at the marks
 * MUTANT_CLEAR       is_passed is cleared though a handler's fork is alone already
 * MUTANT_EARLY_PASS  is_passed is set before the mark
 * MUTANT_SHELTER     the shelter has a lock, taken inside the gate and outside of it
 */
#define N 3
#ifndef ROUNDS
#define ROUNDS 1
#endif
#define NOBODY N

byte forker = NOBODY;   /* gate_forker */
bool alone = false;     /* its lowest bit */
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
#ifdef MUTANT_EARLY_PASS
	passed = true;
	mark(t);
	atomic { is_in = (forker == NOBODY || alone); inside[t] = is_in }
#else
	mark(t);
	is_in = (forker == NOBODY || alone);
	if
	:: is_in -> atomic { passed = true; inside[t] = true }
	:: else
	fi;
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

inline first(t) {
	k = (t == 0 -> 1 : 0)
}

inline next(t) {
	k = (k + 1 == t -> k + 2 : k + 1);
	if
	:: k >= N -> break
	:: else
	fi
}

/* gate_try_see_alone, again and again if the fork may wait. */
inline wait_alone(t) {
	do
	:: alone -> break
	/* Who waits sleeps until a look may find nobody. */
	:: !alone && (!may_wait || (mtx == NOBODY && count == 0 && (t == 0 || !MARKED(0))
	    && (t == 1 || !MARKED(1)) && (t == 2 || !MARKED(2)))) ->
		atomic { is_busy = (mtx != NOBODY); mtx = (is_busy -> mtx : t); first(t) }
		if
		:: !is_busy ->
#ifdef MUTANT_CLEAR
			passed = false;
#endif
#ifndef MUTANT_LATE_CLEAR
			passed = (alone -> passed : false);
#endif
			is_busy = (count != 0);
			do
			:: atomic { MARKED(k) -> is_busy = true; next(t) }
			:: atomic { !MARKED(k) -> next(t) }
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
		:: is_busy && !may_wait -> break
		:: is_busy && may_wait -> is_busy = false
		fi
	od;
	is_busy = false
}

inline forks(t, may_pass) {
	d_step {
#ifdef MUTANT_PATIENT
		may_wait = true;
#else
		may_wait = (levels[t] == 0 && mtx != t);
#endif
		has_closed = true
	}
	if
	:: atomic { forker == t -> nesting++ }
#ifdef MUTANT_NEST
		skip
#else
		wait_alone(t)
#endif
	:: atomic { forker == NOBODY -> forker = t;
#ifndef MUTANT_TWO_WORDS
		alone = false
#endif
	}
#ifdef MUTANT_TWO_WORDS
		alone = false;
#endif
		wait_alone(t)
	:: atomic { forker != NOBODY && forker != t && !may_wait -> has_closed = false }
	fi;
	if
	:: may_pass && has_closed -> passes(t)
	:: true
	fi;
	/* The fork itself, and what the child makes of what it has. */
	atomic {
#ifdef MUTANT_TRUSTING
		is_whole = has_closed && alone;
#else
		is_whole = has_closed && alone && !WAS_PASSED && (levels[t] == 0 || (mtx == NOBODY && count == 0));
#endif
		assert(is_whole || !may_wait || passed);
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
		k = 0; may_wait = false; has_closed = false
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
	bool is_in, is_busy, may_wait, has_closed, is_whole;
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
	bool is_in, is_busy, may_wait, has_closed, is_whole;
end:	atomic { is_begun && handlers == _pid - N -> handlers++ }
	forks(0, false);
	handlers--
}
