/*
 * Pages of memory by mmap(2), munmap(2), mprotect(2) and madvise(2); pages.h has the contract.
 * All state is written at boot, except what is learned at run time (whether purging works) and the
 * ranges that could not be unmapped yet. Those are atomics, so no lock is needed. The calls that
 * map, unmap, move, protect and advise go through os_hooks, so that tests can make them fail.
 */
#include "os/pages.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "os/malloc_io.h"
#include "os/sys.h"
#include "util/atomic.h"
#include "util/fmt.h"

/*
 * The kernel's numbers, because headers may be older: advices (MADV_*; more are in pages.h), a
 * question for prctl(2), and a flag of mremap(2) from Linux 5.7 on.
 */
enum { ADVICE_FREE = 8, ADVICE_COLD = 20, THP_DISABLE_ASK = 42, MOVE_DONTUNMAP = 4 };

/*
 * EARLY_DATA: every start of a program sets them, and that page is already present then. The first
 * request, which boots, compares its size with bounds of LG_PAGE before that.
 */
EARLY_DATA unsigned lg_page = LG_PAGE_MIN;
EARLY_DATA size_t page_size;

bool opt_trust_madvise = false;
size_t opt_process_madvise_max_batch;
thp_mode_t opt_thp = thp_mode_default;

/* Whether the system has an ability. */
enum { FACT_UNKNOWN, FACT_YES, FACT_NO };

static struct {
	/*
	 * MAP_* of each mapping without a file; 0 before boot. MAP_NORESERVE: the kernel provides
	 * memory on first touch and does not account for all of it in advance.
	 */
	int map_flags;
	/*
	 * FACT_*: whether MADV_DONTNEED zeroes pages. Tested at the first purge, not at boot, because
	 * the test costs two page faults.
	 */
	atomic_u8_t purge_forced;
	/* FACT_NO once the kernel has rejected MADV_FREE, or process_madvise(2); else FACT_UNKNOWN. */
	atomic_u8_t purge_lazy;
	atomic_u8_t purge_many;
	thp_mode_t system_thp; /* written at boot only */
} pages;

cassert(LG_PAGE_MIN <= LG_PAGE_MAX);
cassert(LG_PAGE_MAX <= LG_HUGEPAGE);

/* Whether a range is valid: whole pages, not at the null address, no wrap-around. */
UNUSED static bool
is_range(const void *addr, size_t size) {
	return addr != NULL && (((uintptr_t)addr | size) & PAGE_MASK) == 0 && size > 0
	    && (uintptr_t)addr < UINTPTR_MAX - size;
}

/* System calls with errno preserved. os_mmap(): NULL after a failure; the others: 0 or an errno. */
static void *
os_mmap(void *addr, size_t size, bool commit, int more_flags) {
	int saved = errno;
	int prot = commit ? PROT_READ | PROT_WRITE : PROT_NONE;
	void *p = os_hooks->mmap(addr, size, prot, pages.map_flags | more_flags, -1, 0);
	errno = saved;
	if (config_pageid && p != MAP_FAILED) {
		pages_set_name(p, size, "jemalloc_pg");
	}
	return p == MAP_FAILED ? NULL : p;
}

static int
os_munmap(void *addr, size_t size) {
	return ERROR_OF(os_hooks->munmap(addr, size));
}

static int
os_madvise(void *addr, size_t size, int advice) {
	return ERROR_OF(os_hooks->madvise(addr, size, advice));
}

/* ------------------------------------------------------------------ ranges still to be unmapped */

/*
 * munmap() fails with ENOMEM if it would split a mapping while the process has as many mappings as
 * the kernel allows. The range still belongs to the allocator; it is kept here, unused, until a
 * later call succeeds in unmapping it.
 */

/* Number of ranges that can be kept. */
#define N_LEFT 256
/*
 * From this number of kept ranges on, pages_map() makes no mapping that is aligned to more than the
 * kernel's page, because it may have to be cut; the rest of the table is for other failures.
 */
