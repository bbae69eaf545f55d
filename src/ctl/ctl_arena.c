/*
 * The directories arena.<i>.* (one arena or all of them) and arenas.* (facts, defaults, creation).
 * Arena indices in mib[1] were checked by has_arena() only for their range. Functions that need the
 * arena answer EFAULT if it is not set up. Exceptions: decay and purge then do nothing and return 0
 * (EFAULT only for the index of the destroyed arenas); extent_hooks of an arena that the library
 * will set up reads as the system's, and a write sets the arena up. ctl.c calls these functions
 * through the tree of nodes, inside the gate (os/gate.h), but has_arena() before it enters the
 * gate. The leaf arena.<i>.name and the fields of arenas.* run under the snapshot's lock, which
 * ctl.c takes; the other leaves run without it, because the functions of arenas and pac take their
 * own locks. ctl_arenas_create_ext() is here too, since it shares the code of arenas.create;
 * ctl_experimental.c has its node.
 */
#include "arena/arenas.h"
#include "ctl/ctl_rooms.h"
#include "ctl/ctl_snapshot.h"
#include "imalloc.h"
#include "meta/emap.h"
#include "os/pages.h"
#include "prof/prof.h"
#include "thread/recall.h"
#include "thread/tcache.h"
#include "thread/tsd.h"
#include "util/fmt.h"

/* ------------------------------------------------------------------ arena.<i> */

static bool
has_arena(size_t i) {
	return i <= arenas_narenas_total() || i == CTL_ARENAS_ALL || i == CTL_ARENAS_DESTROYED;
}

/* The arena that mib[1] names; NULL if it names no single arena or one that is not initialised. */
static arena_t *
arena_of(const ctl_call_t *call) {
	size_t i = call->mib[1];
	return i < ARENA_LIMIT ? arenas_get((unsigned)i) : NULL;
}

static int
get_initialized(const ctl_call_t *call, ctl_value_t *out) {
	out->b = ctl_means_all(call->mib[1]) || arena_of(call) != NULL
	    || (call->mib[1] == CTL_ARENAS_DESTROYED && snapshot_has_destroyed());
	return 0;
}

/*
 * Purges one arena or all of them, with their hidden arenas of samples: everything (CTL_ARG(true)),
 * or what is due.
 */
static int
act_purge(const ctl_call_t *call, const ctl_value_t *in UNUSED) {
	bool all_pages = ctl_arg(call);
	size_t i = call->mib[1];
	assert(i <= arenas_narenas_total() || i >= CTL_ARENAS_ALL);
	if (i == CTL_ARENAS_DESTROYED) {
		return EFAULT;
	}
	/* Asked once: the number of arenas may grow meanwhile, and with it what this index means. */
	bool has_all = ctl_means_all(i);
	unsigned from = has_all ? 0 : (unsigned)i;
	unsigned to = has_all ? arenas_narenas_total() : from + 1;
	for (unsigned k = from; k < to; k++) {
		arena_t *arena = arenas_get(k);
		if (arena != NULL) {
			arenas_decay(arena, all_pages);
		}
		arena_t *hidden = arenas_sampled_get(k);
		if (hidden != NULL) {
			arenas_decay(hidden, all_pages);
		}
	}
	return 0;
}

/* Reports to the profiler that a sampled object is freed with its arena (reset or destroy). */
static void
end_sample(void *ptr, sample_rec_t *rec, size_t usize) {
	assert(usize > 0 && gate_is_entered(tls_get()));
	if (config_prof) {
		prof_sample_free(tsd_fetch_in_gate(tls_get()), ptr, rec, usize);
	}
}

/*
 * Before an arena is reset or destroyed: completes the frees that this thread and all others
 * deferred during a fork, and empties this thread's own cache. Nothing in an extent hook, which has
 * no tsd. Other threads' caches are the user's responsibility.
 */
static void
settle_own_frees(void) {
	assert(gate_is_entered(tls_get()));
	tsd_t *tsd = tsd_fetch_in_gate(tls_get());
	imalloc_settle_deferred(tsd);
	if (tsd != NULL && tsd->tcache != NULL) {
		tcache_flush(tsd, tsd->tcache);
	}
}

static int
act_reset(const ctl_call_t *call, const ctl_value_t *in UNUSED) {
	if (arena_of(call) == NULL) {
		return EFAULT;
	}
	settle_own_frees();
	return arenas_reset((unsigned)call->mib[1], end_sample);
}

