/* Pages: size, alignment, purging, and every system call failing. */
#include "test.h"

#include <sys/auxv.h>
#include <sys/mman.h>

#include "os/pages.h"
#include "os/sys.h"

static struct os_hooks_s hooks;

/* The k-th call of one kind fails, counted down; -1: none. */
static int mmap_fails_at = -1, munmap_fails_at = -1, madvise_fails_at = -1;
static int madvise_errno = ENOMEM;
static bool munmap_fails_for_ever;
/* Pages mapped and not yet unmapped, as the hooks saw it. */
static long balance;
static unsigned n_mmaps;

static bool
is_due(int *at) {
	return *at >= 0 && (*at)-- == 0;
}

static bool unmaps_when_it_fails; /* as a kernel without memory for its records may */

static void *
counted_mmap(void *addr, size_t size, int prot, int flags, int fd, off_t off) {
	n_mmaps++;
	if (is_due(&mmap_fails_at)) {
		if (unmaps_when_it_fails && (flags & MAP_FIXED) != 0) {
			os_hooks_real.munmap(addr, size);
		}
		errno = ENOMEM;
		return MAP_FAILED;
	}
	void *p = os_hooks_real.mmap(addr, size, prot, flags, fd, off);
	if (p != MAP_FAILED && (flags & MAP_FIXED) == 0) {
		balance += (long)(size / os_page_size);
	}
	return p;
}

static int
counted_munmap(void *addr, size_t size) {
	if (munmap_fails_for_ever || is_due(&munmap_fails_at)) {
		errno = ENOMEM;
		return -1;
	}
	balance -= (long)(size / os_page_size);
	return os_hooks_real.munmap(addr, size);
}

static int
failing_madvise(void *addr, size_t size, int advice) {
	if (is_due(&madvise_fails_at)) {
		errno = madvise_errno;
		return -1;
	}
	return os_hooks_real.madvise(addr, size, advice);
}

static void
use_hooks(void) {
	hooks = os_hooks_real;
	hooks.mmap = counted_mmap;
	hooks.munmap = counted_munmap;
	hooks.madvise = failing_madvise;
	os_hooks = &hooks;
	balance = 0;
}

static void
test_size(void) {
	is_int(pages_boot(), 0, "boot");
	is_int(pages_boot(), 0, "boot again");
	is_uint(os_page_size, getauxval(AT_PAGESZ), "the system's page");
	const char *pretended = getenv("JEMALLOC_TEST_PAGE");
	if (config_debug && !LG_PAGE_FIXED_P && pretended != NULL) {
		is_uint(PAGE, strtoul(pretended, NULL, 10), "the pretended page");
	} else {
		ok(PAGE >= os_page_size && PAGE % os_page_size == 0, "the allocator's page");
	}
	is_uint(ZU(1) << LG_PAGE, PAGE, "shift and size agree");
	is_uint(page_size, PAGE, "variable and macro agree");
	is_uint(PAGE_CEILING(1), PAGE, "ceiling of 1");
	is_uint(PAGE_CEILING(PAGE), PAGE, "ceiling of a page");
	is_uint(PAGE_FLOOR(2 * PAGE - 1), PAGE, "floor");
}

static void
test_map(void) {
	use_hooks();
	bool is_good = true;
	for (size_t alignment = PAGE; alignment <= 64 * HUGEPAGE; alignment *= 2) {
		for (size_t n = 1; n <= 5; n += 2) {
			bool commit = true;
			char *p = pages_map(NULL, n * PAGE, alignment, &commit);
			is_good = is_good && p != NULL && ((uintptr_t)p & (alignment - 1)) == 0 && commit;
			p[0] = 1;
			p[n * PAGE - 1] = 1;
			is_good = is_good && pages_unmap(p, n * PAGE) == 0;
		}
	}
	ok(is_good, "every alignment up to 64 huge pages");
	is_int(balance, 0, "nothing is left over");
	bool commit = true;
	char *p = pages_map(NULL, 4 * PAGE, PAGE, &commit);
	ok(pages_map(p, PAGE, PAGE, &commit) == NULL, "a taken address is refused");
	pages_unmap(p + 2 * PAGE, 2 * PAGE);
	char *q = pages_map(p + 2 * PAGE, 2 * PAGE, PAGE, &commit);
	ok(q == p + 2 * PAGE, "a free address is taken");
	pages_unmap(p, 4 * PAGE);
	is_int(balance, 0, "nothing is left over");
	ok(pages_map(NULL, PAGE, ZU(1) << 62, &commit) == NULL, "an impossible alignment");
	ok(pages_map(NULL, (ZU(1) << 62) + PAGE, PAGE, &commit) == NULL, "an impossible size");
	is_int(balance, 0, "nothing is left over");
	os_hooks = &os_hooks_real;
}

