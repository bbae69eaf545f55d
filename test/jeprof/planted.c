/*
 * planted: a program with three leaks among what only looks like leaks, for the verb leaks of
 * jeprof. Work is done in STEPS steps, with a dump before the first and after each. It leaks in
 * forget_session, reload_config and index_entry (which shares its leaf, node_new, with a cache). It
 * does not leak in caches that fill at different times and are then renewed, a cache that fills
 * ever more slowly, a table that doubles, queues that breathe, tables loaded at the start and once
 * on the way, buffers that come and go. All sizes, moments and rates are drawn by SEED. usage:
 * planted SEED with the library preloaded and prof_prefix set
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEEP __attribute__((noinline, noclone))
#define STEPS 8
#define TICKS 300
#define ALL (STEPS * TICKS)

static uint64_t state;

static uint32_t
draw(uint32_t below) {
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((state >> 33) % below);
}

static double
draw_between(double low, double high) {
	return low + (high - low) * draw(1 << 20) / (1 << 20);
}

KEEP static void *
xmalloc(size_t size) {
	void *p = malloc(size);
	if (p == NULL) {
		abort();
	}
	memset(p, 1, size);
	return p;
}

KEEP static void *
node_new(size_t size) {
	void **node = xmalloc(size);
	node[0] = NULL;
	return node;
}

/* The leaks: what they hold is chained, so that it is no garbage either. */
static void *sessions, *configs, *entries;

static void
chain(void **head, void *p) {
	*(void **)p = *head;
	*head = p;
}

KEEP static void
forget_session(void) {
	chain(&sessions, xmalloc(64 + draw(400)));
}

KEEP static void
reload_config(void) {
	chain(&configs, xmalloc(6000 + draw(9000)));
}

KEEP static void
index_entry(void) {
	chain(&entries, node_new(160));
}

/* Caches of SLOTS slots: filled one by one, then each new object takes the place of an old one. */
struct cache {
	void **slot;
	uint32_t slots, count;
};

static void
cache_set(struct cache *cache, uint32_t at, void *p) {
	free(cache->slot[at]);
	cache->slot[at] = p;
}

static uint32_t
cache_place(struct cache *cache) {
	return cache->count < cache->slots ? cache->count++ : draw(cache->slots);
}

static struct cache pages, nodes, names, answers;

KEEP static void
cache_page(void) {
	cache_set(&pages, cache_place(&pages), xmalloc(3000 + draw(3000)));
}

KEEP static void
cache_node(void) {
	cache_set(&nodes, cache_place(&nodes), node_new(160));
}

KEEP static void
cache_name(void) {
	cache_set(&names, cache_place(&names), xmalloc(100 + draw(100)));
}

/* By a hash of the key: it fills ever more slowly. */
KEEP static void
cache_answer(void) {
	cache_set(&answers, draw(answers.slots), xmalloc(1500));
}

static struct cache
cache_of(double until, double per_tick) {
	struct cache cache = {NULL, (uint32_t)(ALL * until * per_tick) + 1, 0};
	cache.slot = calloc(cache.slots, sizeof(void *));
	return cache;
}

/* Doubles while it takes keys, which end. */
static void **table;
static size_t table_size, table_used;

KEEP static void
grow_table(size_t keys) {
	if (table_used + keys > table_size) {
		table_size = table_size == 0 ? 4096 : table_size * 2;
		table = realloc(table, table_size * sizeof(void *));
		memset(table + table_used, 0, (table_size - table_used) * sizeof(void *));
	}
	table_used += keys;
}

/* Queues whose length goes up and down. */
struct queue {
	void *head;
	uint32_t length, high;
	double period, phase;
	size_t size;
};

static void
queue_drop(struct queue *queue) {
	void *p = queue->head;
	queue->head = *(void **)p;
	queue->length--;
	free(p);
}

KEEP static void
queue_request(struct queue *queue) {
	chain(&queue->head, xmalloc(queue->size));
	queue->length++;
}

