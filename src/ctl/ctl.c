/*
 * Walks the tree of mallctl: translates names and MIBs into leaves and carries out calls on them.
 * Invariant: the rules that leaves share are kept here: lengths, NULL arguments, access, conditions
 * of the build, the fork gate and the lock of the snapshot. Only leaves of CTL_NODE_RAW check
 * lengths themselves. List items (opt.*) need neither gate, lock nor conditions. What a row of the
 * tree must keep is checked by the test ctl. The walk takes no lock and is outside the gate. Lock:
 * snapshot_mutex (ctl_snapshot.h) is held during calls of leaves flagged CTL_LOCKED and while
 * fields are read. Called in any thread by jemalloc.c (ctl_byname, ctl_nametomib, ctl_bymib) and
 * stats.c (ctl_byname), and in a forked child by jemalloc_fork.c (ctl_postfork_child).
 */
#include "ctl/ctl.h"

#include "conf/conf_table.h"
#include "ctl/ctl_rooms.h"
#include "ctl/ctl_snapshot.h"
#include "os/gate.h"
#include "prof/prof.h"
#include "util/fmt.h"

/* A position in the tree: a node, or a field or list item of a directory. */
typedef struct {
	const ctl_node_t *node;
	size_t item; /* index of the field or list item; NO_ITEM: the node itself */
} ctl_place_t;

#define NO_ITEM SIZE_MAX

/* A value's size fits into a node's 8-bit size, and a type into its 8-bit type. */
cassert(sizeof(ctl_value_t) <= UINT8_MAX && CTL_BYTES < CTL_NTYPES && CTL_NTYPES <= UINT8_MAX);
cassert((CTL_RW & CTL_R) != 0 && (CTL_RW & CTL_W) != 0);

/* ------------------------------------------------------------------ steps */

/* Number of fields or list items of a directory. */
static size_t
node_nitems(const ctl_node_t *node) {
	return node->kind == CTL_DIR ? node->nfields
	    : node->kind == CTL_LIST ? conf_nrows : 0;
}

static const ctl_node_t *
node_child(const ctl_node_t *node, size_t i) {
	assert(i < node->nchildren);
	return node->kind == CTL_ROOT ? node->rooms[i] : &node->children[i];
}

static const char *
node_item_name(const ctl_node_t *node, size_t i) {
	assert(i < node_nitems(node));
	return node->kind == CTL_DIR ? node->fields[i].name : ctl_opt_name(i);
}

/* Parses a decimal number without sign; 0 or ENOENT. */
static int
parse_index(const char *text, size_t len, size_t *out) {
	uint64_t n;
	int err = fmt_parse_digits(text, len, &n);
	*out = (size_t)n;
	return err == 0 ? 0 : ENOENT;
}

/* Finds the child or item of this name; 0 and its MIB number in *out, or ENOENT. */
static int
find_by_name(const ctl_node_t *node, const char *text, size_t len, size_t *out) {
	assert(node->kind != CTL_INDEX);
	for (size_t i = 0; i < node->nchildren; i++) {
		const char *name = node_child(node, i)->name;
		if (strncmp(name, text, len) == 0 && name[len] == '\0') {
			*out = i;
			return 0;
		}
	}
	size_t nitems = node_nitems(node);
	for (size_t i = 0; i < nitems; i++) {
		const char *name = node_item_name(node, i);
		if (strncmp(name, text, len) == 0 && name[len] == '\0') {
			*out = node->nchildren + i;
			return 0;
		}
	}
	return ENOENT;
}

