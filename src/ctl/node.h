/*
 * Types of the tree of mallctl: nodes, fields, lists, and macros for their rows.
 * A node is constant data: a directory of named children, a directory of numbered children that are
 * all alike, or a leaf. A directory of statistics also has a field list, whose entries are further
 * leaves that read members of one struct. All checks that leaves share (access, sizes, NULL,
 * conditions of the build) are made in ctl.c from the data here; get and set functions, but those
 * of CTL_NODE_RAW, only see values of the right size. If a function of another module returns the
 * value of a leaf, and another sets it, the row names these functions, and ctl/ needs no code for
 * the leaf (CTL_VALUE_R, CTL_VALUE_RW). Texts for the manual stand in the rows. No state and no
 * lock. Used by the files of ctl/, by stats.c and, for the texts, by doc/manual.c.
 */
#pragma once

#include "util/compiler.h"
#include "util/emitter.h"
#include "util/manual.h"

/*
 * A MIB is the path of a leaf as numbers: the position in a directory (children first, then fields
 * or list items), or the index itself in a directory of numbered children.
 */
#define CTL_MAX_DEPTH 7 /* most numbers of a MIB */
/* Indices of arena.<i> and stats.arenas.<i> that name no single arena: all, and the destroyed. */
#define CTL_ARENAS_ALL 4096
#define CTL_ARENAS_DESTROYED 4097
/* most bytes of a name, with its NUL */
#define CTL_ENTRY_NAME_SIZE 28

typedef enum {
	CTL_DIR,   /* named children, then fields of the struct that base() returns */
	CTL_ROOT,  /* named children by pointer: the nodes of ctl_rooms.h */
	CTL_LIST,  /* named children, then the options (ctl_opt_name() and so on): opt.* */
	CTL_INDEX, /* numbered children, all like children[0] */
	CTL_LEAF
} ctl_kind_t;

/* Types that are printed have the numbers of the emitter. */
typedef enum {
	CTL_NONE,   /* no value */
	CTL_BOOL = emitter_type_bool,
	CTL_UNSIGNED = emitter_type_unsigned,
	CTL_U32 = emitter_type_uint32,
	CTL_U64 = emitter_type_uint64,
	CTL_SIZE = emitter_type_size,
	CTL_SSIZE = emitter_type_ssize,
	CTL_STRING = emitter_type_string, /* const char * */
	CTL_POINTER,
	CTL_BYTES,  /* a struct of node->size bytes */
	CTL_NTYPES
} ctl_type_t;

/* The calls that a leaf allows. */
typedef enum {
	CTL_R = 1,
	CTL_W = 2,
	CTL_RW = 3,
	CTL_ACT = 4, /* the call has an effect, but no value */
	CTL_RAW = 5  /* get() reads newp, and examines the arguments unless the leaf has a size */
} ctl_access_t;

/* Flags of a leaf or directory. */
enum {
	CTL_NEED_NEW = 1 << 0, /* a write without newp fails with EINVAL instead of doing nothing */
	CTL_NULL_NEW = 1 << 1, /* set() is called without newp too, with NULL */
	CTL_AFTER = 1 << 2,    /* the value that is returned is the one after the write */
	CTL_LOCKED = 1 << 3,   /* get and set are called with snapshot_mutex held */
	CTL_OUTSIDE = 1 << 4,  /* get and set are called outside the gate: they may block for long */
	CTL_IF_STATS = 1 << 5, /* ENOENT if the build has no statistics */
	CTL_IF_PROF = 1 << 6,  /* ENOENT if the build has no profiler */
	CTL_IF_BOOTED = 1 << 7, /* ENOENT unless the profiler is built in and booted */
	CTL_ANY_ARGS = 1 << 8, /* for CTL_ACT: arguments are ignored instead of EPERM */
	CTL_DIRECT = 1 << 9    /* the leaf has `reader` and perhaps `writer`, not get and set */
};
/* In the flags: a number by which nodes with the same functions differ, below 2^16 (ctl_arg()). */
#define CTL_ARG_SHIFT 16
#define CTL_ARG(n) ((uint32_t)(n) << CTL_ARG_SHIFT)

/* A value of any leaf. */
typedef union {
	bool b;
	unsigned u;
	uint32_t u32;
	uint64_t u64;
	size_t z;
	ssize_t sz;
	const char *s;
	const void *p;
	uint64_t words[6];
} ctl_value_t;

/* The arguments of mallctl(), for leaves that examine them themselves. */
typedef struct {
	const size_t *mib; /* the path of the leaf */
	void *oldp;
	size_t *oldlenp;
	void *newp;
	size_t newlen;
	/* the leaf; for a field or list item, which has no node, the directory that contains it */
	const struct ctl_node_s *leaf;
} ctl_call_t;

/*
 * Reads a leaf. Returns 0 or an errno value; *out is zeroed before the call. For CTL_RAW without a
 * size (CTL_NODE_RAW) out is NULL, and the function replies by ctl_reply(); with one (CTL_NODE_ASK)
 * it sets *out, which is not zeroed.
 */
