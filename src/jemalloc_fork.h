/*
 * What the allocator does around fork(): the three handlers for pthread_atfork(). The gate
 * (os/gate.h) makes fork safe; the tables in the .c file give the order of the other steps.
 */
#ifndef JEMALLOC_FORK_H
#define JEMALLOC_FORK_H

void jemalloc_prefork(void);
void jemalloc_postfork_parent(void);
void jemalloc_postfork_child(void);

#endif