/* Moves `at` to the child mib[depth]; 0 or ENOENT. */
static int
step_down(ctl_place_t *at, const size_t *mib, size_t depth) {
	assert(depth < CTL_MAX_DEPTH);
	const ctl_node_t *node = at->node;
	size_t i = mib[depth];
	if (at->item != NO_ITEM || node->kind == CTL_LEAF) {
		return ENOENT;
	}
	if (node->kind == CTL_INDEX) {
		at->node = node->children;
		return node->has(i) ? 0 : ENOENT;
	}
	if (i < node->nchildren) {
		at->node = node_child(node, i);
		return 0;
	}
	i -= node->nchildren;
	if (i >= node_nitems(node)) {
		return ENOENT;
	}
	assert(at->item == NO_ITEM && i < node_nitems(node));
	at->item = i;
	return 0;
}

/* Moves `at` from the root along a MIB; 0 or ENOENT. */
static int
walk_mib(ctl_place_t *at, const size_t *mib, size_t miblen) {
	at->node = &ctl_root;
	at->item = NO_ITEM;
	if (miblen == 0 || miblen > CTL_MAX_DEPTH) {
		return ENOENT;
	}
	for (size_t i = 0; i < miblen; i++) {
		int err = step_down(at, mib, i);
		if (err != 0) {
			return err;
		}
	}
	return 0;
}

/*
 * Moves `at` from the root along a name, at most *miblen levels deep, and stores the MIB. *miblen
 * becomes the number of levels. What the name has beyond *miblen levels is ignored (so mallctl says
 * of nametomib). With *miblen CTL_MAX_DEPTH + 1 nothing is: a longer name is an error, as no node
 * lies so deep. 0 or ENOENT.
 */
static int
walk_name(ctl_place_t *at, const char *name, size_t *mib, size_t *miblen) {
	size_t depth = 0;
	at->node = &ctl_root;
	at->item = NO_ITEM;
	assert(*miblen <= CTL_MAX_DEPTH + 1);
	while (depth < *miblen) {
		size_t len = strcspn(name, ".");
		if (len == 0 || depth == CTL_MAX_DEPTH || at->item != NO_ITEM) {
			return ENOENT;
		}
		int err = at->node->kind == CTL_INDEX ? parse_index(name, len, &mib[depth])
		    : find_by_name(at->node, name, len, &mib[depth]);
		if (err == 0) {
			err = step_down(at, mib, depth);
		}
		if (err != 0) {
			return err;
		}
		depth++;
		if (name[len] == '\0') {
			break;
		}
		name += len + 1;
	}
	*miblen = depth;
	return 0;
}

/* ------------------------------------------------------------------ values */

/* Bytes of a leaf's value; 0: it has none. */
static size_t
leaf_size(const ctl_node_t *leaf) {
	assert(leaf->kind == CTL_LEAF);
	return leaf->type == CTL_BYTES ? leaf->size : ctl_type_size((ctl_type_t)leaf->type);
}

/* ------------------------------------------------------------------ calls on leaves */

/* 0, or ENOENT if the build or the profiler lacks what a leaf or field with these flags needs. */
static int
check_conditions(unsigned flags) {
	if (((flags & CTL_IF_STATS) != 0 && !config_stats)
	    || ((flags & CTL_IF_PROF) != 0 && !config_prof)
	    || ((flags & CTL_IF_BOOTED) != 0 && !(config_prof && prof_is_booted()))) {
		return ENOENT;
	}
	return 0;
}

/* 0, or EPERM if the leaf does not allow the arguments. */
static int
check_access(const ctl_node_t *leaf, const ctl_call_t *call) {
	bool has_old = call->oldp != NULL || call->oldlenp != NULL;
	bool has_new = call->newp != NULL || call->newlen != 0;
	switch ((ctl_access_t)leaf->access) {
	case CTL_R:
		return has_new ? EPERM : 0;
	case CTL_W:
		return has_old ? EPERM : 0;
	case CTL_ACT:
		return (has_old || has_new) && (leaf->flags & CTL_ANY_ARGS) == 0 ? EPERM : 0;
	case CTL_RW:
	case CTL_RAW:
		break;
	}
	return 0;
}

