/*
 * What all files of jeprofd share: which functions of the C library are wanted (so it is included
 * first), the options, and how it talks and ends.
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

#include "client/clock.h"
#include "client/jeprof_client.h"

typedef struct options_s {
	const char *listen;       /* ADDR:PORT, NULL: not asked for */
	const char *unix_path;    /* of a socket, NULL: none */
	const char *token_file;   /* NULL: no token is asked for */
	const char *cache_dir;    /* of symbol tables, NULL: none */
	uint64_t rate;            /* bytes between samples of a session that a scrape starts */
	uint64_t interval_ms;     /* between scrapes; a session outlives three of them */
	uint64_t look_ms;         /* between looks at the processes */
	uint64_t scrapes_max;     /* at the same time */
	uint64_t connections_max; /* at the same time */
	uint64_t processes_max;   /* that run the library and are kept in mind */
	uint64_t profile_max;     /* bytes of one profile */
	uint64_t cache_max;       /* bytes of all symbol tables; 0: the default of pprof.h */
	bool is_passive;          /* a scrape never starts a session */
	bool may_control;         /* start, stop and mark are served */
	bool use_debuginfod;      /* servers of $DEBUGINFOD_URLS are asked for debug files */
} options_t;

extern options_t options;

/* Set by SIGTERM and SIGINT: what waits, ends. */
extern volatile sig_atomic_t ending;

/* Fills in `options`, or leaves with the reason. */
void read_options(int argc, char **argv);

/* One line on stderr, without control characters. */
__attribute__((format(printf, 1, 2))) void talk(const char *format, ...);
__attribute__((format(printf, 2, 3), noreturn)) void leave(int code, const char *format, ...);

/* Gives up all rights but that to look into processes (CAP_SYS_PTRACE), for good. */
void drop_rights(void);
