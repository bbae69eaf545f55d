/*
 * experimental.hooks.install and .remove: what hooks are told of each function, in which thread, in
 * which order; that what they do themselves is shown to nobody; and that without hooks all is as it
 * was before.
 */
#include "ctl.h"

#include <malloc.h>
#include <pthread.h>

#define INSTALL "experimental.hooks.install"
#define REMOVE "experimental.hooks.remove"
#define N_THREADS 4
#define N_PAIRS 1000
#define N_SHARED 64
#define N_LIVE (1 << 14)

struct hooks {
	void (*alloc)(void *extra, unsigned how, void *p, uintptr_t result, const uintptr_t *args);
	void (*dalloc)(void *extra, unsigned how, void *p, const uintptr_t *args);
	void (*expand)(void *extra, unsigned how, void *p, size_t old_usable, size_t usable,
	    uintptr_t result, const uintptr_t *args);
	void *extra;
};

/* The numbers of the manual. */
enum { H_MALLOC, H_CALLOC, H_REALLOC, H_ALIGNED_ALLOC, H_POSIX_MEMALIGN, H_MEMALIGN, H_VALLOC,
    H_PVALLOC, H_MALLOCX,
	H_RALLOCX, H_XALLOCX, H_NEW, H_BATCH_ALLOC, H_FREE, H_DALLOCX, H_SDALLOCX };

/* operator new, where the library has it. */
extern void *_Znwm(size_t size) __attribute__((weak));

static int
install(const struct hooks *h, void **handle) {
	size_t len = sizeof(*handle);

	return mallctl(INSTALL, handle, &len, (void *)(uintptr_t)h, sizeof(*h));
}

static int
removes(void *handle) {
	return mallctl(REMOVE, NULL, NULL, &handle, sizeof(handle));
}

/* -------------------------------------------------------------- what one thread sees */

static struct seen {
	char kind;
	unsigned how;
	void *extra, *p;
	uintptr_t result;
	uintptr_t args[3];
	size_t old, now;
} seen[8];
/* the compiler thinks to know that malloc and free leave it alone */
static volatile unsigned n_seen;

static struct seen *
see(char kind, void *extra, unsigned how, void *p) {
	struct seen *s = &seen[n_seen++ % 8];

	memset(s, 0, sizeof(*s));
	s->kind = kind;
	s->how = how;
	s->extra = extra;
	s->p = p;
	free(keep(realloc(keep(malloc(50)), 5000))); /* shown to nobody */
	errno = 77;
	return s;
}

static void
on_alloc(void *extra, unsigned how, void *p, uintptr_t result, const uintptr_t *args) {
	struct seen *s = see('a', extra, how, p);

	s->result = result;
	memcpy(s->args, args, sizeof(s->args));
}

static void
on_dalloc(void *extra, unsigned how, void *p, const uintptr_t *args) {
	struct seen *s = see('d', extra, how, p);

	s->args[0] = args[0];
	s->now = malloc_usable_size(p);
}

static void
on_expand(void *extra, unsigned how, void *p, size_t old_usable, size_t usable, uintptr_t result,
    const uintptr_t *args) {
	struct seen *s = see('e', extra, how, p);

	s->result = result;
	s->old = old_usable;
	s->now = usable;
	memcpy(s->args, args, sizeof(s->args));
}

static int extra_word;
static const struct hooks seeing = {on_alloc, on_dalloc, on_expand, &extra_word};

/* One allocation was seen, and nothing else. */
static void
was_alloc(void *p, unsigned how, size_t size, size_t alignment, bool zero, const char *what) {
	struct seen *s = &seen[0];
	uintptr_t result = how == H_POSIX_MEMALIGN ? 0 : (uintptr_t)p;

	ok(n_seen == 1 && s->kind == 'a' && s->how == how && s->p == p && s->extra == &extra_word,
	    "%s: seen", what);
	ok(s->result == result && s->args[0] == size && s->args[1] == alignment && s->args[2] == zero,
	    "%s: what was asked for (%zu, %zu, %zu)", what, (size_t)s->args[0], (size_t)s->args[1],
	    (size_t)s->args[2]);
	n_seen = 0;
}

static void
was_free(void *p, unsigned how, size_t usable, const char *what) {
	struct seen *s = &seen[0];

	ok(n_seen == 1 && s->kind == 'd' && s->how == how && s->p == p && s->args[0] == usable,
	    "%s: seen", what);
	ok(s->now == usable, "%s: still in use then", what);
	n_seen = 0;
}

