/*
 * The library's voice: text goes to the program's message function if there is one, else to
 * descriptor 2 by raw writes.  No allocation, no stdio, at most about 1.2 KiB of stack, any state
 * of the allocator.  errno is kept.
 */
#ifndef OS_MALLOC_IO_H
#define OS_MALLOC_IO_H

#include "util/compiler.h"

/* Longest text of one malloc_printf(); what is longer is cut. */
#define MALLOC_PRINTF_MAX 1024

typedef void(malloc_io_write_t)(void *opaque, const char *s);

/* Set by the top floor: passes s on to the program's message function.  NULL: descriptor 2. */
extern HIDDEN malloc_io_write_t *malloc_io_message;

/* Makes failed assertions speak through malloc_write(). */
void malloc_io_boot(void);

void malloc_write(const char *s);
/* To descriptor 2 whatever malloc_io_message says; a malloc_io_write_t. */
void malloc_io_write_stderr(void *opaque, const char *s);
void malloc_printf(const char *format, ...) PRINTF_FMT(1, 2);
void malloc_vprintf(const char *format, va_list ap) PRINTF_FMT(1, 0);
/* write_cb NULL: as malloc_printf. */
void malloc_cprintf(malloc_io_write_t *write_cb, void *opaque, const char *format, ...)
    PRINTF_FMT(3, 4);
void malloc_vcprintf(malloc_io_write_t *write_cb, void *opaque, const char *format, va_list ap)
    PRINTF_FMT(3, 0);

#endif
