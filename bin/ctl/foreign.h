/*
 * Whose malloc a process uses, if it is not this library's: another allocator that is loaded, or one that is linked into the
 * program itself, which no preloaded library replaces. Found by names in the memory map and by the program's own file.
 */
#pragma once
#include "process.h"

/* "the jemalloc of /usr/lib/libjemalloc.so.2"; NULL: nothing that we know is loaded beside the C library. */
const char *loaded_allocator(const process_t *p, char *buf, size_t size);

/* "a jemalloc that is linked into /usr/bin/rustc"; NULL: there is none, or it is this library. */
const char *linked_allocator(const process_t *p, char *buf, size_t size);

/* The command line that would start it on this library: LD_PRELOAD=/absolute/path program arguments. */
void restart_line(const process_t *p, char *buf, size_t size);
