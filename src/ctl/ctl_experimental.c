/*
 * The directory experimental.*: utilisation of extents, batch allocation, hooks, recent samples,
 * the address of an arena's page count; and the node of arenas_create_ext (ctl_arena.c).
 * Structs that the user passes are copied in and out, because they need not be aligned. Leaves of
 * CTL_NODE_RAW check lengths themselves. The only lock that is taken here is a bin's, for its
 * counters; what is called takes its own. Called by ctl.c through the tree of nodes: leaves inside
 * the gate unless they are flagged CTL_OUTSIDE; has_arena() outside, before the gate is entered.
 */
#include "arena/arenas.h"
#include "arena/bin.h"
#include "arena/safety.h"
#include "call_log.h"
#include "ctl/ctl_rooms.h"
#include "imalloc_flags.h"
#include "meta/emap.h"
#include "prof/prof.h"
#include "thread/alloc_hook.h"
#include "thread/user_event.h"

/* ------------------------------------------------------------------ utilization */

/*
 * The result of utilization.query, of the extent that contains a pointer. Part of the interface.
 * Objects in thread caches are not free. Those in the bin's stock (arena/stock.h) are free in
 * bin_nfree, but not in nfree.
 */
typedef struct {
	void *slabcur;    /* address of the current slab of its bin; NULL: none, or it is no slab */
	size_t nfree;     /* free objects in the extent; 0 if it is no slab */
	size_t nregs;     /* objects that the extent has room for; 1 if it is no slab */
	size_t size;      /* bytes of the extent */
	size_t bin_nfree; /* free objects in all slabs of its bin */
	size_t bin_nregs; /* objects that these slabs have room for */
} extent_util_t;

/* The result of utilization.batch_query for each pointer: the same numbers. */
typedef struct {
	size_t nfree;
	size_t nregs;
	size_t size;
} extent_util_short_t;

/* Callers pass arrays of these, so their layout is part of the interface. */
cassert(sizeof(extent_util_t) == 6 * sizeof(size_t));
cassert(sizeof(extent_util_short_t) == 3 * sizeof(size_t));

/*
 * Fills in nfree, slabcur and bin_* under the lock of the bin; only nfree if the arena is gone.
 * seen: edata_seen() of e, a slab. If e is no longer that slab, these members stay 0.
 */
static void
util_of_bin(const edata_t *e, const edata_t *seen, extent_util_t *u) {
	arena_t *arena = arena_table_get(seen->arena_ind);
	const bin_info_t *info = slab_info(seen);
	if (arena == NULL) {
		u->nfree = e->nfree;
		return;
	}
	bin_t *bin = arena_bin(arena, seen->szind, seen->bin_shard);
	mutex_lock(&bin->mtx);
	if (edata_seen(e).home == seen->home) {
		u->nfree = e->nfree;
		u->slabcur = bin->slabcur == NULL ? NULL : bin->slabcur->addr;
		u->bin_nregs = (size_t)info->nregs * bin->stats.curslabs;
		assert(u->nfree <= info->nregs && bin->stats.curregs <= u->bin_nregs);
		u->bin_nfree = u->bin_nregs - bin->stats.curregs;
	}
	mutex_unlock(&bin->mtx);
}

/*
 * Fills in *u for the extent that contains ptr; all zero if there is none in use, and perhaps
 * inside a large object behind its first page, because the page map describes only the borders of
 * those (meta/emap.h). An object that was freed and is kept for reuse may be reported as if it
 * lived. with_bin: the members about the bin too; otherwise nfree is read without a lock.
 */
static void
util_of(const void *ptr, extent_util_t *u, bool with_bin) {
	memset(u, 0, sizeof(*u));
	uint64_t elem = emap_elem_any(ptr);
	if (elem == 0 || elem_state(elem) != extent_state_active) {
		return;
	}
	const edata_t *e = elem_edata(elem);
	edata_t seen = edata_seen(e);
	u->size = e->size;
	u->nregs = 1;
	if (!seen.is_slab || seen.szind >= SC_NBINS) { /* its fields may be amid a change */
		return;
	}
	u->nregs = slab_info(&seen)->nregs;
	if (with_bin) {
		util_of_bin(e, &seen, u);
	} else {
		u->nfree = e->nfree;
	}
}

