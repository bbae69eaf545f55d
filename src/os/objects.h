/*
 * Which loaded object holds an address, and its unwind tables: without a lock, at any time.
 *
 * New C libraries have a look-up that needs no lock; for the others the objects are listed at each
 * refresh, and a reader that finds the list written anew reads again.  The unwinder calls this.
 */
#ifndef OS_OBJECTS_H
#define OS_OBJECTS_H

#include "util/compiler.h"

/* Whether the C library has a look-up without a lock. */
bool objects_have_lookup(void);
/* The unwind tables of the object at pc (NULL: it has none); false if there is no object. */
bool objects_find(uintptr_t pc, const void **hdr);
/* To be called at a safe point: it takes the loader's lock where there is no look-up. */
void objects_refresh(void);

#endif
