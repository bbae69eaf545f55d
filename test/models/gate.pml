/*
 * os/gate.c, with what jemalloc_fork.c, meta/region.c (own_try_watch, the copy) and prof_box.c (the move) do around it:
 * an ordinary fork finds nobody else inside; a child that may find a lock of a thread that it does not have is lost; no
 * child writes into the box of its parent; and nobody waits for ever, though a signal handler forks at any instruction.
 *
 * Each inline is the function of the same name, or says which it is. Threads pass the gate and register or unregister
 * inside; they fork, in handlers of fork they pass the gate that they have closed; they make silent children; the
 * tables move into the box and back. A handler interrupts thread 0 anywhere, and another one interrupts that.
 * A child is followed like its parent: where a process forks, the search goes on with either. In a child the other threads
 * stand still for ever, with their marks and locks, and the survivor goes on with what it was about and one thing more
 * (GENS: so many forks deep). A step (atomic) is one access to what others change. Who waits sleeps until what it saw has
 * changed; so one who waits for ever is an invalid end state. Memory is sequentially consistent, as the gate's words are;
 * MUTANT_LATE_MARK is the plain store that gate_mark must not make.
 *
 * Left out: claims (GATE_LEFT_ONE); the number of an owner (mutex_disown() is modelled: a lost child takes the locks of
 * those whom it does not have); the shelter and the deferred frees, in which nobody waits: they have no lock, so a refused
 * thread simply goes on; calls in handlers that interrupt their thread inside (imalloc_is_interrupted() refers them to the
 * shelter); silent children of such handlers, and of those in a fork that has seen nobody (gate.h says so); a lock that
 * gate_enter() may wait for in a child before our handler has run: malloc and free do not (calls_malloc), mallctl may.
 *
 * It would find: two threads that do not see each other (mark, look, count, list), a wait that nobody ends, a lost child
 * that is not found or is opened again, an ordinary child that is lost, a child with the parent's tables or with a copy
 * that was made while they changed, a gate that two close. It would not find what needs another memory order, three
 * handlers deep, or more than three threads.
 *
 * scripts/check-models searches each configuration, and each mutant in the configuration that is named with it. The number
 * of states is that of spin 6.5.2. `handlers` needs a minute and 2.5 GB, the others some seconds and at most 1 GB.
 *
 * CONFIG threads    10683421 states: -DN=3 -DROUNDS=2 -DA0=MALLOC+FORK+OTHER -DA1=MALLOC+REGISTER+FORK -DA2=MALLOC+REGISTER+ENTER+FORK+LATE
 * CONFIG box        4993803 states: -DN=3 -DROUNDS=2 -DA0=MOVE -DA1=MALLOC+ENTER+FORK+OTHER+CLONE -DA2=MALLOC+ENTER+FORK+LATE
 * CONFIG handlers   40865517 states: -DN=2 -DH=2 -DGENS=2 -DA0=MALLOC+REGISTER+ENTER+FORK -DA1=MALLOC+REGISTER+ENTER+FORK+LATE -DAH=MALLOC+FORK
 * CONFIG beside     7076380 states: -DN=3 -DH=1 -DGENS=2 -DA0=MALLOC+ENTER+FORK -DA1=MALLOC+ENTER+FORK+LATE -DA2=MALLOC -DAH=FORK
 * CONFIG boxed      17598122 states: -DN=2 -DH=2 -DGENS=2 -DIS_BOXED -DA0=MALLOC+ENTER+FORK+OTHER+CLONE -DA1=MALLOC+ENTER+FORK+LATE -DAH=MALLOC+FORK+CLONE
 * CONFIG threads_1  463303 states: -DN=3 -DA0=MALLOC+FORK+OTHER -DA1=MALLOC+REGISTER+FORK -DA2=MALLOC+ENTER+LATE
 * CONFIG box_1      379742 states: -DN=3 -DA0=MOVE -DA1=MALLOC+ENTER+FORK+CLONE -DA2=MALLOC+ENTER+FORK+LATE
 * CONFIG handlers_1 2676796 states: -DN=2 -DH=2 -DA0=MALLOC+ENTER+FORK+OTHER -DA1=MALLOC+ENTER+LATE -DAH=FORK
 * CONFIG boxed_1    146700 states: -DN=2 -DH=1 -DIS_BOXED -DA0=MALLOC+FORK+OTHER -DA1=MALLOC+FORK -DAH=MALLOC+FORK+CLONE
 *
 * MUTANT_LATE_MARK     threads_1: marks after the look: a store that the processor delays
 * MUTANT_LATE_CLEAR    threads_1: is_passed is cleared behind the look at the marks
 * MUTANT_EARLY_PASS    threads_1: is_passed is set and read before the mark
 * MUTANT_BLIND         threads_1: the child does not ask whether a thread has entered the closed gate
 * MUTANT_UNCOUNT       threads_1: a thread that registers is counted no more before it is on the list
 * MUTANT_COUNTED       threads_1: the child keeps n_unlisted of its parent
 * MUTANT_UNPARTED      threads_1: the child keeps the others on its list
 * MUTANT_MINE          threads_1: who forks enters though another thread has passed
 * MUTANT_EXIT          handlers_1: the last level is left before the mark is removed
 * MUTANT_NEST          handlers_1: a fork inside a fork that is not alone yet is taken for one that is
 * MUTANT_PATIENT       handlers_1: a handler that has interrupted its thread inside waits like any other
 * MUTANT_TRUSTING      handlers_1: the child of such a handler relies on what the fork outside of it has seen
 * MUTANT_TWO_WORDS     handlers_1: that a fork is not alone yet is said after the gate was closed
 * MUTANT_LOOK_ONCE     handlers_1: whether this process is lost is not asked again with signals blocked
 * MUTANT_REOPEN        handlers: opens by a plain store, also in the child of a handler
 * MUTANT_UNWATCHED     box_1: entering does not look whether this is a silent child
 * MUTANT_WATCH_LATER   box_1: children are looked for when the move is over
 * MUTANT_PASS_STOP     box_1: who waits enters while the tables move
 * MUTANT_MOVE_UNSEEN   box_1: the first part is the file's before there is a box to leave
 * MUTANT_OLD_COPY      boxed_1: what a handler of fork changes inside is not copied again
 * MUTANT_NO_COPY       boxed_1: the copy is not made before the fork
 * MUTANT_CLOSING_CHILD boxed_1: a silent child is taken for the fork's that its handler has interrupted
 * MUTANT_WAIT_SILENT   boxed_1: who waits to close the gate does not look whether it is a silent child
 * MUTANT_STAY          boxed: a silent child that waited to close the gate does not leave the box at once
 * MUTANT_LEAVE_OPEN    boxed_1: handlers run in the child before it has left the box
 */
