/*
 * The two options about reading options, and the parser of lists of ranges, which conf_table.c and
 * ctl_thread.c call. The options are written during boot by one thread and read by conf.c and
 * jemalloc_init.c; so there is no lock.
 */
#pragma once

#include "util/compiler.h"

extern bool opt_confirm_conf; /* print each source and each accepted pair while they are read */
extern bool opt_abort_conf;   /* a bad pair, or options of the profiler that contradict each other,
                                 end the process; true by default in debug builds */

/*
 * Reads lo-hi:n[|lo-hi:n...], len bytes, and passes each item to set(), which checks the numbers
 * (lo and hi: sizes in bytes) and returns 0 or an errno value; NULL: only the grammar is checked.
 * One | at the end is ignored. Returns 0, EINVAL at a malformed item or if len is 0, or the error
 * of set(); earlier items were passed by then. A NUL must stand at text[len] or later.
 */
typedef int conf_range_set_t(size_t lo, size_t hi, size_t n);
int conf_parse_ranges(const char *text, size_t len, conf_range_set_t *set);
