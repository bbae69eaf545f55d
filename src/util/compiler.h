/*
 * The ground every file stands on: the configured facts, the handful of standard headers that carry
 * no library state, and names for the compiler extensions in use.  Together with os/ this is the only
 * place that may look at the platform with the preprocessor.
 */
#ifndef UTIL_COMPILER_H
#define UTIL_COMPILER_H

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "config.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))
#define COLD __attribute__((cold, noinline))
#define PURE __attribute__((pure))
#define NORETURN __attribute__((noreturn))
#define ALIGNED(n) __attribute__((aligned(n)))
#define UNUSED __attribute__((unused))
#define FALLTHROUGH __attribute__((fallthrough))
#define WEAK __attribute__((weak))
#define HIDDEN __attribute__((visibility("hidden")))
/*
 * Initialised or zeroed variables of a page or more, apart from the small ones, which then share few pages.  In
 * debug builds locks have names, so that not all of them begin as zeros.
 */
#define LARGE_DATA __attribute__((section(".data.large")))
/* On the page where data ends and zeroed variables begin, which the loader has written to already. */
#define EARLY_DATA __attribute__((section(".data.tail")))
#if CONFIG_DEBUG
#define LARGE_BSS
#else
#define LARGE_BSS __attribute__((section(".bss.large")))
#endif
#define EXPORT __attribute__((visibility("default")))
#define PRINTF_FMT(a, b) __attribute__((format(printf, a, b)))
#define NO_SANITIZE_ADDRESS __attribute__((no_sanitize_address))
#define NO_SANITIZE_THREAD __attribute__((no_sanitize_thread))

#if defined(__has_feature)
#define COMPILER_HAS_FEATURE(x) __has_feature(x)
#else
#define COMPILER_HAS_FEATURE(x) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || COMPILER_HAS_FEATURE(address_sanitizer)
#define COMPILER_ASAN 1
#else
#define COMPILER_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__) || COMPILER_HAS_FEATURE(thread_sanitizer)
#define COMPILER_TSAN 1
#else
#define COMPILER_TSAN 0
#endif

/* One iteration of a spin-wait loop. */
#if defined(__x86_64__) || defined(__i386__)
#define CPU_SPINWAIT() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define CPU_SPINWAIT() __asm__ volatile("isb" ::: "memory")
#else
#define CPU_SPINWAIT() __asm__ volatile("" ::: "memory")
#endif

#define LG_CACHELINE 6
#define CACHELINE (1 << LG_CACHELINE)
#define ZU(x) ((size_t)(x))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define container_of(p, t, m) ((t *)((uintptr_t)(p) - offsetof(t, m)))
#define PREFETCHW(p) __builtin_prefetch((p), 1, 3)
#define PREFETCHR(p) __builtin_prefetch((p), 0, 3)

static inline size_t
min_zu(size_t a, size_t b) {
	return a < b ? a : b;
}

static inline size_t
max_zu(size_t a, size_t b) {
	return a > b ? a : b;
}

#endif /* UTIL_COMPILER_H */