#define N_LEFT_MANY (N_LEFT / 2)
#define LEFT_BUSY ((uintptr_t)1) /* value of addr while the slot is being written or tried */

static LARGE_BSS struct {
	atomic_zu_t addr; /* first address of the range; 0: the slot is free; or LEFT_BUSY */
	atomic_zu_t size; /* bytes */
} left[N_LEFT];
/*
 * Slots in use, and those that are about to be: counted before a slot is filled and after it was
 * emptied, so it is never too small.
 */
static atomic_u32_t n_left;

/* Gives up the memory of the range and keeps its address for left_try(). */
static void
left_add(void *addr, size_t size) {
	os_madvise(addr, size, MADV_DONTNEED);
	atomic_fetch_add_u32(&n_left, 1, MO_RELAXED);
	for (unsigned i = 0; i < N_LEFT; i++) {
		size_t none = 0;
		if (atomic_load_zu(&left[i].addr, MO_RELAXED) == 0
		    && atomic_cas_strong_zu(&left[i].addr, &none, LEFT_BUSY, MO_ACQUIRE, MO_RELAXED)) {
			atomic_store_zu(&left[i].size, size, MO_RELAXED);
			atomic_store_zu(&left[i].addr, (uintptr_t)addr, MO_RELEASE);
			return;
		}
	}
	/* No slot is free: address space is lost, but no memory. */
	atomic_fetch_sub_u32(&n_left, 1, MO_RELAXED);
}

/*
 * Tries to unmap all kept ranges. Stops at the first refusal, since the next would be refused for
 * the same reason.
 */
static void
left_try(void) {
	for (unsigned i = 0; i < N_LEFT; i++) {
		size_t addr = atomic_load_zu(&left[i].addr, MO_RELAXED);
		if (addr <= LEFT_BUSY
		    || !atomic_cas_strong_zu(&left[i].addr, &addr, LEFT_BUSY, MO_ACQUIRE, MO_RELAXED)) {
			continue;
		}
		bool is_gone = os_munmap((void *)addr, atomic_load_zu(&left[i].size, MO_RELAXED)) == 0;
		atomic_store_zu(&left[i].addr, is_gone ? 0 : addr, MO_RELEASE);
		if (!is_gone) {
			return;
		}
		atomic_fetch_sub_u32(&n_left, 1, MO_RELAXED);
	}
}

static bool
left_has_any(void) {
	return unlikely(atomic_load_u32(&n_left, MO_RELAXED) != 0);
}

void
pages_unmap_in_time(void *addr, size_t size) {
	/* Not is_range(): what mmap() returns may be aligned to the system's page only. */
	assert(size > 0 && is_aligned((uintptr_t)addr | size, os_page_size));
	if (left_has_any()) {
		left_try();
	}
	if (os_munmap(addr, size) != 0) {
		left_add(addr, size);
	}
}

size_t
pages_left(void) {
	size_t bytes = 0;
	if (left_has_any()) {
		left_try();
	}
	for (unsigned i = 0; i < N_LEFT; i++) {
		bytes += atomic_load_zu(&left[i].addr, MO_RELAXED) == 0 ? 0
		    : atomic_load_zu(&left[i].size, MO_RELAXED);
	}
	return bytes;
}

/* ------------------------------------------------------------------ mapping */

/* Reduces [p, p + over) to size bytes at the first aligned address; NULL: all was given up. */
static void *
trim(char *p, size_t over, size_t size, size_t alignment) {
	char *start = (char *)align_up((uintptr_t)p, alignment);
	size_t lead = (size_t)(start - p);
	assert(lead < alignment && lead + size <= over);
	size_t trail = over - lead - size;
	/* If a part cannot be unmapped, all of it is: that splits no mapping. */
	if (lead > 0 && os_munmap(p, lead) != 0) {
		pages_unmap_in_time(p, over);
		return NULL;
	}
	if (trail > 0 && os_munmap(start + size, trail) != 0) {
		pages_unmap_in_time(start, size + trail);
		return NULL;
	}
	return start;
}