/*
 * 0 or EINVAL. With newp, newlen must be the size of the value. Without newp only CTL_NEED_NEW is
 * an error, whatever newlen is (for a leaf of CTL_R check_access() refuses it).
 */
static int
check_new(const ctl_node_t *leaf, const ctl_call_t *call) {
	assert(leaf->access == CTL_W || leaf->access == CTL_RW);
	if (call->newp == NULL) {
		return (leaf->flags & CTL_NEED_NEW) != 0 ? EINVAL : 0;
	}
	return call->newlen == leaf_size(leaf) ? 0 : EINVAL;
}

/* Reads a CTL_DIRECT leaf. */
static int
read_direct(const ctl_node_t *leaf, ctl_value_t *out) {
	switch ((ctl_type_t)leaf->type) {
	case CTL_BOOL:
		out->b = leaf->reader.as_boolean();
		return 0;
	case CTL_UNSIGNED:
		out->u = leaf->reader.as_unsigned();
		return 0;
	case CTL_U32:
		out->u32 = leaf->reader.as_uint32_t();
		return 0;
	case CTL_U64:
		out->u64 = leaf->reader.as_uint64_t();
		return 0;
	case CTL_SIZE:
		out->z = leaf->reader.as_size_t();
		return 0;
	case CTL_SSIZE:
		out->sz = leaf->reader.as_ssize_t();
		return 0;
	case CTL_STRING:
		out->s = leaf->reader.as_string();
		return 0;
	default:
		assert_not_reached();
		return ENOENT;
	}
}

/* Writes a CTL_DIRECT leaf. */
static int
write_direct(const ctl_node_t *leaf, const ctl_value_t *in) {
	switch ((ctl_type_t)leaf->type) {
	case CTL_BOOL:
		return leaf->writer.as_boolean(in->b);
	case CTL_U32:
		return leaf->writer.as_uint32_t(in->u32);
	case CTL_SIZE:
		return leaf->writer.as_size_t(in->z);
	case CTL_SSIZE:
		return leaf->writer.as_ssize_t(in->sz);
	case CTL_STRING:
		return leaf->writer.as_string(in->s);
	default:
		assert_not_reached();
		return ENOENT;
	}
}

static int
call_get(const ctl_node_t *leaf, const ctl_call_t *call, ctl_value_t *out) {
	assert(leaf->access == CTL_R || leaf->access == CTL_RW);
	memset(out, 0, sizeof(*out));
	return (leaf->flags & CTL_DIRECT) != 0 ? read_direct(leaf, out) : leaf->get(call, out);
}

/*
 * Calls what writes a leaf, with a copy, because newp may be misaligned. A bool of the caller may
 * have any byte value; all but 0 are true.
 */
static int
call_set(const ctl_node_t *leaf, const ctl_call_t *call) {
	assert(leaf->access != CTL_R && leaf->access != CTL_RAW);
	ctl_value_t value = {.u64 = 0};
	const ctl_value_t *in = call->newp == NULL ? NULL : &value;
	if (in != NULL && leaf->type == CTL_BOOL) {
		value.b = *(const unsigned char *)call->newp != 0;
	} else if (in != NULL) {
		assert(leaf_size(leaf) <= sizeof(value));
		memcpy(&value, call->newp, leaf_size(leaf));
	}
	return (leaf->flags & CTL_DIRECT) != 0 ? write_direct(leaf, in) : leaf->set(call, in);
}

/*
 * Reads a leaf into oldp and sets it from newp, as far as the caller gave these; with CTL_NULL_NEW
 * it is set without newp too. It is read before it is set, unless it is flagged CTL_AFTER. If
 * *oldlenp is not the size of the value, the leaf is not set, as much of the value as fits is
 * stored in oldp, and the result is EINVAL (ctl_reply). If reading or setting it fails, nothing is
 * stored in oldp; with CTL_AFTER the leaf is set already if reading fails.
 */
