/*
 * experimental.hooks.prof_*: what each is told, what it may do in there (allocate, free, mallctl,
 * write profiles), what comes of calls that cannot be; and hooks changed while eight threads
 * sample.
 */
#include "dumps.h"
#include "heap.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define BT "experimental.hooks.prof_backtrace"
#define DUMP "experimental.hooks.prof_dump"
#define SAMPLE "experimental.hooks.prof_sample"
#define FREE "experimental.hooks.prof_sample_free"

typedef void bt_hook_t(void **, unsigned *, unsigned);
typedef void dump_hook_t(const char *);
typedef void sample_hook_t(const void *, size_t, void **, unsigned, size_t);
typedef void free_hook_t(const void *, size_t);

static int
set_hook(const char *name, void *hook) {
	return mallctl(name, NULL, NULL, &hook, sizeof(hook));
}

static void *
get_hook(const char *name) {
	void *hook = (void *)1;
	size_t len = sizeof(hook);

	return mallctl(name, &hook, &len, NULL, 0) == 0 ? hook : (void *)1;
}

/* The build has something that reads stacks. */
static bool has_stacks;

static void
look_for_stacks(void) {
	is_int(ctl_void("prof.dump"), 0, "a dump");
	dumps_read('m');
	has_stacks = strcmp(dump_text(0, "unwinder"), "none") != 0;
	is_int(unlink(dumps.v[0].name), 0, "with or without stacks: %s", has_stacks ? "with"
	    : "without");
}

/* ------------------------------------------------------------------ what they are told */

static struct {
	unsigned samples, frees, dumps, stacks;
	const void *ptr, *freed;
	size_t size, usable, freed_usable, freed_asked;
	unsigned len, max;
	void *first;
	char path[600];
} told;

static void
on_sample(const void *ptr, size_t size, void **bt, unsigned len, size_t usable) {
	told.samples++;
	told.ptr = ptr;
	told.size = size;
	told.usable = usable;
	told.len = len;
	told.first = len > 0 ? bt[0] : NULL;
}

static void
on_free(const void *ptr, size_t usable) {
	told.frees++;
	told.freed = ptr;
	told.freed_usable = usable;
	told.freed_asked = malloc_usable_size((void *)(uintptr_t)ptr);
}

static void
on_dump(const char *path) {
	told.dumps++;
	snprintf(told.path, sizeof(told.path), "%s", path);
}

static void
on_stack(void **vec, unsigned *len, unsigned max) {
	told.stacks++;
	told.max = max;
	for (unsigned i = 0; i < 3; i++)
		vec[i] = (void *)(uintptr_t)(0x5000 + 0x1000 * i);
	*len = 3;
}

static void
told_what(void) {
	void *p, *q;

	look_for_stacks();
	is_int(set_hook(SAMPLE, on_sample), 0, "prof_sample");
	is_int(set_hook(FREE, on_free), 0, "prof_sample_free");
	ok(get_hook(SAMPLE) == (void *)on_sample && get_hook(FREE) == (void *)on_free, "are read back");
	memset(&told, 0, sizeof(told));
	p = keep(malloc(1000));
	is_uint(told.samples, 1, "a sample");
	ok(told.ptr == p && told.size == 1000 && told.usable == small_class_of(1000),
	    "where, how much, of what class");
	ok(!has_stacks || (told.len >= 2 && told.first != NULL), "%u frames", told.len);
	is_uint(told.frees, 0, "nothing freed yet");
	free(p);
	ok(told.frees == 1 && told.freed == p && told.freed_usable == small_class_of(1000), "its end");
	p = keep(malloc(100));
	q = keep(realloc(p, 100000));
	ok(told.samples == 3 && told.ptr == q && told.size == 100000, "realloc is a new one");
	ok(told.frees == 2 && told.freed == p && told.freed_usable == small_class_of(100),
	    "and the end of the old");
	is_int(set_hook(SAMPLE, NULL), 0, "NULL");
	ok(get_hook(SAMPLE) == NULL, "there is none");
	free(keep(malloc(10)));
	is_uint(told.samples, 3, "nothing is told any more");
	is_uint(told.frees, 3, "but the end, still");
	for (size_t size = 100; size <= 100 * 60 * 60 * 60; size *= 60) {
		p = keep(malloc(size));
		size_t usable = malloc_usable_size(p);
		free(p);
		is_uint(told.freed_asked, usable, "the hook may ask for the size of %zu bytes", size);
	}
	told.frees = 3;
	is_int(set_hook(FREE, NULL), 0, "NULL");
	free(q);
	is_uint(told.frees, 3, "nor that");
}

