/*
 * config.h, standard headers, names for compiler extensions, and assertions. All files of the
 * library include this, directly or through other headers, but jemalloc_cpp.cpp and the headers
 * that the tools use too (meta/image.h names them).
 * Only headers without library state are included here. Outside of os/ and unwind/ only this file
 * (and jemalloc_cpp.cpp) may test the platform or the compiler with the preprocessor; the rest of
 * the code uses the names defined here. No lock; the only state is assert_write (compiler.c).
 */
#pragma once

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

/* Inlined even without optimisation. */
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))
/* Makes the compiler take a variable for changed, so that it computes anew what depends on it. */
#define OPAQUE(x) __asm__("" : "+r"(x))
/* The same for an object in memory, which is read anew. */
#define OPAQUE_MEM(x) __asm__("" : "+m"(x))
/* Never inlined, and placed apart from the hot code. */
#define COLD __attribute__((cold, noinline))
#define NORETURN __attribute__((noreturn))
#define ALIGNED(n) __attribute__((aligned(n)))
#define UNUSED __attribute__((unused))
#define WEAK __attribute__((weak))
/* Not exported from the shared library, and so reached without the global offset table. */
#define HIDDEN __attribute__((visibility("hidden")))
/*
 * Places a variable on the page where initialised data ends and zeroed data begins. The loader has
 * already written to that page, so writing to the variable costs no page fault.
 */
#define EARLY_DATA __attribute__((section(".data.tail")))
/*
 * Makes a constant of the file that is linked first begin at 64 KiB in the shared library, and so
 * all constants. The kernel reads a file in by such windows; those that a process reads are in one.
 */
#if defined(__PIC__) && !defined(__PIE__)
#define FIRST_CONST ALIGNED(1 << 16)
#else
#define FIRST_CONST ALIGNED(CACHELINE)
#endif
/*
 * Keeps large zeroed variables apart from small ones, so that the small ones share few pages. In
 * debug builds a mutex has a name and rank, so a struct with one is not all zeros and cannot be in
 * .bss; there the macro does nothing.
 */
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

/* Whether the processor adds to a word in memory by one instruction, as cache_bin.h prefers. */
#if defined(__x86_64__) && !COMPILER_TSAN
#define COMPILER_ADDS_TO_MEMORY 1
#else
#define COMPILER_ADDS_TO_MEMORY 0
#endif

/* One iteration of a spin-wait loop: tells the processor that the loop waits for another thread. */
#if defined(__x86_64__) || defined(__i386__)
#define CPU_SPINWAIT() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define CPU_SPINWAIT() __asm__ volatile("isb" ::: "memory")
#elif defined(__riscv)
/* The instruction "pause"; processors without it take it for a fence that orders nothing. */
#define CPU_SPINWAIT() __asm__ volatile(".4byte 0x0100000f" ::: "memory")
#elif defined(__powerpc64__)
/* The hint "yield": shared resources of the core go to its other threads. */
#define CPU_SPINWAIT() __asm__ volatile("or 27, 27, 27" ::: "memory")
#else
/* s390x has no such hint for programs. */
#define CPU_SPINWAIT() __asm__ volatile("" ::: "memory")
#endif

/*
 * log2 of the bytes of a cache line on x86-64 and most aarch64 processors. Where lines are longer,
 * as on s390x, words that different threads write to may share one, which only costs time.
 */
#define LG_CACHELINE 6
#define CACHELINE (1 << LG_CACHELINE)
#define ZU(x) ((size_t)(x))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
/* The struct of type t whose member m is at p. */
#define container_of(p, t, m) ((t *)((uintptr_t)(p) - offsetof(t, m)))

static inline size_t
min_zu(size_t a, size_t b) {
	return a < b ? a : b;
}

static inline size_t
max_zu(size_t a, size_t b) {
	return a > b ? a : b;
}

/* ------------------------------------------------------------------ assertions */

/*
 * assert(), assert_not_reached() and the compile-time cassert(). In debug builds a false assertion
 * writes one line through assert_write and aborts. In release builds the expression is type-checked
 * but not evaluated, and the compiler may assume that assert_not_reached() is never reached. The
 * writer is a pointer because util/ must not depend on os/: os/malloc_io installs malloc_write at
 * boot; until then the text goes to file descriptor 2. No lock; any thread may call.
 */

/*
 * What writes a NUL-terminated message. It must neither allocate nor take a lock; malloc_write
 * calls malloc_message of the program, for which the program must see to that.
 */
extern void (*assert_write)(const char *s);

/* Writes the line "<jemalloc>: FILE:LINE: Failed assertion: "EXPR"" and aborts. */
void assert_fail(const char *file, int line, const char *expr) NORETURN COLD;
/* Writes the line "<jemalloc>: FILE:LINE: Unreachable code reached" and aborts. */
void assert_fail_not_reached(const char *file, int line) NORETURN COLD;

/* Replaces the C library's macro of the same name, whose failing side uses stdio. */
#undef assert
#if CONFIG_DEBUG
#define assert(e) (likely(e) ? (void)0 : assert_fail(__FILE__, __LINE__, #e))
#define assert_not_reached() assert_fail_not_reached(__FILE__, __LINE__)
#else
#define assert(e) ((void)sizeof((e) ? 1 : 0))
#define assert_not_reached() __builtin_unreachable()
#endif

#if !defined(__cplusplus) && !defined(static_assert)
#define static_assert _Static_assert
#endif
#define cassert(e) static_assert(e, #e)