typedef int ctl_get_fn_t(const ctl_call_t *call, ctl_value_t *out);
/*
 * Writes a leaf, or carries out CTL_ACT. Returns 0 or an errno value. `in` has the value, of the
 * leaf's type; NULL for CTL_ACT, and with CTL_NULL_NEW if there is no newp.
 */
typedef int ctl_set_fn_t(const ctl_call_t *call, const ctl_value_t *in);
/*
 * Whether a directory of numbered children has the child i, which may be any number. Called outside
 * the gate too, and without a lock.
 */
typedef bool ctl_has_fn_t(size_t i);
/* What returns the value of a CTL_DIRECT leaf, by its type. */
typedef union {
	bool (*as_boolean)(void);
	unsigned (*as_unsigned)(void);
	uint32_t (*as_uint32_t)(void);
	uint64_t (*as_uint64_t)(void);
	size_t (*as_size_t)(void);
	ssize_t (*as_ssize_t)(void);
	const char *(*as_string)(void);
} ctl_reader_t;
/* What sets the value of a CTL_DIRECT leaf, by its type. Returns 0 or an errno value. */
typedef union {
	int (*as_boolean)(bool value);
	int (*as_uint32_t)(uint32_t value);
	int (*as_size_t)(size_t value);
	int (*as_ssize_t)(ssize_t value);
	int (*as_string)(const char *value);
} ctl_writer_t;
/*
 * Returns the struct whose members are the fields of the directory `dir`, which is at `mib`; NULL:
 * there is none, and the call of mallctl fails with ENOENT. ctl.c calls it with snapshot_mutex
 * held. stats.c calls only the function of config.*, without the lock and with mib NULL.
 */
typedef const void *ctl_base_fn_t(const struct ctl_node_s *dir, const size_t *mib);

/* A member of a struct as a leaf. */
typedef struct {
	char name[CTL_ENTRY_NAME_SIZE];
	/* Offset of the member in bytes. */
	uint16_t offset;
	uint8_t type;  /* ctl_type_t */
	uint8_t flags; /* CTL_IF_STATS or 0 */
	MANUAL_MEMBER(text)
} ctl_field_t;

typedef struct ctl_node_s {
	char name[CTL_ENTRY_NAME_SIZE];
	uint8_t kind;   /* ctl_kind_t */
	uint8_t type;   /* ctl_type_t of a leaf */
	uint8_t access; /* ctl_access_t of a leaf */
	uint8_t size;   /* bytes of a CTL_BYTES value; in a directory, of use to its base() */
	/* Flags of the enum above, and CTL_ARG(). */
	uint32_t flags;
	/* Number of children, or of rooms for CTL_ROOT. */
	uint16_t nchildren;
	uint16_t nfields;
	/* Which member of each union is valid: `kind`, and CTL_DIRECT among the flags, decide. */
	union {
		const struct ctl_node_s *children;
		const struct ctl_node_s *const *rooms; /* CTL_ROOT */
	};
	union {
		ctl_get_fn_t *get;
		const ctl_field_t *fields;
		ctl_has_fn_t *has;
		ctl_reader_t reader;
	};
	union {
		ctl_set_fn_t *set;
		ctl_writer_t writer;
		ctl_base_fn_t *base;
	};
	MANUAL_MEMBER(text)
	MANUAL_MEMBER(takes) /* for the manual: type and access of a CTL_RAW leaf */
} ctl_node_t;

/*
 * Macros for rows: n the name, t the type, g and s the get and set function, r and w the reader and
 * writer, fl the flags, `says` the text for the manual (util/manual.h), `what` the member takes.
 */
#define CTL_NODE_DIR(n, kids) \
	{.name = n, .kind = CTL_DIR, .children = (kids), .nchildren = ARRAY_LEN(kids)}
/* A directory with numbered children, of which `fn` tells which exist; proto is their prototype. */
#define CTL_NODE_NUMBERED(n, proto, fn) \
	{.name = n, .kind = CTL_INDEX, .children = (proto), .nchildren = 1, .has = (fn)}
/* A directory whose leaves are the fields of a struct. */
#define CTL_NODE_FIELDS(n, f, b, fl) \
	{.name = n, .kind = CTL_DIR, .fields = (f), .nfields = ARRAY_LEN(f), .base = (b), .flags = (fl)}
/* Like CTL_NODE_FIELDS, for fields that several directories have; t says what they are about. */
#define CTL_NODE_SAME_FIELDS(n, f, b, fl, t) \
	{.name = n, .kind = CTL_DIR, .fields = (f), .nfields = ARRAY_LEN(f), .base = (b), \
	    .flags = (fl), MANUAL(text, t)}
/* A directory with both children and fields. */
#define CTL_NODE_BOTH(n, kids, f, b, fl) \
	{.name = n, .kind = CTL_DIR, .children = (kids), .nchildren = ARRAY_LEN(kids), .fields = (f), \
	    .nfields = ARRAY_LEN(f), .base = (b), .flags = (fl)}
