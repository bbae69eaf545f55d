/*
 * What the files of jeprofd share, but for those that convert profiles (pprof_*.c, otlp_encode.c,
 * intern.c, proto.c, names/), which need none of it: feature macros of the C library, the options,
 * messages on stderr, and the exit after a failure. Most files get it by table.h.
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

enum { LABELS_MOST = 32 }; /* of --label */

/* One of --label, which all that is sent as OTLP carries; or a label of a process (table.h). */
typedef struct label_s {
	const char *key, *value;
} label_t;

typedef struct options_s {
	const char *listen;       /* ADDR:PORT; NULL: not given */
	const char *unix_path;    /* of a socket, NULL: none */
	const char *token_file;   /* NULL: requests need no token */
	const char *cache_dir;    /* of symbol tables and of the dead (dead.h), NULL: none */
	/* bytes between two samples of a session that jeprofd starts, unless POST /start gives them */
	uint64_t rate;
	/* between two scrapes; a session that a scrape started ends three of them after the last one */
	uint64_t interval_ms;
	uint64_t look_ms;         /* between two looks at a process that runs the library */
	uint64_t scrapes_max;     /* jobs (scrape.h) that run at the same time */
	uint64_t connections_max; /* at the same time */
	uint64_t processes_max;   /* in the table, of those that run the library */
	uint64_t profile_max;     /* bytes of one profile */
	/* of the box of a session that jeprofd starts; 0: it gets none, and no box is held (dead.h) */
	uint64_t box_bytes;
	uint64_t cache_max;       /* bytes of all symbol tables; 0: the default of pprof.h */
	bool is_passive;          /* a scrape never starts a session */
	bool may_control;         /* start, stop and mark are served */
	label_t labels[LABELS_MOST];
	size_t nlabels;
	const char *push_url;     /* base of the receiver that profiles are pushed to; NULL: none */
	const char *push_header;  /* a line for its requests, "Name: value"; NULL: none */
	const char *push_ca;      /* file of the authorities for https; NULL: those of the system */
	const char *push_select;  /* KEY=VALUE of the processes that are pushed; NULL: all */
	uint64_t push_ms;         /* between two pushes of a process */
	bool use_debuginfod;      /* servers of $DEBUGINFOD_URLS are asked for debug files */
} options_t;

extern options_t options;

/*
 * Set by SIGTERM and SIGINT. The loop of main() ends at its next turn; requests to processes and
 * deltas that sleep are given up soon after.
 */
extern volatile sig_atomic_t ending;

/*
 * Parses the command line into `options`. Exits with the reason if it is wrong, and after --help
 * and --version.
 */
void read_options(int argc, char **argv);

/* Prints one line on stderr; control characters become '?'. */
__attribute__((format(printf, 1, 2))) void talk(const char *format, ...);

/* talk(), then exits with the code. */
__attribute__((format(printf, 2, 3), noreturn)) void leave(int code, const char *format, ...);

/*
 * Drops all capabilities but CAP_SYS_PTRACE, for good, and makes the process not dumpable; exits
 * with the reason if that fails (rights.c).
 */
void drop_rights(void);
