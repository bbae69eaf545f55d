/*
 * The hot slots of extent/pac.h and pac_hot.c: an extent is in one place at a time, none is lost, and none is left unused
 * where the thread that serves the cache does not know of it.
 *
 * Two workers allocate and free extents of one page class and two sizes: pac_hot_take_slot and pac_hot_try_push without
 * a lock, pac_hot_take and pac_hot_leave for the rest.  The server is pac_serve between its sleeps: it flushes the
 * slots, gives the cache's pages back, publishes the limit, looks once more, sleeps.
 *
 * The slots and the limit are sequentially consistent.  The count of the locked cache (`dirty`) is not: what a processor
 * does with it while the cache's lock is held is done in any order with what it does to the limit, as ARM may: who puts
 * an extent there may have looked at the limit before, and the server may look there before its limit is seen.
 *
 * Asserted: who takes an extent finds it where it was left and nobody has it; at the end, the workers done and the server
 * asleep, no extent lies in a slot or in the cache.
 *
 * MUTANT_POP         takes by a load and a store instead of an exchange
 * MUTANT_STATE       is marked hot only when it lies in the slot
 * MUTANT_NO_RECHECK  the server sleeps without the last look
 * MUTANT_NO_TELL     an extent that was in hand for a moment goes back silently
 * MUTANT_NO_LOCK     the last look at the cache is taken without its lock
 * MUTANT_COOL        takes the one that was seen by a look and a store instead of a compare and exchange
 */
#define NE 2          /* extents 1..NE; 0: none */
#define SLOTS 2       /* the slot of the class, and its stack, which holds one here */
#ifndef ROUNDS
#define ROUNDS 1
#endif
#define FAR 255       /* wake_above: nobody sleeps */

byte slot[SLOTS];
bool is_hot[NE + 1];  /* edata.state */
bool dirty[NE + 1];   /* in the locked cache */
bool locked = false;
bool gone[NE + 1];    /* given back */
byte holder[NE + 1] = FAR;
byte wake_above = FAR;
bool woken = false;
byte working = 2;

#define SIZE(e) (e)   /* each another size */
#define NDIRTY (dirty[1] + dirty[2])

/* e has been exchanged out of a slot. */
inline now_mine(e) {
	atomic {
		assert(holder[e] == FAR && is_hot[e] && !dirty[e]);
		holder[e] = _pid
	}
}

/* early: what was seen of the limit before the extent was there; 0: it is looked at afterwards. */
inline file(e) {
	atomic {
		!locked -> locked = true;
		assert(holder[e] == _pid);
		early = 0;
		if
		:: early = (wake_above == FAR -> FAR : 0)
		:: true
		fi
	}
	atomic {
		is_hot[e] = false;
		holder[e] = FAR;
		dirty[e] = true;
		locked = false
	}
}

