/*
 * What the files of jeprofd share, but for those that convert profiles (pprof_*.c, otlp_encode.c,
 * intern.c, proto.c, names/), which need none of it: feature macros of the C library, the options,
 * messages on stderr, and the exit after a failure. Most files get it by table.h. Below, a session
 * is profiling in a process from a start to its stop, a scrape a request to jeprofd for a profile.
 * main.c calls read_options() and drop_rights().
 */
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS 64

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef JEPROFD_VERSION
#define JEPROFD_VERSION "unknown"
#endif

#include "client/clock.h"
#include "client/jeprof_client.h"

enum { LABELS_MAX = 32 }; /* of --label, at most */

/* KEY=VALUE of a --label, which each OTLP profile carries; or a label of a process (table.h). */
typedef struct label_s {
	const char *key, *value;
} label_t;

typedef struct options_s {
	const char *listen;       /* ADDR:PORT; NULL: not given */
	const char *unix_path;    /* of a socket, NULL: none */
	const char *token_file;   /* NULL: requests need no token */
	const char *cache_dir;    /* of symbol tables and of the dead (dead.h); NULL: in memory */
	/* mean bytes between two samples of a session that jeprofd starts, unless POST /start says */
	uint64_t rate;
	/* expected between two scrapes; a scrape's session ends three of them after the last scrape */
	uint64_t interval_ms;
	uint64_t look_ms;         /* between two looks at a process that runs the library (watch.c) */
	/* jobs (scrape.h) that run at the same time, at most; deltas that wake up may exceed it */
	uint64_t scrapes_max;
	/* HTTP connections; one more ends an older one, unless all older ones wait for their jobs */
	uint64_t connections_max;
	uint64_t processes_max;   /* processes that run the library in the table, at most */
	uint64_t profile_max;     /* bytes of a heap_v2 text, at most; not of its conversion */
	/* of the box (dead.h) of a session that jeprofd starts; 0: it gets none, and none is held */
	uint64_t box_bytes;
	/* bytes of all symbol tables, at most; 0: 256 MiB in cache_dir, 64 MiB in memory */
	uint64_t cache_max;
	bool is_passive;          /* a scrape never starts a session */
	bool may_control;         /* start, stop and mark are served */
	label_t labels[LABELS_MAX];
	size_t nlabels;
	const char *push_url;     /* base of the receiver that profiles are pushed to; NULL: none */
	const char *push_header;  /* one more header of its requests, "Name: value"; NULL: none */
	const char *push_ca;      /* file of the authorities for https; NULL: those of the system */
	const char *push_select;  /* KEY=VALUE of the processes that are pushed; NULL: all */
	uint64_t push_ms;         /* between two pushes of a process */
	bool use_debuginfod;      /* servers of $DEBUGINFOD_URLS are asked for debug files */
} options_t;

/* Set by main() before it starts threads; then only read, without a lock. */
extern options_t options;

/*
 * Set by SIGTERM, SIGINT and SIGHUP. The loop of main() ends at its next turn; requests to
 * processes and deltas that sleep are given up soon after.
 */
extern volatile sig_atomic_t ending;

/*
 * Parses the command line into `options`, which keeps pointers into argv. Exits with the reason and
 * code 2 if it is wrong; after --help and --version with 0, or 1 if stdout cannot be written.
 */
void read_options(int argc, char **argv);

/* Prints a line on stderr, "jeprofd: " and 2047 bytes at most; control characters become '?'. */
__attribute__((format(printf, 1, 2))) void talk(const char *format, ...);

/* talk(), then exits with the code. */
__attribute__((format(printf, 2, 3), noreturn)) void leave(int code, const char *format, ...);

/*
 * Drops all capabilities but CAP_SYS_PTRACE, for good, and makes the process not dumpable; exits
 * with the reason if that fails (rights.c).
 */
void drop_rights(void);
