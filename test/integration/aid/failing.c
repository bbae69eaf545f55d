/*
 * A preloaded library that lets system calls of the allocator fail: FAIL_CALL names one,
 * FAIL_AT the call that fails first (from 1), FAIL_FOR how many fail (0: all after it). Those that
 * the allocator makes by number do not come here: test/unit/fault_calls.c lets them fail.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static long calls;

/* The system call itself, without the functions below that others call for it. */
static long
raw(long n, long a, long b, long c, long d, long e, long f) {
	long r;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;

	__asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8),
	    "r"(r9) : "rcx", "r11", "memory");
	if (r < 0 && r > -4096) {
		errno = (int)-r;
		return -1;
	}
	return r;
}

#define RAW(n, a, b, c, d, e, f) \
	raw(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

static int
fails(const char *name) {
	const char *call = getenv("FAIL_CALL");
	long at, how_many, n;

	if (call == NULL || strcmp(call, name) != 0)
		return 0;
	at = atol(getenv("FAIL_AT"));
	how_many = atol(getenv("FAIL_FOR"));
	n = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
	return n >= at && (how_many == 0 || n < at + how_many);
}

void *
mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off) {
	if (fails("mmap")) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return (void *)RAW(SYS_mmap, addr, len, prot, flags, fd, off);
}

int
munmap(void *addr, size_t len) {
	if (fails("munmap")) {
		errno = ENOMEM;
		return -1;
	}
	return (int)RAW(SYS_munmap, addr, len, 0, 0, 0, 0);
}

int
madvise(void *addr, size_t len, int advice) {
	if (fails("madvise")) {
		errno = EINVAL;
		return -1;
	}
	return (int)RAW(SYS_madvise, addr, len, advice, 0, 0, 0);
}

int
mprotect(void *addr, size_t len, int prot) {
	if (fails("mprotect")) {
		errno = ENOMEM;
		return -1;
	}
	return (int)RAW(SYS_mprotect, addr, len, prot, 0, 0, 0);
}

int
prctl(int op, ...) {
	unsigned long a[4];
	va_list ap;

	va_start(ap, op);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(ap, unsigned long);
	va_end(ap);
	if (fails("prctl")) {
		errno = EINVAL;
		return -1;
	}
	return (int)RAW(SYS_prctl, op, a[0], a[1], a[2], a[3], 0);
}
