/*
 * Default values of the profiler's options; prof_opt.h describes them.
 *
 * Invariant: set during boot, by one thread, and read-only afterwards; so there is no lock. They
 * are set by conf, jemalloc_init.c (prof_abort), prof_boot_conf() and prof_control.c
 * (prof_mailbox_is_open). Exception: prof_backtrace.c stores the method in use in opt_prof_unwind
 * whenever it selects one. Read by most files of the profiler, by jemalloc_init.c, conf, ctl and
 * stats.c.
 */
#include "prof/sites/prof_opt.h"

bool opt_prof = false;
bool opt_prof_active = true;
bool opt_prof_thread_active_init = true;
bool opt_prof_accum = false;
bool opt_prof_gdump = false;
bool opt_prof_final = false;
bool opt_prof_leak = false;
bool opt_prof_leak_error = false;
bool opt_prof_log = false;
bool opt_prof_pid_namespace = false;
bool opt_prof_stats = false;
bool opt_prof_sys_thread_name = false;
bool opt_prof_unbias = true;
bool opt_prof_dump_timestamp = true;
bool opt_prof_prefix_given = false;
bool prof_abort = false;
bool opt_prof_more = false;
bool prof_mailbox_is_open = false;
size_t opt_lg_prof_sample = PROF_LG_SAMPLE_DEFAULT;
uint64_t opt_prof_sample_interval = 0;
ssize_t opt_lg_prof_interval = -1;
ssize_t opt_prof_recent_alloc_max = 0;
unsigned opt_prof_bt_max = PROF_BT_MAX_DEFAULT;
unsigned opt_prof_dump_mode = 0600;
EARLY_DATA const char *opt_prof_prefix = "jeprof";
prof_time_res_t opt_prof_time_resolution = prof_time_res_default;
const char *const prof_time_res_names[] = {"default", "high", NULL};
prof_unwind_t opt_prof_unwind = prof_unwind_auto;
const char *const prof_unwind_names[] = {"auto", "fp", "libunwind", "libgcc", NULL};
