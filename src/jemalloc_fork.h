/*
 * The three handlers for pthread_atfork(): the C library calls them before fork(), after it in the
 * parent, and after it in the child. jemalloc_init.c registers them. jemalloc_prefork() closes the
 * gate (os/gate.h), so no other thread is inside while the process forks, and all locks that are
 * taken inside are free in the child; jemalloc_fork.c lists three exceptions. Locks that are held
 * for long (of the profiler and the background threads) are taken outside the gate, so another
 * thread may hold one during the fork; the child makes them new. The table fork_child in
 * jemalloc_fork.c has the order of the child's steps. No handler holds a lock when it returns.
 */
#pragma once

void jemalloc_prefork(void);
void jemalloc_postfork_parent(void);
void jemalloc_postfork_child(void);
