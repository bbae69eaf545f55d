/*
 * System calls by number, made by the processor's own instruction where it is known here. The
 * syscall() of the C library is a public symbol: a preloaded library that replaces it (torsocks)
 * waits in it for its own initialization, which waits for memory, or refuses the numbers that it
 * does not know. No state, no lock; any thread, at any time, in signal handlers too.
 * Called by: sys.c, thread.c, memfile.c, nstime.c, prof_earlier.c, prof_keep.c, prof_sys.c,
 * prof_signal.c.
 */
#pragma once

/* As syscall(): the result, or -1 with errno set. Up to 6 arguments, integers or pointers. */
#define sys_call(...) SYS_CALL_PADDED(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)
#define SYS_CALL_PADDED(number, a, b, c, d, e, f, ...) \
	sys_call_six(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

long sys_call_six(long number, long a, long b, long c, long d, long e, long f);