static int
call_read_write(const ctl_node_t *leaf, const ctl_call_t *call) {
	assert(leaf->access == CTL_RW);
	ctl_value_t value;
	size_t size = leaf_size(leaf);
	bool must_set = call->newp != NULL || (leaf->flags & CTL_NULL_NEW) != 0;
	bool after = (leaf->flags & CTL_AFTER) != 0;
	bool fits = ctl_has_room(call, size);
	int err;
	if (must_set && after && (fits || !ctl_wants_reply(call))) {
		if ((err = call_set(leaf, call)) != 0) {
			return err;
		}
		must_set = false;
	}
	if (ctl_wants_reply(call)) {
		if ((err = call_get(leaf, call, &value)) != 0) {
			return err;
		}
		if (!fits) {
			return ctl_reply(call, &value, size);
		}
	}
	if (must_set && (err = call_set(leaf, call)) != 0) {
		return err;
	}
	return ctl_reply(call, &value, size);
}

/*
 * Calls a leaf whose arguments were checked. One of CTL_R is read even if no reply is wanted, so
 * the result is that of the read.
 */
static int
call_leaf_checked(const ctl_node_t *leaf, const ctl_call_t *call) {
	assert((leaf->flags & CTL_LOCKED) == 0 || mutex_is_owner(&snapshot_mutex));
	assert((leaf->flags & CTL_OUTSIDE) != 0 || gate_is_entered(tls_get()));
	ctl_value_t value;
	int err;
	switch ((ctl_access_t)leaf->access) {
	case CTL_R:
		err = call_get(leaf, call, &value);
		return err != 0 ? err : ctl_reply(call, &value, leaf_size(leaf));
	case CTL_W:
		if (call->newp == NULL && (leaf->flags & CTL_NULL_NEW) == 0) {
			return 0;
		}
		return call_set(leaf, call);
	case CTL_RW:
		return call_read_write(leaf, call);
	case CTL_ACT:
		return leaf->set(call, NULL);
	case CTL_RAW:
		if (leaf->size == 0) {
			return leaf->get(call, NULL);
		}
		if (!ctl_has_room(call, leaf->size) || call->newp == NULL
		    || call->newlen != ctl_node_arg(leaf)) {
			return EINVAL;
		}
		err = leaf->get(call, &value);
		return err != 0 ? err : ctl_reply(call, &value, leaf->size);
	}
	assert_not_reached();
	return ENOENT;
}

/*
 * Checks the call and calls the leaf: inside the gate unless it is flagged CTL_OUTSIDE, and with
 * snapshot_mutex held if it is flagged CTL_LOCKED.
 */
static int
call_leaf(const ctl_node_t *leaf, const ctl_call_t *call) {
	int err = check_conditions(leaf->flags);
	if (err != 0 || (err = check_access(leaf, call)) != 0) {
		return err;
	}
	bool takes_new = leaf->access == CTL_W || leaf->access == CTL_RW;
	if (takes_new && (err = check_new(leaf, call)) != 0) {
		return err;
	}
	bool in_gate = (leaf->flags & CTL_OUTSIDE) == 0;
	assert(leaf->kind == CTL_LEAF && (in_gate || (leaf->flags & CTL_LOCKED) == 0));
	struct tls_s *tls = tls_get();
	if (in_gate) {
		gate_enter(tls);
	}
	if ((leaf->flags & CTL_LOCKED) != 0) {
		mutex_lock(&snapshot_mutex);
	}
	err = call_leaf_checked(leaf, call);
	if ((leaf->flags & CTL_LOCKED) != 0) {
		mutex_unlock(&snapshot_mutex);
	}
	if (in_gate) {
		gate_exit(tls);
	}
	return err;
}

