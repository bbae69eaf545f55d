/*
 * The directories thread.* (the calling thread) and tcache.* (caches that were created explicitly).
 * In a thread that has no tsd (thread/tsd.h), for want of memory, because it is ending, or in an
 * extent hook, a read answers as for a thread without a cache on arena 0; thread.idle and
 * thread.peak.reset do nothing; what needs the tsd fails: with EFAULT thread.tcache.flush and
 * tcache.create, with ENOENT ncached_max.write, with ENOMEM a write of prof.name, all else with
 * EAGAIN. Labels, and explicit caches that exist, need no tsd. The data of thread.* belongs to the
 * calling thread, and the functions of tcache_set.c take their lock themselves, so no lock is taken
 * here. Called by ctl.c through the tree of nodes, inside the gate.
 */
#include "arena/arenas.h"
#include "arena/background_thread.h"
#include "arena/vacant.h"
#include "conf/conf.h"
#include "ctl/ctl_rooms.h"
#include "os/thread.h"
#include "prof/prof.h"
#include "prof/sites/prof_label.h"
#include "thread/peak.h"
#include "thread/tcache_set.h"
#include "thread/tsd.h"

/* A text of so many bytes or more is refused for thread.tcache.ncached_max.write. */
#define NCACHED_SPEC_MAX 1000

/* The calling thread's data, with its cache made if it is to have one; NULL if it has no data. */
static tsd_t *
this_thread(void) {
	assert(gate_is_entered(tls_get()));
	tsd_t *tsd = tsd_fetch_in_gate(tls_get());
	if (tsd != NULL) {
		tsd_make_cache(tsd); /* all leaves are about the cache that the thread will have */
	}
	return tsd;
}

/* ------------------------------------------------------------------ arena and counters */

/* From now on the thread is not moved to a vacant arena (tsd_borrow_heartbeat). */
static int
get_arena(const ctl_call_t *call UNUSED, ctl_value_t *out) {
	tsd_t *tsd = this_thread();
	if (tsd != NULL) {
		tsd->is_arena_known = true;
	}
	out->u = tsd == NULL ? 0 : tsd->arena->ind;
	return 0;
}

static int
set_arena(const ctl_call_t *call UNUSED, const ctl_value_t *in) {
	unsigned ind = in->u;
	if (ind >= arenas_narenas_total()) {
		return EFAULT;
	}
	if (ind < arenas_percpu_limit()) {
		return EPERM;
	}
	tsd_t *tsd = this_thread();
	arena_t *to = arenas_get_or_init(ind);
	if (tsd == NULL || to == NULL) {
		return EAGAIN;
	}
	arena_t *from = tsd->arena;
	tsd->is_arena_known = true;
	if (to != from) {
		vacant_thread_bound(to);
		tsd_move(tsd, to);
		if (atomic_load_u32(&from->nthreads, MO_RELAXED) == 0 && !background_thread_is_on()) {
			arenas_decay(from, true); /* no thread is bound to it any more */
		}
	}
	return 0;
}

static uint64_t
read_allocated(void) {
	tsd_t *tsd = this_thread();
	return tsd == NULL ? 0 : tsd_allocated(tsd);
}

static uint64_t
read_deallocated(void) {
	tsd_t *tsd = this_thread();
	return tsd == NULL ? 0 : tsd_deallocated(tsd);
}

/* The address of the counter: of allocated bytes, with CTL_ARG(true) of those freed. */
static int
get_counterp(const ctl_call_t *call, ctl_value_t *out) {
	tsd_t *tsd = this_thread();
	if (tsd == NULL) {
		return EAGAIN;
	}
	out->p = ctl_arg(call) ? tsd_deallocatedp(tsd) : tsd_allocatedp(tsd);
	return 0;
}

static uint64_t
read_peak(void) {
	tsd_t *tsd = this_thread();
	return tsd == NULL ? 0 : peak_read(tsd);
}

static int
act_peak_reset(const ctl_call_t *call UNUSED, const ctl_value_t *in UNUSED) {
	tsd_t *tsd = this_thread();
	if (tsd != NULL) {
		peak_reset(tsd);
	}
	return 0;
}