static int
act_destroy(const ctl_call_t *call, const ctl_value_t *in UNUSED) {
	if (arena_of(call) == NULL) {
		return EFAULT;
	}
	settle_own_frees();
	return arenas_destroy((unsigned)call->mib[1], end_sample, snapshot_add_destroyed);
}

/* Reads the hooks; of an automatic arena that is not set up yet those of the system. */
static int
get_extent_hooks(const ctl_call_t *call, ctl_value_t *out) {
	ehooks_table_t *table = NULL;
	int err = call->mib[1] >= ARENA_LIMIT ? EFAULT : arenas_hooks((unsigned)call->mib[1], NULL,
	    &table);
	out->p = table;
	return err;
}

static int
set_extent_hooks(const ctl_call_t *call, const ctl_value_t *in) {
	ehooks_table_t *table = (ehooks_table_t *)(uintptr_t)in->p, *old;
	if (table == NULL || table->alloc == NULL) {
		return EINVAL;
	}
	return call->mib[1] >= ARENA_LIMIT ? EFAULT : arenas_hooks((unsigned)call->mib[1], table, &old);
}

/* This limit and the threshold below are not applied to the hidden arena of samples. */
static int
get_retain_grow_limit(const ctl_call_t *call, ctl_value_t *out) {
	arena_t *arena = arena_of(call);
	if (!opt_retain) {
		return ENOENT;
	}
	out->z = arena == NULL ? 0 : extent_grow_limit_get(&arena->pac.src);
	return arena == NULL ? EFAULT : 0;
}

static int
set_retain_grow_limit(const ctl_call_t *call, const ctl_value_t *in) {
	arena_t *arena = arena_of(call);
	if (!opt_retain) {
		return ENOENT;
	}
	return arena == NULL || extent_grow_limit_set(&arena->pac.src, in->z) != 0 ? EFAULT : 0;
}

static int
get_oversize_threshold(const ctl_call_t *call, ctl_value_t *out) {
	arena_t *arena = arena_of(call);
	out->z = arena == NULL ? 0 : atomic_load_zu(&arena->oversize_threshold, MO_RELAXED);
	return arena == NULL ? EFAULT : 0;
}

static int
set_oversize_threshold(const ctl_call_t *call, const ctl_value_t *in) {
	arena_t *arena = arena_of(call);
	if (arena != NULL) {
		arenas_oversize_threshold_set(arena, in->z);
	}
	return arena == NULL ? EFAULT : 0;
}

/* Leaves about decay: CTL_ARG(true) means dirty pages, CTL_ARG(false) muzzy ones. Milliseconds. */
static int
get_decay_ms(const ctl_call_t *call, ctl_value_t *out) {
	arena_t *arena = arena_of(call);
	if (arena == NULL) {
		return EFAULT;
	}
	out->sz = arena_decay_ms_get(arena, ctl_arg(call));
	return 0;
}

/*
 * Makes the own caches of all threads return their grants (slots beyond their limits, tcache.h) and
 * what is in them: that of this thread now, those of others at their next malloc or free. All,
 * because a cache may hold objects of any arena.
 */
static void
return_grants(void) {
	tsd_t *tsd = tsd_fetch_in_gate(tls_get());
	if (tsd != NULL && tsd->tcache != NULL) {
		tcache_return_grants(tsd, tsd->tcache);
	}
	recall_all(RECALL_GRANTS);
}

static int
set_decay_ms(const ctl_call_t *call, const ctl_value_t *in) {
	bool is_dirty = ctl_arg(call);
	arena_t *arena = arena_of(call);
	if (arena == NULL || arena_decay_ms_set(arena, is_dirty, in->sz) != 0) {
		return EFAULT;
	}
	/* One that is being made has perhaps copied the old setting: it is waited for. */
	arena_t *hidden = arenas_sampled_wait((unsigned)call->mib[1]);
	if (hidden != NULL) {
		arena_decay_ms_set(hidden, is_dirty, in->sz); /* cannot fail: it was accepted above */
	}
	if (is_dirty && in->sz == 0) {
		return_grants();
	}
	return 0;
}