KEEP static void
queue_write(struct queue *queue) {
	chain(&queue->head, xmalloc(queue->size));
	queue->length++;
}

static void
queue_breathe(struct queue *queue, uint32_t tick, void (*push)(struct queue *)) {
	double level = 0.55 + 0.45 * sin(6.2831853 * (tick / queue->period + queue->phase));
	uint32_t wanted = (uint32_t)(queue->high * level);
	while (queue->length > wanted) {
		queue_drop(queue);
	}
	while (queue->length < wanted) {
		push(queue);
	}
}

KEEP static void
load_tables(void) {
	for (int i = 0; i < 300; i++) {
		chain(&sessions, xmalloc(10000));
	}
}

KEEP static void
load_plugin(void) {
	for (int i = 0; i < 400; i++) {
		chain(&configs, xmalloc(5000));
	}
}

KEEP static void
answer_request(void) {
	free(xmalloc(2000 + draw(60000)));
}

static double
share_of_tick(double per_tick, uint32_t tick) {
	return (uint32_t)(per_tick * (tick + 1)) - (uint32_t)(per_tick * tick);
}

static struct queue requests, writes;
static uint32_t plugin_at, keys_until;
static double session_rate, config_rate, entry_rate;

static void
plan(uint32_t seed) {
	state = seed * 2654435761u + 88172645463325252u;
	draw(2);
	session_rate = draw_between(3, 9);
	config_rate = draw_between(0.2, 0.8);
	entry_rate = draw_between(3, 9);
	pages = cache_of(draw_between(0.1, 0.7), 1);
	nodes = cache_of(draw_between(0.1, 0.7), 12);
	names = cache_of(draw_between(0.1, 0.7), 10);
	answers = cache_of(draw_between(0.05, 0.2), 2);
	requests = (struct queue){NULL, 0, 500 + draw(800), draw_between(1.7, 4.3) * TICKS,
	    draw_between(0, 1), 1000};
	writes = (struct queue){NULL, 0, 3000 + draw(5000), draw_between(0.4, 3) * TICKS,
	    draw_between(0, 1), 200};
	plugin_at = draw(ALL);
	keys_until = draw((uint32_t)(ALL * 0.6));
}

static void
work(uint32_t tick) {
	for (int i = (int)share_of_tick(session_rate, tick); i > 0; i--) {
		forget_session();
	}
	for (int i = (int)share_of_tick(config_rate, tick); i > 0; i--) {
		reload_config();
	}
	for (int i = (int)share_of_tick(entry_rate, tick); i > 0; i--) {
		index_entry();
	}
	cache_page();
	for (int i = 0; i < 12; i++) {
		cache_node();
		if (i < 10) {
			cache_name();
		}
	}
	cache_answer();
	cache_answer();
	if (tick < keys_until) {
		grow_table(200);
	}
	queue_breathe(&requests, tick, queue_request);
	queue_breathe(&writes, tick, queue_write);
	if (tick == plugin_at) {
		load_plugin();
	}
	answer_request();
}

int
main(int argc, char **argv) {
	int (*ctl)(const char *, void *, size_t *, void *, size_t) =
	    (int (*)(const char *, void *, size_t *, void *, size_t))dlsym(RTLD_DEFAULT, "mallctl");
	struct timespec pause = {0, 20000000};
	if (ctl == NULL) {
		fprintf(stderr, "planted: run it with the library preloaded\n");
		return 1;
	}
	plan(argc > 1 ? (uint32_t)atoi(argv[1]) : 1);
	load_tables();
	for (uint32_t tick = 0; tick < ALL; tick++) {
		if (tick % TICKS == 0) {
			ctl("prof.dump", NULL, NULL, NULL, 0);
			nanosleep(&pause, NULL);
		}
		work(tick);
	}
	return ctl("prof.dump", NULL, NULL, NULL, 0) != 0;
}
