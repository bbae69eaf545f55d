/*
 * arena.<i>.* (one arena, or all of them) and arenas.* (what holds for all, and making new ones).
 */
#include "arena/arenas.h"
#include "ctl/ctl.h"
#include "ctl/ctl_rooms.h"
#include "meta/emap.h"
#include "os/pages.h"
#include "thread/tcache.h"
#include "util/assert.h"

/* ------------------------------------------------------------------ arena.<i> */

static bool
is_all(size_t i) {
	return i == CTL_ARENAS_ALL || i == arenas_narenas_total();
}

static int
index_arena(const size_t *mib, size_t depth, size_t i) {
	(void)mib;
	(void)depth;
	return i <= arenas_narenas_total() || i == CTL_ARENAS_ALL || i == CTL_ARENAS_DESTROYED ? 0 :
	    ENOENT;
}

/* The arena that mib[1] names, NULL if it names none or one that is not initialised. */
static arena_t *
arena_of(const ctl_call_t *call) {
	size_t i = call->mib[1];
	return i < ARENA_LIMIT ? arenas_get((unsigned)i) : NULL;
}

static int
get_initialized(const ctl_call_t *call, ctl_value_t *out) {
	out->b = is_all(call->mib[1]) || arena_of(call) != NULL;
	return 0;
}

static int
purge(const ctl_call_t *call, bool all_pages) {
	size_t i = call->mib[1];
	assert(i <= arenas_narenas_total() || i >= CTL_ARENAS_ALL);
	if (i == CTL_ARENAS_DESTROYED) {
		return EFAULT;
	}
	unsigned narenas = arenas_narenas_total();
	unsigned from = is_all(i) ? 0 : (unsigned)i;
	unsigned to = is_all(i) ? narenas : from + 1;
	for (unsigned k = from; k < to; k++) {
		arena_t *arena = arenas_get(k);
		if (arena != NULL) {
			arena_decay(arena, all_pages);
		}
		arena_t *hidden = arenas_sampled_get(k);
		if (hidden != NULL) {
			arena_decay(hidden, all_pages);
		}
	}
	return 0;
}

static int
act_decay(const ctl_call_t *call, const void *in) {
	(void)in;
	return purge(call, false);
}

static int
act_purge(const ctl_call_t *call, const void *in) {
	(void)in;
	return purge(call, true);
}

static int
get_decay_ms(const ctl_call_t *call, ctl_value_t *out, bool is_dirty) {
	arena_t *arena = arena_of(call);
	if (arena == NULL) {
		return EFAULT;
	}
	out->sz = arena_decay_ms_get(arena, is_dirty);
	return 0;
}

static int
set_decay_ms(const ctl_call_t *call, const void *in, bool is_dirty) {
	ssize_t ms;
	arena_t *arena = arena_of(call);
	memcpy(&ms, in, sizeof(ms));
	return arena == NULL || arena_decay_ms_set(arena, is_dirty, ms) != 0 ? EFAULT : 0;
}

static int
get_dirty_decay_ms(const ctl_call_t *call, ctl_value_t *out) {
	return get_decay_ms(call, out, true);
}

static int
set_dirty_decay_ms(const ctl_call_t *call, const void *in) {
	return set_decay_ms(call, in, true);
}

static int
get_muzzy_decay_ms(const ctl_call_t *call, ctl_value_t *out) {
	return get_decay_ms(call, out, false);
}

static int
set_muzzy_decay_ms(const ctl_call_t *call, const void *in) {
	return set_decay_ms(call, in, false);
}

