/*
 * Hash table of nodes embedded in their owners, read without a lock and changed under one of 256
 * locks, which are taken inside the gate (os/gate.h: fork waits until no thread is inside). Used by
 * prof_data.c for sites and for counts.
 *
 * A reader that runs while a shard grows may follow a node into another chain and so miss a node
 * that is there. It never sees a node that was not inserted, but may find one that was removed just
 * before (prof_data.c marks those PROF_DEAD), and always terminates. So a miss is certain only
 * under the shard's lock. Replaced bucket arrays go to the retire function, as readers may still be
 * in them; not those that are part of a shard. Arrays never shrink.
 */
#pragma once

#include "os/mutex.h"
#include "prof/sites/prof_types.h"

#define PROF_TABLE_SHARDS 256
/* Buckets of a shard at first; a power of two. */
#define PROF_BUCKETS_MIN 4

typedef struct {
	prof_link_t link;
	size_t n; /* number of slots; a power of two */
	atomic_p_t slot[];
} prof_buckets_t;

typedef struct {
	mutex_t mtx;           /* rank PROF_SITES; held for one look-up and change */
	atomic_p_t buckets;    /* the current prof_buckets_t */
	size_t nnodes;         /* under mtx */
	/*
	 * The first array is part of the shard. So a table of few nodes needs no memory for arrays,
	 * even if each prof.reset brings new counts, whose hashes choose other shards.
	 */
	union {
		prof_buckets_t buckets;
		char room[sizeof(prof_buckets_t) + PROF_BUCKETS_MIN * sizeof(atomic_p_t)];
	} first;
} ALIGNED(CACHELINE) prof_shard_t;

/* Whether the node has this key. */
typedef bool prof_table_eq_t(const prof_node_t *node, const void *key);

typedef struct {
	prof_table_eq_t *is_equal;
	/* frees a bucket array later, when no reader is in it; called under the lock of a shard */
	void (*retire)(prof_link_t *link);
	prof_shard_t shards[PROF_TABLE_SHARDS];
} prof_table_t;

/* t is zeroed memory; name is that of the locks of its shards. */
void prof_table_init(prof_table_t *t, const char *name, prof_table_eq_t *is_equal,
    void (*retire)(prof_link_t *));
/*
 * Returns the node, or NULL if it is not there or was missed. The caller keeps nodes from being
 * freed, by a pin (prof_data.c) or by the lock of the shard.
 */
prof_node_t *prof_table_find(const prof_table_t *t, uint64_t hash, const void *key);
/* Locks the shard of the hash and returns its lock. */
mutex_t *prof_table_lock(prof_table_t *t, uint64_t hash);
void prof_table_unlock(prof_table_t *t, uint64_t hash);
/*
 * Both need the lock of node->hash, and cannot fail: without memory the chains grow longer. The
 * caller knows that the table does not have the key (insert), or has the node (remove).
 */
void prof_table_insert_locked(prof_table_t *t, prof_node_t *node);
void prof_table_remove_locked(prof_table_t *t, prof_node_t *node);
/* Visits the locks of all shards. */
void prof_table_visit_mutexes(prof_table_t *t, mutex_visit_t *visit, mutex_prof_data_t *of);
