/*
 * The stacks of hot extents of extent/pac_hot.c: an extent is in one place at a time, none is lost, and none is left
 * unused where the thread that serves the cache does not know of it.
 *
 * Two workers allocate and free extents, flush the stacks as a pass does, and cool one extent (pac_hot_try_cool).
 * The server is pac_serve between its sleeps: it flushes the stacks, gives the cache's pages back, publishes
 * the limit, looks once more, sleeps.
 *
 * The count of hot pages and the limit are sequentially consistent. The count of the locked cache (`dirty`) is not: what a
 * processor does with it while the cache's lock is held is done in any order with what it does to the limit, as ARM may:
 * who puts an extent there may have looked at the limit before, and the server may look there before its limit is seen.
 *
 * Asserted: who takes an extent finds it where it was left and nobody has it; at the end, the workers done and the server
 * asleep, no extent lies in a stack or in the cache.
 *
 * CONFIG whole 31373668 states
 *
 * MUTANT_COUNT       whole: an extent that became hot is counted after the limit was looked at
 * MUTANT_NO_RECHECK  whole: the server sleeps without the last look
 * MUTANT_NO_TELL     whole: an extent that was in hand for a moment goes back silently
 * MUTANT_NO_LOCK     whole: the last look at the cache is taken without its lock
 * MUTANT_COOL        whole: takes one that was hot without a look under the lock whether it still is
 */
#define NE 2          /* extents 1..NE; 0: none */
#ifndef ROUNDS
#define ROUNDS 2
#endif
#define FAR 255       /* wake_above: nobody sleeps; holder: nobody */

bool is_hot[NE + 1];  /* in the stack; edata.state */
byte nhot = 0;        /* hot_npages */
bool hot_locked = false;
bool dirty[NE + 1];   /* in the locked cache */
bool locked = false;
bool gone[NE + 1];    /* given back */
byte holder[NE + 1] = FAR;
byte wake_above = FAR;
bool woken = false;
byte working = 2;

#define NDIRTY (dirty[1] + dirty[2])

inline hot_lock() {
	atomic { !hot_locked -> hot_locked = true }
}

/* hot_take_at_locked, with the count. */
inline now_mine(e) {
	assert(hot_locked && holder[e] == FAR && is_hot[e] && !dirty[e] && nhot > 0);
	is_hot[e] = false;
	holder[e] = _pid;
	nhot--
}

/* early: what was seen of the limit before the extent was there; 0: it is looked at afterwards. */
inline file(e) {
	atomic {
		!locked -> locked = true;
		assert(holder[e] == _pid && !is_hot[e]);
		early = 0;
		if
		:: early = (wake_above == FAR -> FAR : 0)
		:: true
		fi
	}
	atomic {
		holder[e] = FAR;
		dirty[e] = true;
		locked = false
	}
}

/* pac_note_release, pac_wake_or_purge. */
inline tell() {
	atomic {
		limit = (early == FAR -> FAR : wake_above);
		early = 0
	}
	if
	:: limit != FAR ->
		seen = NDIRTY;
		seen = seen + nhot;
		if
		:: seen > limit ->
			atomic { limit = wake_above; wake_above = FAR }
			if
			:: limit != FAR -> woken = true
			:: else
			fi
		:: else
		fi
	:: else
	fi
}

inline tell_back() {
#ifdef MUTANT_NO_TELL
	skip
#else
	tell()
#endif
}

/* pac_hot_leave and pac_note_release; where the stack is full the extent becomes plain dirty. */
inline leave(e) {
	if
	:: true ->
		hot_lock();
		assert(holder[e] == _pid && !is_hot[e]);
		is_hot[e] = true;
		holder[e] = FAR;
#ifndef MUTANT_COUNT
		nhot++;
#endif
		hot_locked = false;
		tell();
#ifdef MUTANT_COUNT
		nhot++
#endif
	:: true -> file(e); tell()
	fi
}

/* pac_alloc: a hot extent, one of the cache, a new one. */
inline take() {
	got = 0;
	hot_lock();
	if
	:: is_hot[1] -> got = 1; now_mine(got)
	:: is_hot[2] -> got = 2; now_mine(got)
	:: true
	fi;
	hot_locked = false;
	if
	:: got == 0 ->
		if
		:: atomic { !locked && dirty[1] -> dirty[1] = false; assert(holder[1] == FAR); holder[1] = _pid; got = 1 }
		:: atomic { !locked && dirty[2] -> dirty[2] = false; assert(holder[2] == FAR); holder[2] = _pid; got = 2 }
		:: atomic { !locked && gone[1] -> gone[1] = false; assert(holder[1] == FAR); holder[1] = _pid; got = 1 }
		:: atomic { !locked && gone[2] -> gone[2] = false; assert(holder[2] == FAR); holder[2] = _pid; got = 2 }
		:: true
		fi
	:: else
	fi
}

/* pac_hot_flush: by the server, or in a pass of another thread. */
inline flush() {
	do
	:: true ->
		got = 0;
		hot_lock();
		if
		:: is_hot[1] -> got = 1; now_mine(got)
		:: is_hot[2] -> got = 2; now_mine(got)
		:: else
		fi;
		hot_locked = false;
		if
		:: got != 0 -> file(got)
		:: else -> break
		fi
	od
}

/* pac_hot_try_cool: takes one, if under the lock it is still hot. */
inline cool(e) {
	if
	:: is_hot[e] ->
		hot_lock();
#ifdef MUTANT_COOL
		got = e; now_mine(got);
#else
		got = 0;
		if
		:: is_hot[e] -> got = e; now_mine(got)
		:: else
		fi;
#endif
		hot_locked = false;
		if
		:: got != 0 -> file(got); tell_back()
		:: else
		fi
	:: else
	fi
}

active [2] proctype worker() {
	byte seen, got, limit, early, rounds = 0;
	do
	:: rounds < ROUNDS ->
		rounds++;
		if
		:: flush(); tell_back()
		:: cool(1)
		:: true
		fi;
		take();
		if
		:: got != 0 ->
			if
			:: leave(got)
			:: true /* it is kept for good */
			fi
		:: else
		fi
	:: else -> break
	od;
	working--
}

active proctype server() {
	byte got, seen, early;
	do
	:: true ->
		woken = false;
		flush();
		early = 0;
		atomic {
			!locked;
			if
			:: dirty[1] -> dirty[1] = false; gone[1] = true
			:: else
			fi;
			if
			:: dirty[2] -> dirty[2] = false; gone[2] = true
			:: else
			fi
		}
		seen = 0;
#ifdef MUTANT_NO_RECHECK
		wake_above = 0;
#else
#ifndef MUTANT_NO_LOCK
		atomic { !locked -> locked = true }
#endif
		if
		:: wake_above = 0; seen = NDIRTY
		:: seen = NDIRTY; wake_above = 0
		fi;
#ifndef MUTANT_NO_LOCK
		locked = false;
#endif
		seen = seen + nhot;
#endif
		if
		:: seen > 0
		:: else ->
end:			if
			:: woken
			:: atomic { working == 0 && timeout -> break }
			fi
		fi
	od;
	assert(nhot == 0 && NDIRTY == 0)
}

init {
	gone[1] = true;
	gone[2] = true
}