/* Maps more than needed and cuts an aligned part out of it. */
static void *
map_aligned_slow(size_t size, size_t alignment, bool commit) {
	size_t over = size + alignment - os_page_size;
	if (over < size) {
		return NULL;
	}
	void *p = os_mmap(NULL, over, commit, 0);
	return p == NULL ? NULL : trim(p, over, size, alignment);
}

void *
pages_map(void *addr, size_t size, size_t alignment, bool *commit) {
	assert(is_pow2_zu(alignment) && alignment >= PAGE);
	assert(size > 0 && (size & PAGE_MASK) == 0);
	assert(((uintptr_t)addr & (alignment - 1)) == 0);
	/* pages_boot() has been called. */
	assert((pages.map_flags & MAP_ANONYMOUS) != 0);
	bool is_open = commit == NULL || *commit || !pages_can_decommit();
	if (commit != NULL) {
		*commit = is_open;
	}
	if (left_has_any()) {
		left_try();
		if (alignment > os_page_size && atomic_load_u32(&n_left, MO_RELAXED) >= N_LEFT_MANY) {
			return NULL;
		}
	}
	void *p = os_mmap(addr, size, is_open, 0);
	if (p == NULL || p == addr) {
		return p;
	}
	if (addr == NULL && ((uintptr_t)p & (alignment - 1)) == 0) {
		return p;
	}
	pages_unmap_in_time(p, size);
	return addr != NULL ? NULL : map_aligned_slow(size, alignment, is_open);
}

int
pages_map_over(void *addr, size_t size, int fd, uint64_t offset) {
	assert(is_range(addr, size));
	int kind = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	return ERROR_OF(os_hooks->mmap(addr, size, PROT_READ | PROT_WRITE, kind | MAP_FIXED, fd,
	    (off_t)offset) == MAP_FAILED ? -1 : 0);
}

int
pages_map_anew(void *addr, size_t size) {
	int err = pages_map_over(addr, size, -1, 0);
	/* The mapping is still there, unless the kernel removed it and then had no memory for ours. */
	if (err != 0 && !sys_is_readable(addr, PAGE)) {
		err = pages_map_over(addr, size, -1, 0);
		if (err != 0) {
			abort(); /* the next access would do that */
		}
	}
	return err;
}

/* mremap(2) with MREMAP_MAYMOVE and these flags; *at: its result. Returns 0 or an errno value. */
static int
try_move(void *from, size_t size, size_t new_size, int flags, void *to, void **at) {
	flags |= MREMAP_MAYMOVE;
	return ERROR_OF((*at = os_hooks->mremap(from, size, new_size, flags, to)) == MAP_FAILED
	    ? -1 : 0);
}

int
pages_move_over(void *from, size_t size, void *to, size_t new_size) {
	void *at;
	/* `from` may be the result of pages_move_out(), which is aligned to the kernel's page only. */
	assert(is_range(to, size) && is_range(to, new_size) && new_size >= size);
	return try_move(from, size, new_size, MREMAP_FIXED, to, &at);
}

/* The least bytes of a store: pages that are not used cost address space only. */
#define STORE_MIN ((size_t)1 << 18)

bool
pages_store_try_reserve(pages_store_t *s, size_t bytes) {
	if (bytes <= s->bytes) {
		return true;
	}
	size_t size = PAGE_CEILING(max_zu(max_zu(bytes, STORE_MIN), 2 * s->bytes));
	void *at = pages_map(NULL, size, PAGE, NULL);
	if (at == NULL) {
		return false;
	}
	if (s->at != NULL && pages_move_over(s->at, s->bytes, at, size) != 0) {
		/* A filter of system calls forbids it, or there are as many mappings as there may be. */
		if (!sys_is_readable(at, size)) {
			return false;
		}
		memcpy(at, s->at, s->bytes);
		pages_unmap_in_time(s->at, s->bytes);
	}
	*s = (pages_store_t){at, size};
	return true;
}

void
pages_store_free(pages_store_t *s) {
	if (s->at != NULL) {
		pages_unmap_in_time(s->at, s->bytes);
	}
	*s = (pages_store_t){NULL, 0};
}