/* Each way to a block is one function call in this section of the program. */
extern const char __start_ways[], __stop_ways[];

static __attribute__((noinline, section("ways"))) void *
get_by(unsigned way, void *old) {
	void *volatile p = old; /* volatile: no call is the last thing that is done */

	switch (way) {
	case 0:
		p = malloc(1000);
		break;
	case 1:
		p = calloc(10, 100);
		break;
	case 2:
		p = realloc(NULL, 1000);
		break;
	case 3:
		p = realloc(old, 3000);
		break;
	case 4:
		p = realloc(old, 300000);
		break;
	case 5:
		p = rallocx(old, 600000, 0);
		break;
	case 6:
		p = realloc(old, 100000);
		break;
	case 7:
		p = mallocx(1000, MALLOCX_ALIGN(64));
		break;
	case 8:
		p = aligned_alloc(64, 6400);
		break;
	case 9:
		p = posix_memalign(&old, 64, 6400) == 0 ? old : NULL;
		break;
	default:
		(void)xallocx(p, 16384, 0, 0);
	}
	return p;
}
#define WAYS 11

static void
told_callers(void) {
	void *p[WAYS];

	look_for_stacks();
	is_int(set_hook(SAMPLE, on_sample), 0, "prof_sample");
	for (unsigned i = 0; i < WAYS; i++) {
		bool is_resize = (i >= 3 && i <= 6) || i == WAYS - 1;
		void *old = is_resize ? p[i == WAYS - 1 ? 6 : i - 1] : NULL;

		memset(&told, 0, sizeof(told));
		p[i] = get_by(i, old);
		ok(p[i] != NULL && (told.samples == 1 || (i == WAYS - 1 && told.samples == 0)),
		    "way %u: a sample", i);
		ok(!has_stacks || told.samples == 0 || ((const char *)told.first > __start_ways
		    && (const char *)told.first <= __stop_ways), "way %u: its stack begins at the call", i);
	}
	is_int(set_hook(SAMPLE, NULL), 0, "NULL");
	for (unsigned i = 0; i < WAYS - 1; i++)
		if (i < 2 || i > 5)
			free(p[i]);
}

