/*
 * The hint for programs that defragment their memory themselves: redis asks for each of its blocks
 * whether to allocate it anew and free the old one. Only builds configured with
 * --enable-defrag-hint export the function, as je_get_defrag_hint().
 */
#pragma once

#include "util/compiler.h"

/*
 * Whether the block at ptr lies in a slab with so many free regions that it is to be moved. A copy,
 * made in its arena without a thread cache, fills the slab that serves requests (defrag.c). False
 * for large blocks, samples and pointers into no slab (NULL), and while the gate is closed: another
 * thread forks, or the process is a lost child. ptr must not be freed meanwhile; whether it is a
 * block in use is not checked. Enters the gate and takes the lock of a bin, so a signal handler
 * must not call it. Called by jemalloc.c.
 */
bool defrag_would_help(const void *ptr);
