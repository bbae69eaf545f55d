/* arena/cache_bin.h: the stack, its stops, and the countdown. */
#include "core.h"

#include "arena/cache_bin.h"
#include "os/tls.h"

#define N 16

static void *slots[N];
static cache_bin_t bin;

static void
start(uint32_t countdown) {
	bin.full = slots;
	bin.empty = slots + N;
	bin.head = slots + N;
	bin.countdown = countdown;
}

int
main(void) {
	void *p = NULL;
	unsigned bad = 0, n = 0;
	uint64_t seed = 1;
	cache_bin_t *boot = (cache_bin_t *)(uintptr_t)tls_boot_cache;
	for (unsigned i = 0; i < TLS_BOOT_CACHE_BYTES / sizeof(cache_bin_t); i++) {
		bad += wrong_if(cache_bin_try_pop(&boot[i], &p))
		    || wrong_if(cache_bin_try_push(&boot[i], &p));
	}
	is_uint(bad, 0, "the boot block is empty and full, and is not written");

	start(UINT32_MAX);
	ok(!cache_bin_try_pop(&bin, &p) && bin.countdown == UINT32_MAX, "empty: nothing, not counted");
	for (uintptr_t i = 1; i <= N; i++) {
		bad += !cache_bin_try_push(&bin, (void *)i);
	}
	is_uint(bad, 0, "pushed until full");
	ok(!cache_bin_try_push(&bin, &p), "full");
	for (uintptr_t i = N; i >= 1; i--) {
		bad += wrong_if(!cache_bin_try_pop(&bin, &p)) || wrong_if(p != (void *)i);
	}
	is_uint(bad, 0, "popped in reverse");
	is_uint(UINT32_MAX - bin.countdown, N, "each counted");

	/* The countdown stops one pop, whatever is pushed and popped in between. */
	start(1000);
	unsigned held = 0, pops = 0;
	while (bin.countdown > 1) {
		if (held > 0 && draw_below(&seed, 2) == 0) {
			bad += !cache_bin_try_pop(&bin, &p);
			held--;
			pops++;
		} else if (held < N) {
			bad += !cache_bin_try_push(&bin, &bin);
			held++;
		}
		n++;
	}
	is_uint(bad, 0, "%u steps", n);
	is_uint(pops, 999, "999 pops");
	cache_bin_try_push(&bin, &bin);
	void **head = bin.head;
	ok(!cache_bin_try_pop(&bin, &p) && bin.head == head, "the thousandth takes nothing");
	is_uint(bin.countdown, 0, "but is counted");

	/* A mark above the bottom stops pops; what is below it stays. */
	start(1000);
	for (uintptr_t i = 1; i <= 8; i++) {
		cache_bin_try_push(&bin, (void *)i);
	}
	bin.empty = bin.head + 3;
	n = 0;
	while (cache_bin_try_pop(&bin, &p)) {
		n++;
	}
	is_uint(n, 3, "three above the mark");
	bin.empty = slots + N;
	while (cache_bin_try_pop(&bin, &p)) {
		n++;
	}
	is_uint(n, 8, "five below it");
	return done_testing();
}
