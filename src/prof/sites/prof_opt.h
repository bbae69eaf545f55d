/*
 * The profiler's options; conf_table.c describes each and sets it while booting. Afterwards they
 * are read-only, except opt_prof_unwind, which becomes the method in use.
 */
#ifndef PROF_OPT_H
#define PROF_OPT_H

#include "util/compiler.h"

/* Longest absolute prefix in bytes. */
#define PROF_PREFIX_MAX 4096
/* Longest text behind a prefix: pid namespace, pid, two stamps, two numbers, suffix. */
#define PROF_SUFFIX_MAX 112
/* Longest file name in bytes. */
#define PROF_FILE_NAME_MAX 255
/*
 * Longest prefix that a user may give, so that every name fits a path, and its last part a file
 * name.
 */
#define PROF_PREFIX_TEXT_MAX (PROF_PREFIX_MAX - PROF_SUFFIX_MAX)
#define PROF_PREFIX_BASE_MAX (PROF_FILE_NAME_MAX - PROF_SUFFIX_MAX)
/* Bytes of a thread's name with its NUL. */
#define PROF_THREAD_NAME_MAX 16
#define PROF_LG_SAMPLE_DEFAULT 19
#define PROF_BT_MAX_DEFAULT 128
#define PROF_BT_MAX_LIMIT 4096

extern bool opt_prof;
extern bool opt_prof_active;
extern bool opt_prof_thread_active_init;
extern bool opt_prof_accum;
extern bool opt_prof_gdump;
extern bool opt_prof_final;
extern bool opt_prof_leak;
extern bool opt_prof_leak_error;
extern bool opt_prof_log;
extern bool opt_prof_pid_namespace;
extern bool opt_prof_stats;
extern bool opt_prof_sys_thread_name;
extern bool opt_prof_unbias;
extern bool opt_prof_dump_timestamp;
extern size_t opt_lg_prof_sample;
extern uint64_t opt_prof_sample_interval;	/* 0: 1 << opt_lg_prof_sample */
extern ssize_t opt_lg_prof_interval;		/* -1: off */
extern ssize_t opt_prof_recent_alloc_max;	/* entries; -1: no limit, 0: off */
extern unsigned opt_prof_bt_max;		/* frames of a backtrace */
extern unsigned opt_prof_dump_mode;		/* permission bits of dump files */
extern const char *opt_prof_prefix;		/* at most PROF_PREFIX_TEXT_MAX bytes */
extern bool opt_prof_prefix_given;		/* the user set it */

typedef enum {
	prof_time_res_default,
	prof_time_res_high
} prof_time_res_t;
extern prof_time_res_t opt_prof_time_resolution;
extern const char *const prof_time_res_names[];	/* "default", "high", NULL */

typedef enum {
	prof_unwind_auto,
	prof_unwind_fp,
	prof_unwind_libunwind,
	prof_unwind_libgcc
} prof_unwind_t;
extern prof_unwind_t opt_prof_unwind;
extern const char *const prof_unwind_names[];	/* as the enum, then NULL */

/*
 * Whether an option of prof_keep, prof_trigger or prof_control was given, so that boot must start
 * these modules.
 */
extern bool opt_prof_more;
/* Whether the mailbox is open. Defined here because boot touches this page anyway. */
extern bool prof_mailbox_is_open;

/* Set by the top floor from abort:true: a failed automatic dump then aborts the process. */
extern bool prof_abort;

#endif /* PROF_OPT_H */
