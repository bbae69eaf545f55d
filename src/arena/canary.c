/*
 * Reports damaged canaries (safety_fail(), which returns only if the user's hook does), and draws
 * the random contents of canaries; canary.h has the contract. Invariant: nothing here is called in
 * builds without canaries, except canary_boot(), which has no effect there. Callers: imalloc.c (a
 * block that is freed or resized), arena.c (free regions that go from slabs to a thread cache or
 * back) and jemalloc_init.c (canary_boot); the memory belongs to them, so there is no lock.
 */
#include "arena/canary.h"

#include "arena/safety.h"
#include "os/sys.h"

uint64_t canary_word;
uint64_t canary_key;

/*
 * canary_word is one random byte, repeated; canary_key has eight. All bytes of both are from 0x80
 * to 0xfe. So a byte 0, 0xff, ASCII or of a small number, which a faulty program writes most often,
 * is detected in every run if it is written over a canary, or over the byte in front of a block:
 * that is the last byte of the state of the region before it.
 */
COLD void
canary_boot(void) {
	if (config_hardening) {
		uint64_t seed = sys_random();
		canary_word = UINT64_C(0x0101010101010101) * (0x80 + (seed & 0x7f) % 127);
		canary_key = (seed * UINT64_C(0x9e3779b97f4a7c15) | UINT64_C(0x8080808080808080))
		    & UINT64_C(0xfefefefefefefefe);
	}
}

/* What is wrong with a pointer that fails canary_is_intact(). */
static const char *
canary_fault(const char *p, size_t reg, const edata_t *slab, const char *if_freed) {
	/* No region begins at p: a wrong pointer, or the pages became a slab of another class. */
	if ((size_t)(p - slab->addr) % reg != 0 || !canary_may_begin(p, reg, slab)) {
		return "double free or pointer into a block";
	}
	return canary_state(p + reg) == 0 ? if_freed
	    : !canary_is_region_intact(p, reg) ? SAFETY_TAIL_IS_LOST : SAFETY_FRONT_IS_LOST;
}

bool
canary_check(const void *ptr, size_t reg, const edata_t *slab, const char *if_freed) {
	bool is_intact = canary_is_intact(ptr, reg, slab);
	if (unlikely(!is_intact)) {
		safety_fail(canary_fault(ptr, reg, slab, if_freed));
	}
	return is_intact;
}

void
canary_check_free(void *const *ptrs, unsigned n, size_t reg) {
	if (reg < CANARY_BYTES) {
		return; /* such regions have no canary */
	}
	for (unsigned i = 0; i < n; i++) {
		const char *p = ptrs[i];
		if (unlikely(canary_state(p + reg) != 0)
		    || unlikely(canary_load(p + canary_room(reg)) != canary_word)) {
			safety_fail("write to a freed block, or in front of a block");
		}
	}
}
