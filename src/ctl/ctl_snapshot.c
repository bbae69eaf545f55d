/*
 * Collects statistics: arena by arena into a struct for each, adding them up on the way. Memory
 * comes from meta_alloc() and is kept for the next snapshot. The counters of all destroyed arenas
 * are added up in one struct. Invariant: merged is the sum of the arenas that were there when the
 * snapshot was last taken. snapshot_mutex protects everything here but has_destroyed, which is
 * atomic; ctl.c holds it also for leaves flagged CTL_LOCKED, such as the names of arenas. Called by
 * the leaves of epoch and stats.* (ctl_tree.c, ctl_stats.c), by stats.c, and by ctl_arena.c for
 * destroyed arenas.
 */
#include "ctl/ctl_snapshot.h"

#include "arena/arenas.h"
#include "arena/inspect.h"
#include "meta/freepool.h"
#include "prof/prof.h"

mutex_t snapshot_mutex = MUTEX_INITIALIZER("ctl", WITNESS_RANK_CTL);

static struct {
	snapshot_t shared;
	uint64_t epoch; /* calls of snapshot_refresh_locked() that succeeded, plus 1 */
	bool is_taken;  /* `shared` was collected at least once */
	/* Sums of destroyed arenas; NULL if there were none, or no memory for them. */
	snapshot_arena_t *destroyed;
	/* Read without the lock, to see whether the index of the destroyed arenas is valid. */
	atomic_b_t has_destroyed;
} snapshots = {.epoch = 1};

/* SNAPSHOT_GLOBAL_FIELDS has all members in front of `background`, so none is forgotten. */
#define COUNT_SIZE(name, type, says) +sizeof(type)
cassert(offsetof(snapshot_global_t, background) == 0 SNAPSHOT_GLOBAL_FIELDS(COUNT_SIZE));
#undef COUNT_SIZE

/* ------------------------------------------------------------------ adding up */

#define ADD(name, type, says) to->name += from->name;
#define IS_COUNTER(name, type, says) && sizeof(type) == sizeof(uint64_t)
cassert(true DECAY_STATS_FIELDS(IS_COUNTER) CLASS_STATS_FIELDS(IS_COUNTER)
    BIN_STATS_FIELDS(IS_COUNTER) LARGE_STATS_FIELDS(IS_COUNTER) ECACHE_STATS_FIELDS(IS_COUNTER)
    HPA_SLABS_FIELDS(IS_COUNTER));
#undef IS_COUNTER

/* Adds up a struct of 64-bit counters and nothing else, or an array of such structs. */
static void
add_words(void *to, const void *from, size_t bytes) {
	for (size_t i = 0; i < bytes / sizeof(uint64_t); i++) {
		((uint64_t *)to)[i] += ((const uint64_t *)from)[i];
	}
}

#define ADD_COUNTERS(member) add_words(&to->member, &from->member, sizeof(to->member))

static void
add_hpa(hpa_stats_t *to, const hpa_stats_t *from) {
	HPA_SHARD_FIELDS(ADD)
	to->sec_bytes += from->sec_bytes;
	ADD_COUNTERS(slabs);
	ADD_COUNTERS(full_slabs);
	ADD_COUNTERS(empty_slabs);
	ADD_COUNTERS(nonfull_slabs);
}

static void
add_hpa_counters(hpa_stats_t *to, const hpa_stats_t *from) {
	HPA_COUNTER_FIELDS(ADD)
	HPA_SEC_FIELDS(ADD)
	for (unsigned i = 0; i < HPA_ALLOC_KINDS; i++) {
		hpa_alloc_stats_add(&to->alloc[i], &from->alloc[i], i);
	}
}

/*
 * Adds the members that are kept of a destroyed arena. Left out are those of ARENA_STATS_SUM_FIELDS
 * and those that add_hpa() adds: they tell what an arena has now. Some members that are added tell
 * that too (curregs, curslabs, the counts of extents), but are 0 in a destroyed arena. Of uptime_ns
 * the maximum is kept.
 */
static void
add_counters(arena_stats_t *to, const arena_stats_t *from) {
	to->uptime_ns = to->uptime_ns > from->uptime_ns ? to->uptime_ns : from->uptime_ns;
	ADD_COUNTERS(dirty);
	ADD_COUNTERS(muzzy);
	ADD_COUNTERS(small);
	ADD_COUNTERS(large);
	ADD_COUNTERS(bins);
	ADD_COUNTERS(lextents);
	ADD_COUNTERS(extents);
	for (unsigned i = 0; i < BIN_MAX; i++) {
		mutex_prof_merge(&to->bin_mutexes[i], &from->bin_mutexes[i]);
	}
	add_hpa_counters(&to->hpa, &from->hpa);
	for (unsigned i = 0; i < arena_mutex_count; i++) {
		mutex_prof_merge(&to->mutexes[i], &from->mutexes[i]);
	}
}