static void
told_stacks(void) {
	bt_hook_t *own = (bt_hook_t *)get_hook(BT);
	char *name = (char *)"stack.heap";
	static char text[1 << 20];

	ok(own != NULL && (void *)own != (void *)1, "the library's own reader of stacks is a function");
	is_int(set_hook(BT, on_stack), 0, "prof_backtrace");
	memset(&told, 0, sizeof(told));
	void *p = keep(malloc(12345));
	is_uint(told.stacks, 1, "is asked");
	ok(told.max >= 128, "for at most %u frames", told.max);
	is_int(ctl_write("prof.dump", name), 0, "a profile");
	int fd = open(name, O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	close(fd);
	contains(text, "@ 0x4fff 0x6000 0x7000\n", "has the stack that it gave, the first less one");
	is_int(set_hook(BT, (void *)own), 0, "back to the library's own");
	ok(get_hook(BT) == (void *)own, "as it was");
	free(p);
}

static void
lies(void **vec, unsigned *len, unsigned max) {
	told.stacks++;
	for (unsigned i = 0; i < max; i++)
		vec[i] = (void *)(uintptr_t)(0x100000 + i * 16);
	*len = told.stacks % 3 == 0 ? max + 1000 : told.stacks % 3 == 1 ? UINT_MAX : 0;
}

static void
silent(void **vec, unsigned *len, unsigned max) {
	(void)vec;
	(void)len;
	(void)max;
}

static void
odd_stacks(void) {
	void *p[30];
	char *name = (char *)"odd.heap";

	is_int(set_hook(BT, lies), 0, "one that says more than it may, or nothing");
	for (unsigned i = 0; i < 30; i++)
		p[i] = keep(malloc(5000));
	is_int(set_hook(BT, silent), 0, "one that does nothing at all");
	for (unsigned i = 0; i < 15; i++) {
		free(p[i]);
		p[i] = keep(malloc(5000));
	}
	is_int(ctl_write("prof.dump", name), 0, "a profile");
	struct heap_profile h = heap_read(name);
	ok(h.good && h.sampled >= 30, "is whole");
	for (unsigned i = 0; i < 30; i++)
		free(p[i]);
}

static void
told_dumps(void) {
	char *name = (char *)"one.heap", *bad = (char *)"/nowhere/x.heap";

	is_int(set_hook(DUMP, on_dump), 0, "prof_dump");
	is_int(ctl_write("prof.dump", name), 0, "a dump");
	ok(told.dumps == 1 && strcmp(told.path, "one.heap") == 0, "its path: %s", told.path);
	is_int(ctl_void("prof.dump"), 0, "one with a name of the library's");
	is_uint(dumps_read('m'), 1, "it is there");
	ok(told.dumps == 2 && strstr(told.path, dumps.v[0].name) != NULL, "its name: %s", told.path);
	is_int(ctl_write("prof.dump", bad), EFAULT, "one that fails");
	ok(told.dumps == 3 && strcmp(told.path, bad) == 0, "is told as well: %s", told.path);
	is_int(set_hook(DUMP, NULL), 0, "NULL");
	is_int(ctl_write("prof.dump", name), 0, "a dump");
	is_uint(told.dumps, 3, "nothing is told");
	void *other = get_hook("experimental.hooks.prof_backtrace");
	is_int(set_hook(DUMP, other), 0, "any function, that of another hook's default too");
	ok(get_hook(DUMP) == other, "is read back");
	is_int(set_hook(DUMP, NULL), 0, "NULL again");
}

/* ------------------------------------------------------------------ calls that cannot be */

static void
refused(void) {
	static const char *const names[] = {BT, DUMP, SAMPLE, FREE};
	void *hook = (void *)on_dump, *old;
	size_t len = sizeof(old), odd = 4;

	for (unsigned i = 0; i < 4; i++) {
		void *before = get_hook(names[i]);

		ok(before != (void *)1, "%s can be read", names[i]);
		is_int(mallctl(names[i], NULL, NULL, NULL, 0), EINVAL, "neither read nor written");
		is_int(mallctl(names[i], NULL, NULL, &hook, 4), EINVAL, "a wrong length");
		is_int(mallctl(names[i], &old, &odd, NULL, 0), EINVAL, "to read as well");
		ok(get_hook(names[i]) == before, "nothing changed");
	}
	is_int(set_hook(BT, NULL), EINVAL, "no reader of stacks");
	is_int(mallctl(SAMPLE, &old, &len, &hook, sizeof(hook)), 0, "read and written at once");
	ok(old == NULL && get_hook(SAMPLE) == hook, "the old one, and the new one is there");
	is_int(set_hook(SAMPLE, NULL), 0, "none");
}

static void
not_booted(void) {
	void *hook = (void *)on_sample;

	is_int(mallctl(SAMPLE, NULL, NULL, &hook, sizeof(hook)), ENOENT, "the profiler does not run");
	is_int(mallctl(BT, NULL, NULL, &hook, sizeof(hook)), ENOENT, "for none of them");
	is_int(mallctl(DUMP, NULL, NULL, &hook, sizeof(hook)), ENOENT, "dump");
	is_int(mallctl(FREE, NULL, NULL, &hook, sizeof(hook)), ENOENT, "free");
}

/* ------------------------------------------------------------------ what they may do */

static void *bag[64];
static unsigned at, errors;

/* Allocates and frees, small and large, what was sampled before too. */
static void
work(void) {
	void *old = bag[at % 64];

	bag[at % 64] = NULL; /* the free may call a hook that comes here */
	free(old);
	bag[at % 64] = malloc(at % 7 == 0 ? 5 << 20 : 100 * (at % 50));
	at++;
	void *p = realloc(malloc(10), 50000);
	free(p);
}

static void
active_on_sample(const void *ptr, size_t size, void **bt, unsigned len, size_t usable) {
	told.samples++;
	(void)ptr;
	(void)size;
	(void)bt;
	(void)len;
	(void)usable;
	work();
}

static void
active_on_free(const void *ptr, size_t usable) {
	told.frees++;
	(void)ptr;
	(void)usable;
	work();
}

static bt_hook_t *own_stack;

static void
active_on_stack(void **vec, unsigned *len, unsigned max) {
	told.stacks++;
	work();
	own_stack(vec, len, max);
}

static void
active_on_dump(const char *path) {
	told.dumps++;
	(void)path;
	at += at % 7 == 0; /* requests of this hook count: a large one would pass the threshold */
	work();
}

static void
hooks_that_allocate(void) {
	void *p[200] = {NULL};
	uint64_t seed = 7;
	uint64_t large = 4 << 20, none = 0;

	own_stack = (bt_hook_t *)get_hook(BT);
	set_hook(BT, active_on_stack);
	set_hook(SAMPLE, active_on_sample);
	set_hook(FREE, active_on_free);
	set_hook(DUMP, active_on_dump);
	is_int(ctl_write("prof.threshold.large", large), 0, "a threshold that their requests pass");
	for (unsigned i = 0; i < 3000; i++) {
		unsigned k = (unsigned)(test_random(&seed) % 200);

		free(p[k]);
		p[k] = keep(malloc(1 + test_random(&seed) % 3000));
	}
	is_uint(told.samples, 3000, "a sample for each request of the program, none for those of "
	    "hooks");
	ok(told.stacks >= 3000 && told.frees >= 2700, "%u stacks, %u ends", told.stacks, told.frees);
	is_uint(dumps_read('l'), 0, "no profile for the hooks' large requests");
	is_int(ctl_void("prof.dump"), 0, "a profile");
	is_uint(told.dumps, 1, "its hook");
	p[0] = keep(realloc(p[0], large));
	is_uint(told.dumps, 2, "one by a threshold");
	is_int(ctl_write("prof.threshold.large", none), 0, "off");
	for (unsigned i = 0; i < 200; i++)
		free(p[i]);
	set_hook(SAMPLE, NULL);
	set_hook(FREE, NULL);
	set_hook(DUMP, NULL);
	set_hook(BT, (void *)own_stack);
	for (unsigned i = 0; i < 64; i++)
		free(bag[i]);
}

static void
write_nowhere(void *opaque, const char *text) {
	*(size_t *)opaque += strlen(text);
}

/* Prints the recent list by calls of `write`; the result of mallctl. */
static int
print_recent(void (*write)(void *, const char *)) {
	size_t bytes = 0;
	struct {
		void (*fn)(void *, const char *);
		void *opaque;
	} sink = {write, &bytes};

	return ctl_write("experimental.prof_recent.alloc_dump", sink);
}

static unsigned asked;

/* One of everything that a program can ask for, in turn. */
static void
ask(void) {
	bool on = true;
	char *name = (char *)"asked.heap", *thread = (char *)"me";
	uint64_t v = 1u << 30;
	size_t lg = 0;
	int err = 0;

	switch (asked++ % 12) {
	case 0: err = ctl_write("prof.dump", name); break;
	case 1: err = ctl_write("prof.active", on); break;
	case 2: err = ctl_write("thread.prof.name", thread); break;
	case 3: ctl_epoch(); break;
	case 4: err = ctl_write("prof.threshold.large", v); break;
	case 5: err = print_recent(write_nowhere); break;
	case 6: err = ctl_write("prof.reset", lg); break;
	case 7: err = ctl_void("prof.log_start"); break;
	case 8: err = ctl_void("prof.log_stop"); break;
	case 9: err = ctl_void("thread.tcache.flush"); break;
	case 10: err = ctl_void("prof.threshold.rearm"); break;
	case 11: err = ctl_str("prof.session.last_dump") == NULL; break;
	}
	/* A log may be running, or not; a dump may not begin within a dump. */
	if (err != 0 && err != EFAULT && err != EBUSY) {
		errors++;
		diag("%u: %d", (asked - 1) % 12, err);
	}
}

static void
asking_on_sample(const void *ptr, size_t size, void **bt, unsigned len, size_t usable) {
	on_sample(ptr, size, bt, len, usable);
	ask();
}

static void
asking_on_free(const void *ptr, size_t usable) {
	on_free(ptr, usable);
	ask();
}

static void
asking_on_stack(void **vec, unsigned *len, unsigned max) {
	ask();
	own_stack(vec, len, max);
}

static int err_of_dump, err_of_stop, err_of_start, err_of_recent;

static void
ask_for_files(void) {
	char *name = (char *)"inner.heap", *none = NULL;

	err_of_dump = ctl_write("prof.dump", name);
	err_of_stop = ctl_void("prof.session.stop");
	err_of_start = ctl_write("prof.session.start", none);
}

static size_t npieces, nbytes;

static void
asking_on_text(void *opaque, const char *text) {
	char *name = (char *)"inner.heap", *none = NULL;

	write_nowhere(opaque, text);
	npieces++;
	nbytes += strlen(text);
	if (npieces > 1)
		return;
	err_of_start = ctl_write("prof.session.start", none);
	err_of_dump = ctl_write("prof.dump", name);
	err_of_recent = print_recent(write_nowhere);
}

static void
asking_on_dump(const char *path) {
	on_dump(path);
	ask_for_files();
	err_of_recent = print_recent(write_nowhere);
	ctl_epoch();
	unsigned ind, cache;
	size_t len = sizeof(ind);
	if (mallctl("arenas.create", &ind, &len, NULL, 0) != 0 || mallctl("tcache.create", &cache, &len,
	    NULL, 0) != 0)
		errors++;
}

/* A thread in the callback of the list dumps while the hook of another dump prints the list. */
static atomic_int n_meets;

static void
meet(int n) {
	atomic_fetch_add(&n_meets, 1);
	while (atomic_load(&n_meets) < n)
		sched_yield();
}

static void
listing_on_dump(const char *path) {
	(void)path;
	meet(2);
	err_of_recent = print_recent(write_nowhere);
}

static void
dumping_on_text(void *opaque, const char *text) {
	char *name = (char *)"inner.heap";

	write_nowhere(opaque, text);
	if (atomic_load(&n_meets) < 2) {
		meet(2);
		err_of_dump = ctl_write("prof.dump", name);
	}
}

static void *
list_recent(void *arg) {
	(void)arg;
	err_of_start = print_recent(dumping_on_text);
	return NULL;
}

static void
dump_and_list_at_once(void) {
	pthread_t t;

	set_hook(DUMP, listing_on_dump);
	atomic_store(&n_meets, 0);
	err_of_dump = err_of_recent = err_of_start = -1;
	pthread_create(&t, NULL, list_recent, NULL);
	while (atomic_load(&n_meets) == 0)
		sched_yield();
	is_int(ctl_void("prof.dump"), 0, "a dump whose hook prints the list as another thread does");
	pthread_join(t, NULL);
	is_int(err_of_dump, EBUSY, "in whose callback a dump waits for a while only");
	ok(err_of_start == 0 && err_of_recent == 0, "so both print it");
}

static void
hooks_that_ask(void) {
	void *p[100] = {NULL};
	char *none = NULL;
	uint64_t seed = 7;

	own_stack = (bt_hook_t *)get_hook(BT);
	set_hook(SAMPLE, asking_on_sample);
	set_hook(FREE, asking_on_free);
	set_hook(BT, asking_on_stack);
	for (unsigned i = 0; i < 1000; i++) {
		unsigned k = (unsigned)(test_random(&seed) % 100);

		free(p[k]);
		p[k] = keep(malloc(1 + test_random(&seed) % 3000));
	}
	set_hook(SAMPLE, NULL);
	set_hook(FREE, NULL);
	set_hook(BT, (void *)own_stack);
	ok(asked > 2000, "%u questions from inside of samples", asked);
	ctl_void("prof.log_stop");
	set_hook(DUMP, asking_on_dump);
	is_int(ctl_write("prof.session.start", none), 0, "a session");
	is_int(ctl_void("prof.dump"), 0, "a dump");
	is_int(err_of_dump, EBUSY, "from its hook: no other dump");
	is_int(err_of_stop, EBUSY, "no stop of the session");
	is_int(err_of_start, EALREADY, "no start");
	is_int(err_of_recent, 0, "but the recent list");
	err_of_dump = err_of_start = -1;
	is_int(print_recent(asking_on_text), 0, "the recent list");
	is_int(err_of_dump, 0, "from its callback: a dump, whose hook cannot print the list");
	is_int(err_of_start, EALREADY, "no start");
	is_int(err_of_recent, EBUSY, "nor the list itself");
	dump_and_list_at_once();
	set_hook(DUMP, asking_on_dump);
	ok(npieces <= 2 + nbytes / 500, "in large pieces: %zu of %zu bytes", npieces, nbytes);
	is_int(ctl_void("prof.session.stop"), 0, "stop");
	is_int(err_of_stop, EBUSY, "from the hook of its profile: it is being stopped");
	is_int(err_of_start, EBUSY, "nor started");
	set_hook(DUMP, NULL);
	for (unsigned i = 0; i < 100; i++)
		free(p[i]);
	is_int(ctl_void("prof.dump"), 0, "all is well afterwards");
	is_uint(errors, 0, "all questions were answered");
}

/* ------------------------------------------------------------------ changed under load */

static bool is_over;
static unsigned long n_a, n_b, n_frees, n_stacks, n_dumps;

static void
count(unsigned long *n) {
	__atomic_fetch_add(n, 1, __ATOMIC_RELAXED);
}

static void
sample_a(const void *ptr, size_t size, void **bt, unsigned len, size_t usable) {
	count(&n_a);
	if (usable < size || (has_stacks && (len == 0 || bt[0] == NULL))
	    || malloc_usable_size((void *)(uintptr_t)ptr) < size)
		count((unsigned long *)&errors);
}

static void
sample_b(const void *ptr, size_t size, void **bt, unsigned len, size_t usable) {
	sample_a(ptr, size, bt, len, usable);
	count(&n_b);
	free(malloc(size));
}

static void
free_a(const void *ptr, size_t usable) {
	(void)ptr;
	count(&n_frees);
	free(malloc(usable));
}

static void
stack_a(void **vec, unsigned *len, unsigned max) {
	count(&n_stacks);
	own_stack(vec, len, max);
}

static void
dump_a(const char *path) {
	(void)path;
	count(&n_dumps);
}

static void *
load(void *arg) {
	uint64_t seed = (uintptr_t)arg;
	void *p[64] = {NULL};

	while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
		for (unsigned i = 0; i < 64; i++) {
			free(p[i]);
			p[i] = keep(malloc(1 + test_random(&seed) % 3000));
		}
	}
	for (unsigned i = 0; i < 64; i++)
		free(p[i]);
	return NULL;
}

