/*
 * Objects that were loaded once: what a profile needs to name addresses in them when they are gone.
 *
 * Records are never changed and never removed, so that they are read without a lock.  Of an object that was
 * loaded and unloaded between two looks nothing is known.
 */
#ifndef OS_MODULE_HISTORY_H
#define OS_MODULE_HISTORY_H

#include "os/sys.h"

/*
 * Looks which objects are loaded, if that has changed since the last look.  Takes the loader's lock: to be
 * called with no lock held.  Objects beyond the first MODULE_HISTORY_MAX are not remembered.
 */
void module_history_look(void);
/*
 * Calls cb for each object that was seen and is gone, if none that came later lies where it was, until cb
 * returns nonzero.  One caller at a time; takes the loader's lock before the first call of cb, not during it.
 */
int module_history_gone(int (*cb)(void *ctx, const struct sys_module_s *m), void *ctx);

#define MODULE_HISTORY_MAX 1000

#endif