void *
pages_map_file(int fd, size_t size) {
	int saved = errno;
	bool commit = false;
	void *p = os_hooks->mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), *to = p;
	errno = saved;
	if (p == MAP_FAILED) {
		return NULL;
	}
	if (((uintptr_t)p & PAGE_MASK) != 0) { /* as in pages_move_over() */
		to = pages_map(NULL, size, PAGE, &commit);
		if (to == NULL || pages_move_over(p, size, to, size) != 0) {
			pages_unmap_in_time(p, size);
			return NULL;
		}
	}
	return to;
}

/*
 * Moves as try_move() does, but `from` stays mapped; EINVAL if it is locked (mlock(2), or since
 * mlockall(2)), which the kernel says by refusing an advice: of such a range it would count the
 * bytes that have been moved for ever, until no more memory can be mapped under RLIMIT_MEMLOCK. The
 * advice is about the last page, which is the least likely to be a part of a huge one.
 */
static int
try_move_and_stay(char *from, size_t size, int flags, void *to, void **at) {
	int err = os_madvise(from + size - PAGE, PAGE, ADVICE_COLD);
	return err == EINVAL ? err : try_move(from, size, size, flags | MOVE_DONTUNMAP, to, at);
}

int
pages_move_bytes(void *from, size_t size, void *to, bool may_go) {
	void *at;
	assert(is_range(from, size) && is_range(to, size));
	int err = try_move_and_stay(from, size, MREMAP_FIXED, to, &at);
	return err != 0 && may_go ? pages_move_over(from, size, to, size) : err;
}

void *
pages_move_out(void *from, size_t *size) {
	void *at;
	size_t step = PAGE_CEILING(*size / 16), least = *size / 2;
	assert(is_range(from, *size));
	int err = try_move_and_stay(from, *size, 0, NULL, &at);
	/* Only the first mapping can move now, so whether it is locked is asked once. */
	if (err == EFAULT && os_madvise(from, PAGE, ADVICE_COLD) == EINVAL) {
		return NULL;
	}
	while (err == EFAULT && *size > least + step) {
		*size -= step;
		err = try_move(from, *size, *size, MOVE_DONTUNMAP, NULL, &at);
	}
	return err == 0 ? at : NULL;
}

int
pages_unmap(void *addr, size_t size) {
	assert(is_range(addr, size));
	if (left_has_any()) {
		left_try();
	}
	return os_munmap(addr, size);
}

int
pages_protect(void *addr, size_t size, pages_access_t access) {
	static_assert(PAGES_CLOSED == PROT_NONE && PAGES_READABLE == PROT_READ
	    && PAGES_OPEN == (PROT_READ | PROT_WRITE), "the kernel's values");
	assert(is_range(addr, size));
	return ERROR_OF(os_hooks->mprotect(addr, size, (int)access));
}

bool
pages_can_decommit(void) {
	return (pages.map_flags & MAP_NORESERVE) == 0;
}

int
pages_commit(void *addr, size_t size) {
	assert(is_range(addr, size));
	if (!pages_can_decommit()) {
		return EAGAIN;
	}
	return pages_protect(addr, size, PAGES_OPEN);
}

int
pages_decommit(void *addr, size_t size) {
	assert(is_range(addr, size));
	if (!pages_can_decommit()) {
		return EAGAIN;
	}
	/* A new mapping in its place returns the memory and its accounting at once. */
	if (os_mmap(addr, size, false, MAP_FIXED) != addr) {
		return ENOMEM;
	}
	pages_set_thp_state(addr, size);
	return 0;
}

bool
pages_can_purge_lazy(void) {
	return atomic_load_u8(&pages.purge_lazy, MO_RELAXED) != FACT_NO;
}

int
pages_purge_lazy(void *addr, size_t size) {
	assert(is_range(addr, size));
	if (!pages_can_purge_lazy()) {
		return ENOTSUP;
	}
	int err = os_madvise(addr, size, ADVICE_FREE);
	if (err == EINVAL) {
		/* Linux before 4.5 has no MADV_FREE. */
		atomic_store_u8(&pages.purge_lazy, FACT_NO, MO_RELAXED);
		err = ENOTSUP;
	}
	return err;
}

