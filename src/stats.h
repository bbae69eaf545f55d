/*
 * malloc_stats_print: one description of everything the statistics nodes offer, as text for people
 * or as JSON.  Reads values only through the ctl tree, after one refresh of its snapshot.
 */
#ifndef STATS_H
#define STATS_H

#include "util/compiler.h"

/* The letters of the options stats_print_opts and stats_interval_opts, each at most once. */
#define STATS_PRINT_LETTERS "Jgmdablxeh"
#define STATS_OPTS_SIZE (sizeof(STATS_PRINT_LETTERS))

extern bool opt_stats_print;
extern char opt_stats_print_opts[STATS_OPTS_SIZE];
extern int64_t opt_stats_interval; /* bytes between two prints, -1: never */
extern char opt_stats_interval_opts[STATS_OPTS_SIZE];

/* write_cb NULL: the message sink (malloc_message or fd 2). opts NULL: no letters. */
void stats_print(void (*write_cb)(void *opaque, const char *s), void *opaque, const char *opts);

struct tsd_s;
/*
 * Among the hooks of the heartbeat: prints when the process has allocated
 * opt_stats_interval bytes since the last print.  No lock held; leaves the gate to print.
 */
void stats_interval_event(struct tsd_s *tsd, uint64_t bytes);

/* For atexit: prints when opt_stats_print. */
void stats_atexit(void);

#endif /* STATS_H */