/* The precedence of sbrk over mmap, a word of dss_prec_names: of one arena, or of new arenas. */
static int
get_dss(const ctl_call_t *call, ctl_value_t *out) {
	arena_t *arena = arena_of(call);
	if (arena == NULL && !ctl_means_all(call->mib[1])) {
		return EFAULT;
	}
	out->s = dss_prec_names[arena == NULL ? dss_default_get()
	    : ehooks_dss_get(&arena->pac.src.ehooks)];
	return 0;
}

static int
set_dss(const ctl_call_t *call, const ctl_value_t *in) {
	int prec = in->s == NULL ? -1 : fmt_find_word(dss_prec_names, in->s, strlen(in->s));
	if (prec < 0) {
		return EINVAL;
	}
	if (ctl_means_all(call->mib[1])) {
		return dss_default_set((dss_prec_t)prec) == 0 ? 0 : EFAULT;
	}
	arena_t *arena = arena_of(call);
	if (arena == NULL || ehooks_dss_set(&arena->pac.src.ehooks, (dss_prec_t)prec) != 0) {
		return EFAULT;
	}
	/* As in set_decay_ms(). */
	arena_t *hidden = arenas_sampled_wait((unsigned)call->mib[1]);
	if (hidden != NULL) {
		ehooks_dss_set(&hidden->pac.src.ehooks, (dss_prec_t)prec);
	}
	return 0;
}

/*
 * Reads an arena's name, then sets it. oldp and newp each point to a char *: the one at oldp to a
 * buffer of ARENA_NAME_LEN bytes, which is filled; the one at newp to the new name. As reading
 * comes first, the buffer is filled also if the result is EINVAL because of a NULL at newp.
 */