/*
 * Tests whether MADV_DONTNEED zeroes a page; FACT_NO under qemu's user mode, which keeps the
 * contents. FACT_UNKNOWN if no page could be mapped or the call failed: the first purge may happen
 * just when there is no memory, which is a passing state.
 */
static uint8_t
dontneed_try(void) {
	volatile char *p = pages_map(NULL, PAGE, PAGE, NULL);
	if (p == NULL) {
		return FACT_UNKNOWN;
	}
	*p = 1;
	uint8_t fact = FACT_UNKNOWN;
	if (os_madvise((void *)(uintptr_t)p, PAGE, MADV_DONTNEED) == 0) {
		fact = *p == 0 ? FACT_YES : FACT_NO;
	}
	pages_unmap_in_time((void *)(uintptr_t)p, PAGE);
	return fact;
}

bool
pages_can_purge_forced(void) {
	uint8_t known = atomic_load_u8(&pages.purge_forced, MO_RELAXED);
	if (likely(known != FACT_UNKNOWN)) {
		return known == FACT_YES;
	}
	uint8_t fact = opt_trust_madvise ? FACT_YES : dontneed_try();
	if (fact == FACT_UNKNOWN) {
		return false;
	}
	if (atomic_cas_strong_u8(&pages.purge_forced, &known, fact, MO_RELAXED, MO_RELAXED)
	    && fact == FACT_NO) {
		malloc_write("<jemalloc>: MADV_DONTNEED does not work (memset will be used "
		    "instead)\n");
		malloc_write("<jemalloc>: (This is the expected behaviour if you are running "
		    "under QEMU)\n");
	}
	return fact == FACT_YES;
}

int
pages_purge_forced(void *addr, size_t size) {
	assert(is_range(addr, size));
	if (!pages_can_purge_forced()) {
		return ENOTSUP;
	}
	return os_madvise(addr, size, MADV_DONTNEED);
}

int
pages_purge_forced_many(const struct iovec *ranges, unsigned n) {
	size_t bytes = 0;
	for (unsigned i = 0; i < n; i++) {
		assert(is_range(ranges[i].iov_base, ranges[i].iov_len));
		bytes += ranges[i].iov_len;
	}
	assert(n > 0 && n <= PAGES_BATCH_MAX);
	if (opt_process_madvise_max_batch == 0
	    || atomic_load_u8(&pages.purge_many, MO_RELAXED) == FACT_NO || !pages_can_purge_forced()) {
		return ENOTSUP;
	}
	ssize_t done = COUNT_OF(os_hooks->madvise_many(ranges, n, MADV_DONTNEED));
	int err = done < 0 ? (int)-done : (size_t)done == bytes ? 0 : EAGAIN;
	if (err == ENOSYS || err == EINVAL || err == EBADF || err == EPERM) {
		/* An older kernel, or a system call filter. */
		atomic_store_u8(&pages.purge_many, FACT_NO, MO_RELAXED);
		err = ENOTSUP;
	}
	return err;
}

int
pages_advise(void *addr, size_t size, pages_advice_t advice) {
	assert(is_range(addr, size));
	return os_madvise(addr, size, (int)advice);
}

static thp_mode_t
system_thp_read(void) {
	char text[128];
	/* An array lies near tables that each start reads; a literal could cost one more page fault. */
	static const char path[] = "/sys/kernel/mm/transparent_hugepage/enabled";
	sys_read_text(path, text, sizeof(text));
	if (strstr(text, "[always]") != NULL) {
		return thp_mode_always;
	}
	if (strstr(text, "[madvise]") != NULL) {
		return thp_mode_default;
	}
	return strstr(text, "[never]") != NULL ? thp_mode_never : thp_mode_not_supported;
}

void
pages_boot_thp(void) {
	pages.system_thp = system_thp_read();
}

