/*
 * The root of the ctl tree, and the leaves that hang directly on it.
 */
#include "ctl/ctl_rooms.h"
#include "ctl/ctl_snapshot.h"
#include "util/assert.h"

static int
get_version(const ctl_call_t *call, ctl_value_t *out) {
	(void)call;
	out->s = JEMALLOC_VERSION;
	return 0;
}

static int
get_epoch(const ctl_call_t *call, ctl_value_t *out) {
	(void)call;
	out->u64 = snapshot_epoch_locked();
	return 0;
}

static int
set_epoch(const ctl_call_t *call, const void *in) {
	(void)call;
	(void)in;
	return snapshot_refresh_locked();
}

/* Purging threads are not built: the names are known, a call says that there is nothing. */
static int
get_absent(const ctl_call_t *call, ctl_value_t *out) {
	(void)call;
	(void)out;
	return ENOENT;
}

const ctl_node_t ctl_node_version = CTL_NODE_R("version", CTL_STRING, get_version, 0);
const ctl_node_t ctl_node_epoch =
    CTL_NODE_RW("epoch", CTL_U64, get_epoch, set_epoch, CTL_AFTER | CTL_LOCKED);
const ctl_node_t ctl_node_background_thread = CTL_NODE_RAW("background_thread", get_absent, 0);
const ctl_node_t ctl_node_max_background_threads =
    CTL_NODE_RAW("max_background_threads", get_absent, 0);

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

/* The rooms' order is part of every MIB: what mallctlnametomib gave stays right. */
cassert(ARRAY_LEN(rooms) == 14);

const ctl_node_t ctl_root = {
	.name = "",
	.kind = CTL_ROOT,
	.rooms = rooms,
	.nchildren = ARRAY_LEN(rooms),
};