static int
raw_name(const ctl_call_t *call, ctl_value_t *out UNUSED) {
	mutex_assert_owner(&snapshot_mutex);
	char *text;
	size_t i = call->mib[1];
	bool reads = ctl_wants_reply(call);
	if (i >= arenas_narenas_total() || (reads && *call->oldlenp != sizeof(text))
	    || (call->newp != NULL && call->newlen != sizeof(text))) {
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
	CTL_NODE_R("initialized", CTL_BOOL, get_initialized, 0,
	    "whether the arena is set up; i = 4096 stands for all arenas and is always true, "
	    "4097 for those that were destroyed"),
	CTL_NODE_ACT("decay", act_purge, CTL_ARG(false),
	    "gives back at once what is due by the decay times; i = 4096: in all arenas"),
	CTL_NODE_ACT("purge", act_purge, CTL_ARG(true),
	    "gives back all unused dirty and muzzy pages; i = 4096: in all arenas"),
	CTL_NODE_ACT("reset", act_reset, 0,
	    "ends all objects of an arena made by arenas.create, at once; no other thread may use it "
	    "meanwhile, and no cache but this thread's own may hold objects of it (tcache.flush). "
	    "EFAULT: no such arena, an automatic one, or an extent hook of the arena asks for it"),
	CTL_NODE_ACT("destroy", act_destroy, 0,
	    "as reset, and gives back all its pages; its index may be used again by arenas.create. "
	    "EFAULT: as reset, or a thread or a cache of tcache.create is bound to it"),
	CTL_NODE_RW("extent_hooks", CTL_POINTER, get_extent_hooks, set_extent_hooks, 0,
	    "extent_hooks_t *: the functions that pages come from. An arena that is not set up yet is "
	    "made with them. EINVAL: NULL, or without alloc; EFAULT: no such arena"),
	CTL_NODE_RW("retain_grow_limit", CTL_SIZE, get_retain_grow_limit, set_retain_grow_limit, 0,
	    "largest piece of address space that is taken ahead of need, rounded down to a size of "
	    "pages. ENOENT: retain is off; EFAULT: not set up, or less than a page"),
	CTL_NODE_RW("oversize_threshold", CTL_SIZE, get_oversize_threshold, set_oversize_threshold, 0,
	    "a write limits the arena's unused memory to the smaller one of: the peak of what was in "
	    "use minus what is in use; and half of what is in use, but at least four times the value. "
	    "A value that is no large size removes the limit. Initially that of the option, which "
	    "limits only the arena of oversized requests. EFAULT: not set up"),
	CTL_NODE_RW("dirty_decay_ms", CTL_SSIZE, get_decay_ms, set_decay_ms, CTL_ARG(true),
	    "milliseconds until unused dirty pages are given back; 0 at once, -1 never. A write of 0 "
	    "also makes all thread caches return what they hold beyond their limits, that of this "
	    "thread now, others at their next slow call. EFAULT: not set up, or out of range"),
	CTL_NODE_RW("muzzy_decay_ms", CTL_SSIZE, get_decay_ms, set_decay_ms, CTL_ARG(false),
	    "the same for muzzy pages, which were given back lazily"),
	CTL_NODE_RW("dss", CTL_STRING, get_dss, set_dss, CTL_AFTER,
	    "whether new address space comes from sbrk(2): disabled, primary (first) or secondary "
	    "(where mmap has none); the answer is that after the write. i = 4096: for arenas made from "
	    "now on. EINVAL: no such word; EFAULT: not set up, or sbrk is not built in"),
	CTL_NODE_RAW("name", raw_name, CTL_LOCKED, "char *, rw",
	    "the arena's name, at most 31 bytes, more are cut. oldp points to a pointer to a buffer "
	    "of 32 bytes, which is filled. EINVAL: NULL, or i is no single arena; EFAULT: not set up"),
};
static const ctl_node_t arena_proto[] = {CTL_NODE_DIR("", arena_nodes)};

const ctl_node_t ctl_dir_arena = CTL_NODE_NUMBERED("arena", arena_proto, has_arena);

/* ------------------------------------------------------------------ arenas: facts */

/* The members are leaves of arenas.*. The first four are sizes in bytes, the others are counts. */
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

/* Filled in at each read, under the snapshot's lock. */
static const void *
base_facts(const ctl_node_t *dir UNUSED, const size_t *mib UNUSED) {
	mutex_assert_owner(&snapshot_mutex);
	static arena_facts_t facts;
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

/* These members are read with the types that the field list says. */
cassert(sizeof(((bin_info_t *)NULL)->reg_size) == sizeof(size_t));
cassert(sizeof(((bin_info_t *)NULL)->slab_size) == sizeof(size_t));
cassert(sizeof(((bin_info_t *)NULL)->nregs) == sizeof(uint32_t));
cassert(sizeof(((bin_info_t *)NULL)->n_shards) == sizeof(uint32_t));
/* The indices for all and for destroyed arenas are different from those of arenas. */
cassert(CTL_ARENAS_ALL >= ARENA_LIMIT && CTL_ARENAS_DESTROYED == CTL_ARENAS_ALL + 1);

#define FACT(member, type, says) CTL_FIELD(#member, arena_facts_t, member, type, 0, says)

static const ctl_field_t facts_fields[] = {
	FACT(narenas, unsigned,
	    "how many arenas there are, with those made by hand"),
	FACT(quantum, size_t,
	    "sizes are multiples of this, but for the smallest"),
	FACT(page, size_t,
	    "bytes of a page"),
	FACT(hugepage, size_t,
	    "bytes of a huge page"),
	FACT(tcache_max, size_t,
	    "largest size that thread caches hold at first"),
	FACT(nbins, unsigned,
	    "how many small size classes there are"),
	FACT(nhbins, unsigned,
	    "how many size classes thread caches hold at first"),
	FACT(nlextents, unsigned,
	    "how many large size classes there are"),
};

static const void *
base_bin(const ctl_node_t *dir UNUSED, const size_t *mib) {
	assert(mib[2] < SC_NBINS);
	return &bin_infos[mib[2]];
}

static const ctl_field_t bin_fields[] = {
	CTL_FIELD("size", bin_info_t, reg_size, size_t, 0,
	    "bytes of an object of small size class i"),
	CTL_FIELD("nregs", bin_info_t, nregs, uint32_t, 0,
	    "objects in a slab of it"),
	CTL_FIELD("slab_size", bin_info_t, slab_size, size_t, 0,
	    "bytes of a slab of it"),
	CTL_FIELD("nshards", bin_info_t, n_shards, uint32_t, 0,
	    "locks and sets of slabs that each arena has for it"),
};
static const ctl_node_t bin_proto[] = {CTL_NODE_FIELDS("", bin_fields, base_bin, 0)};

static int
get_lextent_size(const ctl_call_t *call, ctl_value_t *out) {
	assert(call->mib[2] < SC_NSIZES - SC_NBINS);
	out->z = sz_i2s(SC_NBINS + (szind_t)call->mib[2]);
	return 0;
}

static const ctl_node_t lextent_nodes[] = {CTL_NODE_R("size", CTL_SIZE, get_lextent_size, 0,
    "bytes of large size class i")};
static const ctl_node_t lextent_proto[] = {CTL_NODE_DIR("", lextent_nodes)};

/* -------------------------------------------------------------- arenas: what can be set or made */

static int
get_default_ms(const ctl_call_t *call, ctl_value_t *out) {
	out->sz = arenas_decay_ms_default_get(ctl_arg(call));
	return 0;
}

static int
set_default_ms(const ctl_call_t *call, const ctl_value_t *in) {
	return arenas_decay_ms_default_set(ctl_arg(call), in->sz) == 0 ? 0 : EFAULT;
}

/*
 * The argument of arenas_create_ext. metadata_use_hooks is ignored: metadata never comes from
 * hooks.
 */
typedef struct {
	ehooks_table_t *hooks;
	bool metadata_use_hooks;
} arena_config_t;

cassert(offsetof(arena_config_t, hooks) == 0);

/* Creates an arena and replies with its index; newp, of newlen bytes, begins with its hooks. */
static int
create(const ctl_call_t *call, size_t newlen) {
	ehooks_table_t *hooks = NULL;
	unsigned ind;
	if (!ctl_has_room(call, sizeof(ind)) || (call->newp != NULL && call->newlen != newlen)) {
		return EINVAL;
	}
	if (call->newp != NULL) {
		memcpy(&hooks, call->newp, sizeof(hooks));
	}
	if (hooks != NULL && hooks->alloc == NULL) {
		return EINVAL;
	}
	int err = arenas_create(&ind, hooks);
	return err != 0 ? err : ctl_reply(call, &ind, sizeof(ind));
}

static int
raw_create(const ctl_call_t *call, ctl_value_t *out UNUSED) {
	return create(call, sizeof(ehooks_table_t *));
}

int
ctl_arenas_create_ext(const ctl_call_t *call, ctl_value_t *out UNUSED) {
	return create(call, sizeof(arena_config_t));
}

static int
ask_lookup(const ctl_call_t *call, ctl_value_t *out) {
	const void *ptr;
	memcpy(&ptr, call->newp, sizeof(ptr));
	uint64_t elem = emap_elem_any(ptr);
	if (elem == 0 || elem_state(elem) != extent_state_active) {
		return EINVAL;
	}
	/*
	 * Only the state of the extent is looked at, as the node's text says: a free region of a slab
	 * has an index too, and the pages of a large object while they wait for the next one. An
	 * address behind the first page of a large object may not be found (meta/emap.h). A sampled
	 * object of a small class lies in a hidden arena; the answer is the arena whose statistics
	 * include that one: arena 0 for all automatic arenas.
	 */
	out->u = arena_ind_visible(elem_edata(elem)->arena_ind);
	return 0;
}

static const ctl_node_t arenas_nodes[] = {
	CTL_NODE_RW("dirty_decay_ms", CTL_SSIZE, get_default_ms, set_default_ms, CTL_ARG(true),
	    "decay time for dirty pages of arenas made from now on. EFAULT: out of range"),
	CTL_NODE_RW("muzzy_decay_ms", CTL_SSIZE, get_default_ms, set_default_ms, CTL_ARG(false),
	    "decay time for muzzy pages of arenas made from now on. EFAULT: out of range"),
	CTL_NODE_NUMBERED("bin", bin_proto, ctl_has_bin),
	CTL_NODE_NUMBERED("lextent", lextent_proto, ctl_has_lextent),
	CTL_NODE_RAW("create", raw_create, 0, "unsigned, rw",
	    "makes an arena and gives its index; newp may hold an extent_hooks_t *, where its pages "
	    "come from. EINVAL: no room for the index, or hooks without alloc; EAGAIN: no memory or no "
	    "free index"),
	CTL_NODE_ASK("lookup", ask_lookup, void *, unsigned, 0, "unsigned, rw",
	    "the index of the arena that the pointer in newp was allocated from; 0 for a sampled "
	    "object of a small class, whichever automatic arena it is of. EINVAL: memory of no "
	    "arena, or unused pages of one, or an allocation that was made while another thread "
	    "forked. A pointer to freed memory may have an index until its pages have another use"),
};

const ctl_node_t ctl_dir_arenas =
    CTL_NODE_BOTH("arenas", arenas_nodes, facts_fields, base_facts, 0);
