/*
 * Hash table with chained buckets in 256 shards (prof_table.h). An insertion doubles the bucket
 * array of the shard first if that has two nodes per bucket on average already.
 *
 * Invariant: while nobody holds the shard's lock, every node is reachable from the shard's current
 * bucket array; a reader without the lock may miss a node during a rehash. Locks: one per shard,
 * rank PROF_SITES, taken inside the gate (os/gate.h: fork waits until no thread is inside); under
 * it those of the region (for arrays) and of the retire function. prof_table_find() may run without
 * it. Called by prof_data.c.
 */
#include "prof/sites/prof_table.h"

#include "meta/region.h"
#include "os/gate.h"
#include "util/bits.h"

cassert(PROF_TABLE_SHARDS == 1 << 8); /* the upper 8 bits of a hash choose the shard */
cassert((PROF_BUCKETS_MIN & (PROF_BUCKETS_MIN - 1)) == 0);
cassert(offsetof(prof_buckets_t, link) == 0 && sizeof(prof_shard_t) % CACHELINE == 0);

static prof_shard_t *
table_shard(const prof_table_t *t, uint64_t hash) {
	return (prof_shard_t *)(uintptr_t)&t->shards[hash >> 56];
}

static atomic_p_t *
buckets_slot(prof_buckets_t *b, uint64_t hash) {
	return &b->slot[hash & (b->n - 1)];
}

void
prof_table_init(prof_table_t *t, const char *name, prof_table_eq_t *is_equal,
    void (*retire)(prof_link_t *)) {
	t->is_equal = is_equal;
	t->retire = retire;
	for (size_t i = 0; i < PROF_TABLE_SHARDS; i++) {
		prof_shard_t *s = &t->shards[i];
		assert(s->nnodes == 0 && s->first.buckets.link.bytes == 0);
		mutex_init(&s->mtx, name, WITNESS_RANK_PROF_SITES);
		s->first.buckets.n = PROF_BUCKETS_MIN;
		atomic_store_p(&s->buckets, &s->first.buckets, MO_RELEASE);
	}
}

prof_node_t *
prof_table_find(const prof_table_t *t, uint64_t hash, const void *key) {
	prof_buckets_t *b = atomic_load_p(&table_shard(t, hash)->buckets, MO_ACQUIRE);
	assert(b != NULL);
	prof_node_t *n = atomic_load_p(buckets_slot(b, hash), MO_ACQUIRE);
	while (n != NULL && (n->hash != hash || !t->is_equal(n, key))) {
		n = atomic_load_p(&n->next, MO_ACQUIRE);
	}
	return n;
}

mutex_t *
prof_table_lock(prof_table_t *t, uint64_t hash) {
	mutex_t *mtx = &table_shard(t, hash)->mtx;
	assert(gate_is_entered(tls_get()));
	mutex_lock(mtx);
	return mtx;
}

void
prof_table_unlock(prof_table_t *t, uint64_t hash) {
	mutex_unlock(&table_shard(t, hash)->mtx);
}

static prof_buckets_t *
buckets_new(size_t n) {
	assert(is_pow2_zu(n));
	size_t bytes = sizeof(prof_buckets_t) + n * sizeof(atomic_p_t);
	prof_buckets_t *b = region_alloc(bytes);
	if (b != NULL) {
		assert(bytes <= UINT32_MAX);
		b->link.bytes = (uint32_t)bytes;
		b->n = n;
	}
	return b;
}

static void
bucket_push(prof_buckets_t *b, prof_node_t *n) {
	atomic_p_t *slot = buckets_slot(b, n->hash);
	atomic_store_p(&n->next, atomic_load_p(slot, MO_RELAXED), MO_RELEASE);
	atomic_store_p(slot, n, MO_RELEASE);
}

/* Moves all nodes to the new array; a reader inside a chain continues in the node's new chain. */
static void
shard_rehash_locked(prof_shard_t *s, prof_buckets_t *to) {
	prof_buckets_t *from = atomic_load_p(&s->buckets, MO_RELAXED);
	size_t moved = 0;
	mutex_assert_owner(&s->mtx);
	for (size_t i = 0; i < from->n; i++) {
		prof_node_t *n = atomic_load_p(&from->slot[i], MO_RELAXED);
		while (n != NULL) {
			prof_node_t *next = atomic_load_p(&n->next, MO_RELAXED);
			assert((n->hash & (from->n - 1)) == i);
			bucket_push(to, n);
			moved++;
			n = next;
		}
	}
	assert(moved == s->nnodes);
	(void)moved;
}

/*
 * Doubles the bucket array if there are two nodes per bucket; without memory it stays, and the
 * chains grow longer. The array that is part of the shard is not retired.
 */
static void
shard_reserve_locked(prof_table_t *t, prof_shard_t *s) {
	prof_buckets_t *old = atomic_load_p(&s->buckets, MO_RELAXED);
	prof_buckets_t *b = s->nnodes < 2 * old->n ? NULL : buckets_new(2 * old->n);
	if (b == NULL) {
		return;
	}
	shard_rehash_locked(s, b);
	atomic_store_p(&s->buckets, b, MO_RELEASE);
	if (old != &s->first.buckets) {
		t->retire(&old->link);
	}
}

void
prof_table_insert_locked(prof_table_t *t, prof_node_t *node) {
	prof_shard_t *s = table_shard(t, node->hash);
	mutex_assert_owner(&s->mtx);
	shard_reserve_locked(t, s);
	bucket_push(atomic_load_p(&s->buckets, MO_RELAXED), node);
	s->nnodes++;
}

/* The removed node keeps its `next`, so that a reader that stands on it can continue. */
void
prof_table_remove_locked(prof_table_t *t, prof_node_t *node) {
	prof_shard_t *s = table_shard(t, node->hash);
	mutex_assert_owner(&s->mtx);
	prof_buckets_t *b = atomic_load_p(&s->buckets, MO_RELAXED);
	atomic_p_t *at = buckets_slot(b, node->hash);
	prof_node_t *n = atomic_load_p(at, MO_RELAXED);
	while (n != node) {
		assert(n != NULL);
		at = &n->next;
		n = atomic_load_p(at, MO_RELAXED);
	}
	atomic_store_p(at, atomic_load_p(&node->next, MO_RELAXED), MO_RELEASE);
	assert(s->nnodes > 0);
	s->nnodes--;
}

void
prof_table_visit_mutexes(prof_table_t *t, mutex_visit_t *visit, mutex_prof_data_t *of) {
	for (size_t i = 0; i < PROF_TABLE_SHARDS; i++) {
		visit(&t->shards[i].mtx, of);
	}
}