static void
changed_under_load(void) {
	pthread_t t[8];
	char *name = (char *)"load.heap";
	unsigned bad = 0;

	look_for_stacks();
	own_stack = (bt_hook_t *)get_hook(BT);
	for (uintptr_t i = 0; i < 8; i++)
		pthread_create(&t[i], NULL, load, (void *)(i + 1));
	for (unsigned i = 0; i < 600 || (i < 200000 && (n_a < 100 || n_b < 100 || n_frees < 100
	    || n_stacks < 100 || n_dumps < 3)); i++) {
		bad += set_hook(SAMPLE, i % 3 == 0 ? sample_a : i % 3 == 1 ? sample_b : NULL) != 0;
		bad += set_hook(FREE, i % 2 == 0 ? (void *)free_a : NULL) != 0;
		bad += set_hook(BT, i % 5 == 0 ? (void *)stack_a : (void *)own_stack) != 0;
		bad += set_hook(DUMP, i % 2 == 0 ? (void *)dump_a : NULL) != 0;
		if (i % 100 == 0)
			bad += ctl_write("prof.dump", name) != 0;
		usleep(100);
	}
	set_hook(SAMPLE, NULL);
	set_hook(FREE, NULL);
	set_hook(BT, (void *)own_stack);
	__atomic_store_n(&is_over, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < 8; i++)
		pthread_join(t[i], NULL);
	is_uint(bad, 0, "hooks changed under eight threads");
	ok(n_a >= 100 && n_b >= 100 && n_frees >= 100 && n_stacks >= 100 && n_dumps >= 3,
	    "each was called: %lu, %lu, %lu, %lu, %lu", n_a, n_b, n_frees, n_stacks, n_dumps);
	is_uint(errors, 0, "with what belongs together");
	is_int(ctl_write("prof.dump", name), 0, "a profile at the end");
	ok(heap_read(name).sampled < 200, "in which nothing was left behind: %g",
	    heap_read(name).sampled);
}

