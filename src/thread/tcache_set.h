/*
 * The settings of thread caches: limits per class from the options, changes while running, caches
 * made by hand.  Defaults are set while options are parsed and read-only after boot.
 */
#ifndef THREAD_TCACHE_SET_H
#define THREAD_TCACHE_SET_H

#include "meta/sc.h"

/* Most objects that a new cache keeps of a class. */
unsigned tcache_ncached_max_default(szind_t szind);

#endif
