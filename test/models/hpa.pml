/*
 * One huge slab of hpa/hpa.c, without kinds of extents: a page that is in use is never purged, and a page that is handed out as zeroed reads as zero.
 *
 * Two workers take pages from the slab and free them again; if there is no slab they fetch one. The server is hpa_tick: it
 * makes the slab out, and returns it if it is empty; otherwise it copies the state, purges the pages that are dirty in the
 * copy while it holds no lock, page by page, and then marks them as clean and makes the slab no longer out. A purge may
 * fail; then nothing is marked. Pages may be freed at any time, but none is taken from a slab that is out.
 *
 * Asserted: a page that is purged or returned is in use by nobody; a page handed out as zeroed has no contents; at the end
 * the slab is not out and nothing is in use.
 *
 * CONFIG whole 1587868 states
 *
 * MUTANT_NOT_OUT     whole: pages are taken also from a slab that is out
 * MUTANT_BEFORE      whole: the state is copied before the slab is made out
 * MUTANT_CLEAN_ALL   whole: what is dirty at the end is marked as clean, not what was dirty in the copy
 * MUTANT_FAILED      whole: after a purge that failed the pages are marked as clean, too
 * MUTANT_EMPTY       whole: whether the slab is empty is looked at before it is made out
 * MUTANT_TWO         whole: the slab is fetched without another look behind the lock of growing
 */
#define NP 2
#ifndef ROUNDS
#define ROUNDS 3
#endif

bool locked = false;      /* mtx */
bool growing = false;     /* grow_mtx */
byte nslabs = 0;          /* 0 or 1 */
bool is_out = false;
bool used[NP];            /* in the slab's bitmaps */
bool touched[NP];
bool has_contents[NP];    /* the memory itself */
byte holder[NP];          /* worker that has the page; 0: none */
byte working = 2;

inline lock() {
	atomic { !locked -> locked = true }
}

#ifdef MUTANT_NOT_OUT
#define MAY_TAKE (nslabs == 1)
#else
#define MAY_TAKE (nslabs == 1 && !is_out)
#endif

/* hpa_take_some: any free page. */
inline take() {
	got = NP;
	lock();
	if
	:: MAY_TAKE && !used[0] -> got = 0
	:: MAY_TAKE && !used[1] -> got = 1
	:: else
	fi;
	if
	:: got < NP ->
		is_zeroed = !touched[got];
		used[got] = true;
		touched[got] = true
	:: else
	fi;
	locked = false
}

/* hpa_grow, where there is no slab; a second one is not in this model. */
inline grow() {
	none = (nslabs == 0);
	atomic { !growing -> growing = true }
#ifndef MUTANT_TWO
	take();
	none = (nslabs == 0);
#endif
	if
	:: got == NP && none ->
		lock();
		assert(nslabs == 0 && !is_out);
		nslabs = 1;
		used[0] = false; used[1] = false;
		touched[0] = false; touched[1] = false;
		has_contents[0] = false; has_contents[1] = false;
		locked = false
	:: else
	fi;
	growing = false
}

proctype worker(byte me) {
	byte got, round = 0;
	bool is_zeroed, none;
	do
	:: round < ROUNDS ->
		take();
		if
		:: got == NP -> grow()
		:: else
		fi;
		if
		:: got < NP ->
			assert(holder[got] == 0);
			assert(!is_zeroed || !has_contents[got]);
			holder[got] = me;
			has_contents[got] = true;
			/* hpa_dalloc */
			holder[got] = 0;
			lock();
			assert(nslabs == 1 && used[got]);
			used[got] = false;
			locked = false
		:: else
		fi;
		got = NP;
		round++
	:: else -> break
	od;
	working--
}

/* Purges one page without a lock, or fails. */
inline purge(p) {
	if
	:: was[p] && !failed ->
		if
		:: true ->
			assert(nslabs == 1 && holder[p] == 0);
			has_contents[p] = false
		:: true -> failed = true
		fi
	:: else
	fi
}

inline copy() {
	was[0] = touched[0] && !used[0];
	was[1] = touched[1] && !used[1]
}

/* hpa_bring_back. */
inline bring_back() {
	lock();
	assert(is_out);
#ifdef MUTANT_CLEAN_ALL
	copy();
#endif
#ifndef MUTANT_FAILED
	if
	:: failed -> was[0] = false; was[1] = false
	:: else
	fi;
#endif
	if
	:: was[0] -> assert(!used[0]); touched[0] = false
	:: else
	fi;
	if
	:: was[1] -> assert(!used[1]); touched[1] = false
	:: else
	fi;
	is_out = false;
	locked = false
}

/* hpa_return. */
inline give_back() {
	assert(!used[0] && !used[1] && holder[0] == 0 && holder[1] == 0);
	lock();
	nslabs = 0;
	is_out = false;
	locked = false
}

proctype server() {
	bool was[NP], failed, is_empty;
	do
	:: working > 0 && nslabs == 1 ->
		failed = false;
#ifdef MUTANT_BEFORE
		lock();
		copy();
		locked = false;
#endif
#ifdef MUTANT_EMPTY
		lock();
		is_empty = !used[0] && !used[1];
		locked = false;
#endif
		lock();
		assert(!is_out);
		is_out = true;
#ifndef MUTANT_EMPTY
		is_empty = !used[0] && !used[1];
#endif
		locked = false;
		if
		:: is_empty -> give_back()
		:: else ->
#ifndef MUTANT_BEFORE
			lock();
			copy();
			locked = false;
#endif
			purge(0);
			purge(1);
			bring_back()
		fi
	:: working == 0 -> break
	od;
	assert(!is_out && !used[0] && !used[1])
}

init {
	atomic {
		run worker(1);
		run worker(2);
		run server()
	}
}