static void
add_arena(arena_stats_t *to, const arena_stats_t *from) {
	ARENA_STATS_SUM_FIELDS(ADD)
	add_hpa(&to->hpa, &from->hpa);
	add_counters(to, from);
}

/* ------------------------------------------------------------------ gathering */

/* Fills in *to from the arena and its hidden one (arena_stats_merge), as they are now. */
static void
take_arena(snapshot_arena_t *to, arena_t *arena) {
	mutex_assert_owner(&snapshot_mutex);
	memset(to, 0, sizeof(*to));
	arena_stats_merge(arena, &to->stats);
	to->dirty_decay_ms = arena_decay_ms_get(arena, true);
	to->muzzy_decay_ms = arena_decay_ms_get(arena, false);
	to->dss = dss_prec_names[ehooks_dss_get(&arena->pac.src.ehooks)];
	memcpy(to->name, arena->name, sizeof(to->name));
	to->name[sizeof(to->name) - 1] = '\0';
}

/*
 * Zeroed memory for a snapshot. If the system refuses it, as in a process that has reached its
 * limit, some of what arenas do not use is returned to it first. NULL: no memory all the same.
 */
static void *
snapshot_alloc(size_t size) {
	void *p = meta_alloc(size);
	if (p == NULL && arenas_try_relieve(size + HUGEPAGE)) {
		p = meta_alloc(size);
		arenas_relieve_end(p != NULL);
	}
	return p;
}

/* The struct of an arena, allocated if it is missing; NULL: no memory. */
static snapshot_arena_t *
room_for_arena(snapshot_arena_t **slot) {
	if (*slot == NULL) {
		*slot = snapshot_alloc(sizeof(**slot));
	}
	return *slot;
}

static void
forget_arena(snapshot_arena_t **slot) {
	meta_free(*slot, sizeof(**slot));
	*slot = NULL;
}

/*
 * Copies the counters of the locks that belong to no arena. Those of prof_stats stay 0: what it
 * would protect is atomic.
 */
static void
take_mutexes(mutex_prof_data_t *to, const background_thread_stats_t *bg) {
	memset(to, 0, snapshot_mutex_count * sizeof(*to));
	mutex_prof_read(&to[snapshot_mutex_ctl], &snapshot_mutex);
	to[snapshot_mutex_background_thread] = bg->mutex;
	to[snapshot_mutex_max_per_bg_thd] = bg->max_per_thread;
	if (config_prof) {
		prof_mutexes_t prof;
		prof_mutex_stats_read(&prof);
		cassert(snapshot_mutex_prof_recent_dump + 1 - snapshot_mutex_prof
		    == sizeof(prof) / sizeof(*to));
		memcpy(&to[snapshot_mutex_prof], &prof, sizeof(prof));
	}
}

static void
take_global(snapshot_global_t *to, const arena_stats_t *all) {
	mutex_assert_owner(&snapshot_mutex);
	memset(to, 0, sizeof(*to));
	to->allocated = all->small.allocated + all->large.allocated;
	to->active = all->pactive << LG_PAGE;
	to->metadata = all->base + all->internal;
	to->metadata_edata = all->metadata_edata;
	to->metadata_rtree = all->metadata_rtree;
	to->metadata_thp = all->metadata_thp;
	to->resident = all->resident;
	to->mapped = all->mapped;
	to->retained = all->retained;
	background_thread_stats_read(&to->background);
	thp_stats_read(&to->thp);
	to->thp.state = piece_state();
	take_mutexes(to->mutexes, &to->background);
}

/* Makes s->arenas large enough and s->merged exist; 0 or EAGAIN. */
static int
make_room(snapshot_t *s, unsigned narenas) {
	mutex_assert_owner(&snapshot_mutex);
	assert(narenas <= ARENA_LIMIT && s->narenas <= s->capacity);
	if (room_for_arena(&s->merged) == NULL) {
		return EAGAIN;
	}
	if (narenas <= s->capacity) {
		return 0;
	}
	unsigned capacity = narenas + 16;
	snapshot_arena_t **arenas = snapshot_alloc(capacity * sizeof(*arenas));
	if (arenas == NULL) {
		return EAGAIN;
	}
	if (s->capacity > 0) {
		memcpy(arenas, s->arenas, s->capacity * sizeof(*arenas));
		meta_free(s->arenas, s->capacity * sizeof(*arenas));
	}
	s->arenas = arenas;
	s->capacity = capacity;
	return 0;
}

