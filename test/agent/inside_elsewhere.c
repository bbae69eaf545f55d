/*
 * Inside of elsewhere.c: when the memory of a process is that of another allocator, at each number
 * that decides it. Prints what is wrong. Built by inside.t.
 */
#include "elsewhere.c"
#include "expect.h"

const uint64_t page_heap_times = 3, page_heap_more = 1 << 20;

static void
look(const char *what, bool is_known, uint64_t own, uint64_t rss, bool want) {
	figures_t f = {.rss = rss, .known = ~(1u << fig_resident)};
	f.known |= is_known ? 1u << fig_resident : 0;
	f.values[fig_resident] = own;
	expect(what, is_elsewhere(&f), want);
}

int
main(void) {
	const uint64_t times = page_heap_times, more = page_heap_more;
	uint64_t own = more; /* so large that the factor decides; 1: so small that the rest does */
	look("nothing is", true, own, 0, false);
	look("as much as is ours", true, own, own, false);
	look("so many times as much", true, own, own * times, false);
	look("a byte more", true, own, own * times + 1, true);
	look("so much more", true, 1, more + 1, false);
	look("and a byte", true, 1, more + 2, true);
	look("all, if nothing is ours", true, 0, more + 1, true);
	look("that is not so much", true, 0, more, false);
	look("ours is not known", false, 0, own * times + 1, false);
	look("nor is it more", false, own, own * times + 1, false);
	look("a factor that overflows", true, UINT64_MAX / 2, UINT64_MAX, false);
	look("more is ours than there is", true, own * 100, own, false);
	return bad;
}