#ifndef N
#define N 2
#endif
#ifndef H
#define H 0
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef GENS
#define GENS 1
#endif
#ifndef A0
#define A0 0
#endif
#ifndef A1
#define A1 0
#endif
#ifndef A2
#define A2 0
#endif
#ifndef AH
#define AH 0
#endif

/* What a thread may do; the sums are A0, A1, A2, and AH for handlers. */
#define MALLOC 1    /* gate_try_enter() */
#define REGISTER 2  /* registers or unregisters inside */
#define ENTER 4     /* gate_enter() */
#define FORK 8
#define OTHER 16    /* a fork handler of another library calls malloc */
#define CLONE 32    /* makes a silent child */
#define MOVE 64     /* opens the box, or closes it */
#define LATE 128    /* gate_enter() may lose patience */
#define ALL (A0 | A1 | A2 | AH)
#define DOES(t, a) (((t == 0 -> A0 : (t == 1 -> A1 : A2)) & a) != 0)

/* Without handlers, what only the thread itself reads is no step of its own. */
#if H == 0
#define STEP atomic
#else
#define STEP
#endif

/* Values of gate_forker: t, CLOSING(t), or one of these. */
#define CLOSING(t) (t + 8)
#define NOBODY 32
#define STOPS 33
#define LOST 34

#ifdef IS_BOXED
#define BOXED true
#else
#define BOXED false
#endif

byte forker = NOBODY;   /* gate_forker */
byte mtx = NOBODY;      /* gate.mtx */
bool disowned = false;  /* mutex_disown() was called */
byte nesting = 0;       /* gate.nesting */
bool passed = false;    /* gate.is_passed */
byte count = 0;         /* gate.n_unlisted */
bool listed[N];         /* on the list */
bool reg[N], in[N];     /* GATE_REGISTERED, GATE_INSIDE of tls_s.gate */
byte levels[N];         /* tls_s.gate_depth */
bool own = BOXED;       /* gate_own is not NULL */
bool boxed = BOXED;     /* region.box_bytes is not 0 */
bool mapped = BOXED;    /* a part is the file's */
byte copy = 0;          /* region.spare: 0 not the tables, 1 being made, 2 the tables as they are */
bool blocked = false;   /* thread 0 has its signals blocked */
byte handlers = 0;      /* running on thread 0 */