/* ------------------------------------------------------------------ the automatic cache */

static bool
read_enabled(void) {
	tsd_t *tsd = this_thread();
	return tsd != NULL && tsd->tcache != NULL;
}

static int
write_enabled(bool is_enabled) {
	tsd_t *tsd = this_thread();
	return tsd == NULL ? EAGAIN : tcache_enabled_set(tsd, is_enabled);
}

static size_t
read_tcache_max(void) {
	tsd_t *tsd = this_thread();
	return tsd == NULL ? 0 : tsd->tcache_max;
}

static int
write_tcache_max(size_t max) {
	tsd_t *tsd = this_thread();
	return tsd == NULL ? EAGAIN : tcache_max_set(tsd, min_zu(max, TCACHE_MAX_LIMIT));
}

static int
act_tcache_flush(const ctl_call_t *call UNUSED, const ctl_value_t *in UNUSED) {
	tsd_t *tsd = this_thread();
	if (tsd == NULL || tsd->tcache == NULL) {
		return EFAULT;
	}
	tcache_flush(tsd, tsd->tcache);
	arena_trim(tsd->arena, true);
	return 0;
}

/* Returns the limit of cached objects of the class of the size in newp; 0 without cache or tsd. */
static int
raw_ncached_max_read(const ctl_call_t *call, ctl_value_t *out UNUSED) {
	size_t size;
	if (call->newp == NULL || call->newlen != sizeof(size)) {
		return EINVAL;
	}
	memcpy(&size, call->newp, sizeof(size));
	size_t n = 0;
	tsd_t *tsd = this_thread();
	int err = size > TCACHE_MAX_LIMIT ? EINVAL
	    : tsd == NULL ? 0 : tcache_ncached_max_get(tsd, size, &n);
	return err != 0 ? err : ctl_reply(call, &n, sizeof(n));
}

/* Applies an item to this thread's cache; the text was checked as a whole, and it had one then. */
static int
apply_ncached_max(size_t from, size_t to, size_t n) {
	tsd_t *tsd = tls_get()->tsd;
	assert(tsd->tcache != NULL);
	return tcache_ncached_max_set(tsd, from, to, n);
}

/* Checks the whole text before any of it is applied. After EAGAIN the items before have effect. */
static int
set_ncached_max(const ctl_call_t *call UNUSED, const ctl_value_t *in) {
	const char *text = in->s;
	tsd_t *tsd = this_thread();
	if (tsd == NULL || tsd->tcache == NULL) {
		return ENOENT;
	}
	size_t len = text == NULL ? NCACHED_SPEC_MAX : strnlen(text, NCACHED_SPEC_MAX);
	if (len == NCACHED_SPEC_MAX) {
		return EINVAL;
	}
	if (len == 0) {
		return 0;
	}
	int err = conf_parse_ranges(text, len, NULL);
	return err != 0 ? err : conf_parse_ranges(text, len, apply_ncached_max);
}

/*
 * Flushes the thread's cache and trims its arena. If there are more than two automatic arenas per
 * processor, probably no other thread uses this arena soon, so it is purged at once.
 */
static int
act_idle(const ctl_call_t *call UNUSED, const ctl_value_t *in UNUSED) {
	tsd_t *tsd = this_thread();
	if (tsd == NULL) {
		return 0;
	}
	if (tsd->tcache != NULL) {
		tcache_flush(tsd, tsd->tcache);
	}
	arena_trim(tsd->arena, true);
	if (arenas_narenas_auto() > 2 * os_ncpus()) {
		arenas_decay(tsd->arena, true);
	}
	return 0;
}

/* ------------------------------------------------------------------ the profiler's view */

static int
raw_prof_name(const ctl_call_t *call, ctl_value_t *out UNUSED) {
	const char *name;
	bool has_new = call->newp != NULL || call->newlen != 0;
	if (ctl_wants_reply(call) && has_new) {
		return EPERM;
	}
	tsd_t *tsd = this_thread();
	if (!has_new) {
		name = prof_thread_name_get(tsd);
		return ctl_reply(call, &name, sizeof(name));
	}
	if (call->newp == NULL || call->newlen != sizeof(name)) {
		return EINVAL;
	}
	memcpy(&name, call->newp, sizeof(name));
	return name == NULL ? EINVAL : prof_thread_name_set(tsd, name);
}