thp_mode_t
pages_system_thp_mode(void) {
	return pages.system_thp;
}

#if defined(__x86_64__) || defined(__aarch64__) || (defined(__riscv) && __riscv_xlen == 64)
/* What one page table of the lowest level maps: it is a page of 8-byte entries, one for a page. */
size_t
pages_huge_size(void) {
	return os_page_size / sizeof(uint64_t) * os_page_size;
}
#else
size_t
pages_huge_size(void) {
	uint64_t size;
	return sys_try_read_number("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", &size)
	    ? (size_t)size : 0;
}
#endif

bool
pages_has_thp(void) {
	/* Below 0: a kernel that does not know the question. */
	return COUNT_OF(prctl(THP_DISABLE_ASK, 0, 0, 0, 0)) <= 0;
}

void
pages_set_thp_state(void *addr, size_t size) {
	/* thp_mode_not_supported is only reported; the option cannot have it. */
	assert(opt_thp < thp_mode_not_supported);
	thp_mode_t system = opt_thp == thp_mode_default ? opt_thp : pages_system_thp_mode();
	if (opt_thp == system || system == thp_mode_not_supported) {
		return;
	}
	if (opt_thp == thp_mode_always && system == thp_mode_default) {
		pages_advise(addr, size, PAGES_HUGE);
	} else if (opt_thp == thp_mode_never) {
		pages_advise(addr, size, PAGES_NO_HUGE);
	}
}

void
pages_set_name(void *addr UNUSED, size_t size UNUSED, const char *name UNUSED) {
#if HAVE_PRCTL_VMA && defined(PR_SET_VMA) && defined(PR_SET_VMA_ANON_NAME)
	(void)COUNT_OF(prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, (unsigned long)(uintptr_t)addr,
	    (unsigned long)size, (unsigned long)(uintptr_t)name));
#endif
}

/* The larger page size in bytes that a test of a debug build asks for; 0 if none. */
static size_t
pretended_page(void) {
	const char *text = config_debug && !LG_PAGE_FIXED_P ? sys_env("JEMALLOC_TEST_PAGE") : NULL;
	if (text == NULL) {
		return 0;
	}
	int err;
	uintmax_t n = fmt_parse_uint(text, NULL, 10, &err);
	return err == 0 && n <= PAGE_MAX && is_pow2_zu((size_t)n) ? (size_t)n : 0;
}

int
pages_boot_size(void) {
	if (page_size != 0) {
		return 0;
	}
	os_page_size = (size_t)sys_auxval(AT_PAGESZ);
	if (os_page_size == 0) {
		os_page_size = (size_t)sysconf(_SC_PAGESIZE);
	}
	if (!is_pow2_zu(os_page_size)) {
		return ENOTSUP;
	}
	size_t size = max_zu(os_page_size, ZU(1) << LG_PAGE_MIN);
	size = max_zu(size, pretended_page());
	if (size > PAGE_MAX || (LG_PAGE_FIXED_P && size != ZU(1) << LG_PAGE_MIN)) {
		malloc_write("<jemalloc>: Unsupported system page size\n");
		return ENOTSUP;
	}
	page_size = size;
	lg_page = (unsigned)lg_floor_zu(size);
	assert(PAGE == page_size && PAGE % os_page_size == 0 && lg_page >= LG_PAGE_MIN);
	return 0;
}

static bool
has_overcommit(void) {
	char text[3];
	static const char path[] = "/proc/sys/vm/overcommit_memory"; /* see system_thp_read() */
	sys_read_text(path, text, sizeof(text));
	/*
	 * If the file cannot be read (chroot), committing everything is correct in every mode of
	 * the kernel.
	 */
	return text[0] == '\0' || text[0] == '0' || text[0] == '1';
}

int
pages_boot(void) {
	int err = pages_boot_size();
	if (err != 0 || pages.map_flags != 0) {
		return err;
	}
	pages.map_flags = MAP_PRIVATE | MAP_ANONYMOUS | (has_overcommit() ? MAP_NORESERVE : 0);
	pages_boot_thp();
	return 0;
}