static void
test_map_failures(void) {
	use_hooks();
	size_t alignment = 8 * HUGEPAGE;
	unsigned n_failed = 0, n_wrong = 0;
	errno = 3;
	for (int k = 0; k < 6; k++) {
		for (int what = 0; what < 2; what++) {
			mmap_fails_at = what == 0 ? k : -1;
			munmap_fails_at = what == 1 ? k : -1;
			bool commit = true;
			balance = 0;
			void *p = pages_map(NULL, 3 * PAGE, alignment, &commit);
			bool has_leak = balance != (p == NULL ? 0 : (long)(3 * PAGE / os_page_size));
			n_failed += p == NULL;
			/* What was not aligned could not be given back: the next call does it. */
			mmap_fails_at = munmap_fails_at = -1;
			n_wrong += has_leak && pages_left() != 0;
			if (p != NULL) {
				pages_unmap(p, 3 * PAGE);
			}
			n_wrong += balance != 0;
		}
	}
	ok(n_failed > 0, "failures come back as NULL");
	is_uint(n_wrong, 0, "and leave nothing behind");
	is_int(errno, 3, "errno is kept");
	os_hooks = &os_hooks_real;
}

/* Whether a mapping that would have to be cut is tried while n ranges wait; then none waits. */
static bool
is_tried_beside(unsigned n) {
	bool commit = true;
	munmap_fails_for_ever = true;
	for (unsigned i = 0; i < n; i++) {
		pages_unmap_in_time(os_hooks->mmap(NULL, os_page_size, PROT_READ,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), os_page_size);
	}
	n_mmaps = 0;
	void *q = pages_map(NULL, PAGE, 64 * HUGEPAGE, &commit);
	bool is_tried = n_mmaps > 0;
	munmap_fails_for_ever = false;
	if (q != NULL) {
		pages_unmap(q, PAGE); /* by luck it was aligned as it came */
	}
	ok(pages_left() == 0 && balance == 0, "%u ranges that waited, all were given back", n);
	return is_tried;
}

/* What has waited before does not count. */
static void
test_left_many(void) {
	use_hooks();
	for (unsigned round = 0; round < 3; round++) {
		ok(is_tried_beside(127), "beside 127 ranges an aligned mapping is tried");
		ok(!is_tried_beside(128), "beside 128 it is not");
	}
	os_hooks = &os_hooks_real;
}

/* What munmap refuses is tried again at later calls, until it goes. */
static void
test_left(void) {
	void *p[40], *q = NULL;
	unsigned n_bad = 0, n_more = 0;
	bool commit = true;
	use_hooks();
	munmap_fails_for_ever = true;
	for (unsigned i = 0; i < 40; i++) {
		p[i] = pages_map(NULL, (1 + i) * PAGE, PAGE, &commit);
		if (p[i] == NULL) {
			continue; /* larger pages than the system's: it takes two attempts */
		}
		memset(p[i], 1, PAGE);
		pages_unmap_in_time(p[i], (1 + i) * PAGE);
		/* Most likely none: what surrounds it could not be given back. */
		q = i % 3 == 0 ? pages_map(NULL, PAGE, 64 * HUGEPAGE, &commit) : NULL;
		if (q != NULL) {
			pages_unmap_in_time(q, PAGE);
			q = NULL;
		}
		n_bad += *(char *)p[i] != 0 && pages_can_purge_forced();
	}
	is_uint(n_bad, 0, "while munmap fails the memory goes all the same");
	ok(pages_left() / os_page_size == (size_t)balance && balance > 40, "%ld pages wait", balance);
	for (unsigned i = 0; i < 500; i++) {
		long before = balance;
		q = pages_map(NULL, PAGE, 64 * HUGEPAGE, &commit);
		n_more += balance - before > (long)(PAGE / os_page_size);
		if (q != NULL) {
			pages_unmap_in_time(q, PAGE); /* by luck it was aligned as it came */
		}
	}
	long many = balance;
	q = pages_map(NULL, PAGE, 64 * HUGEPAGE, &commit);
	ok(q == NULL && balance == many && n_more < 300,
	    "with no end to it nothing more is mapped that might be left over (%u)", n_more);
	munmap_fails_for_ever = false;
	q = pages_map(NULL, PAGE, PAGE, &commit);
	is_int(balance, (long)(PAGE / os_page_size), "the next mapping gives them back");
	is_uint(pages_left(), 0, "none is left");
	pages_unmap(q, PAGE);
	os_hooks = &os_hooks_real;
}