/* Not in the code: what is asserted of. */
bool inside[N];         /* has entered, may hold locks */
bool bad = false;       /* the child has left the box with a copy that is not one of the tables */
byte gens = 0;          /* how many forks deep this process is */
byte survivor = 0;      /* in a child: its thread */
bool done[N];           /* has come to the end of thread() */
bool has_seen = false;   /* the last look of who has closed the gate found nobody */
bool is_begun = false;  /* who is registered has been chosen */

#define IS_CHILD (gens > 0)
/* gate_is_mine(); gate_is_sharing(): the page of region.own reads as zero in a child */
#define IS_MINE(t) (forker == t || forker == CLOSING(t))
#define IS_SHARING (own && IS_CHILD)
#ifdef MUTANT_CLOSING_CHILD
#define IS_OWN_FORK(t) IS_MINE(t)
#else
#define IS_OWN_FORK(t) (forker == t)
#endif
#define IS_LOST(t) (forker == LOST || (IS_SHARING && !IS_OWN_FORK(t)))
#define IS_MARKED(t) (listed[t] && in[t])
#if N == 2
#define IS_ANY_MARKED (IS_MARKED(0) || IS_MARKED(1))
#define IS_ANY_OTHER_INSIDE(t) ((t != 0 && inside[0]) || (t != 1 && inside[1]))
#else
#define IS_ANY_MARKED (IS_MARKED(0) || IS_MARKED(1) || IS_MARKED(2))
#define IS_ANY_OTHER_INSIDE(t) ((t != 0 && inside[0]) || (t != 1 && inside[1]) || (t != 2 && inside[2]))
#endif

/* Signals are taken by thread 0 only. */
#define BLOCK(t) blocked = (t == 0 -> true : blocked)
#define UNBLOCK(t) blocked = (t == 0 -> false : blocked)
#define IS_HERE(t) (!IS_CHILD || survivor == t)

inline mutex_lock(t) {
	atomic { mtx == NOBODY || (disowned && mtx != survivor) -> mtx = t }
}

/* gate_is_mine_alone() */
#ifdef MUTANT_MINE
#define IS_MINE_ALONE(t) IS_MINE(t)
#else
#define IS_MINE_ALONE(t) (forker == t && !passed)
#endif

inline gate_mark(t) {
	atomic {
		if
		:: reg[t] -> in[t] = true
		:: else -> count++
		fi
	}
}

inline gate_unmark(t) {
#ifdef MUTANT_EXIT
	levels[t] = 0;
#endif
	STEP {
		atomic {
			if
			:: reg[t] -> in[t] = false
			:: else -> assert(count > 0); count--
			fi
		}
		levels[t] = 0
	}
}

inline gate_lose() {
	passed = true;
	forker = LOST;
	disowned = true
}

/* Makes the copy of the tables, which takes time: what is written meanwhile is in it or not. */
inline region_prefork() {
#if ALL & MOVE || defined(IS_BOXED)
	if
	:: atomic { boxed -> copy = (copy == 2 -> 2 : 1) }
		atomic { copy = (copy == 1 -> 2 : copy) }
	:: !boxed
	fi
#else
	skip
#endif
}

/* Puts private memory with the copy in place of the parts, and stops looking for children. */
inline region_postfork_child() {
#if ALL & MOVE || defined(IS_BOXED)
	if
	:: boxed ->
		atomic { bad = bad || copy != 2; mapped = false }
		boxed = false
	:: !boxed
	fi;
	own = false
#else
	skip
#endif
}

inline gate_try_leave_parent(t) {
#if ALL & MOVE || defined(IS_BOXED)
	if
	:: !IS_SHARING
	:: atomic { IS_SHARING -> BLOCK(t) }
		if
		:: !IS_OWN_FORK(t) -> gate_lose(); region_prefork()
		:: else
		fi;
		own = false;
		region_postfork_child();
		UNBLOCK(t)
	fi
#else
	skip
#endif
}

/* gate_try_enter(); is_in: the answer. */
inline gate_enter_first(t) {
#ifdef MUTANT_UNWATCHED
	levels[t] = 1;
#else
	STEP { levels[t] = 1; gate_try_leave_parent(t) };
#endif
#ifdef MUTANT_LATE_MARK
	is_in = (forker == NOBODY || IS_MINE_ALONE(t));
	gate_mark(t);
	inside[t] = is_in;
#else
	gate_mark(t);
	atomic { is_in = (forker == NOBODY || IS_MINE_ALONE(t)); inside[t] = is_in }
#endif
	if
	:: !is_in -> gate_unmark(t)
	:: else
	fi
}