static void
was_move(void *from, void *to, unsigned how, const char *what) {
	ok(n_seen == 2 && seen[0].kind == 'a' && seen[0].p == to && seen[0].how == how,
	    "%s: an allocation", what);
	ok(seen[1].kind == 'd' && seen[1].p == from && seen[1].how == how, "%s: then a release", what);
	n_seen = 0;
}

static void
frees(void *p) {
	size_t usable = malloc_usable_size(p);

	errno = 5;
	free(keep(p));
	keep(NULL);
	is_int(errno, 5, "free keeps errno");
	was_free(p, H_FREE, usable, "free");
}

static void
test_allocations(void) {
	struct { void **ptrs; size_t n, size; int flags; } batch;
	size_t page = ctl_size("arenas.page"), got = 0, len = sizeof(got);
	void *p;

	errno = 5;
	was_alloc((p = keep(malloc(100)), p), H_MALLOC, 100, 0, false, "malloc");
	is_int(errno, 5, "malloc keeps errno");
	frees(p);
	for (int i = 0; i < 3; i++) {
		was_alloc((p = keep(malloc(hide(300000))), p), H_MALLOC, 300000, 0, false, "malloc, large");
		frees(p);
	}
	was_alloc((p = keep(calloc(3, 50)), p), H_CALLOC, 150, 0, true, "calloc");
	frees(p);
	was_alloc((p = keep(realloc(NULL, 10)), p), H_MALLOC, 10, 0, false, "realloc of NULL");
	frees(p);
	was_alloc((p = keep(aligned_alloc(256, 512)), p), H_ALIGNED_ALLOC, 512, 256, false,
	    "aligned_alloc");
	frees(p);
	if (posix_memalign(&p, 64, 100) != 0)
		bail_out("no memory");
	was_alloc(p, H_POSIX_MEMALIGN, 100, 64, false, "posix_memalign");
	frees(p);
	was_alloc((p = keep(memalign(128, 100)), p), H_MEMALIGN, 100, 128, false, "memalign");
	frees(p);
	was_alloc((p = keep(mallocx(100, MALLOCX_ALIGN(512) | MALLOCX_ZERO)), p), H_MALLOCX, 100, 512,
	    true, "mallocx");
	size_t usable = sallocx(p, 0);
	dallocx(p, 0);
	was_free(p, H_DALLOCX, usable, "dallocx");
	was_alloc((p = keep(mallocx(page * 40, 0)), p), H_MALLOCX, page * 40, 0, false,
	    "mallocx, large");
	sdallocx(p, page * 40, 0);
	was_free(p, H_SDALLOCX, page * 40, "sdallocx");
	batch.ptrs = &p;
	batch.n = 1;
	batch.size = 40;
	batch.flags = 0;
	is_int(mallctl("experimental.batch_alloc", &got, &len, &batch, sizeof(batch)), 0, "a batch");
	was_alloc(p, H_BATCH_ALLOC, 40, 0, false, "batch_alloc");
	frees(p);
	if (_Znwm != NULL) {
		was_alloc((p = keep(_Znwm(70)), p), H_NEW, 70, 0, false, "operator new");
		frees(p);
	}
	ok(malloc(hide(SIZE_MAX / 2)) == NULL && n_seen == 0, "what fails is not shown");
	errno = 5;
	free(keep(NULL));
	is_uint(n_seen, 0, "nor is NULL");
}

static void
test_resizing(void) {
	size_t page = ctl_size("arenas.page"), usable;
	void *p = keep(malloc(100)), *q;

	n_seen = 0;
	q = keep(realloc(p, canary_bytes() != 0 ? 100 : 105));
	ok(q == p && n_seen == 0, "nothing changes: nothing is seen");
	q = keep(realloc(p, 1000));
	was_move(p, q, H_REALLOC, "realloc moves");
	p = keep(rallocx(q, 5000, 0));
	was_move(q, p, H_RALLOCX, "rallocx moves");
	frees(p);
	p = keep(malloc(100 * page));
	n_seen = 0;
	q = keep(realloc(p, 50 * page));
	if (!ok(q == p && n_seen == 1 && seen[0].kind == 'e' && seen[0].how == H_REALLOC,
	    "realloc in place"))
		bail_out("the block is not where it was");
	ok(seen[0].old == nallocx(100 * page, 0) && seen[0].now == nallocx(50 * page, 0)
	    && seen[0].result == (uintptr_t)p && seen[0].args[0] == 50 * page,
	    "from which size to which");
	n_seen = 0;
	usable = xallocx(p, 40 * page, 0, 0);
	ok(n_seen == 1 && seen[0].kind == 'e' && seen[0].how == H_XALLOCX && seen[0].result == usable,
	    "xallocx");
	n_seen = 0;
	xallocx(p, usable, 0, 0);
	is_uint(n_seen, 0, "xallocx that changes nothing");
	is_uint((uintptr_t)keep(realloc(p, 0)), 0, "realloc to 0");
	was_free(p, H_FREE, usable, "is a release");
}