/* ------------------------------------------------------------------ all of them */

#define EACH "prof:true,lg_prof_sample:0,prof_dump_min_gap_ms:0"

/* ------------------------------------------------------------------ frees after the end */

static pthread_key_t last_key;
static void *last_blocks[8];

/* In the last of four rounds: frees as the C library does when the destructors have run. */
static void
last_round(void *arg) {
	uintptr_t round = (uintptr_t)arg;

	if (round < 4)
		pthread_setspecific(last_key, (void *)(round + 1));
	else
		for (unsigned i = 0; i < 8; i++)
			free(last_blocks[i]);
}

static void *
frees_last(void *arg) {
	pthread_setspecific(last_key, (void *)1);
	return arg;
}

/* Its stack, in which its TLS is, goes with the thread; fork then looks at all threads. */
static void
freed_last(void) {
	size_t size = 256 << 10;
	void *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attr;
	pthread_t t;
	int status = -1;

	pthread_key_create(&last_key, last_round);
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, stack, size);
	for (unsigned i = 0; i < 8; i++)
		last_blocks[i] = keep(malloc(300));
	is_int(pthread_create(&t, &attr, frees_last, NULL), 0, "a thread that only frees samples");
	pthread_join(t, NULL);
	munmap(stack, size);
	pid_t child = fork();
	if (child == 0)
		_exit(0);
	waitpid(child, &status, 0);
	is_int(status, 0, "nothing of it is looked at when it has ended");
}

static const struct dumps_test tests[] = {
	{"told", told_what, EACH},
	{"told2", told_what, EACH ",tcache:false"},
	{"callers", told_callers, EACH},
	{"stacks", told_stacks, EACH},
	{"odd", odd_stacks, EACH},
	{"odd_short", odd_stacks, EACH ",prof_bt_max:1"},
	{"dumps", told_dumps, EACH},
	{"refused", refused, EACH},
	{"not_booted", not_booted, ""},
	{"allocate", hooks_that_allocate, EACH},
	{"allocate2", hooks_that_allocate, EACH
	    ",prof_recent_alloc_max:50,prof_stats:true,prof_log:true"},
	{"ask", hooks_that_ask, EACH ",prof_recent_alloc_max:50,prof_stats:true"},
	{"load", changed_under_load, EACH},
	{"last", freed_last, EACH},
};

int
main(int argc, char **argv) {
	return dumps_run_all(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
