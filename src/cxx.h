/*
 * The C side of operator new and delete: jemalloc_cpp.cpp defines the operators, handles exceptions
 * and new handlers, and calls these functions.
 */
#ifndef CXX_H
#define CXX_H

#include "util/compiler.h"

/* Allocates; alignment 0 is the natural one. Returns NULL without memory, and errno is ENOMEM. */
void *cxx_alloc(size_t size, size_t alignment);
/* Frees ptr, which may be NULL. */
void cxx_free(void *ptr);
/* Free; size and alignment are those of the request. */
void cxx_free_sized(void *ptr, size_t size);
void cxx_free_sized_aligned(void *ptr, size_t size, size_t alignment);
/* Whether operator new aborts instead of throwing (experimental_infallible_new). */
bool cxx_is_infallible(void);
/* Prints a message and aborts; returns if the program has replaced abort() by its own function. */
void cxx_no_memory(size_t size);

#endif
