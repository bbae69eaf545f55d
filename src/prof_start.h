/*
 * Bringing the profiler up: at boot with prof:true, or whenever a session wants it.
 */
#ifndef PROF_START_H
#define PROF_START_H

/* Makes the books; called once when opt_prof, later also by whoever starts profiling at run time. */
int prof_boot(void);
/*
 * The part of boot that starts log and sampling; to be called without any lock, after the allocator
 * can serve.  Does nothing when not booted.
 */
void prof_boot_late(void);

#endif /* PROF_START_H */
