/*
 * The instruction that enters the kernel, for x86-64 and for 64-bit ARM; elsewhere syscall() of
 * the C library. sys_call.h has the contract. No state, no lock.
 */
#include "os/sys_call.h"

#include <errno.h>
#include <unistd.h>

#define LAST_ERRNO 4095 /* the kernel returns -1 .. -4095 for errors */

#if defined(__x86_64__) && defined(__LP64__)
static inline long
enter(long number, long a, long b, long c, long d, long e, long f) {
	long result;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	__asm__ volatile("syscall"
	    : "=a"(result)
	    : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
	    : "rcx", "r11", "cc", "memory");
	return result;
}
#define HAS_ENTER 1
#elif defined(__aarch64__) && defined(__LP64__)
static inline long
enter(long number, long a, long b, long c, long d, long e, long f) {
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;
	__asm__ volatile("svc 0"
	    : "+r"(x0)
	    : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
	    : "cc", "memory");
	return x0;
}
#define HAS_ENTER 1
#else
#define HAS_ENTER 0
#endif

long
sys_call_six(long number, long a, long b, long c, long d, long e, long f) {
#if HAS_ENTER
	long result = enter(number, a, b, c, d, e, f);
	if (result < 0 && result >= -LAST_ERRNO) {
		errno = (int)-result;
		return -1;
	}
	return result;
#else
	return syscall(number, a, b, c, d, e, f);
#endif
}