/* oldp and newp point to a char *: the reader's is a buffer of ARENA_NAME_LEN, which is filled. */
static int
raw_name(const ctl_call_t *call, ctl_value_t *out) {
	(void)out;
	char *text;
	size_t i = call->mib[1];
	bool reads = call->oldp != NULL && call->oldlenp != NULL;
	if (i >= arenas_narenas_total() || (reads && *call->oldlenp != sizeof(text)) ||
	    (call->newp != NULL && call->newlen != sizeof(text))) {
		return EINVAL;
	}
	arena_t *arena = arena_of(call);
	if (arena == NULL) {
		return EFAULT;
	}
	if (reads) {
		memcpy(&text, call->oldp, sizeof(text));
		if (text == NULL) {
			return EINVAL;
		}
		memcpy(text, arena->name, ARENA_NAME_LEN);
	}
	if (call->newp != NULL) {
		memcpy(&text, call->newp, sizeof(text));
		if (text == NULL) {
			return EINVAL;
		}
		size_t len = strnlen(text, ARENA_NAME_LEN - 1);
		memcpy(arena->name, text, len);
		memset(arena->name + len, 0, ARENA_NAME_LEN - len);
	}
	return 0;
}

static const ctl_node_t arena_nodes[] = {
	CTL_NODE_R("initialized", CTL_BOOL, get_initialized, 0),
	CTL_NODE_ACT("decay", act_decay, 0),
	CTL_NODE_ACT("purge", act_purge, 0),
	CTL_NODE_RW("dirty_decay_ms", CTL_SSIZE, get_dirty_decay_ms, set_dirty_decay_ms, 0),
	CTL_NODE_RW("muzzy_decay_ms", CTL_SSIZE, get_muzzy_decay_ms, set_muzzy_decay_ms, 0),
	CTL_NODE_RAW("name", raw_name, CTL_LOCKED),
};
static const ctl_node_t arena_proto[] = {CTL_NODE_DIR("", arena_nodes)};

const ctl_node_t ctl_dir_arena = CTL_NODE_NUMBERED("arena", arena_proto, index_arena, 0);

/* ------------------------------------------------------------------ arenas: facts */

typedef struct {
	size_t quantum;
	size_t page;
	size_t hugepage;
	size_t tcache_max;
	unsigned nbins;
	unsigned nhbins;
	unsigned nlextents;
	unsigned narenas;
} arena_facts_t;

/* Filled anew at each read, under the lock of the snapshot. */
static const void *
base_facts(const size_t *mib) {
	static arena_facts_t facts;
	(void)mib;
	facts.quantum = (size_t)1 << LG_QUANTUM;
	facts.page = PAGE;
	facts.hugepage = HUGEPAGE;
	facts.tcache_max = tcache_max_default;
	facts.nbins = SC_NBINS;
	facts.nhbins = tcache_nhbins;
	facts.nlextents = SC_NSIZES - SC_NBINS;
	facts.narenas = arenas_narenas_total();
	return &facts;
}

/* The members that are read as such. */
cassert(sizeof(((bin_info_t *)NULL)->reg_size) == sizeof(size_t));
cassert(sizeof(((bin_info_t *)NULL)->slab_size) == sizeof(size_t));
cassert(sizeof(((bin_info_t *)NULL)->nregs) == sizeof(uint32_t));
cassert(sizeof(((bin_info_t *)NULL)->n_shards) == sizeof(uint32_t));
/* The two indices that stand for no single arena, and those of arenas, do not meet. */
cassert(CTL_ARENAS_ALL >= ARENA_LIMIT && CTL_ARENAS_DESTROYED == CTL_ARENAS_ALL + 1);

#define FACT(member, type) CTL_FIELD(#member, arena_facts_t, member, type, 0)

static const ctl_field_t facts_fields[] = {
	FACT(narenas, unsigned),
	FACT(quantum, size_t),
	FACT(page, size_t),
	FACT(hugepage, size_t),
	FACT(tcache_max, size_t),
	FACT(nbins, unsigned),
	FACT(nhbins, unsigned),
	FACT(nlextents, unsigned),
};

static const void *
base_bin(const size_t *mib) {
	assert(mib[2] < SC_NBINS);
	return &bin_infos[mib[2]];
}

static const ctl_field_t bin_fields[] = {
	CTL_FIELD("size", bin_info_t, reg_size, size_t, 0),
	CTL_FIELD("nregs", bin_info_t, nregs, uint32_t, 0),
	CTL_FIELD("slab_size", bin_info_t, slab_size, size_t, 0),
	CTL_FIELD("nshards", bin_info_t, n_shards, uint32_t, 0),
};
static const ctl_node_t bin_proto[] = {CTL_NODE_FIELDS("", bin_fields, base_bin, 0)};

