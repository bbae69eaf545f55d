/*
 * The profiler's face: everything that floors above the profiler program against.
 *
 * Sampling itself (rate, gaps, "is this allocation a sample?") is thread/thread_event; the profiler
 * records what was sampled, keeps the books and writes them out.  "Booted" means that the books
 * exist; "active" that new samples are taken.  Neither changes how a sampled object is freed, so
 * both may change at any time.
 *
 * Failure is an errno as a mallctl may return it; bool answers a question.
 */
#ifndef PROF_H
#define PROF_H

#include "os/mutex.h"
#include "util/compiler.h"

typedef struct tsd_s tsd_t;
typedef struct sample_rec_s sample_rec_t;

#define PROF_PREFIX_MAX 4096
#define PROF_THREAD_NAME_MAX 16
#define PROF_LG_SAMPLE_DEFAULT 19
#define PROF_BT_MAX_DEFAULT 128
#define PROF_BT_MAX_LIMIT 4096

/* --------------------------------------------------------------- options, set by conf before boot */

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
extern ssize_t opt_prof_recent_alloc_max;
extern unsigned opt_prof_bt_max;
extern unsigned opt_prof_dump_mode;		/* permission bits of dump files */
extern char opt_prof_prefix[PROF_PREFIX_MAX + 1];

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

/* --------------------------------------------------------------- life */

/*
 * After the options were read: one implies another, prefix made absolute, message about
 * prof_leak_error without prof_final.  Returns how many complaints abort_conf should count.
 */
int prof_boot_conf(void);
/* Makes the books; called once when opt_prof, later also by whoever starts profiling at run time. */
int prof_boot(void);
/*
 * The part of boot that registers with libc (atexit) and starts the log; to be called without any
 * lock, after the allocator can serve.  Does nothing when not booted.
 */
void prof_boot_late(void);
bool prof_is_booted(void);
/* The final dump and the leak summary; prof_boot_late registers it with atexit. */
void prof_fdump(void);
void prof_prefork(void);
void prof_postfork_parent(void);
void prof_postfork_child(void);
/* Thread exit: the record stays as long as something it sampled lives. */
void prof_thread_cleanup(tsd_t *tsd);

/* --------------------------------------------------------------- sampled objects (from imalloc) */

/* Asked once per due sample, before the object is allocated: do the switches let it be one? */
bool prof_should_sample(tsd_t *tsd);
/*
 * rec is all zero; on failure it stays so and the object counts as not sampled.  usize is the usable
 * size that the request would have had without sampling.
 */
void prof_sample_alloc(tsd_t *tsd, void *ptr, sample_rec_t *rec, size_t req, size_t usize);
void prof_sample_free(tsd_t *tsd, const void *ptr, sample_rec_t *rec, size_t usize);
/* thread_event's heartbeat: outside all locks, inside raised, bytes allocated since the last one. */
void prof_heartbeat(tsd_t *tsd, uint64_t bytes);

/* --------------------------------------------------------------- switches (from ctl) */

/* Reads give false and 0 until booted; writes give ENOENT (prof.active := false is allowed). */
bool prof_active_get(void);
int prof_active_set(bool active, bool *old);
bool prof_thread_active_init_get(void);
int prof_thread_active_init_set(bool active, bool *old);
bool prof_gdump_get(void);
int prof_gdump_set(bool active, bool *old);
bool prof_thread_active_get(tsd_t *tsd);
int prof_thread_active_set(tsd_t *tsd, bool active);	/* ENOENT, EAGAIN */
const char *prof_thread_name_get(tsd_t *tsd);		/* "" if none */
int prof_thread_name_set(tsd_t *tsd, const char *name);	/* EINVAL, ENOENT, ENOMEM */

uint64_t prof_interval_get(void);		/* bytes between interval dumps, 0 off */
size_t prof_lg_sample_get(void);		/* floor(lg) of the sample interval; 0 until booted */
size_t prof_sample_interval_get(void);		/* bytes; 0 until booted */
int prof_sample_interval_set(size_t bytes);	/* ENOENT, EINVAL for 0; keeps all history */
/* Forgets all samples; lg_sample SIZE_MAX keeps the rate, >= 64 becomes 63. */
int prof_reset(size_t lg_sample);

/* --------------------------------------------------------------- dumps */

/* prof.dump: path NULL makes a name of kind m.  0, ENOENT if not booted, else as section "Writing". */
int prof_mdump(const char *path);
/* Copied, made absolute; "" disables automatic dumps.  EINVAL too long, EFAULT NULL. */
int prof_prefix_set(const char *prefix);
/* "errno-name path bytes-written" of the last failed dump, "" if none; valid until the thread asks again. */
const char *prof_last_error(void);
uint64_t prof_dump_errors(void);
/* Absolute path of the last profile written, "" if none; lifetime as prof_last_error. */
const char *prof_last_dump(void);

/* Set by the top floor from abort:true: a failed automatic dump ends the program. */
extern bool prof_abort;

/* --------------------------------------------------------------- log, recent, stats */

int prof_log_start(const char *path);	/* NULL: a name made from the prefix.  ENOENT, EFAULT */
int prof_log_stop(void);

ssize_t prof_recent_alloc_max_get(void);
int prof_recent_alloc_max_set(ssize_t max);	/* ENOENT, EINVAL below -1 */
int prof_recent_alloc_dump(void (*write_cb)(void *, const char *), void *opaque);

typedef struct {
	uint64_t req_sum;
	uint64_t count;
} prof_stats_t;
/* szind counts over small and large classes together.  ENOENT unless booted with prof_stats. */
int prof_stats_live(unsigned szind, prof_stats_t *out);
int prof_stats_accum(unsigned szind, prof_stats_t *out);

/* --------------------------------------------------------------- hooks (experimental.hooks.*) */

typedef void (*prof_backtrace_hook_t)(void **vec, unsigned *len, unsigned max_len);
typedef void (*prof_dump_hook_t)(const char *filename);
typedef void (*prof_sample_hook_t)(const void *ptr, size_t size, void **bt, unsigned bt_len,
    size_t usize);
typedef void (*prof_sample_free_hook_t)(const void *ptr, size_t usize);

prof_backtrace_hook_t prof_backtrace_hook_get(void);
int prof_backtrace_hook_set(prof_backtrace_hook_t hook);	/* EINVAL for NULL */
prof_dump_hook_t prof_dump_hook_get(void);
void prof_dump_hook_set(prof_dump_hook_t hook);
prof_sample_hook_t prof_sample_hook_get(void);
void prof_sample_hook_set(prof_sample_hook_t hook);
prof_sample_free_hook_t prof_sample_free_hook_get(void);
void prof_sample_free_hook_set(prof_sample_free_hook_t hook);

/* --------------------------------------------------------------- lock statistics (stats.mutexes) */

typedef enum {
	prof_mutex_sites,		/* stats.mutexes.prof: all shards together */
	prof_mutex_thds_data,
	prof_mutex_dump,
	prof_mutex_recent_alloc,
	prof_mutex_recent_dump,
	prof_mutex_stats,
	prof_mutex_log,
	prof_mutex_n
} prof_mutex_ind_t;
void prof_mutex_stats_read(prof_mutex_ind_t ind, mutex_prof_data_t *out);
void prof_mutex_stats_reset(void);

#endif /* PROF_H */