inline gate_exit_last(t) {
#ifndef MUTANT_OLD_COPY
	if
	:: own && IS_MINE(t) -> region_prefork()
	:: else
	fi;
#endif
	d_step { inside[t] = false; is_in = false }
	gate_unmark(t)
}

inline gate_try_pass(t, is_late) {
#ifdef MUTANT_EARLY_PASS
	passed = passed || is_late;
	is_in = passed;
	STEP { levels[t] = 1; gate_mark(t) }
#else
	STEP { levels[t] = 1; gate_mark(t) }
	if
	:: is_late -> passed = true
	:: else
	fi;
	is_in = passed;
#endif
#ifdef MUTANT_PASS_STOP
	inside[t] = is_in;
#else
	atomic { is_in = (is_in && forker != STOPS) || IS_MINE(t); inside[t] = is_in }
#endif
	if
	:: !is_in -> gate_unmark(t)
	:: else
	fi
}

/* Who waits sleeps until the answer may be another one. */
inline gate_enter(t) {
	do
	:: gate_enter_first(t);
		if
		:: is_in -> break
		:: else
		fi;
		gate_try_pass(t, false);
		if
		:: is_in -> break
		:: else
		fi;
		if
		:: forker == NOBODY || IS_MINE(t) || (IS_SHARING && !IS_OWN_FORK(t)) || (passed && forker != STOPS)
		:: DOES(t, LATE) && !was_late ->
			was_late = true;
			gate_try_pass(t, true);
			if
			:: is_in -> break
			:: else
			fi
		fi
	od;
	was_late = false
}

inline gate_register(t) {
#ifdef MUTANT_UNCOUNT
	count--;
#endif
	mutex_lock(t);
	listed[t] = true;
	d_step { reg[t] = true; in[t] = true }
	mtx = NOBODY;
#ifndef MUTANT_UNCOUNT
	d_step { assert(count > 0); count-- }
#endif
}

inline gate_unregister(t) {
	count++;
	mutex_lock(t);
	listed[t] = false;
	d_step { reg[t] = false; in[t] = false }
	mtx = NOBODY
}

/* What the gate is for: nobody else is in the midst of this, and the tables are this process's. */
inline works(t, is_sure) {
	d_step {
		assert(forker != STOPS || !has_seen);
		assert(!IS_CHILD || !mapped);
		assert(!IS_CHILD || forker == LOST || (!is_sure && IS_MINE(t)) || (!bad && !IS_ANY_OTHER_INSIDE(t)));
		if
		:: boxed -> copy = 0
		:: else
		fi
	}
}

inline works_and_exits(t, is_sure) {
	if
	:: DOES(t, REGISTER) && !reg[t] && (is_sure || !IS_MINE(t)) -> gate_register(t)
	:: DOES(t, REGISTER) && reg[t] && (is_sure || !IS_MINE(t)) -> gate_unregister(t)
	:: true
	fi;
	works(t, is_sure);
	gate_exit_last(t)
}

/* malloc() or free() outside of the fast path */
inline calls_malloc(t) {
	gate_enter_first(t);
	if
	:: is_in -> works_and_exits(t, true)
	:: else /* the shelter serves */
	fi
}

/* The second loop of gate_try_close(), with gate_try_see_nobody() and gate_try_look(). Who waits sleeps until a look may find nobody. */
inline sees_nobody(t) {
	do
	:: IS_LOST(t) -> break
	:: !IS_LOST(t) && mtx == NOBODY && count == 0 && !IS_ANY_MARKED ->
#ifdef MUTANT_LOOK_ONCE
		atomic { BLOCK(t); is_busy = (mtx != NOBODY); mtx = (is_busy -> mtx : t); k = 0 }
#else
		atomic { BLOCK(t); is_busy = (IS_LOST(t) || mtx != NOBODY); mtx = (is_busy -> mtx : t); k = 0 }
#endif
		if
		:: !is_busy ->
#ifndef MUTANT_LATE_CLEAR
			passed = false;
#endif
			is_busy = (count != 0);
			do
			:: atomic { k < N && IS_MARKED(k) -> is_busy = true; k++ }
			:: atomic { k < N && !IS_MARKED(k) -> k++ }
			:: atomic { k == N -> k = 0; break }
			od;
			mtx = NOBODY
		:: else
		fi;
		atomic { has_seen = !is_busy; UNBLOCK(t) }
		if
#ifdef MUTANT_LATE_CLEAR
		:: !is_busy -> passed = false; break
#else
		:: !is_busy -> break
#endif
		:: is_busy -> is_busy = false
		fi
	od
}

