/*
 * The C side of operator new and delete: jemalloc_cpp.cpp defines the operators, handles exceptions
 * and new handlers, and calls these functions. No lock is held or needed.
 */
#pragma once

#include "util/compiler.h"

/* Functions of jemalloc_cpp.cpp for the requests that the fast path does not serve; may throw. */
typedef void *cxx_slow_t(size_t size);
typedef void *cxx_aligned_slow_t(size_t size, size_t alignment);
/* operator new: what the fast path gives, or else what slow() returns. */
void *cxx_new(size_t size, cxx_slow_t *slow);
void *cxx_new_aligned(size_t size, size_t alignment, cxx_aligned_slow_t *slow);
/*
 * The allocation of slow(), which repeats it after each call of a new handler. alignment: a power
 * of two, in bytes; 0: the natural one. Returns NULL with errno ENOMEM if there is no memory, or if
 * the size is too large; the option xmalloc does not make this function abort. On success errno
 * stays as it was.
 */
void *cxx_alloc(size_t size, size_t alignment);
/* Frees ptr, which may be NULL. */
void cxx_free(void *ptr);
/*
 * Free ptr, which may be NULL; size and alignment are those of the request, in bytes. The fast path
 * does not check them; the slow path ends the process if they cannot be those of the block.
 */
void cxx_free_sized(void *ptr, size_t size);
void cxx_free_sized_aligned(void *ptr, size_t size, size_t alignment);
/* Whether a failed operator new, also nothrow, ends the process (experimental_infallible_new). */
bool cxx_is_infallible(void);
/*
 * Prints a message with the size (bytes) and aborts. If the program has set a function by
 * experimental.hooks.safety_check_abort, calls that function instead of both, and returns when it
 * returns.
 */
void cxx_no_memory(size_t size);
