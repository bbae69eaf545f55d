/*
 * libjemalloc_deepbind.so: a dlopen() that removes the flag RTLD_DEEPBIND and calls the next
 * dlopen(), that of the C library. Preloaded before the allocator by "jemalloc.sh --deepbind".
 *
 * A plugin that is opened with RTLD_DEEPBIND looks its symbols up in its own dependencies first, so
 * its malloc and free are those of the C library, whatever is preloaded. A block that passes
 * between the plugin and the program is then freed by an allocator that did not make it, which ends
 * the program. Debian's php8.2 opens its extensions in this way.
 *
 * Invariant: the call of the next dlopen() is a tail call, for which Makefile.in builds this with
 * -O2: the loader takes the return address as the caller's, and searches the caller's RUNPATH. No
 * lock: any thread may call dlopen at any time, and all that set next_dlopen set the same value.
 */
#include <dlfcn.h>
#include <stddef.h>

typedef void *(*dlopen_fn)(const char *file, int flags);

static dlopen_fn next_dlopen;

__attribute__((constructor)) static void
find_next(void) {
	next_dlopen = (dlopen_fn)dlsym(RTLD_NEXT, "dlopen");
}

__attribute__((visibility("default"))) void *
dlopen(const char *file, int flags) {
	if (next_dlopen == NULL) {
		find_next(); /* another library's constructor has called us before ours ran */
	}
#ifdef RTLD_DEEPBIND
	flags &= ~RTLD_DEEPBIND;
#endif
	return next_dlopen(file, flags);
}
