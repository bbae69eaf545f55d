/*
 * libjemalloc_deepbind.so: a dlopen() that removes the flag RTLD_DEEPBIND and calls the next
 * dlopen(), usually the C library's. Preloaded before the allocator by "jemalloc.sh --deepbind".
 *
 * A plugin that is opened with RTLD_DEEPBIND looks its symbols up in its own dependencies first, so
 * its malloc and free are those of the C library, whatever is preloaded. A block that passes
 * between the plugin and the program is then freed by an allocator that did not make it, which ends
 * the program. Debian's php8.2 opens its extensions in this way.
 *
 * Invariant: the call of the next dlopen() is a tail call, so that its return address lies in our
 * caller: by that address the loader knows who calls, and searches that object's RUNPATH. Only the
 * optimiser makes it a tail call, so Makefile.in puts -O2 behind CFLAGS, where it wins. No lock:
 * any thread may call dlopen at any time, and all set next_dlopen to the same value.
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