inline gate_prefork(t) {
	gate_try_leave_parent(t);
	if
	:: IS_MINE(t) -> nesting++
#ifdef MUTANT_PATIENT
	:: !IS_MINE(t) ->
#else
	:: !IS_MINE(t) && levels[t] != 0
	:: !IS_MINE(t) && levels[t] == 0 ->
#endif
		/* gate_try_close() */
		if
#ifdef MUTANT_TWO_WORDS
		:: forker == NOBODY -> forker = t; forker = CLOSING(t); sees_nobody(t)
#else
		:: atomic { forker == NOBODY -> forker = CLOSING(t); has_seen = false } sees_nobody(t)
#endif
#ifdef MUTANT_WAIT_SILENT
		:: forker == LOST
#else
		:: IS_LOST(t)
#endif
		fi;
		is_busy = IS_LOST(t);
		if
#ifdef MUTANT_STAY
		:: is_busy -> is_busy = false
#else
		:: is_busy -> is_busy = false; gate_try_leave_parent(t)
#endif
		:: atomic { !is_busy -> forker = (forker == CLOSING(t) -> t : forker) }
		fi
	fi
}

/* Is the last step of gate_postfork_child() too. */
inline gate_postfork_parent(t) {
	if
	:: IS_MINE(t) && nesting == 0 ->
#ifdef MUTANT_REOPEN
		forker = NOBODY
#else
		atomic { forker = (forker == t -> NOBODY : forker) }
#endif
	:: IS_MINE(t) && nesting > 0 -> nesting--
	:: !IS_MINE(t)
	fi
}

inline jemalloc_postfork_parent(t) {
	if
	:: IS_MINE(t) && nesting == 0 && boxed -> copy = 0
	:: else
	fi;
	gate_postfork_parent(t)
}

/* The links of the others go from the list to the absent ones. */
inline gate_part_from_others(t) {
	assert(mtx == NOBODY);
	mutex_lock(t);
	d_step {
		k = 0;
		do
		:: k < N -> listed[k] = listed[k] && k == t; k++
		:: else -> break
		od;
		k = 0
	}
	mtx = NOBODY
}

#ifdef MUTANT_BLIND
#define IS_PASSED false
#else
#define IS_PASSED passed
#endif
#ifdef MUTANT_NEST
#define IS_WHOLE(t) (IS_MINE(t) && levels[t] == 0 && !IS_PASSED)
#elif defined(MUTANT_TRUSTING)
#define IS_WHOLE(t) (forker == t && !IS_PASSED)
#else
#define IS_WHOLE(t) (forker == t && levels[t] == 0 && !IS_PASSED)
#endif

inline gate_postfork_child(t) {
	if
	:: IS_WHOLE(t) ->
		assert(!bad && !inside[t] && !IS_ANY_OTHER_INSIDE(t));
		forker = CLOSING(t);
#ifndef MUTANT_COUNTED
		count = 0;
#endif
#ifndef MUTANT_UNPARTED
		gate_part_from_others(t);
#endif
#ifdef MUTANT_REOPEN
		forker = t;
#else
		atomic { forker = (forker == CLOSING(t) -> t : forker) }
#endif
		gate_postfork_parent(t)
	:: else -> gate_lose()
	fi
}

inline jemalloc_postfork_child(t) {
#ifdef MUTANT_LEAVE_OPEN
	gate_postfork_child(t);
	region_postfork_child()
#else
	BLOCK(t);
	gate_postfork_child(t);
	region_postfork_child();
	UNBLOCK(t)
#endif
}

/* fork() with jemalloc_prefork(). An ordinary one is whole in the child, unless a thread has entered the closed gate. */
inline forks(t, has_other) {
	is_ordinary = (levels[t] == 0 && forker != CLOSING(t) && !IS_LOST(t));
	gate_prefork(t);
#ifndef MUTANT_NO_COPY
	region_prefork();
#endif
	if
	:: has_other && levels[t] == 0 -> calls_malloc(t)
	:: true
	fi;
	if
	:: jemalloc_postfork_parent(t)
	:: atomic { gens < GENS -> is_ordinary = is_ordinary && !IS_LOST(t) && !passed; survivor = t; gens++; born = gens }
		if
		:: has_other && levels[t] == 0 -> calls_malloc(t)
		:: true
		fi;
		jemalloc_postfork_child(t);
		assert(gens != born || !is_ordinary || !IS_LOST(t))
	fi;
	d_step { is_ordinary = false; born = 0 }
}

