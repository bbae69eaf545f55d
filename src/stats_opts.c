/* The variables behind the options. */
#include "stats_opts.h"

bool opt_stats_print = false;
char opt_stats_print_opts[STATS_OPTS_SIZE] = "";
int64_t opt_stats_interval = -1;
char opt_stats_interval_opts[STATS_OPTS_SIZE] = "";
