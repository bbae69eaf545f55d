/*
 * The one function that is called upward by its name. The first request of a process may come
 * before any constructor of ours has run, so no hook could be filled by then; only the linker can
 * bind it. jemalloc_init.c defines it, above all that it boots. Called by imalloc.c (slow paths)
 * and jemalloc.c. scripts/check_floors knows it as an exception.
 */
#ifndef MALLOC_BOOT_H
#define MALLOC_BOOT_H

/* Initializes the library once; every slow path calls it. 0 or ENOMEM. Any thread may call. */
int malloc_boot(void);

#endif /* MALLOC_BOOT_H */