static void
test_refusals(void) {
	struct hooks none = {NULL, NULL, NULL, NULL};
	void *handles[4], *h = NULL;
	size_t len = sizeof(h);

	is_int(mallctl(INSTALL, NULL, NULL, &none, sizeof(none)), EINVAL, "no handle asked for");
	is_int(mallctl(INSTALL, &h, &len, NULL, 0), EINVAL, "no hooks");
	is_int(mallctl(INSTALL, &h, &len, &none, sizeof(none) - 1), EINVAL, "hooks of another length");
	len = 4;
	is_int(mallctl(INSTALL, &h, &len, &none, sizeof(none)), EINVAL, "a handle of another length");
	is_int(removes(h), EINVAL, "NULL is no handle");
	for (int i = 0; i < 4; i++)
		is_int(install(&none, &handles[i]), 0, "place %d", i);
	is_int(install(&none, &h), EAGAIN, "there are four");
	is_int(removes(handles[2]), 0, "one goes");
	is_int(removes(handles[2]), EINVAL, "once");
	is_int(install(&none, &h), 0, "another comes");
	ok(h != handles[2], "with a handle of its own");
	is_int(removes(handles[2]), EINVAL, "the old one stays without effect");
	handles[2] = h;
	free(keep(malloc(100)));
	len = sizeof(h);
	is_int(mallctl(REMOVE, &h, &len, &handles[0], sizeof(h)), EPERM, "remove gives nothing");
	is_int(mallctl(REMOVE, NULL, NULL, NULL, 0), EINVAL, "and needs a handle");
	is_int(mallctl(REMOVE, NULL, NULL, &handles[0], 4), EINVAL, "of its length");
	for (int i = 0; i < 4; i++)
		is_int(removes(handles[i]), 0, "place %d is free", i);
}

/* -------------------------------------------------------------- all threads */

static __thread bool is_counted;
static unsigned n_allocs, n_frees;
static pthread_barrier_t barrier;

static void
count_alloc(void *extra, unsigned how, void *p, uintptr_t result, const uintptr_t *args) {
	(void)extra, (void)how, (void)p, (void)result, (void)args;
	if (is_counted)
		__atomic_fetch_add(&n_allocs, 1, __ATOMIC_RELAXED);
}

static void
count_free(void *extra, unsigned how, void *p, const uintptr_t *args) {
	(void)extra, (void)how, (void)p, (void)args;
	if (is_counted)
		__atomic_fetch_add(&n_frees, 1, __ATOMIC_RELAXED);
}

static void *
pairs_thread(void *arg) {
	is_counted = true;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < N_PAIRS; i++)
			free(keep(malloc((size_t)(i % 100 == 0 ? 200000 : i % 600 + 1))));
		pthread_barrier_wait(&barrier);
		pthread_barrier_wait(&barrier);
	}
	return arg;
}

/* Rounds without, with and again without a hook, in threads that have caches already. */
static void
test_threads(void) {
	static const struct hooks counting = {count_alloc, count_free, NULL, NULL};
	static const unsigned want[3] = {0, N_THREADS * N_PAIRS, N_THREADS * N_PAIRS};
	pthread_t t[N_THREADS];
	void *handle;

	pthread_barrier_init(&barrier, NULL, N_THREADS + 1);
	for (int i = 0; i < N_THREADS; i++)
		pthread_create(&t[i], NULL, pairs_thread, NULL);
	for (int round = 0; round < 3; round++) {
		pthread_barrier_wait(&barrier);
		is_uint(n_allocs, want[round], "allocations seen after round %d", round);
		is_uint(n_frees, want[round], "releases");
		if (round < 2)
			is_int(round == 0 ? install(&counting, &handle) : removes(handle), 0,
			    "installed, or removed");
		pthread_barrier_wait(&barrier);
	}
	for (int i = 0; i < N_THREADS; i++)
		pthread_join(t[i], NULL);
	pthread_barrier_destroy(&barrier);
}

