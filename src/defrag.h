/*
 * The hint for programs that defragment their memory themselves: redis asks for each of its blocks
 * whether to allocate it anew and free the old one. Only builds configured with
 * --enable-defrag-hint export the function, as je_get_defrag_hint().
 */
#ifndef DEFRAG_H
#define DEFRAG_H

#include "util/compiler.h"

/*
 * Whether the block at ptr lies in a slab with so many free regions that a copy, made without a
 * thread cache, would lie in a fuller one (defrag.c has the rule). False for large blocks, samples,
 * and pointers to no block, and while another thread forks. ptr must not be freed meanwhile. Enters
 * the gate and takes the lock of a bin. Called by jemalloc.c.
 */
bool defrag_would_help(const void *ptr);

#endif
