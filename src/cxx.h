/*
 * The C side of operator new and delete.
 */
#ifndef CXX_H
#define CXX_H

#include "util/compiler.h"

/* alignment 0: natural. NULL: no memory, errno is ENOMEM. */
void *cxx_alloc(size_t size, size_t alignment);
void cxx_free(void *ptr);
/* size, alignment: as asked for. */
void cxx_free_sized(void *ptr, size_t size);
void cxx_free_sized_aligned(void *ptr, size_t size, size_t alignment);
bool cxx_is_infallible(void);
/* Message and abort; returns if the program has put a function of its own in the place of abort. */
void cxx_no_memory(size_t size);

#endif
