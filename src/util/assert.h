/*
 * Assertions.  In debug builds a false one writes a line through assert_write and aborts; otherwise
 * the expression is only type-checked.  The writer is a pointer because output belongs to a higher
 * floor: os/malloc_io puts its own there at boot, until then the text goes straight to descriptor 2.
 */
#ifndef UTIL_ASSERT_H
#define UTIL_ASSERT_H

#include "util/compiler.h"

extern void (*assert_write)(const char *s);

/* Writes "<jemalloc>: FILE:LINE: Failed assertion: "EXPR"" and aborts; keeps no state. */
void assert_fail(const char *file, int line, const char *expr) NORETURN COLD;
void assert_fail_not_reached(const char *file, int line) NORETURN COLD;

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

#endif /* UTIL_ASSERT_H */
