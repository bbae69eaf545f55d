/*
 * Typed atomic words over the compiler's __atomic builtins, for all folders of src/ except conf/
 * and util/, which need none. Each type is a struct around one word, so it cannot be used like a
 * number by mistake. Every operation names its memory order, but for atomic_add_nonatomic_zu(),
 * which is relaxed. None takes a lock, as all targets have 64 bits. An object whose bytes are all
 * zero is a valid atomic that holds zero, so zeroed memory needs no initialisation.
 */
#pragma once

#include "util/compiler.h"

typedef int memorder_t;
#define MO_RELAXED __ATOMIC_RELAXED
#define MO_ACQUIRE __ATOMIC_ACQUIRE
#define MO_RELEASE __ATOMIC_RELEASE
#define MO_ACQ_REL __ATOMIC_ACQ_REL
#define MO_SEQ_CST __ATOMIC_SEQ_CST

#define atomic_fence(mo) __atomic_thread_fence(mo)

typedef struct { size_t repr; } atomic_zu_t;
typedef struct { uint32_t repr; } atomic_u32_t;
typedef struct { uint64_t repr; } atomic_u64_t;
typedef struct { uint8_t repr; } atomic_u8_t;
typedef struct { void *repr; } atomic_p_t;
typedef struct { bool repr; } atomic_b_t;

#define ATOMIC_DEFINE_LOAD(T, x) \
	ALWAYS_INLINE T atomic_load_##x(const atomic_##x##_t *a, memorder_t mo) { \
		return __atomic_load_n(&a->repr, mo); \
	}

#define ATOMIC_DEFINE_STORE(T, x) \
	ALWAYS_INLINE void atomic_store_##x(atomic_##x##_t *a, T v, memorder_t mo) { \
		__atomic_store_n(&a->repr, v, mo); \
	}

#define ATOMIC_DEFINE_EXCHANGE(T, x) \
	ALWAYS_INLINE T atomic_exchange_##x(atomic_##x##_t *a, T v, memorder_t mo) { \
		return __atomic_exchange_n(&a->repr, v, mo); \
	}

/*
 * strength is "weak" or "strong", is_weak the builtin's flag for it. Returns whether `desired` was
 * stored; if not, *expected becomes the value that was read. A weak one may fail without a cause.
 */
#define ATOMIC_DEFINE_CAS(T, x, strength, is_weak) \
	ALWAYS_INLINE bool atomic_cas_##strength##_##x(atomic_##x##_t *a, T *expected, T desired, \
	    memorder_t mo_s, memorder_t mo_f) { \
		return __atomic_compare_exchange_n(&a->repr, expected, desired, is_weak, mo_s, mo_f); \
	}

#define ATOMIC_DEFINE_FETCH(T, x, op) \
	ALWAYS_INLINE T atomic_fetch_##op##_##x(atomic_##x##_t *a, T v, memorder_t mo) { \
		return __atomic_fetch_##op(&a->repr, v, mo); \
	}

#define ATOMIC_DEFINE_BASIC(T, x) \
	ATOMIC_DEFINE_LOAD(T, x) \
	ATOMIC_DEFINE_STORE(T, x) \
	ATOMIC_DEFINE_EXCHANGE(T, x) \
	ATOMIC_DEFINE_CAS(T, x, weak, true) \
	ATOMIC_DEFINE_CAS(T, x, strong, false)

#define ATOMIC_DEFINE_INTEGER(T, x) \
	ATOMIC_DEFINE_BASIC(T, x) \
	ATOMIC_DEFINE_FETCH(T, x, add) \
	ATOMIC_DEFINE_FETCH(T, x, sub) \
	ATOMIC_DEFINE_FETCH(T, x, or) \
	ATOMIC_DEFINE_FETCH(T, x, and)

ATOMIC_DEFINE_INTEGER(size_t, zu)
ATOMIC_DEFINE_INTEGER(uint32_t, u32)
ATOMIC_DEFINE_INTEGER(uint64_t, u64)
ATOMIC_DEFINE_INTEGER(uint8_t, u8)
ATOMIC_DEFINE_BASIC(void *, p)
ATOMIC_DEFINE_BASIC(bool, b)

/*
 * Adds to a counter that has one writer at a time, such as the holder of a lock. "nonatomic": only
 * the addition as a whole. The load and the store are separate atomic accesses: a reader never sees
 * a torn value, and the writer needs no locked bus cycle.
 */
ALWAYS_INLINE void
atomic_add_nonatomic_zu(atomic_zu_t *a, size_t v) {
	atomic_store_zu(a, atomic_load_zu(a, MO_RELAXED) + v, MO_RELAXED);
}

/*
 * Adds to a sum of several threads. If it reaches the limit (> 0), takes all whole limits away and
 * returns what it was; else 0. Of threads that come at once one gets it.
 */
static inline uint64_t
atomic_sum_try_reach(atomic_u64_t *sum, uint64_t v, uint64_t limit) {
	uint64_t now = atomic_fetch_add_u64(sum, v, MO_RELAXED) + v;
	while (now >= limit) {
		if (atomic_cas_weak_u64(sum, &now, now % limit, MO_RELAXED, MO_RELAXED)) {
			return now;
		}
	}
	return 0;
}