static bool
read_prof_active(void) {
	return prof_thread_active_get(this_thread());
}

static int
write_prof_active(bool is_active) {
	return prof_thread_active_set(this_thread(), is_active);
}

static const char *
read_prof_label(void) {
	return prof_label_text(tls_get()->label & SAMPLE_LABEL_MASK);
}

static int
write_prof_label(const char *text) {
	uint32_t id;
	int err = prof_label_intern(text, &id);
	if (err == 0) {
		tls_get()->label = id;
	}
	return err;
}

static int
get_prof_labelp(const ctl_call_t *call UNUSED, ctl_value_t *out) {
	out->p = &tls_get()->label;
	return 0;
}

/* ------------------------------------------------------------------ caches by hand */

static int
raw_tcache_create(const ctl_call_t *call, ctl_value_t *out UNUSED) {
	unsigned id;
	if (call->newp != NULL || call->newlen != 0) {
		return EPERM;
	}
	if (!ctl_has_room(call, sizeof(id))) {
		if (call->oldlenp != NULL) {
			*call->oldlenp = 0;
		}
		return EINVAL;
	}
	if (tcaches_create(this_thread(), &id) != 0) {
		return EFAULT;
	}
	return ctl_reply(call, &id, sizeof(id));
}

static int
set_tcache_id_flush(const ctl_call_t *call UNUSED, const ctl_value_t *in) {
	return tcaches_flush(this_thread(), in->u);
}

static int
set_tcache_id_destroy(const ctl_call_t *call UNUSED, const ctl_value_t *in) {
	return tcaches_destroy(this_thread(), in->u);
}

/* ------------------------------------------------------------------ directories */

