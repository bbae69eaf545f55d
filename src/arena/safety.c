/*
 * Ends a process that misused the allocator, unless a hook is set and returns; safety.h has the
 * contract and the callers. One function, so that a debugger needs one breakpoint. It allocates
 * nothing and takes no lock, because callers may hold any. A message that is too long is cut, and
 * then no newline ends the line.
 */
#include "arena/safety.h"

#include <stdlib.h>

#include "os/malloc_io.h"
#include "util/atomic.h"
#include "util/fmt.h"

void (*safety_abort_hook)(const char *message);

void
safety_fail(const char *what) {
	char line[128];
	fmt_snprintf(line, sizeof(line), "<jemalloc>: %s\n", what);
	void (*hook)(const char *) = __atomic_load_n(&safety_abort_hook, MO_RELAXED);
	if (hook != NULL) {
		hook(line);
		return;
	}
	malloc_write(line);
	abort();
}
