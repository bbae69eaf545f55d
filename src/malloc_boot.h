/*
 * malloc_boot(), which initialises the library: the only function of a higher floor (layer of src/)
 * that lower ones call by name. The first request of a process may come before any constructor of
 * ours has run, so a hook (function pointer) might not be set yet; the linker binds a name before.
 * Called by imalloc.c (slow path of allocations), jemalloc.c, jemalloc_logged.c, cxx.c and the
 * constructor in jemalloc_init.c, which defines it; with no lock held, but for nested calls during
 * boot. scripts/check_floors lists this exception.
 */
#pragma once

/*
 * Initialises the library unless that is done; waits while another thread does it. 0, or an errno
 * value, such as ENOMEM: the next call tries again. A nested call by the booting thread returns 0
 * once requests can be served, ENOMEM before. Any thread may call; keeps errno.
 */
int malloc_boot(void);
