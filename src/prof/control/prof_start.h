/*
 * Starts the profiler, at boot with prof:true, when a session begins or a tracer comes.
 */
#ifndef PROF_START_H
#define PROF_START_H

/*
 * Makes the site tables, at boot with opt_prof or for the first session; does nothing if they
 * exist. 0 or an errno.
 */
int prof_boot(void);
/*
 * Starts log and sampling. Called without any lock, after the allocator can serve requests. Does
 * nothing if not booted.
 */
void prof_boot_late(void);

/*
 * Boots the profiler as prof:true,prof_active:false would have done, if that has not happened yet.
 * Called inside the gate, with `inside` raised. 0 or an errno.
 */
int prof_start_now(void);

#endif /* PROF_START_H */