/* Reads a member of the struct that the base() of the directory returns; ENOENT if that is NULL. */
static int
call_field(const ctl_node_t *dir, size_t i, const ctl_call_t *call) {
	assert(dir->kind == CTL_DIR && i < dir->nfields);
	const ctl_field_t *field = &dir->fields[i];
	size_t size = ctl_type_size((ctl_type_t)field->type);
	ctl_value_t value;
	int err = check_conditions(dir->flags | field->flags);
	if (err != 0) {
		return err;
	}
	struct tls_s *tls = tls_get();
	gate_enter(tls);
	mutex_lock(&snapshot_mutex);
	const char *base = dir->base(dir, call->mib);
	if (base != NULL) {
		memcpy(&value, base + field->offset, size);
	}
	mutex_unlock(&snapshot_mutex);
	gate_exit(tls);
	return base == NULL ? ENOENT : ctl_reply(call, &value, size);
}

/*
 * In a forked child: gives back what absent threads (those of its ancestors: they do not exist
 * here) had cached, so that statistics and actions see it in the arenas.
 */
static COLD void
end_absent_threads(void) {
	struct tls_s *tls = tls_get();
	gate_enter(tls);
	while (tsd_try_end_absent()) {
	}
	gate_exit(tls);
}

/*
 * Calls what is at a position. EAGAIN in a lost child (os/gate.h), whatever the position is; ENOENT
 * for a directory; EPERM if a field or list item is to be written; otherwise what the leaf returns.
 */
static int
call_place(const ctl_place_t *at, const ctl_call_t *call) {
	const ctl_node_t *node = at->node;
	if (gate_is_lost()) {
		return EAGAIN;
	}
	if (gate_has_absent()) {
		end_absent_threads();
	}
	if (at->item == NO_ITEM) {
		return node->kind == CTL_LEAF ? call_leaf(node, call) : ENOENT;
	}
	if (call->newp != NULL || call->newlen != 0) {
		return EPERM;
	}
	if (node->kind == CTL_DIR) {
		return call_field(node, at->item, call);
	}
	ctl_value_t value;
	memset(&value, 0, sizeof(value));
	int err = ctl_opt_read(at->item, &value);
	return err != 0 ? err : ctl_reply(call, &value, ctl_type_size(ctl_opt_type(at->item)));
}

/* ------------------------------------------------------------------ entries */

int
ctl_byname(const char *name, void *oldp, size_t *oldlenp, void *newp, size_t newlen) {
	ctl_place_t at;
	size_t mib[CTL_MAX_DEPTH + 1];
	size_t miblen = ARRAY_LEN(mib);
	if (name == NULL) {
		return EINVAL;
	}
	int err = walk_name(&at, name, mib, &miblen);
	if (err != 0) {
		return err;
	}
	ctl_call_t call = {mib, oldp, oldlenp, newp, newlen, at.node};
	return call_place(&at, &call);
}

int
ctl_nametomib(const char *name, size_t *mibp, size_t *miblenp) {
	ctl_place_t at;
	size_t mib[CTL_MAX_DEPTH + 1];
	if (name == NULL || miblenp == NULL || (mibp == NULL && *miblenp > 0)) {
		return EINVAL;
	}
	size_t depth = min_zu(*miblenp, ARRAY_LEN(mib));
	int err = walk_name(&at, name, mib, &depth);
	if (err == 0) {
		if (depth > 0) {
			memcpy(mibp, mib, depth * sizeof(mib[0]));
		}
		*miblenp = depth;
	}
	return err;
}

int
ctl_bymib(const size_t *mib, size_t miblen, void *oldp, size_t *oldlenp, void *newp,
    size_t newlen) {
	ctl_place_t at;
	if (mib == NULL && miblen > 0) {
		return EINVAL;
	}
	int err = walk_mib(&at, mib, miblen);
	if (err != 0) {
		return err;
	}
	ctl_call_t call = {mib, oldp, oldlenp, newp, newlen, at.node};
	return call_place(&at, &call);
}

void
ctl_postfork_child(void) {
	mutex_renew_in_child(&snapshot_mutex, "ctl", WITNESS_RANK_CTL);
}