/* -------------------------------------------------------------- order */

static pthread_mutex_t live_mtx = PTHREAD_MUTEX_INITIALIZER;
static void *live[N_LIVE];
static unsigned n_twice, n_unknown;
static void *shared[N_SHARED];

/* The address's place in the table: where it is, or the first free one. */
static void **
live_place(const void *p) {
	size_t i = ((uintptr_t)p >> 3) * 0x9e3779b97f4a7c15u >> 50;

	while (live[i % N_LIVE] != NULL && live[i % N_LIVE] != p)
		i++;
	return &live[i % N_LIVE];
}

static void
live_alloc(void *extra, unsigned how, void *p, uintptr_t result, const uintptr_t *args) {
	void **place;

	(void)extra, (void)how, (void)result, (void)args;
	if (!is_counted)
		return;
	pthread_mutex_lock(&live_mtx);
	place = live_place(p);
	n_twice += *place != NULL;
	*place = p;
	pthread_mutex_unlock(&live_mtx);
}

static void
live_free(void *extra, unsigned how, void *p, const uintptr_t *args) {
	void **place, *moved;

	(void)extra, (void)how, (void)args;
	if (!is_counted)
		return;
	pthread_mutex_lock(&live_mtx);
	place = live_place(p);
	n_unknown += *place == NULL;
	*place = NULL;
	/* Those behind it are looked for from their own first places again. */
	for (size_t i = (size_t)(place - live) + 1; (moved = live[i % N_LIVE]) != NULL; i++) {
		live[i % N_LIVE] = NULL;
		*live_place(moved) = moved;
	}
	pthread_mutex_unlock(&live_mtx);
}

static void *
exchange_thread(void *arg) {
	uint64_t seed = (uintptr_t)arg;

	is_counted = true;
	for (int i = 0; i < 5000; i++) {
		size_t size = 1 + test_random(&seed) % (i % 20 == 0 ? 100000 : 300);
		void *p = malloc(size);

		if (i % 3 == 0)
			p = realloc(p, 1 + test_random(&seed) % 300);
		free(__atomic_exchange_n(&shared[test_random(&seed) % N_SHARED], p, __ATOMIC_ACQ_REL));
	}
	is_counted = false;
	return NULL;
}

/* An address that is given out is not in use, to who goes by what hooks are told. */
static void
test_order(void) {
	static const struct hooks living = {live_alloc, live_free, NULL, NULL};
	pthread_t t[N_THREADS];
	void *handle;
	unsigned left = 0;

	is_int(install(&living, &handle), 0, "hooks that keep a list");
	for (uintptr_t i = 0; i < N_THREADS; i++)
		pthread_create(&t[i], NULL, exchange_thread, (void *)(i + 1));
	for (int i = 0; i < N_THREADS; i++)
		pthread_join(t[i], NULL);
	for (int i = 0; i < N_LIVE; i++)
		left += live[i] != NULL;
	is_uint(n_twice, 0, "no address comes twice");
	is_uint(n_unknown, 0, "none goes that did not come");
	is_uint(left, N_SHARED, "what is on the list lives");
	is_counted = true;
	for (int i = 0; i < N_SHARED; i++)
		free(shared[i]);
	is_counted = false;
	is_int(removes(handle), 0, "removed");
}

static void
test_forked(void) {
	int status = 0;
	void *handle;
	pid_t pid;

	is_int(install(&seeing, &handle), 0, "installed");
	pid = fork();
	if (pid == 0) {
		n_seen = 0;
		free(keep(malloc(10)));
		_exit(n_seen == 2 && removes(handle) == 0 && install(&seeing, &handle) == 0 ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	is_int(status, 0, "a forked child has the hooks");
	is_int(removes(handle), 0, "and its parent, still");
	n_seen = 0;
	free(keep(malloc(10)));
	is_uint(n_seen, 0, "removed: nothing is seen");
}

int
main(void) {
	bool off = false;
	void *handle;

	ctl_write("prof.active", off); /* samples are not resized in place */
	test_refusals();
	is_int(install(&seeing, &handle), 0, "installed");
	test_allocations();
	test_resizing();
	is_int(removes(handle), 0, "removed");
	test_threads();
	test_order();
	test_forked();
	return done_testing();
}
