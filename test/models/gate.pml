/*
 * os/gate.c: a fork finds nobody else inside, and nobody waits for ever, though a signal handler forks at any
 * instruction of a thread.
 *
 * Three threads, each registered from the first or not, pass the gate and register or unregister inside; the first
 * two may fork instead.  A handler interrupts thread 0 anywhere and forks, and another one interrupts that.  One
 * step (atomic) is one access to what others change, with what concerns only the thread itself (and handlers, which
 * leave that as they find it).  Memory is sequentially
 * consistent, as the gate's marks and gate_forker are; that a thread's mark is written before it looks at
 * gate_forker is what the exchange in gate_mark is for, and MUTANT_LATE_MARK is a plain store instead.
 *
 * Asserted where the fork is, unless its patience has ended: no other thread is inside, the list's lock is nobody
 * else's.  Whoever waits for ever is an invalid end state.  Waiting is modelled as sleeping until what was seen has
 * changed, and patience ends where nobody can do anything else: only that of a fork in a handler which has
 * interrupted its thread inside, and only while it waits for the others to leave.  That the gate is closed by
 * another one needs no patience: who has closed it opens it again for the handler (wants).  Left out: the bound
 * on how often it does so (GATE_YIELDS), after which it forks as one whose patience has ended, and who goes first.
 *
 * A thread that comes to the closed gate goes to the shelter, and one inside may free what lies there.  Nobody waits
 * in it; so there is a step for it only in the mutant that has a lock there.
 *
 * MUTANT_LATE_MARK   marks after the look: a store that the processor delays
 * MUTANT_COUNT       unregistered threads share a count instead of a slot each
 * MUTANT_NEST        a fork inside a fork does not wait
 * MUTANT_PATIENT     a handler that has interrupted its thread inside waits like any other
 * MUTANT_SHELTER     the shelter has a lock, taken inside the gate and outside of it
 * MUTANT_NO_YIELD    who has closed the gate does not open it for a fork in a handler inside
 */
#define N 3
#ifndef ROUNDS
#define ROUNDS 1
#endif
#define NOBODY N

byte forker = NOBODY;   /* gate_forker */
byte mtx = NOBODY;      /* gate.mtx */
byte nesting = 0;       /* gate.nesting */
bool wants = false;     /* gate.wants: thread 0, as only handlers set it */
#ifdef MUTANT_SHELTER
byte shelter = NOBODY;  /* its lock */
#endif
bool listed[N];         /* on the list */
bool reg[N], in[N];     /* the two bits of the word `gate` of each thread */
bool slot[N];           /* has its slot */
byte count = 0;         /* of MUTANT_COUNT */
byte levels[N];          /* gate_depth */
bool inside[N];         /* what the gate is about: has entered, may hold locks */
byte handlers = 0;      /* running on thread 0 */
bool is_begun = false;  /* who is registered has been chosen */

inline slot_take(t) {
#ifdef MUTANT_COUNT
	count++
#else
	slot[t] = true
#endif
}

inline slot_leave(t) {
#ifdef MUTANT_COUNT
	count--
#else
	slot[t] = false
#endif
}

inline mark(t) {
	atomic {
		if
		:: reg[t] -> in[t] = true
		:: else -> slot_take(t)
		fi
	}
}

