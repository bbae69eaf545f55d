/*
 * Hashing for tables in memory; not cryptographic.
 * The value depends on the input only, not on addresses or the process; that of hash64() also on
 * the byte order of the processor. hash64() may change between versions; hash_mix64() (mix.h) may
 * not, because the tools use it too. Pure functions without state or lock.
 */
#ifndef UTIL_HASH_H
#define UTIL_HASH_H

#include "util/compiler.h"
#include "util/mix.h"

/* Hash of len bytes at data; different seeds give independent hashes of the same bytes. */
uint64_t hash64(const void *data, size_t len, uint64_t seed);

#endif /* UTIL_HASH_H */
