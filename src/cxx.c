/*
 * The C side of operator new and delete (jemalloc_cpp.cpp): C linkage, no exceptions, no exported
 * names.
 *
 * Invariant: a request that fails in cxx_alloc() returns NULL with errno ENOMEM; one that succeeds
 * leaves errno as it was. Exceptions of slow() may pass through cxx_new() and cxx_new_aligned(),
 * which have nothing to clean up; all files of the library are compiled with unwind tables. Locks:
 * none of its own; imalloc.c serves the requests. Called by jemalloc_cpp.cpp only.
 */
#include "cxx.h"

#include "arena/safety.h"
#include "call_log.h"
#include "imalloc_flags.h"
#include "malloc_boot.h"
#include "util/fmt.h"

/* A build with a log boots here, because the options say whether the first call is logged. */
static inline void
log_begin(void) {
	if (config_log) {
		malloc_boot();
	}
}

void *
cxx_alloc(size_t size, size_t alignment) {
	assert(alignment == 0 || is_pow2_zu(alignment));
	void *p;
	log_begin();
	CALL_LOG(operator_new, call_entry, "size: %zu, alignment: %zu", size, alignment);
	if (alignment != 0 || size <= IMALLOC_FAST_MAX || !imalloc_above_try_fast(size, &p)) {
		imalloc_req_t req = IMALLOC_REQ(size, alignment, false, new);
		int saved = errno;
		p = imalloc_quiet(&req);
		errno = p != NULL ? saved : ENOMEM;
	}
	CALL_LOG(operator_new, call_exit, "result: %p", p);
	return p;
}

/* A build with a log always calls slow(); slow() calls cxx_alloc(), which logs the request. */
void *
cxx_new(size_t size, cxx_slow_t *slow) {
	void *p;
	return !config_log && likely(imalloc_try_fast(size, &p)) ? p : slow(size);
}

void *
cxx_new_aligned(size_t size, size_t alignment, cxx_aligned_slow_t *slow) {
	assert(is_pow2_zu(alignment));
	void *p;
	return !config_log && likely(imalloc_aligned_try_fast(size, alignment, &p)) ? p
	    : slow(size, alignment);
}

void
cxx_free(void *ptr) {
	log_begin();
	CALL_LOG(operator_delete, call_entry, "ptr: %p", ptr);
	if (unlikely(!ifree_try_fast(ptr))) {
		ifree_default(ptr);
	}
	CALL_LOG(operator_delete, call_exit, "done");
}

void
cxx_free_sized(void *ptr, size_t size) {
	log_begin();
	CALL_LOG(operator_delete, call_entry, "ptr: %p, size: %zu", ptr, size);
	if (unlikely(!ifree_sized_try_fast(ptr, size))) {
		ifree_sized_standard(ptr, size, 0);
	}
	CALL_LOG(operator_delete, call_exit, "done");
}

void
cxx_free_sized_aligned(void *ptr, size_t size, size_t alignment) {
	assert(is_pow2_zu(alignment));
	log_begin();
	CALL_LOG(operator_delete, call_entry, "ptr: %p, size: %zu, alignment: %zu", ptr, size,
	    alignment);
	size_t rounded = align_up(max_zu(size, 1), alignment);
	if (unlikely(!ifree_sized_try_fast(ptr, rounded))) {
		ifree_sized_standard(ptr, size, alignment);
	}
	CALL_LOG(operator_delete, call_exit, "done");
}

bool
cxx_is_infallible(void) {
	return opt_experimental_infallible_new;
}

void
cxx_no_memory(size_t size) {
	assert(!gate_is_entered(tls_get()));
	char what[128];
	fmt_snprintf(what, sizeof(what), "Allocation of size %zu failed. %s Aborting.", size,
	    opt_experimental_infallible_new ? "opt.experimental_infallible_new is true."
	    : "No C++ runtime to throw std::bad_alloc.");
	safety_fail(what);
}
