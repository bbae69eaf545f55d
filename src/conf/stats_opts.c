/*
 * The variables of the options that make the library print its statistics, with their defaults;
 * stats_opts.h describes them.
 *
 * Invariant: written during boot by one thread (conf.c, by the addresses in the rows of
 * conf_table.c), and read-only afterwards; so there is no lock. Read by stats.c, by
 * jemalloc_init.c, which registers the prints at heartbeats and at exit, and through the rows by
 * ctl_opt.c (opt.* nodes).
 */
#include "conf/stats_opts.h"

bool opt_stats_print = false;
char opt_stats_print_opts[STATS_OPTS_SIZE] = "";
int64_t opt_stats_interval = -1;
char opt_stats_interval_opts[STATS_OPTS_SIZE] = "";
