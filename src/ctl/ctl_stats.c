/*
 * The directories stats.* and approximate_stats. All leaves read the shared snapshot, but for
 * approximate_stats.active and stats.zero_reallocs (live values) and stats.mutexes.reset.
 * The leaves come from the field lists that also make the structs (arena_stats.h, ctl_snapshot.h);
 * most functions here only find the struct that a MIB is about. ctl.c calls all of them through the
 * tree of nodes: the base functions and stats.mutexes.reset with snapshot_mutex held, the has
 * functions and the leaves that are read live without it. ctl_prof.c and ctl_arena.c call
 * ctl_has_bin() and ctl_has_lextent() too, ctl_arena.c also ctl_means_all().
 */
#include "arena/arenas.h"
#include "ctl/ctl_rooms.h"
#include "ctl/ctl_snapshot.h"
#include "imalloc.h"
#include "os/gate.h"

static_assert(sizeof(snapshot_arena_t) <= UINT16_MAX, "fields and CTL_ARG() have 16-bit offsets");
static_assert(sizeof(snapshot_global_t) <= UINT16_MAX, "fields have 16-bit offsets");

/* ------------------------------------------------------------------ where the structs are */

bool
ctl_means_all(size_t i) {
	return i == CTL_ARENAS_ALL || i == arenas_narenas_total();
}

/* The struct of the arena or arenas that mib[2] names; NULL: there is none, or no memory for it. */
static const snapshot_arena_t *
arena_of(const size_t *mib) {
	mutex_assert_owner(&snapshot_mutex);
	if (mib[2] == CTL_ARENAS_DESTROYED) {
		return snapshot_destroyed_locked();
	}
	if (!ctl_means_all(mib[2])) {
		return snapshot_arena_locked((unsigned)mib[2]);
	}
	const snapshot_t *s = snapshot_get_locked();
	return s == NULL ? NULL : s->merged;
}

static const void *
base_global(const ctl_node_t *dir, const size_t *mib UNUSED) {
	const snapshot_t *s = snapshot_get_locked();
	return ctl_node_part(dir, s == NULL ? NULL : &s->global, 0);
}

static const void *
base_arena(const ctl_node_t *dir, const size_t *mib) {
	return ctl_node_part(dir, arena_of(mib), 0);
}

/*
 * Elements of arrays, of index mib[4], or mib[5] below hpa_shard. ctl.c has asked the has function
 * of the directory above whether there is such an index.
 */
static const void *
base_arena_item(const ctl_node_t *dir, const size_t *mib) {
	assert(dir->size > 0);
	return ctl_node_part(dir, arena_of(mib), mib[4]);
}

static const void *
base_hpa_item(const ctl_node_t *dir, const size_t *mib) {
	assert(dir->size > 0);
	return ctl_node_part(dir, arena_of(mib), mib[5]);
}

/* ------------------------------------------------------------------ indices */

static bool
has_arena(size_t i) {
	return ctl_means_all(i) || (i == CTL_ARENAS_DESTROYED && snapshot_has_destroyed())
	    || (i < ARENA_LIMIT && arenas_get((unsigned)i) != NULL);
}

bool
ctl_has_bin(size_t i) {
	return i < SC_NBINS;
}

bool
ctl_has_lextent(size_t i) {
	return i < SC_NSIZES - SC_NBINS;
}

static bool
has_extent(size_t i) {
	return i < SC_NPSIZES;
}

static bool
has_hpa_nonfull(size_t i) {
	return i < HPA_NONFULL_KINDS;
}

static bool
has_hpa_alloc(size_t i) {
	return i < HPA_ALLOC_KINDS;
}

/* ------------------------------------------------------------------ field lists */

#define ST CTL_IF_STATS

