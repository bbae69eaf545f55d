/*
 * mallctl by name and by MIB. Input: flags, room for the old value, length of the new one; then the
 * name up to a NUL, or a count and words of a MIB; then the bytes of the new value. All three
 * blocks are of exactly that size, so that a byte too far is a fault of memory.
 * A new value that the library is told to follow as a pointer has to be one: for names and texts it
 * points to the rest of the input, and functions are not written.
 */
#include "target.h"

#include "ctl/ctl.h"
#include "ctl/node.h"
#include "prof/control/prof_session.h"
#include "prof/file/prof_log.h"

enum { BY_MIB = 1, NO_OLD = 2, NO_OLDLEN = 4, NO_NEW = 8, IS_FROM_NAME = 16, NEW_IS_TEXT = 32 };
#define MIB_MAX 12
#define ARENA_NAME_ROOM 32

typedef struct {
	const uint8_t *at;
	size_t left;
} input_t;

static uint8_t
take_byte(input_t *in) {
	if (in->left == 0) {
		return 0;
	}
	in->left--;
	return *in->at++;
}

/*
 * The leaf of a MIB as far as its own numbers say; NULL: none, or a field or item, which are only
 * read. *is_risky: it is experimental.
 */
static const ctl_node_t *
leaf_of(const size_t *mib, size_t len, bool *is_risky) {
	const ctl_node_t *n = &ctl_root;
	for (size_t i = 0; i < len && n != NULL && n->kind != CTL_LEAF; i++) {
		if (n->kind != CTL_INDEX && mib[i] >= n->nchildren) {
			return NULL;
		}
		n = n->kind == CTL_INDEX ? &n->children[0] : n->kind == CTL_ROOT ? n->rooms[mib[i]]
		    : &n->children[mib[i]];
		*is_risky |= strcmp(n->name, "experimental") == 0;
	}
	return n != NULL && n->kind == CTL_LEAF ? n : NULL;
}

/* What the new value may be: 0 any bytes, 1 a pointer to text, -1 none. */
static int
new_kind(const ctl_node_t *leaf, bool is_risky) {
	if (leaf == NULL) {
		return 0;
	}
	if (leaf->type == CTL_POINTER || strcmp(leaf->name, "create") == 0
	    || (is_risky && (leaf->access == CTL_RAW || leaf->type == CTL_BYTES))) {
		return -1;
	}
	return leaf->type == CTL_STRING || (leaf->access == CTL_RAW
	    && (strcmp(leaf->name, "name") == 0 || strcmp(leaf->name, "label_id") == 0));
}

/*
 * Whether the texts of the nodes tell of this result. The two that write a profile also return the
 * errno of the call that failed, here that of a look at the path, and dump_delta ENODATA; the start
 * of a session returns that of its black box.
 */
static bool
is_told(const ctl_node_t *leaf, int err) {
	const char *name = leaf != NULL ? leaf->name : "";
	bool is_dump = strcmp(name, "dump") == 0 || strcmp(name, "dump_delta") == 0;
	bool is_start = strcmp(name, "start") == 0;
	return err == 0 || err == EINVAL || err == ENOENT || err == EPERM || err == EAGAIN
	    || err == EFAULT || err == EALREADY || err == EBUSY
	    || (is_dump && (err == ENODATA || err == EACCES || err == EISDIR || err == ELOOP
	    || err == ENAMETOOLONG || err == ENOTDIR))
	    || (is_start && (err == ENOSPC || err == EFBIG || err == ENOMEM));
}

static size_t
take_mib(input_t *in, size_t mib[MIB_MAX]) {
	size_t len = take_byte(in) % MIB_MAX;
	for (size_t i = 0; i < len; i++) {
		uint8_t b = take_byte(in);
		/* Mostly small; 4096 and neighbours, and ends of the range. */
		mib[i] = b < 224 ? b : b < 240 ? (size_t)4090 + (b & 15) : b < 248 ? SIZE_MAX - (b & 7)
		    : ((size_t)1 << 32) + (b & 7);
	}
	return len;
}

static size_t
take_name(input_t *in, char **name) {
	const uint8_t *end = in->left == 0 ? NULL : memchr(in->at, 0, in->left);
	size_t len = end == NULL ? in->left : (size_t)(end - in->at);
	*name = copy_exactly(in->left == 0 ? (const uint8_t *)"" : in->at, len, true);
	in->at += len;
	in->left -= len;
	take_byte(in);
	return len;
}

static void
call(input_t *in, unsigned flags, size_t oldlen, size_t newlen) {
	size_t mib[MIB_MAX], miblen = MIB_MAX;
	char *name = NULL;
	if ((flags & BY_MIB) != 0 && (flags & IS_FROM_NAME) == 0) {
		miblen = take_mib(in, mib);
	} else {
		take_name(in, &name);
		if (ctl_nametomib(name, mib, &miblen) != 0) {
			miblen = 0;
		}
	}
	bool is_risky = false;
	const ctl_node_t *leaf = leaf_of(mib, miblen, &is_risky);
	int kind = new_kind(leaf, is_risky);
	newlen = kind == 1 && (flags & NEW_IS_TEXT) != 0 ? sizeof(char *) : newlen;
	newlen = kind == 1 && newlen == sizeof(char *) ? newlen : min_zu(newlen, in->left);
	char *text = copy_exactly(in->at, in->left, true);
	char *new = copy_exactly(in->at, newlen < in->left ? newlen : 0, false);
	if (kind == 1 && newlen == sizeof(char *)) {
		free(new);
		new = copy_exactly((const uint8_t *)&text, sizeof(char *), false);
	} else if (newlen >= in->left) {
		newlen = in->left;
		free(new);
		new = copy_exactly(in->at, newlen, false);
	}
	char *old = calloc(1, oldlen + (oldlen == 0));
	char *where = malloc(ARENA_NAME_ROOM);
	if (oldlen >= sizeof(char *)) {
		/* arena.<i>.name writes to where the old value points. */
		memcpy(old, &where, sizeof(char *));
	}
	bool has_new = kind >= 0 && (flags & NO_NEW) == 0;
	size_t *lenp = (flags & NO_OLDLEN) != 0 ? NULL : &oldlen;
	void *oldp = (flags & NO_OLD) != 0 ? NULL : old;
	int err = (flags & BY_MIB) != 0 ? ctl_bymib(mib, miblen, oldp, lenp, has_new ? new : NULL,
	    has_new ? newlen : 0) : ctl_byname(name, oldp, lenp, has_new ? new : NULL, has_new ? newlen
	    : 0);
	if (!is_told(leaf, err)) {
		abort();
	}
	free(where);
	free(old);
	free(new);
	free(text);
	free(name);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static bool is_booted;
	input_t in = {data, size};
	if (!is_booted) {
		/* The profiler is there from its first session on. */
		is_booted = prof_session_start(NULL, NULL, NULL) == 0 && prof_session_stop(0, NULL) == 0;
	}
	unsigned flags = take_byte(&in);
	size_t oldlen = take_byte(&in) % 80, newlen = take_byte(&in) % 80;
	call(&in, flags, oldlen, newlen);
	prof_session_stop(0, NULL);
	prof_log_stop();
	return 0;
}
