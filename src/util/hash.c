/*
 * A 64-bit hash of byte strings: hash64().
 * Two lanes each absorb 8 bytes per step by multiply and rotate; a tail of 1 to 15 bytes is padded
 * with zeros, and the length, mixed into the second lane's start, keeps different paddings apart;
 * at the end both lanes are mixed into one word. A pure function without a lock. Called by
 * prof_dir.c, prof_label.c, module_history.c, frame_scan.c and conf.c.
 */
#include "util/hash.h"

/* Odd constants with well-mixed bits. */
#define HASH_K0 UINT64_C(0x8bb84b93962eacc9)
#define HASH_K1 UINT64_C(0x2d358dccaa6c78a5)

ALWAYS_INLINE uint64_t
rotl64(uint64_t x, unsigned n) {
	return (x << n) | (x >> (64 - n));
}

/* Mixes one word of input into a lane. k: HASH_K1 for the first lane, HASH_K0 for the second. */
ALWAYS_INLINE uint64_t
hash_absorb(uint64_t lane, uint64_t word, uint64_t k) {
	lane ^= word * k;
	return rotl64(lane, 31) * HASH_K0 + k;
}

uint64_t
hash64(const void *data, size_t len, uint64_t seed) {
	const unsigned char *p = data;
	uint64_t a = hash_mix64(seed ^ HASH_K1);
	uint64_t b = hash_mix64(a + len);
	uint64_t w[2];
	size_t left = len;
	for (; left >= sizeof(w); left -= sizeof(w), p += sizeof(w)) {
		memcpy(w, p, sizeof(w));
		a = hash_absorb(a, w[0], HASH_K1);
		b = hash_absorb(b, w[1], HASH_K0);
	}
	if (left > 0) {
		w[0] = 0;
		w[1] = 0;
		memcpy(w, p, left);
		a = hash_absorb(a, w[0], HASH_K1);
		b = hash_absorb(b, w[1], HASH_K0);
	}
	return hash_mix64(hash_mix64(a) + rotl64(b, 23));
}
