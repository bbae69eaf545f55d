/*
 * What happens around fork(): the three handlers given to pthread_atfork.
 * The gate (os/gate.h) is what makes it safe; the tables in the .c are the order of the rest.
 */
#ifndef JEMALLOC_FORK_H
#define JEMALLOC_FORK_H

void jemalloc_prefork(void);
void jemalloc_postfork_parent(void);
void jemalloc_postfork_child(void);

#endif
