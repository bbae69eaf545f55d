/* util/ph.h: random insertions and removals against a plain array, and the links' invariants. */
#include "test.h"

#include "util/ph.h"
#include "util/prng.h"

#define NITEMS 500

struct item {
	uint64_t key;
	bool is_in;
	ph_link_t link;
};

static struct item items[NITEMS];
static uint64_t rng = 7;

static int
item_cmp(const ph_link_t *a, const ph_link_t *b) {
	uint64_t ka = container_of(a, struct item, link)->key;
	uint64_t kb = container_of(b, struct item, link)->key;
	return (ka > kb) - (ka < kb);
}

/* Number of nodes under e; adds to *bad what is wrong with links or order. */
static size_t
count_tree(const ph_link_t *e, unsigned *bad) {
	size_t n = 1;
	const ph_link_t *left = e;
	for (const ph_link_t *c = e->lchild; c != NULL; c = c->next) {
		*bad += c->prev != left;
		*bad += item_cmp(c, e) < 0;
		n += count_tree(c, bad);
		left = c;
	}
	return n;
}

static unsigned
check(const ph_t *ph) {
	unsigned bad = 0;
	size_t want = 0;
	uint64_t least = UINT64_MAX;
	for (size_t i = 0; i < NITEMS; i++) {
		want += items[i].is_in;
		if (items[i].is_in && items[i].key < least) {
			least = items[i].key;
		}
	}
	const ph_link_t *first = ph_first(ph, item_cmp);
	bad += wrong_if((first == NULL) != (want == 0)) || wrong_if(ph_is_empty(ph) != (want == 0));
	if (first != NULL) {
		bad += wrong_if(first->prev != NULL) || wrong_if(first->next != NULL);
		bad += container_of(first, struct item, link)->key != least;
		bad += count_tree(first, &bad) != want;
	}
	return bad;
}

/* Keys below range: many equal ones when it is small. */
static void
check_random(uint64_t range, unsigned inserts_of_8) {
	ph_t ph;
	ph_init(&ph);
	memset(items, 0, sizeof(items));
	unsigned bad = check(&ph);
	for (int i = 0; i < 6000; i++) {
		struct item *it = &items[draw_below(&rng, NITEMS)];
		if (!it->is_in && draw_below(&rng, 8) < inserts_of_8) {
			it->key = draw_below(&rng, range);
			ph_insert(&ph, &it->link, item_cmp);
			it->is_in = true;
		} else if (it->is_in) {
			ph_remove(&ph, &it->link, item_cmp);
			it->is_in = false;
		} else {
			ph_link_t *e = ph_first(&ph, item_cmp);
			if (e != NULL) {
				ph_remove(&ph, e, item_cmp);
				container_of(e, struct item, link)->is_in = false;
			}
		}
		bad += i % 16 == 0 ? check(&ph) : 0;
	}
	is_uint(bad, 0, "random changes, keys below %llu", (unsigned long long)range);
}

static void
test_sorted_out(void) {
	ph_t ph;
	ph_init(&ph);
	for (size_t i = 0; i < NITEMS; i++) {
		items[i].key = prng_u64(&rng);
		ph_insert(&ph, &items[i].link, item_cmp);
	}
	uint64_t last = 0;
	size_t n = 0;
	unsigned bad = 0;
	for (ph_link_t *e; (e = ph_first(&ph, item_cmp)) != NULL; n++) {
		ph_remove(&ph, e, item_cmp);
		bad += container_of(e, struct item, link)->key < last;
		bad += wrong_if(e->prev != NULL) || wrong_if(e->next != NULL)
		    || wrong_if(e->lchild != NULL);
		last = container_of(e, struct item, link)->key;
	}
	is_uint(n, NITEMS, "all come out");
	is_uint(bad, 0, "in order, with clean links");
	ok(ph_any(&ph) == NULL, "nothing is left");
}

int
main(void) {
	check_random(UINT64_MAX, 8);
	check_random(10, 8);
	check_random(1, 5);
	test_sorted_out();
	return done_testing();
}
