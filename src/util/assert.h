/*
 * assert(), assert_not_reached() and the compile-time cassert().
 * In debug builds a false assertion writes one line through assert_write and aborts. In release
 * builds the expression is type-checked but not evaluated, and the compiler may assume that
 * assert_not_reached() is never reached. The writer is a pointer because util/ must not depend on
 * os/: os/malloc_io installs malloc_write at boot; until then the text goes to file descriptor 2.
 * No lock; any thread may call.
 */
#pragma once

#include "util/compiler.h"

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
