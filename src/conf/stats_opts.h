/*
 * The options of MALLOC_CONF that make the library call malloc_stats_print(): at exit, and whenever
 * so many bytes have been allocated. Written during boot by one thread, read by stats.c and
 * jemalloc_init.c; no lock.
 */
#pragma once

#include "util/compiler.h"

/*
 * The letters that stats_print_opts and stats_interval_opts may have, each at most once, with the
 * meaning that malloc_stats_print() gives them; and the bytes of all of them with the NUL.
 */
#define STATS_PRINT_LETTERS "Jgmdablxeh"
#define STATS_OPTS_SIZE (sizeof(STATS_PRINT_LETTERS))

extern bool opt_stats_print; /* print at exit */
extern char opt_stats_print_opts[STATS_OPTS_SIZE]; /* letters of the print at exit */
extern int64_t opt_stats_interval; /* bytes of all threads between two prints; 0: as 1; -1: never */
extern char opt_stats_interval_opts[STATS_OPTS_SIZE]; /* letters of these prints */
