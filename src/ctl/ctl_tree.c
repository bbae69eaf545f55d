/*
 * The root of the tree of mallctl, and the leaves directly below it: version, epoch, background
 * threads.
 * Invariant: the order of the children is part of every MIB and so of the interface; new ones are
 * appended. Constant data; epoch's functions are called inside the gate with snapshot_mutex held.
 * ctl.c starts every walk at ctl_root, and doc/manual.c reads the texts of all nodes from it.
 */
#include "arena/background_thread.h"
#include "ctl/ctl_rooms.h"
#include "ctl/ctl_snapshot.h"
#include "os/gate.h"

static int
get_version(const ctl_call_t *call UNUSED, ctl_value_t *out) {
	out->s = JEMALLOC_VERSION;
	return 0;
}

static int
get_epoch(const ctl_call_t *call UNUSED, ctl_value_t *out) {
	out->u64 = snapshot_epoch_locked();
	return 0;
}

static int
set_epoch(const ctl_call_t *call UNUSED, const ctl_value_t *in UNUSED) {
	return snapshot_refresh_locked();
}

const ctl_node_t ctl_node_version = CTL_NODE_R("version", CTL_STRING, get_version, 0,
    "the version of jemalloc whose interface this is, as MAJOR.MINOR.BUGFIX-NREV-gID");
const ctl_node_t ctl_node_epoch =
    CTL_NODE_RW("epoch", CTL_U64, get_epoch, set_epoch, CTL_AFTER | CTL_LOCKED,
	    "what stats.* shows is a snapshot: each write, of any value, takes a new one and adds 1 "
	    "to the epoch. A read, also in the same call, gives the epoch after that. EAGAIN: no "
	    "memory for the snapshot");
/*
 * Outside the gate, because starting and ending threads takes long. In an extent hook the caller is
 * inside, and a thread whose end it awaits may wait at the gate.
 */
static int
set_background_thread(bool on) {
	return gate_is_entered(tls_get()) ? EAGAIN : background_thread_set(on);
}

static int
set_max_background_threads(size_t max) {
	return gate_is_entered(tls_get()) ? EAGAIN : background_thread_max_set(max);
}

const ctl_node_t ctl_node_background_thread = CTL_VALUE_RW("background_thread", boolean,
    background_thread_is_on, set_background_thread, CTL_OUTSIDE,
    "threads of the library give unused memory back when it is due. Switched off, they have ended "
    "when the call returns. EFAULT: a thread could not be made, or this is one of them; EAGAIN: "
    "an extent hook asks for it");
const ctl_node_t ctl_node_max_background_threads = CTL_VALUE_RW("max_background_threads", size_t,
    background_thread_max, set_max_background_threads, CTL_OUTSIDE,
    "most of these threads; holds at once. EINVAL: 0, or more than opt.max_background_threads; "
    "EAGAIN: an extent hook asks for it");

static const ctl_node_t *const rooms[] = {
	&ctl_node_version,
	&ctl_node_epoch,
	&ctl_node_background_thread,
	&ctl_node_max_background_threads,
	&ctl_dir_thread,
	&ctl_dir_config,
	&ctl_dir_opt,
	&ctl_dir_tcache,
	&ctl_dir_arena,
	&ctl_dir_arenas,
	&ctl_dir_prof,
	&ctl_dir_stats,
	&ctl_dir_approximate,
	&ctl_dir_experimental,
};

/* The order is part of every MIB: a MIB that a program has stored must stay valid. */
cassert(ARRAY_LEN(rooms) == 14);

const ctl_node_t ctl_root = {
	.name = "",
	.kind = CTL_ROOT,
	.rooms = rooms,
	.nchildren = ARRAY_LEN(rooms),
};
