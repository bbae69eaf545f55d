/*
 * One operation many times, for an instruction counter: count OPERATION ROUNDS. The loop
 * and the calls through the PLT are the same for every allocator, so that what a stub
 * allocator costs can be taken off. Functions that an allocator may not have are weak.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void sdallocx(void *, size_t, int) __attribute__((weak));

#define BATCH 1000

static void *volatile sink;
static void *block[BATCH];
static unsigned order[BATCH];

static void *
hold(void *p)
{
	__asm__ volatile("" : "+r"(p) : : "memory");
	return p;
}

static void
pairs(long n, size_t size)
{
	for (long i = 0; i < n; i++)
		free(hold(malloc(size)));
}

static void
pair64(long n)
{
	pairs(n, 64);
}

static void
pair16k(long n)
{
	pairs(n, 16384);
}

static void
pair256k(long n)
{
	pairs(n, 262144);
}

static void
pair4m(long n)
{
	pairs(n, 4 << 20);
}

static void
sized64(long n)
{
	for (long i = 0; i < n; i++)
		sdallocx(hold(malloc(64)), 64, 0);
}

static void
calloc64(long n)
{
	for (long i = 0; i < n; i++)
		free(hold(calloc(1, 64)));
}

static void
aligned64(long n)
{
	for (long i = 0; i < n; i++)
		free(hold(aligned_alloc(64, 64)));
}

static void
usable(long n)
{
	void *p = hold(malloc(64));

	for (long i = 0; i < n; i++)
		hold((void *)malloc_usable_size(p));
	free(p);
}

static void
batch(long n)
{
	for (long i = 0; i < n; i += BATCH) {
		for (int j = 0; j < BATCH; j++)
			block[j] = hold(malloc(64));
		for (int j = 0; j < BATCH; j++)
			free(block[order[j]]);
	}
}

static void
mixed(long n)
{
	static uint16_t size[BATCH];
	uint64_t x = 88172645463325252u;

	for (int j = 0; j < BATCH; j++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		size[j] = (uint16_t)(16 + x % 241);
	}
	for (long i = 0; i < n; i++) {
		long at = i % BATCH;

		free(block[at]);
		block[at] = hold(malloc(size[at]));
	}
}

static void
realloc_steps(long n)
{
	for (long i = 0; i < n; i += 256) {
		void *p = NULL;

		for (size_t size = 16; size <= 4096; size += 16)
			p = hold(realloc(p, size));
		free(p);
	}
}

struct operation {
	const char *name;
	void (*run)(long);
	int order;		/* of the frees in a batch: 0 as allocated, 1 reverse, 2 random */
};

static const struct operation operations[] = {
	{ "pair64", pair64, 0 },
	{ "sized64", sized64, 0 },
	{ "calloc64", calloc64, 0 },
	{ "aligned64", aligned64, 0 },
	{ "usable", usable, 0 },
	{ "mixed", mixed, 0 },
	{ "batch-order", batch, 0 },
	{ "batch-reverse", batch, 1 },
	{ "batch-random", batch, 2 },
	{ "pair16k", pair16k, 0 },
	{ "pair256k", pair256k, 0 },
	{ "pair4m", pair4m, 0 },
	{ "realloc-steps", realloc_steps, 0 },
};

static void
make_order(int how)
{
	uint64_t x = 88172645463325252u;

	for (unsigned i = 0; i < BATCH; i++)
		order[i] = how == 1 ? BATCH - 1 - i : i;
	for (unsigned i = BATCH - 1; how == 2 && i > 0; i--) {
		unsigned j, t = order[i];

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		j = (unsigned)(x % (i + 1));
		order[i] = order[j];
		order[j] = t;
	}
}

int
main(int argc, char **argv)
{
	long rounds = argc > 2 ? atol(argv[2]) : 0;

	if (argc < 2) {
		for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
			puts(operations[i].name);
		return 0;
	}
	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
		const struct operation *o = &operations[i];

		if (strcmp(o->name, argv[1]) != 0)
			continue;
		if (o->run == sized64 && sdallocx == NULL)
			return 3;
		make_order(o->order);
		o->run(rounds);
		return 0;
	}
	return 2;
}
