/*
 * extent/dss.h over a break of our own: alignment, others that move it, refusals; and the order
 * with mmap.
 */
#include "core.h"

#include "arena/arenas.h"
#include "extent/dss.h"
#include "extent/ehooks.h"

#include <sys/mman.h>

#define SEGMENT ((size_t)64 << 20)

static struct os_hooks_s hooks;
static struct {
	char *base;
	char *end;
	unsigned calls;
	unsigned descents;    /* calls that move the break down */
	unsigned interlopers; /* so many extensions come after somebody else's */
	bool is_stuck;        /* each of ours is followed by another of somebody else's */
	bool has_no_mmap;
} brk_state;

static void *
fake_sbrk(intptr_t bytes) {
	char *old = brk_state.end;
	brk_state.calls++;
	brk_state.descents += bytes < 0;
	if (bytes > 0 && brk_state.interlopers > 0) {
		brk_state.interlopers--;
		old = brk_state.end += 24;
	}
	if (bytes > brk_state.base + SEGMENT - old || bytes < brk_state.base - old) {
		errno = ENOMEM;
		return (void *)-1;
	}
	brk_state.end = old + bytes;
	if (bytes > 0 && brk_state.is_stuck) {
		brk_state.end += 8;
		return old + 8; /* not where it was seen */
	}
	return old;
}

static void *
fake_mmap(void *addr, size_t size, int prot, int flags, int fd, off_t off) {
	if (brk_state.has_no_mmap) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return os_hooks_real.mmap(addr, size, prot, flags, fd, off);
}

static bool
is_ours(const void *p) {
	return (const char *)p >= brk_state.base && (const char *)p < brk_state.base + SEGMENT;
}

/* The fake segment stays, so that no mapping comes to lie in it. */
static size_t given_back;

static int
fake_munmap(void *addr, size_t size) {
	if (is_ours(addr)) {
		given_back += size;
		return 0;
	}
	return os_hooks_real.munmap(addr, size);
}

static void
test_alloc(void) {
	errno = 77;
	brk_state.end = brk_state.base + 100;
	char *a = dss_alloc(PAGE, PAGE);
	ok(a == brk_state.base + PAGE && brk_state.end == a + PAGE,
	    "the first whole page behind the break");
	char *b = dss_alloc(3 * PAGE, PAGE);
	ok(b == a + PAGE, "the next one follows it");
	char *c = dss_alloc(PAGE, 16 * PAGE);
	ok(is_aligned((uintptr_t)c, 16 * PAGE) && c >= b + 3 * PAGE, "aligned to more than a page");
	is_uint(given_back, (size_t)(c - (b + 3 * PAGE)), "what lies before it went back");
	memset(a, 1, PAGE);
	ok(dss_alloc(2 * SEGMENT, PAGE) == NULL, "more than there is");
	ok(dss_alloc(PAGE_FLOOR(SIZE_MAX), PAGE) == NULL, "more than a number holds");
	ok(errno == 77, "errno is kept");
}

static void
test_others(void) {
	brk_state.interlopers = 1;
	unsigned calls = brk_state.calls;
	char *before = brk_state.end;
	size_t back = given_back;
	char *p = dss_alloc(4 * PAGE, PAGE);
	ok(p != NULL && is_aligned((uintptr_t)p, PAGE), "somebody else came between: tried again");
	ok(p >= before + 4 * PAGE && p + 4 * PAGE == brk_state.end, "behind what the first try got");
	is_uint(given_back - back, 3 * PAGE, "whose whole pages went back");
	ok(brk_state.calls - calls == 4, "in four calls (%u)", brk_state.calls - calls);
	brk_state.is_stuck = true;
	ok(dss_alloc(PAGE, PAGE) == NULL, "somebody comes each time: given up");
	is_uint(brk_state.descents, 0, "the break never goes down");
	brk_state.is_stuck = false;
	ok(dss_alloc(PAGE, PAGE) != NULL, "and no longer");
}

static void *
pages_of(dss_prec_t prec) {
	static ehooks_t h;
	bool zero, commit;
	ehooks_init(&h, 0, 0, NULL);
	ok(ehooks_dss_set(&h, prec) == 0 && ehooks_dss_get(&h) == prec, "%s", dss_prec_names[prec]);
	char *p = ehooks_alloc(&h, 4 * PAGE, PAGE, &zero, &commit);
	ok(p == NULL || (zero && commit && p[0] == 0 && p[4 * PAGE - 1] == 0), "they read as zeros");
	return p;
}

static void
test_order(void) {
	ok(!is_ours(pages_of(dss_prec_disabled)), "never from sbrk");
	ok(is_ours(pages_of(dss_prec_primary)), "sbrk first");
	void *p = pages_of(dss_prec_secondary);
	ok(p != NULL && !is_ours(p), "mmap first");
	brk_state.has_no_mmap = true;
	ok(pages_of(dss_prec_disabled) == NULL, "no mmap, no pages");
	ok(is_ours(pages_of(dss_prec_secondary)), "no mmap, then sbrk");
	brk_state.has_no_mmap = false;
	char *full = brk_state.end;
	brk_state.end = brk_state.base + SEGMENT;
	p = pages_of(dss_prec_primary);
	ok(p != NULL && !is_ours(p), "no room for the break, then mmap");
	brk_state.end = full;
}

static void
test_default(void) {
	dss_prec_t was = dss_default_get();
	ehooks_t h;
	ok(dss_default_set(dss_prec_primary) == 0 && dss_default_get() == dss_prec_primary,
	    "the default is set");
	ehooks_init(&h, 0, 0, NULL);
	ok(ehooks_dss_get(&h) == dss_prec_primary, "and taken over by what is made next");
	dss_default_set(was);
}

static void
body(void) {
	if (!config_dss) {
		skip(1, "no sbrk");
		return;
	}
	hooks = os_hooks_real;
	hooks.sbrk = fake_sbrk;
	hooks.mmap = fake_mmap;
	hooks.munmap = fake_munmap;
	/* Memory of the real system, as the kernel gives it: zeroed. */
	char *p = mmap(NULL, SEGMENT + PAGE_MAX, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	brk_state.base = (char *)align_up((uintptr_t)p, PAGE_MAX);
	free(keep(malloc(100)));
	os_hooks = &hooks;
	test_alloc();
	test_others();
	test_order();
	os_hooks = &os_hooks_real;
	test_default();
}

int
main(int argc, char **argv) {
	return core_run_all_pages(argc, argv, body);
}