static int
ask_query(const ctl_call_t *call, ctl_value_t *out) {
	const void *ptr;
	static_assert(sizeof(extent_util_t) <= sizeof(*out), "an answer is one value");
	memcpy(&ptr, call->newp, sizeof(ptr));
	util_of(ptr, (extent_util_t *)out, true);
	return 0;
}

static int
raw_batch_query(const ctl_call_t *call, ctl_value_t *out UNUSED) {
	size_t n = call->newlen / sizeof(void *);
	if (call->oldp == NULL || call->oldlenp == NULL || call->newp == NULL || n == 0
	    || call->newlen != n * sizeof(void *) || n > SIZE_MAX / sizeof(extent_util_short_t)
	    || *call->oldlenp != n * sizeof(extent_util_short_t)) {
		return EINVAL;
	}
	for (size_t i = 0; i < n; i++) {
		const void *ptr;
		extent_util_t util;
		memcpy(&ptr, (const char *)call->newp + i * sizeof(ptr), sizeof(ptr));
		util_of(ptr, &util, false);
		extent_util_short_t triple = {util.nfree, util.nregs, util.size};
		memcpy((char *)call->oldp + i * sizeof(triple), &triple, sizeof(triple));
	}
	return 0;
}

/* ------------------------------------------------------------------ arenas and batches */

static bool
has_arena(size_t i) {
	return i < ARENA_LIMIT && arenas_get((unsigned)i) != NULL;
}

static int
get_pactivep(const ctl_call_t *call, ctl_value_t *out) {
	arena_t *arena = arenas_get((unsigned)call->mib[2]);
	if (arena == NULL) {
		return EFAULT;
	}
	static_assert(sizeof(atomic_zu_t) == sizeof(size_t),
	    "the counter is a plain size_t for readers");
	out->p = &arena->pac.nactive;
	return 0;
}

/* The argument of batch_alloc; part of the interface. */
typedef struct {
	void **ptrs; /* the array that receives the objects */
	size_t num;  /* of objects */
	size_t size; /* of each, in bytes */
	int flags;   /* MALLOCX_* */
} batch_alloc_packet_t;

/* Stops at the first object that there is no memory for; none is filled in if ptrs is NULL. */
static int
ask_batch_alloc(const ctl_call_t *call, ctl_value_t *out) {
	batch_alloc_packet_t packet;
	size_t filled = 0;
	memcpy(&packet, call->newp, sizeof(packet));
	CALL_LOG(batch_alloc, call_entry, "ptrs: %p, num: %zu, size: %zu, flags: %d",
	    (void *)packet.ptrs, packet.num, packet.size, packet.flags);
	imalloc_req_t req = imalloc_flags_req(packet.size, packet.flags, alloc_how_batch_alloc);
	if (req.tcache == IMALLOC_TCACHE_AUTO && req.arena != IMALLOC_ARENA_AUTO) {
		req.tcache = IMALLOC_TCACHE_NONE; /* the own cache is for requests that name no arena */
	}
	while (filled < packet.num) {
		void *ptr = packet.ptrs == NULL ? NULL : imalloc_quiet(&req);
		if (ptr == NULL) {
			break;
		}
		packet.ptrs[filled++] = ptr;
	}
	assert(filled <= packet.num);
	CALL_LOG(batch_alloc, call_exit, "result: %zu", filled);
	out->z = filled;
	return 0;
}

/* ------------------------------------------------------------------ hooks */

/*
 * Reads and sets the profiler's hook of CTL_ARG(), a pointer to a function. ENOENT: a hook is
 * given, but the profiler is not booted. EINVAL: nothing asked, a wrong length, or prof_hook_set()
 * refuses.
 */
static int
raw_prof_hook(const ctl_call_t *call, ctl_value_t *out UNUSED) {
	prof_hook_t which = (prof_hook_t)ctl_arg(call);
	prof_hook_fn_t hook, old = prof_hook_get(which);
	if ((!ctl_wants_reply(call) && call->newp == NULL)
	    || (ctl_wants_reply(call) && *call->oldlenp != sizeof(old))
	    || (call->newp != NULL && call->newlen != sizeof(hook))) {
		return EINVAL;
	}
	int err = 0;
	if (call->newp != NULL) {
		memcpy(&hook, call->newp, sizeof(hook));
		err = prof_is_booted() ? prof_hook_set(which, hook) : ENOENT;
	}
	return err != 0 ? err : ctl_reply(call, &old, sizeof(old));
}

