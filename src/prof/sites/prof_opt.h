/*
 * The profiler's options that jemalloc has too, and four of our own: prof_sample_interval,
 * prof_unwind, prof_dump_mode and prof_dump_timestamp. Our other options are in the headers of the
 * modules that have them. conf_table.c describes each and sets it during boot; prof_boot_conf()
 * then applies those that imply others. Afterwards they are read-only, so there is no lock; except
 * opt_prof_unwind, one word: prof_backtrace.c stores the method in use when it selects one, at the
 * start of the profiler and once more if the self-test of backtraces changes the method.
 */
#pragma once

#include "util/compiler.h"

/* Most bytes of a path that begins with the prefix, without its NUL; buffers have one more. */
#define PROF_PREFIX_MAX 4096
/*
 * Most bytes behind a prefix: pid namespace, pid, two times (of a session), two numbers, and
 * ".heap" or the like.
 */
#define PROF_SUFFIX_MAX 112
/* Longest file name in bytes. */
#define PROF_FILE_NAME_MAX 255
/*
 * Most bytes of a prefix, as given and when made absolute, so that every name fits a path; and most
 * bytes of the part of it behind the last slash, so that this fits a file name.
 */
#define PROF_PREFIX_TEXT_MAX (PROF_PREFIX_MAX - PROF_SUFFIX_MAX)
#define PROF_PREFIX_BASE_MAX (PROF_FILE_NAME_MAX - PROF_SUFFIX_MAX)
/* Bytes of a thread's name with its NUL. */
#define PROF_THREAD_NAME_MAX 16
/* Default of lg_prof_sample: one sample for each 2^19 bytes. */
#define PROF_LG_SAMPLE_DEFAULT 19
/* Default and greatest value of prof_bt_max, in frames. */
#define PROF_BT_MAX_DEFAULT 128
#define PROF_BT_MAX_LIMIT 4096

extern bool opt_prof;				/* start the profiler at boot; else a session may */
extern bool opt_prof_active;			/* first value of prof.active: samples are taken */
extern bool opt_prof_thread_active_init;	/* a new thread takes samples */
extern bool opt_prof_accum;			/* keep also sums of all that was allocated */
extern bool opt_prof_gdump;			/* dump at each new maximum of mapped memory */
extern bool opt_prof_final;			/* dump at exit */
extern bool opt_prof_leak;			/* with prof_final: report at exit what was not freed */
extern bool opt_prof_leak_error;		/* with prof_final: status 1 if something was not freed */
extern bool opt_prof_log;			/* run the log from the start (prof_log.h) */
extern bool opt_prof_pid_namespace;		/* file names have the pid namespace */
extern bool opt_prof_stats;			/* count samples by size class */
extern bool opt_prof_sys_thread_name;		/* thread names come from the system */
extern bool opt_prof_unbias;			/* print counts that pprof scales to estimates */
extern bool opt_prof_dump_timestamp;		/* file names have the time */
extern size_t opt_lg_prof_sample;		/* log2 of the mean bytes between samples */
extern uint64_t opt_prof_sample_interval;	/* mean bytes between samples; 0: by the line above */
extern ssize_t opt_lg_prof_interval;		/* log2 of the bytes between dumps; -1: off */
extern ssize_t opt_prof_recent_alloc_max;	/* entries; -1: no limit, 0: off */
extern unsigned opt_prof_bt_max;		/* frames of a backtrace */
extern unsigned opt_prof_dump_mode;		/* permission bits of dump files */
extern const char *opt_prof_prefix;		/* at most PROF_PREFIX_TEXT_MAX bytes */
extern bool opt_prof_prefix_given;		/* the user set it */

typedef enum {
	prof_time_res_default, /* samples have coarse monotonic times (prof_log_clock()) */
	prof_time_res_high     /* exact ones, UTC */
} prof_time_res_t;
extern prof_time_res_t opt_prof_time_resolution;
extern const char *const prof_time_res_names[];	/* "default", "high", NULL */

typedef enum {
	/* by the unwind row of each address (unwind.h); if not built, the first method that works */
	prof_unwind_auto,
	prof_unwind_fp,   /* frame pointers, checked by unwind tables */
	prof_unwind_libunwind,
	prof_unwind_libgcc
} prof_unwind_t;
extern prof_unwind_t opt_prof_unwind;
extern const char *const prof_unwind_names[];	/* as the enum, then NULL */

/*
 * Whether an option of our own was given for which boot must start a module: prof_keep,
 * prof_trigger, and what prof_control.c starts.
 */
extern bool opt_prof_more;
/*
 * No option: whether the mailbox is open; prof_control.c sets it at boot. It is among the options
 * because boot touches their page anyway.
 */
extern bool prof_mailbox_is_open;

/*
 * No option of its own: jemalloc_init.c sets it from abort:true. If an automatic or the final dump
 * fails, or the exit handler cannot be registered (atexit()), the process then aborts.
 */
extern bool prof_abort;
