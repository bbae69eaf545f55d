/*
 * malloc_boot(), which initialises the library: the only function of a higher floor (layer of src/)
 * that lower ones call by name. The first request of a process may come before any constructor of
 * ours has run, so a hook (function pointer) might not be set yet; the linker binds a name before.
 * Defined in jemalloc_init.c. Called by imalloc.c (slow paths), jemalloc.c and jemalloc_logged.c,
 * with no lock held. scripts/check_floors lists it as an exception.
 */
#ifndef MALLOC_BOOT_H
#define MALLOC_BOOT_H

/*
 * Initialises the library unless that is done; waits while another thread does it. 0, or an errno
 * value, such as ENOMEM: the next call tries again. Any thread may call; keeps errno.
 */
int malloc_boot(void);

#endif /* MALLOC_BOOT_H */
