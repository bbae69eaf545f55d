/*
 * The C side of operator new and delete.
 */
#ifndef CXX_H
#define CXX_H

#include "util/compiler.h"

/* alignment 0: natural. NULL: no memory, errno kept. */
void *cxx_alloc(size_t size, size_t alignment);
void cxx_free(void *ptr);
/* size: as asked for, rounded to the alignment if there was one. */
void cxx_free_sized(void *ptr, size_t size);
bool cxx_is_infallible(void);
/* Message and abort. */
void cxx_no_memory(size_t size);

#endif
