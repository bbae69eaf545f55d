/*
 * The three handlers for pthread_atfork(), run before fork() and after it in the parent and the
 * child; registered by jemalloc_init.c. Closing the gate (os/gate.h) keeps other threads out of the
 * allocator during the fork, with exceptions that the .c file lists; its table gives the order of
 * the other steps in the child. No lock is held when they return.
 */
#ifndef JEMALLOC_FORK_H
#define JEMALLOC_FORK_H

void jemalloc_prefork(void);
void jemalloc_postfork_parent(void);
void jemalloc_postfork_child(void);

#endif