/* Asks the system itself. */
static bool
can_dontneed(void) {
	char *p = mmap(NULL, os_page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	*(volatile char *)p = 1;
	bool can = madvise(p, os_page_size, MADV_DONTNEED) == 0 && *(volatile char *)p == 0;
	munmap(p, os_page_size);
	return can;
}

/*
 * What the first purge cannot find out is not taken for an answer. Comes before all other purges.
 */
static void
test_purge_unknown(void) {
	bool commit = true;
	char *p = pages_map(NULL, PAGE, PAGE, &commit);
	memset(p, 0x5a, PAGE);
	use_hooks();
	mmap_fails_at = 0;
	is_int(pages_purge_forced(p, PAGE), ENOTSUP, "no page to try it on: no purge");
	madvise_fails_at = 0;
	is_int(pages_purge_forced(p, PAGE), ENOTSUP, "the trial fails: no purge");
	is_int(balance, 0, "nothing is left of the trials");
	int err = pages_purge_forced(p, PAGE);
	is_int(err, pages_can_purge_forced() ? 0 : ENOTSUP, "the next purge finds it out");
	ok(is_filled(p, 0, PAGE) || !can_dontneed(), "and purges, if the system can");
	os_hooks = &os_hooks_real;
	pages_unmap(p, PAGE);
}

static void
test_purge(void) {
	bool commit = true;
	char *p = pages_map(NULL, 4 * PAGE, PAGE, &commit);
	memset(p, 0x5a, 4 * PAGE);
	if (pages_can_purge_forced()) {
		is_int(pages_purge_forced(p, 2 * PAGE), 0, "purge");
		ok(is_filled(p, 0, 2 * PAGE) && is_filled(p + 2 * PAGE, 0x5a, 2 * PAGE),
		    "purged pages read as zero, the others stay");
	} else {
		is_int(pages_purge_forced(p, 2 * PAGE), ENOTSUP, "no purge here");
		skip(1, "no purge here");
	}
	int err = pages_purge_lazy(p, PAGE);
	ok(err == 0 || err == ENOTSUP, "lazy purge");
	use_hooks();
	madvise_fails_at = 0;
	errno = 3;
	ok(pages_purge_forced(p, PAGE) != 0, "a failing purge says so");
	is_int(errno, 3, "errno is kept");
	madvise_fails_at = 0;
	madvise_errno = EINVAL;
	is_int(pages_purge_lazy(p, PAGE), ENOTSUP, "a kernel without lazy purge");
	ok(!pages_can_purge_lazy(), "is remembered");
	is_int(pages_purge_lazy(p, PAGE), ENOTSUP, "and not asked again");
	os_hooks = &os_hooks_real;
	pages_unmap(p, 4 * PAGE);
}

static void
read_byte(void *p) {
	signal(SIGSEGV, SIG_DFL);
	*(volatile char *)p;
}

static bool
maps_have(const char *text) {
	static char line[600];
	bool has = false;
	FILE *in = fopen("/proc/self/maps", "r");
	while (in != NULL && fgets(line, sizeof(line), in) != NULL) {
		has = has || strstr(line, text) != NULL;
	}
	if (in != NULL) {
		fclose(in);
	}
	return has;
}

static void
test_name(void) {
	bool commit = true;
	void *own = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pages_set_name(own, PAGE, "own");
	bool can = maps_have("[anon:own]"); /* not every kernel does */
	munmap(own, PAGE);
	void *p = pages_map(NULL, 4 * PAGE, PAGE, &commit);
	is_int(maps_have("[anon:jemalloc_pg]"), can && config_pageid, "mappings have a name (%d, %d)",
	    can, config_pageid);
	pages_unmap(p, 4 * PAGE);
}

static void
test_advice(void) {
	bool commit = true;
	char *p = pages_map(NULL, 4 * HUGEPAGE, HUGEPAGE, &commit);
	thp_mode_t mode = pages_system_thp_mode();
	ok(mode <= thp_mode_not_supported && mode == pages_system_thp_mode(), "huge page mode");
	bool has_thp = mode != thp_mode_not_supported;
	ok(pages_advise(p, HUGEPAGE, PAGES_HUGE) == 0 || !has_thp, "huge");
	ok(pages_advise(p, HUGEPAGE, PAGES_NO_HUGE) == 0 || !has_thp, "nohuge");
	opt_thp = thp_mode_never;
	pages_set_thp_state(p, HUGEPAGE);
	opt_thp = thp_mode_default;
	p[0] = 7;
	is_int(pages_protect(p + PAGE, PAGE, PAGES_CLOSED), 0, "guard");
	dies(SIGSEGV, NULL, read_byte, p + PAGE, "a guard cannot be read");
	is_int(pages_protect(p + PAGE, PAGE, PAGES_OPEN), 0, "unguard");
	read_byte(p + PAGE);
	p[HUGEPAGE - 1] = 9;
	ok(p[0] == 7 && p[HUGEPAGE - 1] == 9, "contents are as they were");
	is_int(pages_can_decommit() ? 0 : EAGAIN, pages_decommit(p, PAGE), "decommit");
	is_int(pages_can_decommit() ? 0 : EAGAIN, pages_commit(p, PAGE), "commit");
	pages_unmap(p + HUGEPAGE, 3 * HUGEPAGE);
}

static void *
refusing_mmap(void *addr, size_t size, int prot, int flags, int fd, off_t off) {
	mmap_fails_at = 0;
	return counted_mmap(addr, size, prot, flags, fd, off);
}

static void
map_anew_in_vain(void *addr) {
	hooks.mmap = refusing_mmap;
	pages_map_anew(addr, PAGE);
}

static void
test_anew(void) {
	bool commit = true;
	use_hooks();
	char *p = pages_map(NULL, 2 * PAGE, PAGE, &commit);
	memset(p, 1, 2 * PAGE);
	is_int(pages_map_anew(p, 2 * PAGE), 0, "mapped anew");
	is_uint(p[0] + p[2 * PAGE - 1], 0, "zeroed");
	memset(p, 1, 2 * PAGE);
	mmap_fails_at = 0;
	is_int(pages_map_anew(p, 2 * PAGE), ENOMEM, "refused");
	is_uint(p[0] + p[2 * PAGE - 1], 2, "as it was");
	mmap_fails_at = 0;
	unmaps_when_it_fails = true;
	is_int(pages_map_anew(p, 2 * PAGE), 0, "refused after it was removed: tried again");
	is_uint(p[0] + p[2 * PAGE - 1], 0, "zeroed");
	dies(SIGABRT, NULL, map_anew_in_vain, p, "refused again: it ends");
	unmaps_when_it_fails = false;
	os_hooks = &os_hooks_real;
	pages_unmap(p, 2 * PAGE);
}

/* What the kernel gives begins at one of its own pages, which may be smaller than PAGE. */
static void
test_file(void) {
	unsigned bad = 0;
	char *p[8];
	int fd = memfd_create("pages", 0);
	if (fd < 0 || ftruncate(fd, (off_t)PAGE) != 0) {
		bail_out("no file in memory");
	}
	for (unsigned i = 0; i < 8; i++) {
		p[i] = pages_map_file(fd, PAGE);
		bad += p[i] == NULL || (uintptr_t)p[i] % PAGE != 0;
	}
	is_uint(bad, 0, "a file is mapped at whole pages");
	p[0][PAGE - 1] = 'x';
	ok(p[7][PAGE - 1] == 'x', "shared");
	for (unsigned i = 0; i < 8; i++) {
		pages_unmap(p[i], PAGE);
	}
	close(fd);
	ok(pages_map_file(fd, PAGE) == NULL, "NULL without a file");
}

/* Bytes that count as locked (mlock), in all of the process. */
static long
locked_kib(void) {
	char line[200];
	long kib = -1;
	FILE *f = fopen("/proc/self/status", "r");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		sscanf(line, "VmLck: %ld", &kib);
	}
	if (f != NULL) {
		fclose(f);
	}
	return kib;
}

