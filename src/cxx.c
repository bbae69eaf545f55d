/* What the C++ operators (jemalloc_cpp.cpp) call: C linkage, no exceptions, no exported names. */
#include "cxx.h"

#include <stdlib.h>

#include "imalloc.h"
#include "os/malloc_io.h"

static NOINLINE void *
cxx_alloc_slow(size_t size, size_t alignment) {
	void *p = NULL;
	if (alignment == 0 && imalloc_large_is_done_fast(size, &p)) {
		return p;
	}
	imalloc_req_t req = IMALLOC_REQ(size, alignment, false, new);
	int saved = errno;
	p = imalloc_quiet(&req);
	errno = saved;
	return p;
}

void *
cxx_alloc(size_t size, size_t alignment) {
	void *p = NULL;
	bool is_done = likely(alignment == 0) ? imalloc_is_done_fast(size, &p)
	    : imalloc_aligned_is_done_fast(size, alignment, &p);
	return likely(is_done) ? p : cxx_alloc_slow(size, alignment);
}

void
cxx_free(void *ptr) {
	if (unlikely(!ifree_is_done_fast(ptr))) {
		ifree_default(ptr);
	}
}

void
cxx_free_sized(void *ptr, size_t size) {
	if (unlikely(!ifree_sized_is_done_fast(ptr, size))) {
		ifree_default(ptr);
	}
}

bool
cxx_is_infallible(void) {
	return opt_experimental_infallible_new;
}

void
cxx_no_memory(size_t size) {
	malloc_printf("<jemalloc>: Allocation of size %zu failed. %s\n", size,
	    opt_experimental_infallible_new ? "opt.experimental_infallible_new is true. Aborting."
	    : "No C++ runtime to throw std::bad_alloc. Aborting.");
	abort();
}