/* Adds the arenas that the shared snapshot does not have yet; 0, or EAGAIN: not all. */
static int
take_new_arenas(unsigned narenas) {
	snapshot_t *s = &snapshots.shared;
	mutex_assert_owner(&snapshot_mutex);
	assert(narenas <= s->capacity);
	for (unsigned i = 0; i < narenas; i++) {
		arena_t *arena = arenas_get(i);
		if (arena == NULL || s->arenas[i] != NULL) {
			continue;
		}
		if (room_for_arena(&s->arenas[i]) == NULL) {
			return EAGAIN;
		}
		take_arena(s->arenas[i], arena);
	}
	return 0;
}

/*
 * Collects all arenas that the shared snapshot has, also new ones once more, and adds them up in
 * `merged`. One that another thread has set up since take_new_arenas() is left to the next one.
 */
static void
take_arenas(void) {
	snapshot_t *s = &snapshots.shared;
	mutex_assert_owner(&snapshot_mutex);
	assert(s->merged != NULL && s->narenas <= s->capacity);
	for (unsigned i = 0; i < s->narenas; i++) {
		arena_t *arena = arenas_get(i);
		if (arena == NULL) {
			forget_arena(&s->arenas[i]);
		} else if (s->arenas[i] != NULL) {
			take_arena(s->arenas[i], arena);
			add_arena(&s->merged->stats, &s->arenas[i]->stats);
		}
	}
}

/* What a sum over arenas has in place of the settings of one. */
static void
set_no_settings(snapshot_arena_t *sum) {
	sum->dss = "N/A";
	sum->dirty_decay_ms = -1;
	sum->muzzy_decay_ms = -1;
}

/*
 * Collects everything into the shared snapshot. 0, or EAGAIN: what it had is unchanged, but some
 * arenas that are new may have been added.
 */
static int
collect_locked(void) {
	snapshot_t *s = &snapshots.shared;
	mutex_assert_owner(&snapshot_mutex);
	unsigned narenas = arenas_narenas_total();
	int err = make_room(s, narenas);
	if (err == 0) {
		err = take_new_arenas(narenas);
	}
	if (err != 0) {
		return err;
	}
	memset(s->merged, 0, sizeof(*s->merged));
	set_no_settings(s->merged);
	assert(narenas >= s->narenas); /* arenas never become fewer */
	s->narenas = narenas;
	take_arenas();
	take_global(&s->global, &s->merged->stats);
	snapshots.is_taken = true;
	return 0;
}

/* Copies one arena, or none; 0 or EAGAIN. */
static int
copy_arena(snapshot_arena_t **to, const snapshot_arena_t *from) {
	if (from == NULL) {
		forget_arena(to);
		return 0;
	}
	if (room_for_arena(to) == NULL) {
		return EAGAIN;
	}
	**to = *from;
	return 0;
}

/* Copies the shared snapshot. 0, or EAGAIN: then s has new parts and old ones. */
static int
snapshot_copy_locked(snapshot_t *s) {
	mutex_assert_owner(&snapshot_mutex);
	const snapshot_t *from = &snapshots.shared;
	int err = make_room(s, from->narenas);
	for (unsigned i = 0; err == 0 && i < from->narenas; i++) {
		err = copy_arena(&s->arenas[i], from->arenas[i]);
	}
	if (err != 0) {
		return err;
	}
	s->narenas = from->narenas;
	s->global = from->global;
	*s->merged = *from->merged;
	/*
	 * That there is no memory for the destroyed arenas is no error: s then has none (NULL), and a
	 * report is of use without them.
	 */
	(void)copy_arena(&s->destroyed, snapshots.destroyed);
	return 0;
}

int
snapshot_take(snapshot_t *s) {
	assert(s != &snapshots.shared);
	mutex_lock(&snapshot_mutex);
	int err = snapshot_refresh_locked();
	if (err == 0) {
		err = snapshot_copy_locked(s);
	}
	mutex_unlock(&snapshot_mutex);
	return err;
}

