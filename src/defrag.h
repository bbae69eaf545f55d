/*
 * The hint for programs that defragment their memory themselves: redis asks for each of its blocks
 * whether to allocate it anew and free the old one. Only builds configured with
 * --enable-defrag-hint export the function, as je_get_defrag_hint().
 */
#ifndef DEFRAG_H
#define DEFRAG_H

#include "util/compiler.h"

/*
 * Whether a copy of the block at ptr, made without a thread cache, would lie in a fuller slab than
 * the block does. False for large blocks, samples, and pointers to no block, and while another
 * thread forks. ptr must not be freed meanwhile. Enters the gate and takes the lock of a bin.
 */
bool defrag_would_help(const void *ptr);

#endif
