/*
 * What the files ctl_*.c define for each other: the nodes directly below the root of the tree
 * ("rooms"), which ctl_tree.c lists in the order of their MIB numbers, and the leaves of the
 * options (ctl_opt.c), the index checks (ctl_stats.c) and the leaf (ctl_arena.c) that other files
 * use. stats.c reads the list of ctl_dir_config and the options. Constant data without a lock.
 */
#pragma once

#include "ctl/node.h"

extern const ctl_node_t ctl_node_version;
extern const ctl_node_t ctl_node_epoch;
extern const ctl_node_t ctl_node_background_thread;
extern const ctl_node_t ctl_node_max_background_threads;
extern const ctl_node_t ctl_dir_thread;
extern const ctl_node_t ctl_dir_config;
extern const ctl_node_t ctl_dir_opt;
extern const ctl_node_t ctl_dir_tcache;
extern const ctl_node_t ctl_dir_arena;
extern const ctl_node_t ctl_dir_arenas;
extern const ctl_node_t ctl_dir_prof;
extern const ctl_node_t ctl_dir_stats;
extern const ctl_node_t ctl_dir_approximate;
extern const ctl_node_t ctl_dir_experimental;

/* Whether an index means all arenas: CTL_ARENAS_ALL or, for compatibility, the number of arenas. */
bool ctl_means_all(size_t i);
/* Whether there is a small, and a large, size class of this number, each counted from 0. */
ctl_has_fn_t ctl_has_bin;
ctl_has_fn_t ctl_has_lextent;

/*
 * The leaf of row i of conf_rows: its name ("": it has no node, and so cannot be found or get a
 * MIB), its type (CONF_I64 is read as uint64_t: -1 is its greatest value there), and its value: 0,
 * or ENOENT if it has no node or is not in this build. Called without the gate and without a lock.
 */
const char *ctl_opt_name(size_t i);
ctl_type_t ctl_opt_type(size_t i);
int ctl_opt_read(size_t i, ctl_value_t *out);

/*
 * Carries out experimental.arenas_create_ext, a raw leaf (out is NULL, it replies by ctl_reply()):
 * arenas.create with a struct as its argument. Returns 0 or an errno value.
 */
int ctl_arenas_create_ext(const ctl_call_t *call, ctl_value_t *out);