/* Rows of the field lists: n is the name, t the C type, `says` the text for the manual. */
#define MUTEX_FIELD(n, member, t, says) CTL_FIELD(#n, mutex_prof_data_t, member, t, ST, says),
#define GLOBAL_FIELD(n, t, says) CTL_FIELD(#n, snapshot_global_t, n, t, ST, says),
#define BACKGROUND_FIELD(n, t, says) CTL_FIELD(#n, background_thread_stats_t, n, t, ST, says),
#define THP_FIELD(n, t, says) CTL_FIELD(#n, thp_stats_t, n, t, ST, NODE_EXPERIMENTAL says),
#define GROUP_FIELD(n, t, says) CTL_FIELD(#n, class_stats_t, n, t, ST, says),
#define BIN_FIELD(n, t, says) CTL_FIELD(#n, bin_stats_t, n, t, ST, says),
#define LEXTENT_FIELD(n, t, says) CTL_FIELD(#n, large_stats_t, n, t, ST, says),
#define EXTENT_FIELD(n, t, says) CTL_FIELD(#n, ecache_stats_t, n, t, ST, says),
#define ARENA_FIELD(n, t, says) CTL_FIELD(#n, snapshot_arena_t, stats.n, t, ST, says),
#define DIRTY_FIELD(n, t, says) \
	CTL_FIELD("dirty_" #n, snapshot_arena_t, stats.dirty.n, t, ST, "of dirty pages, " says),
#define HPA_SEC_FIELD(n, t, says) CTL_FIELD("hpa_" #n, snapshot_arena_t, stats.hpa.n, t, ST, says),
#define MUZZY_FIELD(n, t, says) \
	CTL_FIELD("muzzy_" #n, snapshot_arena_t, stats.muzzy.n, t, ST, "of muzzy pages, " says),

static const ctl_field_t mutex_fields[] = {MUTEX_STATS_FIELDS(MUTEX_FIELD)};
static const ctl_field_t global_fields[] = {SNAPSHOT_GLOBAL_FIELDS(GLOBAL_FIELD)};
static const ctl_field_t background_fields[] = {BACKGROUND_STATS_FIELDS(BACKGROUND_FIELD)};
static const ctl_field_t thp_fields[] = {THP_STATS_FIELDS(THP_FIELD)
	CTL_FIELD("state", thp_stats_t, state, string, ST, NODE_EXPERIMENTAL
	    "on, or why no huge pieces are made: off by an option, by the system or for the process, "
	    "or paused")};
static const ctl_field_t group_fields[] = {CLASS_STATS_FIELDS(GROUP_FIELD)};
static const ctl_field_t bin_fields[] = {BIN_STATS_FIELDS(BIN_FIELD)};
static const ctl_field_t lextent_fields[] = {LARGE_STATS_FIELDS(LEXTENT_FIELD)};
static const ctl_field_t extent_fields[] = {ECACHE_STATS_FIELDS(EXTENT_FIELD)};

static const ctl_field_t arena_fields[] = {
	CTL_FIELD("uptime", snapshot_arena_t, stats.uptime_ns, uint64_t, 0,
	    "nanoseconds since the arena was made"),
	CTL_FIELD("dss", snapshot_arena_t, dss, string, 0,
	    "disabled, primary or secondary: whether the arena's memory comes from sbrk never, first, "
	    "or where mmap has none"),
	CTL_FIELD("dirty_decay_ms", snapshot_arena_t, dirty_decay_ms, ssize_t, 0,
	    "decay time of dirty pages"),
	CTL_FIELD("muzzy_decay_ms", snapshot_arena_t, muzzy_decay_ms, ssize_t, 0,
	    "decay time of muzzy pages"),
	ARENA_STATS_SUM_FIELDS(ARENA_FIELD)
	DECAY_STATS_FIELDS(DIRTY_FIELD)
	DECAY_STATS_FIELDS(MUZZY_FIELD)
	CTL_FIELD("hpa_sec_bytes", snapshot_arena_t, stats.hpa.sec_bytes, size_t, ST,
	    "bytes in the small extent cache"),
	HPA_SEC_FIELDS(HPA_SEC_FIELD)
};

#define HPA_FIELD(n, t, says) CTL_FIELD(#n, hpa_stats_t, n, t, ST, says),
#define HPA_SLABS_FIELD(n, t, says) CTL_FIELD(#n, hpa_slabs_stats_t, n, t, ST, says),
static const ctl_field_t hpa_shard_fields[] = {
	HPA_SHARD_FIELDS(HPA_FIELD)
	HPA_COUNTER_FIELDS(HPA_FIELD)
};
static const ctl_field_t hpa_slabs_fields[] = {HPA_SLABS_FIELDS(HPA_SLABS_FIELD)};
#define HPA_ALLOC_NODE_FIELD(n, says) CTL_FIELD(#n, hpa_alloc_stats_t, n, uint64_t, ST, says),
static const ctl_field_t hpa_alloc_fields[] = {HPA_ALLOC_FIELDS(HPA_ALLOC_NODE_FIELD)};

/* ------------------------------------------------------------------ leaves outside the lists */

static int
act_mutexes_reset(const ctl_call_t *call UNUSED, const ctl_value_t *in UNUSED) {
	snapshot_mutexes_reset_locked();
	return 0;
}

/* Adds up the counters of pages in use without a snapshot, so the sum is of no single moment. */
static int
get_approximate_active(const ctl_call_t *call UNUSED, ctl_value_t *out) {
	size_t npages = 0;
	unsigned narenas = arenas_narenas_total();
	for (unsigned i = 0; i < narenas; i++) {
		const arena_t *arena = arenas_get(i);
		/* nactive contains the pages of the arena's hidden arena, where samples lie, too. */
		npages += arena == NULL ? 0 : atomic_load_zu(&arena->pac.nactive, MO_RELAXED);
	}
	out->z = npages << LG_PAGE;
	return 0;
}

/* ------------------------------------------------------------------ directories */

/*
 * For ctl_node_part(). AT: the flags of a directory about a struct in snapshot_arena_t, with its
 * offset. ITEM: size and flags of a directory about an element of an array in snapshot_arena_t.
 * ITEM_NODE: such a directory; f is its field list, b its base function.
 */
#define AT(member) CTL_ARG(offsetof(snapshot_arena_t, stats.member))
#define ITEM(member) \
	.size = sizeof(((snapshot_arena_t *)NULL)->stats.member[0]), .flags = AT(member)
#define ITEM_NODE(f, b, member) \
	{.name = "", .kind = CTL_DIR, .fields = (f), .nfields = ARRAY_LEN(f), .base = (b), ITEM(member)}

static const ctl_node_t bin_nodes[] = {
	{.name = "mutex", .kind = CTL_DIR, .fields = mutex_fields, .nfields = ARRAY_LEN(mutex_fields),
	    .base = base_arena_item, ITEM(bin_mutexes), MANUAL(text, "locks of the class's slabs")},
};
static const ctl_node_t bin_proto[] = {
	{.name = "", .kind = CTL_DIR, .children = bin_nodes, .nchildren = ARRAY_LEN(bin_nodes),
	    .fields = bin_fields, .nfields = ARRAY_LEN(bin_fields), .base = base_arena_item,
	    ITEM(bins)},
};
static const ctl_node_t lextent_proto[] = {
	ITEM_NODE(lextent_fields, base_arena_item, lextents),
};
static const ctl_node_t extent_proto[] = {ITEM_NODE(extent_fields, base_arena_item, extents)};

#define ARENA_MUTEX_NODE(name, expr, says) \
	CTL_NODE_SAME_FIELDS(#name, mutex_fields, base_arena, \
	    AT(mutexes[arena_mutex_##name]), says),
static const ctl_node_t arena_mutex_nodes[] = {
	ARENA_MUTEXES(ARENA_MUTEX_NODE)
};

static const ctl_node_t hpa_nonfull_proto[] = {
	ITEM_NODE(hpa_slabs_fields, base_hpa_item, hpa.nonfull_slabs),
};
static const ctl_node_t hpa_alloc_proto[] = {
	ITEM_NODE(hpa_alloc_fields, base_hpa_item, hpa.alloc),
};
static const ctl_node_t hpa_shard_nodes[] = {
	CTL_NODE_SAME_FIELDS("slabs", hpa_slabs_fields, base_arena, AT(hpa.slabs), "all slabs"),
	CTL_NODE_SAME_FIELDS("full_slabs", hpa_slabs_fields, base_arena, AT(hpa.full_slabs),
	    "slabs in full use"),
	CTL_NODE_SAME_FIELDS("empty_slabs", hpa_slabs_fields, base_arena, AT(hpa.empty_slabs),
	    "slabs without use"),
	CTL_NODE_NUMBERED("nonfull_slabs", hpa_nonfull_proto, has_hpa_nonfull),
	CTL_NODE_NUMBERED("alloc", hpa_alloc_proto, has_hpa_alloc),
};

static const ctl_node_t arena_nodes[] = {
	CTL_NODE_SAME_FIELDS("small", group_fields, base_arena, AT(small), "objects of small classes"),
	CTL_NODE_SAME_FIELDS("large", group_fields, base_arena, AT(large), "objects of large classes"),
	CTL_NODE_NUMBERED("bins", bin_proto, ctl_has_bin),
	CTL_NODE_NUMBERED("lextents", lextent_proto, ctl_has_lextent),
	CTL_NODE_NUMBERED("extents", extent_proto, has_extent),
	CTL_NODE_DIR("mutexes", arena_mutex_nodes),
	CTL_NODE_BOTH("hpa_shard", hpa_shard_nodes, hpa_shard_fields, base_arena, AT(hpa)),
};
static const ctl_node_t arena_proto[] = {
	CTL_NODE_BOTH("", arena_nodes, arena_fields, base_arena, 0),
};

#define GLOBAL_MUTEX_NODE(name, says) \
	CTL_NODE_SAME_FIELDS(#name, mutex_fields, base_global, \
	    CTL_ARG(offsetof(snapshot_global_t, mutexes[snapshot_mutex_##name])), says),
static const ctl_node_t global_mutex_nodes[] = {
	SNAPSHOT_MUTEXES(GLOBAL_MUTEX_NODE)
	CTL_NODE_ACT("reset", act_mutexes_reset, ST | CTL_LOCKED | CTL_ANY_ARGS,
	    "sets the counters of all locks to zero; arguments are passed over"),
};
static const ctl_node_t stats_nodes[] = {
	CTL_NODE_FIELDS("background_thread", background_fields, base_global,
	    CTL_ARG(offsetof(snapshot_global_t, background))),
	CTL_NODE_FIELDS("thp", thp_fields, base_global, CTL_ARG(offsetof(snapshot_global_t, thp))),
	CTL_NODE_DIR("mutexes", global_mutex_nodes),
	CTL_NODE_NUMBERED("arenas", arena_proto, has_arena),
	CTL_VALUE_R("zero_reallocs", size_t, imalloc_zero_reallocs, ST,
	    "how often realloc(p, 0) was called with a p that was not NULL; read live"),
};

const ctl_node_t ctl_dir_stats =
    CTL_NODE_BOTH("stats", stats_nodes, global_fields, base_global, 0);

static const ctl_node_t approximate_nodes[] = {
	CTL_NODE_R("active", CTL_SIZE, get_approximate_active, 0,
	    "bytes of pages in use, added up now without taking a snapshot; not to be compared with "
	    "stats.*"),
};

const ctl_node_t ctl_dir_approximate = CTL_NODE_DIR("approximate_stats", approximate_nodes);