static const ctl_node_t ncached_max_nodes[] = {
	CTL_NODE_RAW("read_sizeclass", raw_ncached_max_read, 0, "size_t in and out",
	    "how many objects this thread's cache may hold of the size class of the size in newp. "
	    "EINVAL without newp or for a size that no cache holds"),
	CTL_NODE_W("write", CTL_STRING, set_ncached_max, 0,
	    "sets how many: items lo-hi:n joined by |, sizes in bytes, n at most 8191. The whole text "
	    "is checked before any of it holds; an item with lo above hi or above 8 MiB sets nothing. "
	    "ENOENT: the thread has no cache; EINVAL: grammar, or 1000 bytes and more; EAGAIN: no "
	    "memory, and the items before hold"),
};
static const ctl_node_t thread_tcache_nodes[] = {
	CTL_VALUE_RW("enabled", boolean, read_enabled, write_enabled, 0,
	    "whether the calling thread has a cache; false empties it first. EAGAIN: no memory for "
	    "one"),
	CTL_VALUE_RW("max", size_t, read_tcache_max, write_tcache_max, 0,
	    "largest size that this thread's cache holds, clipped to 8 MiB and rounded up to a size "
	    "class; the cache is emptied and made anew"),
	CTL_NODE_ACT("flush", act_tcache_flush, 0,
	    "gives everything in this thread's cache back to the arenas. EFAULT: it has none"),
	CTL_NODE_DIR("ncached_max", ncached_max_nodes),
};
static const ctl_node_t peak_nodes[] = {
	CTL_VALUE_R("read", uint64_t, read_peak, CTL_IF_STATS,
	    "most bytes that this thread had more allocated than freed since it began or since the "
	    "last reset, as measured at its heartbeats and at each read; in a thread that has reset "
	    "it that is at most 64 KiB, one block, and 4 KiB of each size class too little"),
	CTL_NODE_ACT("reset", act_peak_reset, CTL_IF_STATS,
	    "what the thread has now becomes the zero of thread.peak.read"),
};
static const ctl_node_t thread_prof_nodes[] = {
	CTL_NODE_RAW("name", raw_prof_name, CTL_IF_BOOTED, "const char *, r- or -w",
	    "the thread's name in profiles, at most 15 bytes, more are cut; valid until it is set "
	    "again. EPERM: read and write in one call; EINVAL: NULL or a byte that cannot be printed; "
	    "ENOENT: names come from the system (prof_sys_thread_name); ENOMEM"),
	CTL_VALUE_RW("active", boolean, read_prof_active, write_prof_active, CTL_IF_PROF,
	    "whether samples are taken in the calling thread; prof.active must hold as well. A write "
	    "before the profiler runs is ENOENT; EAGAIN: no memory for the thread's record"),
	CTL_VALUE_RW("label", string, read_prof_label, write_prof_label, CTL_IF_PROF,
	    NODE_EXPERIMENTAL
	    "what the thread works for, a text of at most 255 bytes: its samples from now on have "
	    "this label, also those that a later session takes. Empty: none, as in a new thread. "
	    "EINVAL: NULL, or longer; EAGAIN: no memory, or there are 65535 labels or 4 MiB of them, "
	    "and the thread keeps the one that it has. Texts are kept until the process ends"),
	CTL_NODE_R("labelp", CTL_POINTER, get_prof_labelp, CTL_IF_PROF, NODE_EXPERIMENTAL
	    "address of the number of that label (uint32_t *), to be read and written by the thread "
	    "itself while it lives: with numbers that prof.label_id gave, or 0"),
};
static const ctl_node_t thread_nodes[] = {
	CTL_NODE_RW("arena", CTL_UNSIGNED, get_arena, set_arena, 0,
	    "the arena that serves the calling thread; a write moves it and its cache to another one. "
	    "EFAULT: no such arena; EAGAIN: it cannot be made, or was destroyed; EPERM: percpu_arena "
	    "chooses that one. An arena that loses its last thread is purged unless background "
	    "threads run"),
	CTL_VALUE_R("allocated", uint64_t, read_allocated, 0,
	    "bytes that the calling thread ever allocated, in usable sizes"),
	CTL_NODE_R("allocatedp", CTL_POINTER, get_counterp, CTL_ARG(false),
	    "address of that counter (uint64_t *), to be read without a call while the thread lives; "
	    "from the first such request on the thread's calls are slower, because they count at once"),
	CTL_VALUE_R("deallocated", uint64_t, read_deallocated, 0,
	    "bytes that the calling thread ever freed"),
	CTL_NODE_R("deallocatedp", CTL_POINTER, get_counterp, CTL_ARG(true),
	    "address of that counter, as thread.allocatedp"),
	CTL_NODE_DIR("tcache", thread_tcache_nodes),
	CTL_NODE_DIR("peak", peak_nodes),
	CTL_NODE_DIR("prof", thread_prof_nodes),
	CTL_NODE_ACT("idle", act_idle, 0,
	    "a hint that the thread will be idle: empties its cache and, if there are more than two "
	    "automatic arenas per CPU, purges its arena"),
};

const ctl_node_t ctl_dir_thread = CTL_NODE_DIR("thread", thread_nodes);

static const ctl_node_t tcache_nodes[] = {
	CTL_NODE_RAW("create", raw_tcache_create, 0, "unsigned, r-",
	    "makes a cache that threads use by MALLOCX_TCACHE(id), and gives its id. EINVAL: no room "
	    "for the id; EFAULT: no memory, or 4094 are there"),
	CTL_NODE_W("flush", CTL_UNSIGNED, set_tcache_id_flush, CTL_NEED_NEW,
	    "empties the cache of this id. EINVAL: no id; EFAULT: unknown; EAGAIN: an extent hook asks "
	    "for it, and the thread that called the hook is in the middle of this cache"),
	CTL_NODE_W("destroy", CTL_UNSIGNED, set_tcache_id_destroy, CTL_NEED_NEW,
	    "empties the cache of this id and gives it up; the id may come again. Errors as "
	    "tcache.flush"),
};

const ctl_node_t ctl_dir_tcache = CTL_NODE_DIR("tcache", tcache_nodes);