static int
get_lextent_size(const ctl_call_t *call, ctl_value_t *out) {
	assert(call->mib[2] < SC_NSIZES - SC_NBINS);
	out->z = sz_i2s(SC_NBINS + (szind_t)call->mib[2]);
	return 0;
}

static const ctl_node_t lextent_nodes[] = {CTL_NODE_R("size", CTL_SIZE, get_lextent_size, 0)};
static const ctl_node_t lextent_proto[] = {CTL_NODE_DIR("", lextent_nodes)};

/* ------------------------------------------------------------------ arenas: what can be set or made */

static int
get_default_dirty(const ctl_call_t *call, ctl_value_t *out) {
	(void)call;
	out->sz = arenas_decay_ms_default_get(true);
	return 0;
}

static int
get_default_muzzy(const ctl_call_t *call, ctl_value_t *out) {
	(void)call;
	out->sz = arenas_decay_ms_default_get(false);
	return 0;
}

static int
set_default_ms(const void *in, bool is_dirty) {
	ssize_t ms;
	memcpy(&ms, in, sizeof(ms));
	return arenas_decay_ms_default_set(is_dirty, ms) == 0 ? 0 : EFAULT;
}

static int
set_default_dirty(const ctl_call_t *call, const void *in) {
	(void)call;
	return set_default_ms(in, true);
}

static int
set_default_muzzy(const ctl_call_t *call, const void *in) {
	(void)call;
	return set_default_ms(in, false);
}

static bool
has_room_for_unsigned(const ctl_call_t *call) {
	return call->oldp != NULL && call->oldlenp != NULL && *call->oldlenp == sizeof(unsigned);
}

/* Custom extent hooks are not there: asking for them fails as running out of arenas does. */
static int
raw_create(const ctl_call_t *call, ctl_value_t *out) {
	(void)out;
	unsigned ind;
	const void *hooks = NULL;
	if (!has_room_for_unsigned(call) || (call->newp != NULL && call->newlen != sizeof(hooks))) {
		return EINVAL;
	}
	if (call->newp != NULL) {
		memcpy(&hooks, call->newp, sizeof(hooks));
	}
	if (hooks != NULL || arenas_create(&ind) != 0) {
		return EAGAIN;
	}
	return ctl_reply(call, &ind, sizeof(ind));
}

static int
raw_lookup(const ctl_call_t *call, ctl_value_t *out) {
	(void)out;
	const void *ptr;
	if (!has_room_for_unsigned(call) || call->newp == NULL || call->newlen != sizeof(ptr)) {
		return EINVAL;
	}
	memcpy(&ptr, call->newp, sizeof(ptr));
	uint64_t elem = emap_elem_any(ptr);
	if (elem == 0 || elem_state(elem) != extent_state_active) {
		return EINVAL;
	}
	/* A sampled object: the arena where its memory is counted. */
	unsigned ind = arena_ind_visible(elem_edata(elem)->arena_ind);
	return ctl_reply(call, &ind, sizeof(ind));
}

static const ctl_node_t arenas_nodes[] = {
	CTL_NODE_RW("dirty_decay_ms", CTL_SSIZE, get_default_dirty, set_default_dirty, 0),
	CTL_NODE_RW("muzzy_decay_ms", CTL_SSIZE, get_default_muzzy, set_default_muzzy, 0),
	CTL_NODE_NUMBERED("bin", bin_proto, ctl_index_bin, 0),
	CTL_NODE_NUMBERED("lextent", lextent_proto, ctl_index_lextent, 0),
	CTL_NODE_RAW("create", raw_create, 0),
	CTL_NODE_RAW("lookup", raw_lookup, 0),
};

const ctl_node_t ctl_dir_arenas =
    CTL_NODE_BOTH("arenas", arenas_nodes, facts_fields, base_facts, 0);