/* The kernel goes on to count the locked pages of a range from which they have been moved. */
static void
test_move_locked(void) {
	size_t size = 4 * PAGE;
	bool commit = true;
	char *from = pages_map(NULL, size, PAGE, &commit), *to = pages_map(NULL, size, PAGE, &commit);
	memset(from, 1, size);
	/* An emulator answers the question by which locked memory is recognised itself. */
	if (mlock(from, size) != 0 || madvise(from, size, MADV_COLD) == 0) {
		skip(2, "no locked memory here");
		return;
	}
	long before = locked_kib();
	size_t moved = size;
	char *out = pages_move_out(from, &moved);
	if (out != NULL) {
		munmap(out, moved);
	}
	ok(out == NULL || locked_kib() < before, "locked pages are not counted twice");
	if (out == NULL && pages_move_bytes(from, size, to, true) == 0) {
		munmap(to, size);
	}
	ok(locked_kib() < before, "nor where they may go (%ld KiB)", locked_kib());
}

/*
 * Moves out a range of 32 pages that is two mappings, the first of so many pages, or one. Returns
 * the number of pages that have moved; *wrong: bytes that are not what and where they were.
 */
static size_t
moved_of_first(size_t npages, unsigned *wrong) {
	size_t size = 32 * PAGE, n = size;
	bool commit = true;
	char *from = pages_map(NULL, size, PAGE, &commit);
	memset(from, 7, size);
	if (npages < 32) {
		mprotect(from + npages * PAGE, size - npages * PAGE, PROT_READ);
	}
	char *out = pages_move_out(from, &n);
	n = out != NULL ? n : 0;
	for (size_t i = 0; i < size; i++) {
		*wrong += from[i] != (i < n ? 0 : 7) || (i < n && out[i] != 7);
	}
	if (out != NULL) {
		munmap(out, n);
	}
	pages_unmap(from, size);
	return n / PAGE;
}