static int
set_safety_abort(const ctl_call_t *call UNUSED, const ctl_value_t *in) {
	void (*hook)(const char *);
	memcpy(&hook, in, sizeof(hook));
	__atomic_store_n(&safety_abort_hook, hook, MO_RELAXED);
	return 0;
}

static int
set_thread_event(const ctl_call_t *call UNUSED, const ctl_value_t *in) {
	user_event_t event;
	memcpy(&event, in, sizeof(event));
	return user_event_add(&event);
}

static int
ask_hook_install(const ctl_call_t *call, ctl_value_t *out) {
	alloc_hooks_t hooks;
	void *handle = NULL;
	memcpy(&hooks, call->newp, sizeof(hooks));
	int err = alloc_hook_install(&hooks, &handle);
	out->p = handle;
	return err;
}

static int
set_hook_remove(const ctl_call_t *call UNUSED, const ctl_value_t *in) {
	return alloc_hook_remove(in->p);
}

/* ------------------------------------------------------------------ recent samples */

/* The argument of prof_recent.alloc_dump. */
typedef struct {
	void (*write_cb)(void *opaque, const char *s);
	void *opaque;
} recent_dump_t;

static int
set_recent_dump(const ctl_call_t *call UNUSED, const ctl_value_t *in) {
	recent_dump_t sink;
	memcpy(&sink, in, sizeof(sink));
	return prof_recent_alloc_dump(sink.write_cb, sink.opaque);
}

/* ------------------------------------------------------------------ directories */

static const ctl_node_t utilization_nodes[] = {
	CTL_NODE_ASK("query", ask_query, void *, extent_util_t, 0, "a struct, rw",
	    "of the extent (a slab, or a large object) with the pointer in newp: {void *current "
	    "slab of its bin; size_t free objects, objects and bytes of the extent; free objects and "
	    "objects in all slabs of its bin}. A bin is a class in an arena, or one shard of it "
	    "(bin_shards). All zero for an address in no extent that is in use; what was freed lately "
	    "may still count as in use. EINVAL: wrong lengths"),
	CTL_NODE_RAW("batch_query", raw_batch_query, 0, "size_t[3] each, rw",
	    "for each pointer of the array in newp: free objects, objects and bytes, as query. EINVAL: "
	    "wrong lengths"),
};
static const ctl_node_t arena_nodes[] = {
	CTL_NODE_R("pactivep", CTL_POINTER, get_pactivep, CTL_IF_STATS,
	    "address (size_t *) of the number of pages that the arena has in use now, to be read "
	    "without a call; without those of its small samples, which stats.arenas.<i>.pactive "
	    "includes"),
};
static const ctl_node_t arena_proto[] = {CTL_NODE_DIR("", arena_nodes)};

#define HOW_TEXT(n, name, says) ", " #n " " says

#define PROF_HOOK_NODE(n, which, says) \
	CTL_NODE_RAW(n, raw_prof_hook, CTL_IF_PROF | CTL_ARG(which), "pointer to function, rw", says)