inline unmark(t) {
	atomic {
		if
		:: reg[t] -> in[t] = false
		:: else -> slot_leave(t)
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

inline leave(t) {
	d_step { inside[t] = false; levels[t] = 0; is_in = false }
	unmark(t)
}

inline registers(t) {
	atomic { mtx == NOBODY -> mtx = t }
	listed[t] = true;
	d_step { reg[t] = true; in[t] = true }
	mtx = NOBODY;
	slot_leave(t)
}

inline unregisters(t) {
	slot_take(t);
	atomic { mtx == NOBODY -> mtx = t }
	listed[t] = false;
	d_step { reg[t] = false; in[t] = false }
	mtx = NOBODY
}

/* The others one after the other. */
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

inline look_at_list(t) {
	do
	:: atomic { listed[k] && in[k] -> is_busy = true; break }
	:: atomic { !(listed[k] && in[k]) -> next(t) }
	od
}

inline look_at_slots(t) {
#ifdef MUTANT_COUNT
	if
	:: !is_busy && count > (levels[t] > 0 && !reg[t] -> 1 : 0) -> is_busy = true; k = N
	:: else
	fi
#else
	if
	:: atomic { !is_busy -> first(t) }
		do
		:: atomic { slot[k] -> is_busy = true; k = k + N; break }
		:: atomic { !slot[k] -> next(t) }
		od
	:: else
	fi
#endif
}

inline wait_alone(t) {
	is_interrupted = (mtx == t);
	do
#ifndef MUTANT_NO_YIELD
	:: !is_impatient && nesting == 0 && wants && t != 0 -> is_closer = false; break
#endif
	:: atomic { is_interrupted || mtx == NOBODY -> mtx = t; is_busy = false; first(t) }
		look_at_list(t);
		look_at_slots(t);
		atomic {
			mtx = (is_interrupted -> t : NOBODY);
			if
			:: is_busy
			:: else -> break
			fi
		}
		if
		:: k < N && !(listed[k] && in[k])
#ifdef MUTANT_COUNT
		:: k == N && count <= (levels[t] > 0 && !reg[t] -> 1 : 0)
#else
		:: k >= N && !slot[k - N]
#endif
		:: is_impatient && timeout -> has_given_up = true; break
#ifndef MUTANT_NO_YIELD
		:: !is_impatient && nesting == 0 && wants && t != 0 -> is_closer = false; break
#endif
		fi
	od
}

/* gate_try_close_inside: in a handler. */
inline close_inside(t) {
	do
	:: atomic { !wants -> wants = true }
	:: atomic { forker == NOBODY -> forker = t; break }
	od;
	wants = false
}

/* gate_close_outside, and again where somebody else goes before. */
inline close_outside(t) {
	!wants;
	atomic { forker == NOBODY -> forker = t; is_closer = true }
}

inline forks(t) {
	d_step {
#ifndef MUTANT_PATIENT
		is_impatient = (levels[t] > 0 || mtx == t);
#endif
		has_given_up = false;
		is_closer = true
	}
	if
	:: atomic { forker == t -> nesting++ }
#ifdef MUTANT_NEST
		skip
#else
		wait_alone(t)
#endif
	:: atomic { forker != t && is_impatient -> skip }
		close_inside(t);
		wait_alone(t)
	:: atomic { forker != t && !is_impatient ->
#ifdef MUTANT_COUNT
		skip }
#else
		unmark(t) }
#endif
		do
		:: close_outside(t);
			wait_alone(t);
			if
			:: is_closer -> break
			:: else -> forker = NOBODY
			fi
		od
	fi;
	atomic {
		assert(has_given_up || forker == t);
		assert(has_given_up || mtx == NOBODY || mtx == t);
		assert(has_given_up || ((t == 0 || !inside[0]) && (t == 1 || !inside[1]) && (t == 2 || !inside[2])));
		if
		:: nesting > 0 -> nesting--
		:: else -> forker = NOBODY
		fi;
		k = 0; is_busy = false; is_interrupted = false; is_impatient = false; has_given_up = false; is_closer = false
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
	bool is_in, is_busy, is_interrupted, is_impatient, has_given_up, is_closer;
	if
	:: atomic { _pid == 0 -> may_be_registered(0); may_be_registered(1); may_be_registered(2); is_begun = true }
	:: _pid != 0 && is_begun
	fi;
	do
	:: rounds < ROUNDS ->
		rounds++;
		enter(_pid);
		if
		:: is_in ->
			if
			:: !reg[_pid] -> registers(_pid)
			:: reg[_pid] -> unregisters(_pid)
			:: true
			fi;
			uses_shelter(_pid);
			leave(_pid)
		:: else -> uses_shelter(_pid)
		fi
	:: _pid < 2 && rounds < ROUNDS -> rounds = ROUNDS; forks(_pid)
	:: else -> break
	od
}

/* The second interrupts the first. */
active [2] proctype handler() provided (handlers < 2 || _pid == N + 1) {
	byte k;
	bool is_busy, is_interrupted, is_impatient, has_given_up, is_closer;
end:	atomic { is_begun && handlers == _pid - N -> handlers++ }
	forks(0);
	handlers--
}