/* _Fork(): no handler is called. */
inline clones(t) {
	atomic { levels[t] == 0 && !(IS_MINE(t) && has_seen) && (own || mapped) && gens < GENS -> survivor = t; gens++ }
}

/* gate_try_stop(), with gate_try_close(), which may lose patience; is_in: the answer. */
inline gate_try_stop(t) {
	if
	:: atomic { forker == NOBODY -> forker = STOPS; has_seen = false } sees_nobody(t); is_in = true
	:: forker != NOBODY
	fi
}

/* prof_box_open() */
inline opens_box(t) {
#ifndef MUTANT_WATCH_LATER
	own = true;     /* region_ahead_box(): own_try_watch() */
#endif
	gate_try_stop(t);
	if
	:: is_in ->
		assert(!IS_ANY_OTHER_INSIDE(t));
#ifdef MUTANT_MOVE_UNSEEN
		mapped = true;  /* region_to_box() */
		boxed = true;
#else
		boxed = true;   /* region_to_box() */
		mapped = true;
#endif
		forker = NOBODY /* gate_let_go() */
	:: else
	fi;
#ifdef MUTANT_WATCH_LATER
	own = true;
#endif
	is_in = false;
	if
	:: !boxed -> own = false /* region_ahead_end() */
	:: else
	fi
}

/* prof_box_close() */
inline shuts_box(t) {
	gate_try_stop(t);
	if
	:: is_in ->
		mapped = false; /* region_to_private() */
		boxed = false;
		forker = NOBODY
	:: else
	fi;
	is_in = false;
	if
	:: !boxed -> own = false; copy = 0
	:: else
	fi
}

inline may_be_registered(t) {
	if
	:: DOES(t, REGISTER)
	:: true -> listed[t] = true; reg[t] = true
	fi
}

/* A handler stops the thread that it interrupts; in a child there is one thread. */
active [N] proctype thread() provided (IS_HERE(_pid) && (_pid != 0 || handlers == 0)) {
	byte k, born, rounds = 0;
	bool is_in, is_busy, is_ordinary, was_late;
	if
	:: atomic {
		_pid == 0 -> may_be_registered(0); may_be_registered(1);
#if N > 2
		may_be_registered(2);
#endif
		is_begun = true
	}
	:: _pid != 0 && is_begun
	fi;
	do
	:: rounds < ROUNDS + gens ->
		rounds++;
		if
#if ALL & MALLOC
		:: DOES(_pid, MALLOC) -> calls_malloc(_pid)
#endif
#if ALL & ENTER
		:: DOES(_pid, ENTER) -> gate_enter(_pid); works_and_exits(_pid, false)
#endif
#if ALL & FORK
		:: DOES(_pid, FORK) -> forks(_pid, DOES(_pid, OTHER))
#endif
#if ALL & CLONE
		:: DOES(_pid, CLONE) -> if :: clones(_pid) :: true fi
#endif
#if ALL & MOVE
		:: DOES(_pid, MOVE) && !IS_CHILD ->
			if
			:: boxed -> shuts_box(_pid)
			:: else -> opens_box(_pid)
			fi
		:: DOES(_pid, MOVE) && IS_CHILD
#endif
		fi
	:: else -> break
	od;
	done[_pid] = true
}

#if H > 0
/* The second interrupts the first. */
active [H] proctype handler() provided (IS_HERE(0) && (handlers < 2 || _pid == N + 1)) {
	byte k, born;
	bool is_in, is_busy, is_ordinary;
end:	atomic { is_begun && !blocked && handlers == _pid - N -> handlers++ }
	if
#if AH & FORK
	:: forks(0, false)
#endif
#if AH & MALLOC
	:: levels[0] == 0 -> calls_malloc(0)
#endif
#if AH & CLONE
	:: clones(0);
		if
		:: calls_malloc(0)
		:: true
		fi
#endif
	:: true
	fi;
	handlers--
}
#endif

/* A child whose thread has come to the end is no deadlock. */
active proctype rest() {
end:	do
	:: IS_CHILD && done[survivor] && (survivor != 0 || handlers == 0)
	od
}