static const ctl_node_t hooks_nodes[] = {
	CTL_NODE_ASK("install", ask_hook_install, alloc_hooks_t, void *, 0, "void *, rw",
	    "takes in newp {void (*alloc)(void *extra, unsigned how, void *p, uintptr_t result, const "
	    "uintptr_t *args); void (*dalloc)(void *extra, unsigned how, void *p, const uintptr_t "
	    "*args); void (*expand)(void *extra, unsigned how, void *p, size_t old_usable, size_t "
	    "usable, uintptr_t result, const uintptr_t *args); void *extra}, gives a handle. Each "
	    "thread calls alloc after each of its allocations, dalloc before each release, expand "
	    "after a block was resized where it is; NULL: none. A block that realloc moves is an "
	    "allocation and a release. result is what the function returns; args are the bytes asked "
	    "for (of a release: the usable size), the alignment or 0, and 1 if zeroed memory was asked "
	    "for; how is the function" ALLOC_HOWS(HOW_TEXT) ". A hook may allocate, which is shown to "
	    "none. Four at most; while there is one, no thread has a fast path. EINVAL: wrong lengths "
	    "or nothing in oldp or newp; EAGAIN: no place"),
	{.name = "remove", .kind = CTL_LEAF, .type = CTL_POINTER, .access = CTL_W,
	    .set = set_hook_remove, .flags = CTL_NEED_NEW,
	    MANUAL(text, "takes the handle of hooks that are to be called no more; a call that is "
	    "under way in another thread may end later. EINVAL: no such handle, NULL or wrong length")},
	PROF_HOOK_NODE("prof_backtrace", PROF_HOOK_BACKTRACE,
	    "void hook(void **frames, unsigned *n, unsigned max) reads the stacks instead of the "
	    "library. EINVAL: NULL or nothing asked; ENOENT: set before the profiler runs"),
	PROF_HOOK_NODE("prof_dump", PROF_HOOK_DUMP,
	    "void hook(const char *path) is called after each dump, also one that failed; NULL: none. "
	    "Errors as prof_backtrace"),
	PROF_HOOK_NODE("prof_sample", PROF_HOOK_SAMPLE,
	    "void hook(const void *p, size_t size, void **frames, unsigned n, size_t usable) is "
	    "called for each sample; NULL: none"),
	PROF_HOOK_NODE("prof_sample_free", PROF_HOOK_SAMPLE_FREE,
	    "void hook(const void *p, size_t usable) is called when a sample is freed; NULL: none"),
	{.name = "thread_event", .kind = CTL_LEAF, .type = CTL_BYTES, .size = sizeof(user_event_t),
	    .access = CTL_W, .set = set_thread_event, .flags = CTL_NEED_NEW,
	    MANUAL(text, "takes in newp {void (*f)(bool is_alloc, uint64_t allocated, uint64_t freed); "
	    "uint64_t interval; bool alloc_only}: each thread calls f as its bytes allocated, and "
	    "unless alloc_only those freed, pass a further interval, with both numbers; by then "
	    "it may have allocated 64 KiB of each size class and one block more. Four at most, which "
	    "stay; to give an equal one again changes nothing. EINVAL: NULL, wrong length, no f, "
	    "interval 0 or no place")},
	CTL_NODE_W("safety_check_abort", CTL_POINTER, set_safety_abort, 0,
	    "void hook(const char *message) is called instead of abort when misuse is found; NULL: "
	    "abort again"),
};
static const ctl_node_t recent_nodes[] = {
	CTL_VALUE_RW("alloc_max", ssize_t, prof_recent_alloc_max_get, prof_recent_alloc_max_set,
	    CTL_IF_BOOTED,
	    "how many recent samples are kept; 0 none, -1 all. EINVAL: less than -1"),
	{.name = "alloc_dump", .kind = CTL_LEAF, .type = CTL_BYTES, .size = sizeof(recent_dump_t),
	    .access = CTL_W, .set = set_recent_dump,
	    .flags = CTL_IF_BOOTED | CTL_NEED_NEW | CTL_OUTSIDE,
	    MANUAL(text, "takes in newp {void (*write)(void *, const char *); void *opaque}: writes "
	    "the recent samples as JSON, by malloc_message with this opaque if write is NULL. "
	    "EINVAL: wrong length; EBUSY: called from write")},
};
static const ctl_node_t experimental_nodes[] = {
	CTL_NODE_DIR("utilization", utilization_nodes),
	CTL_NODE_NUMBERED("arenas", arena_proto, has_arena),
	CTL_NODE_DIR("hooks", hooks_nodes),
	CTL_NODE_DIR("prof_recent", recent_nodes),
	CTL_NODE_ASK("batch_alloc", ask_batch_alloc, batch_alloc_packet_t, size_t, CTL_OUTSIDE,
	    "size_t, rw",
	    "takes in newp {void **ptrs; size_t n; size_t size; int flags}: fills ptrs with n "
	    "allocations by mallocx, oldp gets their number. EINVAL: wrong lengths"),
	CTL_NODE_RAW("arenas_create_ext", ctl_arenas_create_ext, 0, "unsigned, rw",
	    "arenas.create, with {extent_hooks_t *hooks; bool metadata_use_hooks} in newp; metadata "
	    "comes from the system in any case. Errors as there"),
};

const ctl_node_t ctl_dir_experimental = CTL_NODE_DIR("experimental", experimental_nodes);
