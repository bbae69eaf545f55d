/*
 * Hash of bytes for tables in memory; not cryptographic.
 * hash64() depends on the bytes, the seed and the byte order of the processor only, not on
 * addresses or the process, and may change between versions. mix.h, included here, has the mixing
 * of one word, hash_mix64(), which may not change, because the tools compare its values with the
 * library's. Pure functions without state or lock. hash64() is called by conf.c, prof_dir.c,
 * prof_label.c, module_history.c and frame_scan.c.
 */
#pragma once

#include "util/compiler.h"
#include "util/mix.h"

/* Hash of len bytes at data; different seeds give independent hashes of the same bytes. */
uint64_t hash64(const void *data, size_t len, uint64_t seed);