/* pac_tell, pac_tell_slow: n extents more. */
inline tell(n) {
	atomic {
		limit = (early == FAR -> FAR : wake_above);
		early = 0
	}
	if
	:: limit != FAR ->
		ndirty = NDIRTY;
		if
		:: ndirty + n > limit ->
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

inline tell_back(n) {
#ifdef MUTANT_NO_TELL
	skip
#else
	tell(n)
#endif
}

/* pac_hot_misfit: any slot that is empty. */
inline misfit(e) {
	do
	:: atomic { slot[0] == 0 -> holder[e] = FAR; slot[0] = e; break }
	:: atomic { slot[1] == 0 -> holder[e] = FAR; slot[1] = e; break }
	od;
	tell_back(1)
}

inline pop(size) {
	got = 0;
	seen = slot[0];
	if
	:: seen != 0 && SIZE(seen) == size ->
#ifdef MUTANT_POP
		got = slot[0];
		slot[0] = 0;
#else
		atomic { got = slot[0]; slot[0] = 0 }
#endif
		if
		:: got != 0 ->
			now_mine(got);
			if
			:: SIZE(got) != size -> misfit(got); got = 0
			:: else -> is_hot[got] = false
			fi
		:: else
		fi
	:: else
	fi
}

/* pac_alloc: the slots, the cache, new ones. */
inline take(size) {
	k = 0;
	do
	:: k < SLOTS && got == 0 ->
		atomic { got = slot[k]; slot[k] = 0 }
		if
		:: got != 0 ->
			now_mine(got);
			if
			:: SIZE(got) != size -> file(got); got = 0; tell_back(0)
			:: else -> is_hot[got] = false
			fi
		:: else
		fi;
		k++
	:: else -> break
	od;
	if
	:: got == 0 ->
		if
		:: atomic { !locked && dirty[size] -> dirty[size] = false; assert(holder[size] == FAR); holder[size] = _pid; got = size }
		:: atomic { !locked && gone[size] -> gone[size] = false; assert(holder[size] == FAR); holder[size] = _pid; got = size }
		:: else
		fi
	:: else
	fi
}

inline push(e, is_pushed) {
	is_pushed = false;
	seen = slot[0];
	if
	:: seen == 0 ->
#ifndef MUTANT_STATE
		is_hot[e] = true;
#endif
		if
		:: atomic { slot[0] == 0 -> holder[e] = FAR; slot[0] = e; is_pushed = true }
		:: else -> is_hot[e] = false
		fi;
#ifdef MUTANT_STATE
		is_hot[e] = true;
#endif
		if
		:: is_pushed -> tell(1)
		:: else
		fi
	:: else
	fi
}

/* pac_hot_leave: the slot or the stack if one is empty; else the extent becomes plain dirty. */
inline leave(e) {
	is_hot[e] = true;
	if
	:: atomic { slot[0] == 0 -> holder[e] = FAR; slot[0] = e }
	:: atomic { slot[1] == 0 -> holder[e] = FAR; slot[1] = e }
	:: atomic { slot[0] != 0 && slot[1] != 0 -> file(e) }
	fi;
	tell(1)
}

/* pac_hot_flush: by the server, or in a pass of another thread. */
inline flush() {
	k = 0;
	do
	:: k < SLOTS ->
		atomic { got = slot[k]; slot[k] = 0 }
		if
		:: got != 0 -> now_mine(got); file(got); got = 0
		:: else
		fi;
		k++
	:: else -> break
	od
}

/* pac_hot_try_cool: the one that was seen in the page map, where it lies now. */
inline cool(e) {
	k = 0;
	do
	:: k < SLOTS && got == 0 ->
#ifdef MUTANT_COOL
		if
		:: slot[k] == e -> got = slot[k]; slot[k] = 0
		:: else
		fi;
#else
		atomic {
			if
			:: slot[k] == e -> got = e; slot[k] = 0
			:: else
			fi
		}
#endif
		k++
	:: else -> break
	od;
	if
	:: got != 0 -> now_mine(got); file(got); got = 0; tell_back(0)
	:: else
	fi
}

active [2] proctype worker() {
	byte seen, got, k, limit, ndirty, size, early, rounds = 0;
	bool is_pushed;
	do
	:: rounds < ROUNDS ->
		rounds++;
		got = 0;
		if
		:: size = 1
		:: size = 2
		fi;
		if
		:: pop(size)
		:: flush(); tell_back(0)
		:: cool(size)
		:: true
		fi;
		if
		:: got == 0 -> take(size)
		:: else
		fi;
		if
		:: got != 0 ->
			if
			:: push(got, is_pushed);
				if
				:: !is_pushed -> leave(got)
				:: else
				fi
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
	byte k, got, seen, early;
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
		seen = seen + (slot[0] != 0);
		seen = seen + (slot[1] != 0);
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
	assert(slot[0] == 0 && slot[1] == 0 && NDIRTY == 0)
}

init {
	gone[1] = true;
	gone[2] = true
}