#define CTL_NODE_R(n, t, g, fl, says) \
	{.name = n, .kind = CTL_LEAF, .type = (t), .access = CTL_R, .get = (g), .flags = (fl), \
	    MANUAL(text, says)}
#define CTL_NODE_W(n, t, s, fl, says) \
	{.name = n, .kind = CTL_LEAF, .type = (t), .access = CTL_W, .set = (s), .flags = (fl), \
	    MANUAL(text, says)}
#define CTL_NODE_RW(n, t, g, s, fl, says) \
	{.name = n, .kind = CTL_LEAF, .type = (t), .access = CTL_RW, .get = (g), .set = (s), \
	    .flags = (fl), \
	    MANUAL(text, says)}
/* Leaves that name the functions of their value; t is a type as in CTL_FIELD. */
#define CTL_VALUE_R(n, t, r, fl, says) \
	{.name = n, .kind = CTL_LEAF, .type = CTL_TYPE_##t, .access = CTL_R, \
	    .reader.as_##t = (r), .flags = CTL_DIRECT | (fl), \
	    MANUAL(text, says)}
#define CTL_VALUE_RW(n, t, r, w, fl, says) \
	{.name = n, .kind = CTL_LEAF, .type = CTL_TYPE_##t, .access = CTL_RW, \
	    .reader.as_##t = (r), .writer.as_##t = (w), .flags = CTL_DIRECT | (fl), \
	    MANUAL(text, says)}
#define CTL_NODE_ACT(n, s, fl, says) \
	{.name = n, .kind = CTL_LEAF, .type = CTL_NONE, .access = CTL_ACT, .set = (s), .flags = (fl), \
	    MANUAL(text, says)}
#define CTL_NODE_RAW(n, g, fl, what, says) \
	{.name = n, .kind = CTL_LEAF, .type = CTL_NONE, .access = CTL_RAW, .get = (g), .flags = (fl), \
	    MANUAL(takes, what) MANUAL(text, says)}
/*
 * The same for a question of type `in` with an answer of type `out`: get() is called only if the
 * caller gives the one in newp and has room for the other, else the result is EINVAL.
 */
#define CTL_NODE_ASK(n, g, in, out, fl, what, says) \
	{.name = n, .kind = CTL_LEAF, .type = CTL_NONE, .access = CTL_RAW, .size = sizeof(out), \
	    .get = (g), .flags = CTL_ARG(sizeof(in)) | (fl), \
	    MANUAL(takes, what) MANUAL(text, says)}

/* The ctl_type_t of a type as rows name it: a C type, string (const char *) or boolean. */
#define CTL_TYPE_unsigned CTL_UNSIGNED
#define CTL_TYPE_uint32_t CTL_U32
#define CTL_TYPE_uint64_t CTL_U64
#define CTL_TYPE_size_t CTL_SIZE
#define CTL_TYPE_ssize_t CTL_SSIZE
#define CTL_TYPE_string CTL_STRING
#define CTL_TYPE_boolean CTL_BOOL
/* A row of a field list: name of the leaf, struct, member, type, flags, text for the manual. */
#define CTL_FIELD(n, strct, member, t, fl, says) \
	{.name = n, .offset = offsetof(strct, member), .type = CTL_TYPE_##t, .flags = (fl), \
	    MANUAL(text, says)}

/* The root of the tree; defined in ctl_tree.c. */
extern const ctl_node_t ctl_root;

/* Bytes of a value of this type, 0 for CTL_NONE; not for CTL_BYTES, whose size is in the node. */
size_t ctl_type_size(ctl_type_t type);

/* The number that CTL_ARG() has put into the flags of the node. */
static inline unsigned
ctl_node_arg(const ctl_node_t *node) {
	return node->flags >> CTL_ARG_SHIFT;
}

/*
 * The struct that a directory of statistics is about. It lies in `whole`, a snapshot_global_t or
 * snapshot_arena_t; CTL_ARG() of the directory is its offset in bytes. For a directory about an
 * element of an array, CTL_ARG() is the offset of element 0, dir->size is the size of an element in
 * bytes, and i is the index; for others i is 0. NULL if `whole` is NULL.
 */
static inline const void *
ctl_node_part(const ctl_node_t *dir, const void *whole, size_t i) {
	return whole == NULL ? NULL : (const char *)whole + ctl_node_arg(dir) + i * dir->size;
}

/* That number of the leaf of a call. */
static inline unsigned
ctl_arg(const ctl_call_t *call) {
	return ctl_node_arg(call->leaf);
}

/* Whether the caller wants the value. */
static inline bool
ctl_wants_reply(const ctl_call_t *call) {
	return call->oldp != NULL && call->oldlenp != NULL;
}

/* Whether the caller wants a value of exactly this size. */
static inline bool
ctl_has_room(const ctl_call_t *call, size_t size) {
	return ctl_wants_reply(call) && *call->oldlenp == size;
}

/*
 * Returns a value to the caller of mallctl, if it wants one. 0, or EINVAL if *oldlenp differs from
 * size; then as much as fits is copied, and *oldlenp becomes that many bytes.
 */
int ctl_reply(const ctl_call_t *call, const void *value, size_t size);
