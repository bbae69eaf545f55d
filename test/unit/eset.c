/* extent/eset.h against a plain array: which extent fits, what is counted, in which order. */
#include "core.h"

#include "extent/eset.h"

#define N 600

static eset_t set;
static eset_class_t classes[SC_NPSIZES_MAX];
static edata_t all[N];
static bool is_in[N];
static unsigned added_at[N];
static char *whole_addr[N];
static size_t whole_size[N];

static size_t
random_pages(uint64_t *seed) {
	return 1 + draw_below(seed, draw_below(seed, 4) == 0 ? 3000 : 40);
}

static void
make_all(void) {
	uint64_t seed = 4;
	char *at = (char *)(uintptr_t)0x100000000000;
	for (unsigned i = 0; i < N; i++) {
		size_t size = random_pages(&seed) * PAGE;
		at += draw_below(&seed, 50) * PAGE;
		edata_init(&all[i], at, size, true, false);
		whole_addr[i] = at;
		whole_size[i] = size;
		at += size;
	}
}

/* An extent of the set that has all its pages keeps some of them at random; another gets all. */
static void
resize(unsigned k, uint64_t *seed) {
	char *addr = whole_addr[k];
	size_t size = whole_size[k];
	if (all[k].size == size) {
		size_t lead = draw_below(seed, size / PAGE);
		addr += lead * PAGE;
		size = (1 + draw_below(seed, size / PAGE - lead)) * PAGE;
	}
	eset_resize(&set, &all[k], addr, size);
}

static bool
holds(const edata_t *e, size_t size, size_t alignment) {
	uintptr_t from = ((uintptr_t)e->addr + alignment - 1) & ~(uintptr_t)(alignment - 1);
	return from + size <= (uintptr_t)e->addr + e->size;
}

/*
 * What must hold of an answer: it fits; and if it is said that nothing fits, then no extent has
 * room for the worst alignment in a class that is surely large enough.
 */
static bool
is_answer_right(const edata_t *e, size_t size, size_t alignment, unsigned lg_fit) {
	size_t need = size + alignment - PAGE;
	unsigned pind = sz_psz2ind(need);
	const edata_t *best = NULL;
	for (unsigned i = 0; i < N; i++) {
		unsigned c = sz_psz_floor(all[i].size);
		if (!is_in[i] || c < pind || (lg_fit < 64 && sz_pind2sz(c) >> lg_fit > size)) {
			continue;
		}
		unsigned b = best == NULL ? 0 : sz_psz_floor(best->size);
		if (best == NULL || c < b || (c == b && all[i].addr < best->addr)) {
			best = &all[i];
		}
	}
	if (e == NULL) {
		return best == NULL;
	}
	if (!is_in[e - all] || !holds(e, size, alignment)) {
		return false;
	}
	/* A tighter fit than the classes promise may be found; else it is the best one. */
	return e == best || sz_psz_floor(e->size) < pind + (alignment > PAGE);
}

static void
test_fit(void) {
	uint64_t seed = 6;
	unsigned bad = 0, n_found = 0, n_none = 0;
	for (unsigned i = 0; i < 6000; i++) {
		unsigned k = (unsigned)draw_below(&seed, N);
		if (is_in[k] && draw_below(&seed, 3) != 0) {
			resize(k, &seed);
		} else {
			(is_in[k] ? eset_remove : eset_insert)(&set, &all[k]);
			is_in[k] = !is_in[k];
		}
		added_at[k] = i;
		size_t size = random_pages(&seed) * PAGE;
		size_t alignment = draw_below(&seed, 3) != 0 ? PAGE : PAGE << draw_below(&seed, 10);
		unsigned lg_fit = draw_below(&seed, 2) == 0 ? 64 : (unsigned)draw_below(&seed, 8);
		const edata_t *e = eset_fit(&set, size, alignment, lg_fit);
		bad += !is_answer_right(e, size, alignment, lg_fit);
		n_found += e != NULL;
		n_none += e == NULL;
	}
	is_uint(bad, 0, "answers: %u found, %u none", n_found, n_none);
	ok(n_found > 1000 && n_none > 50, "both kinds happened");
}

static void
test_counts(void) {
	size_t npages = 0, bad = 0;
	static size_t n[SC_NPSIZES_MAX], bytes[SC_NPSIZES_MAX];
	for (unsigned i = 0; i < N; i++) {
		if (is_in[i]) {
			npages += all[i].size / PAGE;
			n[sz_psz_floor(all[i].size)]++;
			bytes[sz_psz_floor(all[i].size)] += all[i].size;
		}
	}
	is_uint(eset_npages(&set), npages, "pages");
	for (unsigned c = 0; c < SC_NPSIZES; c++) {
		bad += atomic_load_zu(&set.classes[c].nextents, MO_RELAXED) != n[c];
		bad += atomic_load_zu(&set.classes[c].nbytes, MO_RELAXED) != bytes[c];
	}
	is_uint(bad, 0, "extents and bytes of each class");
}

/* Taking the oldest one after the other gives the order of adding. */
static void
test_order(void) {
	unsigned bad = 0, last = 0, n = 0;
	edata_t *e;
	while ((e = eset_oldest(&set, true)) != NULL) {
		bad += wrong_if(!is_in[e - all]) || wrong_if(n > 0 && added_at[e - all] <= last);
		last = added_at[e - all];
		is_in[e - all] = false;
		eset_remove(&set, e);
		n++;
	}
	is_uint(bad, 0, "the oldest first, %u extents", n);
	ok(n > 100, "enough of them");
	is_uint(eset_npages(&set), 0, "empty: no pages");
	ok(eset_fit(&set, PAGE, PAGE, 64) == NULL, "nothing fits");
	for (unsigned i = 0; i < N; i++) {
		bad += is_in[i];
	}
	is_uint(bad, 0, "none is left behind");
}

static void
test_limits(void) {
	eset_insert(&set, &all[0]);
	size_t size = all[0].size;
	ok(eset_fit(&set, SC_LARGE_MAXCLASS, PAGE, 64) == NULL, "the largest class");
	ok(eset_fit(&set, SC_LARGE_MAXCLASS + PAGE, PAGE, 64) == NULL, "more than that");
	ok(eset_fit(&set, PAGE, (size_t)1 << 63, 64) == NULL, "the largest alignment");
	ok(eset_fit(&set, size, PAGE, 64) == &all[0], "an exact fit of %zu pages", size / PAGE);
	ok(eset_fit(&set, size + PAGE, PAGE, 64) == NULL, "one page more is too much");
	eset_remove(&set, &all[0]);
}

static void
body(void) {
	eset_init(&set, classes);
	make_all();
	test_limits();
	test_fit();
	test_counts();
	test_order();
}

int
main(int argc, char **argv) {
	return core_run_all_pages(argc, argv, body);
}
