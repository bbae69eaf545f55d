/*
 * The options of MALLOC_CONF that make the library call malloc_stats_print(). In a file of their
 * own, because conf_table.c and stats.c need them, and stats.c includes conf_table.h.
 */
#ifndef STATS_OPTS_H
#define STATS_OPTS_H

#include "util/compiler.h"

/* The letters of the options stats_print_opts and stats_interval_opts, each at most once. */
#define STATS_PRINT_LETTERS "Jgmdablxeh"
#define STATS_OPTS_SIZE (sizeof(STATS_PRINT_LETTERS))

extern bool opt_stats_print;
extern char opt_stats_print_opts[STATS_OPTS_SIZE];
extern int64_t opt_stats_interval; /* bytes between two prints, -1: never */
extern char opt_stats_interval_opts[STATS_OPTS_SIZE];

#endif /* STATS_OPTS_H */
