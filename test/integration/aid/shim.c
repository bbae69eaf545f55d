/*
 * A preloaded library that allocates where others do not expect it: in its constructor,
 * while objects are listed, in its dlsym, and in its destructor.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

static void
use(size_t n) {
	char *p = malloc(n);
	char *q = calloc(1, n);

	if (p == NULL || q == NULL)
		abort();
	memset(p, 1, n);
	p = realloc(p, n * 2);
	free(p);
	free(q);
}

__attribute__((constructor(101))) static void
first(void) {
	use(100);
	use(100000);
}

__attribute__((destructor(101))) static void
last(void) {
	use(200);
	use(200000);
}

int
dl_iterate_phdr(int (*cb)(struct dl_phdr_info *, size_t, void *), void *data) {
	static int (*real)(int (*)(struct dl_phdr_info *, size_t, void *), void *);

	use(300);
	if (real == NULL)
		real = (int (*)(int (*)(struct dl_phdr_info *, size_t, void *), void *))
		    dlvsym(RTLD_NEXT, "dl_iterate_phdr", "GLIBC_2.2.5");
	use(400);
	return real != NULL ? real(cb, data) : 0;
}

void *
dlsym(void *handle, const char *name) {
	use(500);
	return dlvsym(handle, name, "GLIBC_2.2.5");
}