void
snapshot_free(snapshot_t *s) {
	assert(s != &snapshots.shared && (s->capacity == 0) == (s->arenas == NULL));
	for (unsigned i = 0; i < s->capacity; i++) {
		meta_free(s->arenas[i], sizeof(*s->arenas[i]));
	}
	if (s->capacity > 0) {
		meta_free(s->arenas, s->capacity * sizeof(*s->arenas));
	}
	meta_free(s->merged, sizeof(*s->merged));
	meta_free(s->destroyed, sizeof(*s->destroyed));
	memset(s, 0, sizeof(*s));
}

/* ------------------------------------------------------------------ the shared one */

int
snapshot_refresh_locked(void) {
	mutex_assert_owner(&snapshot_mutex);
	int err = collect_locked();
	snapshots.epoch += err == 0;
	return err;
}

const snapshot_t *
snapshot_get_locked(void) {
	mutex_assert_owner(&snapshot_mutex);
	return snapshots.is_taken || collect_locked() == 0 ? &snapshots.shared : NULL;
}

uint64_t
snapshot_epoch_locked(void) {
	mutex_assert_owner(&snapshot_mutex);
	return snapshots.epoch;
}

const snapshot_arena_t *
snapshot_arena_locked(unsigned ind) {
	mutex_assert_owner(&snapshot_mutex);
	snapshot_t *s = &snapshots.shared;
	assert(ind < ARENA_LIMIT);
	if (snapshot_get_locked() == NULL) {
		return NULL;
	}
	if (ind < s->narenas && s->arenas[ind] != NULL) {
		return s->arenas[ind];
	}
	arena_t *arena = arenas_get(ind);
	if (arena == NULL || make_room(s, ind + 1) != 0) {
		return NULL;
	}
	snapshot_arena_t *to = room_for_arena(&s->arenas[ind]);
	if (to != NULL) {
		take_arena(to, arena);
		s->narenas = s->narenas > ind ? s->narenas : ind + 1;
	}
	return to;
}

/* arena_mutexes_reset() includes the hidden arena. */
void
snapshot_mutexes_reset_locked(void) {
	mutex_assert_owner(&snapshot_mutex);
	unsigned narenas = arenas_narenas_total();
	for (unsigned i = 0; i < narenas; i++) {
		arena_t *arena = arenas_get(i);
		if (arena != NULL) {
			arena_mutexes_reset(arena);
		}
	}
	if (config_prof) {
		prof_mutex_stats_reset();
	}
	background_thread_stats_reset();
	mutex_prof_reset(&snapshot_mutex);
}

/* ------------------------------------------------------------------ destroyed arenas */

bool
snapshot_has_destroyed(void) {
	return atomic_load_b(&snapshots.has_destroyed, MO_RELAXED);
}

const snapshot_arena_t *
snapshot_destroyed_locked(void) {
	mutex_assert_owner(&snapshot_mutex);
	return snapshots.destroyed;
}

/*
 * Adds an arena's counters to those of the destroyed arenas; scratch receives its statistics. All
 * objects of the arena were freed and its pages given back before (arenas_destroy), so nothing of
 * it counts as in use or unused. The table of arenas has it and its hidden one no more, so
 * take_arena() does not find the hidden one, which is added by a call of its own.
 */
static void
add_destroyed_locked(arena_t *arena, snapshot_arena_t *scratch) {
	mutex_assert_owner(&snapshot_mutex);
	take_arena(scratch, arena);
	add_counters(&snapshots.destroyed->stats, &scratch->stats);
}

void
snapshot_add_destroyed(arena_t *arena, arena_t *hidden) {
	assert(arena->ind < ARENA_LIMIT);
	snapshot_arena_t *scratch = NULL;
	mutex_lock(&snapshot_mutex);
	atomic_store_b(&snapshots.has_destroyed, true, MO_RELAXED);
	if (snapshots.destroyed == NULL && room_for_arena(&snapshots.destroyed) != NULL) {
		set_no_settings(snapshots.destroyed);
	}
	if (snapshots.destroyed != NULL && room_for_arena(&scratch) != NULL) {
		add_destroyed_locked(arena, scratch);
		if (hidden != NULL) {
			add_destroyed_locked(hidden, scratch);
		}
		forget_arena(&scratch);
	}
	if (arena->ind < snapshots.shared.capacity) { /* also one that a failed refresh has left */
		forget_arena(&snapshots.shared.arenas[arena->ind]);
	}
	mutex_unlock(&snapshot_mutex);
}