/* The kernel moves one mapping. */
static void
test_move_part(void) {
	size_t part[][2] = {{31, 30}, {30, 30}, {24, 24}, {19, 18}, {18, 18}, {17, 0}, {1, 0}};
	unsigned wrong = 0;
	/* An emulator may not divide its own mapping. */
	if (moved_of_first(32, &wrong) != 32 || moved_of_first(1, &wrong) == 32) {
		skip(8, "no pages move here, or a range is always one mapping");
		return;
	}
	for (unsigned i = 0; i < sizeof(part) / sizeof(*part); i++) {
		is_uint(moved_of_first(part[i][0], &wrong), part[i][1], "of %zu pages", part[i][0]);
	}
	is_uint(wrong, 0, "the others stay");
}

static void *
refuse_mremap(void *from, size_t size, size_t new_size, int flags, void *to) {
	(void)from;
	(void)size;
	(void)new_size;
	(void)flags;
	(void)to;
	errno = EPERM;
	return MAP_FAILED;
}

/* What is moved over another range leaves none behind. */
static void *
counted_mremap(void *from, size_t size, size_t new_size, int flags, void *to) {
	void *at = os_hooks_real.mremap(from, size, new_size, flags, to);
	balance -= at != MAP_FAILED ? (long)(size / os_page_size) : 0;
	return at;
}

/* Grows to a length far beyond the first, byte by byte at the ends of what there is. */
static void
store_grow(const char *how) {
	pages_store_t s = {NULL, 0};
	unsigned bad = 0, moves = 0;
	long at_first = balance;
	for (size_t n = 1; n < (size_t)8 << 20; n = s.bytes + 1) {
		void *before = s.at;
		bad += !pages_store_try_reserve(&s, n) || s.bytes < n || (uintptr_t)s.at % PAGE != 0;
		bad += n > 1 && (((char *)s.at)[0] != 1 || ((char *)s.at)[n - 2] != 1);
		bad += ((char *)s.at)[n - 1] != 0 || ((char *)s.at)[s.bytes - 1] != 0;
		((char *)s.at)[0] = ((char *)s.at)[s.bytes - 1] = 1;
		moves += s.at != before;
		bad += balance - at_first != (long)(s.bytes / os_page_size);
	}
	ok(bad == 0 && moves > 3, "%s: a store grows and keeps what is in it", how);
	void *at = s.at;
	ok(pages_store_try_reserve(&s, s.bytes) && s.at == at, "%s: not without need", how);
	pages_store_free(&s);
	ok(s.at == NULL && s.bytes == 0 && pages_left() == 0 && balance == at_first, "%s: freed", how);
}

static void
test_store(void) {
	pages_store_t s = {NULL, 0};
	use_hooks();
	hooks.mremap = counted_mremap;
	store_grow("moved");
	hooks.mremap = refuse_mremap;
	store_grow("copied");
	ok(pages_store_try_reserve(&s, 1), "there is one");
	pages_store_t before = s;
	mmap_fails_at = 0;
	ok(!pages_store_try_reserve(&s, s.bytes + 1) && s.at == before.at && s.bytes == before.bytes,
	    "without memory it stays");
	mmap_fails_at = -1;
	pages_store_free(&s);
	os_hooks = &os_hooks_real;
}

int
main(void) {
	test_size();
	test_map();
	test_map_failures();
	test_purge_unknown();
	test_left();
	test_left_many();
	test_purge();
	test_advice();
	test_name();
	test_anew();
	test_file();
	test_move_locked();
	test_move_part();
	test_store();
	return done_testing();
}
