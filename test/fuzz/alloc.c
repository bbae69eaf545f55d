/*
 * Allocation sequences drawn from a seed: every entry point, random options, switches of the
 * profiler, caches by hand and arenas of its own, with all checks of blocks.h after each step.
 *
 *   alloc                       a bounded run, for make check
 *   alloc --runs N N processes, each with a seed, options, steps and threads of its own
 *   alloc --seed S [--runs N]   the same from seed S: a breach names the seed that repeats it
 *
 * A step is drawn from (seed, thread, number of the step) alone, so steps can be left out: when a
 * run with one thread fails, the driver leaves out steps and options as long as it still fails, and
 * prints what remains. The environment of a child: FUZZ_SEED, FUZZ_STEPS, FUZZ_THREADS, FUZZ_SKIP
 * (ranges of steps), FUZZ_TRACE (print each step), FUZZ_ABORT (stop where a debugger sees it).
 */
#include "blocks.h"
#include "lives.h"
#include "options.h"

#include <pthread.h>
#include <sys/mman.h>

#include "arena/arenas.h"
#include "prof/control/prof_control.h"

#define STATUS_DONE 42 /* so no other end is taken for a pass */
#define N_SLOTS 400
#define N_SKIPS 1024
#define STEPS_MAX 1000000
#define N_SWAPS 64

static struct {
	unsigned long seed, steps, threads;
	bool has_forks;
	bool has_helpers;        /* threads come and go: the C library allocates for them */
	unsigned n_skips;
	unsigned long skip[N_SKIPS][2];
	size_t base;             /* stats.allocated before the first block */
	char dir[64];
} run;

typedef struct {
	fuzz_t f;
	block_t slots[N_SLOTS];
	own_t own;
	unsigned tcache, arena;
	bool has_tcache, has_arena;
} worker_t;

/* Where blocks change hands: one waits in each place. */
static struct {
	pthread_mutex_t lock;
	block_t b;
} swaps[N_SWAPS];

/* ------------------------------------------------------------------ steps that are no request */

static int
set_bool(const char *name, bool on) {
	return ctl_write(name, on);
}

static void
expect(const fuzz_t *f, const char *what, int err, int or_1, int or_2) {
	if (err != 0 && err != or_1 && err != or_2) {
		breach(f, "%s answered %d", what, err);
	}
}

static void
is_answer(const fuzz_t *f, const char *what, int err, int want) {
	if (err != want) {
		breach(f, "%s answered %d, not %d", what, err, want);
	}
}

static void
flush_all(worker_t *w) {
	int err = ctl_void("thread.tcache.flush");
	/* EFAULT: this thread has none at present. */
	expect(&w->f, "thread.tcache.flush", err, EFAULT, 0);
	if (w->has_tcache) {
		expect(&w->f, "tcache.flush", ctl_write("tcache.flush", w->tcache), 0, 0);
	}
}

static bool
has_helper(void) {
	return run.has_helpers || (config_prof && opt_prof_thread != prof_thread_false)
	    || ctl_bool("opt.background_thread");
}

/* What this thread allocated and released, by the library and by this file. */
static void
check_thread(const fuzz_t *f) {
	if (f->is_loose || !config_stats || has_helper()) {
		return;
	}
	uint64_t allocated = ctl_u64("thread.allocated"), deallocated = ctl_u64("thread.deallocated");
	if (allocated != f->sum.allocated || deallocated != f->sum.deallocated) {
		breach(f, "thread: %llu and %llu, not %llu and %llu", (unsigned long long)allocated,
		    (unsigned long long)deallocated, (unsigned long long)f->sum.allocated,
		    (unsigned long long)f->sum.deallocated);
	}
}

/* The figures of the library are those of this file, and all blocks are as they were left. */
static void
check_sums(worker_t *w) {
	fuzz_t *f = &w->f;
	size_t live = own_live(&w->own);
	f->what = "sums";
	check_thread(f);
	own_check(f, &w->own);
	for (unsigned i = 0; i < N_SLOTS; i++) {
		if (w->slots[i].p != NULL) {
			live += w->slots[i].usable;
			block_check(f, &w->slots[i]);
		}
	}
	if (!config_stats || run.threads > 1) {
		return;
	}
	flush_all(w);
	ctl_epoch();
	size_t now = ctl_size("stats.allocated");
	/*
	 * The C library allocates for each thread, also for the profiler's, and keeps it with the
	 * stack.
	 */
	size_t more = run.has_helpers ? 65536 : has_helper() ? 4096 : w->f.thread * 1024;
	if (now < run.base + live || now > run.base + live + more) {
		breach(f, "stats.allocated %zu + %zd for %zu live", run.base, (ssize_t)(now - run.base),
		    live);
	}
	if (ctl_size("stats.active") < now || ctl_size("stats.resident") < ctl_size("stats.metadata")) {
		breach(f, "active %zu, allocated %zu", ctl_size("stats.active"), now);
	}
}

static void
step_tcache(worker_t *w) {
	fuzz_t *f = &w->f;
	size_t max = below(f, 100000);
	size_t len = sizeof(w->tcache);
	char text[64];
	switch (below(f, 7)) {
	case 0: set_bool("thread.tcache.enabled", one_in(f, 2)); break;
	case 1: flush_all(w); break;
	case 2: ctl_write("thread.tcache.max", max); break;
	case 3: {
		size_t lo = 1 + below(f, 20000);
		const char *p = text;
		snprintf(text, sizeof(text), "%zu-%zu:%zu", lo, lo + below(f, 20000), below(f, 300));
		expect(f, "ncached_max", ctl_write("thread.tcache.ncached_max.write", p), ENOENT, 0);
		break;
	}
	case 4: expect(f, "thread.idle", ctl_void("thread.idle"), 0, 0); break;
	default:
		if (w->has_tcache) {
			f->tcache_flags = 0;
			expect(f, "tcache.destroy", ctl_write("tcache.destroy", w->tcache), 0, 0);
			w->has_tcache = false;
		} else {
			expect(f, "tcache.create", mallctl("tcache.create", &w->tcache, &len, NULL, 0), 0, 0);
			w->has_tcache = true;
			f->tcache_flags = MALLOCX_TCACHE(w->tcache);
		}
		break;
	}
}

static void
step_arena(worker_t *w) {
	fuzz_t *f = &w->f;
	char name[64];
	size_t len = sizeof(w->arena);
	ssize_t ms = (ssize_t[]){-1, 0, 500}[below(f, 3)];
	unsigned ind = w->arena;
	switch (below(f, 7)) {
	case 0:
		if (!w->has_arena || one_in(f, 10)) {
			expect(f, "arenas.create", mallctl("arenas.create", &w->arena, &len, NULL, 0), 0, 0);
			w->has_arena = true;
			f->arena_flags = MALLOCX_ARENA(w->arena);
		}
		break;
	case 1: expect(f, "decay", ctl_void("arena.4096.decay"), 0, 0); break;
	case 2: expect(f, "purge", ctl_void("arena.4096.purge"), 0, 0); break;
	case 3: expect(f, "dirty", ctl_write(ctl_name(name, "arena.%u.dirty_decay_ms", ind), ms), 0, 0);
	    break;
	case 4: expect(f, "muzzy", ctl_write(ctl_name(name, "arena.%u.muzzy_decay_ms", ind), ms), 0, 0);
	    break;
	case 5: expect(f, "default", ctl_write("arenas.dirty_decay_ms", ms), 0, 0); break;
	default:
		ind = one_in(f, 2) ? 0 : ind;
		/* To those of the CPUs nobody goes by himself. */
		is_answer(f, "thread.arena", ctl_write("thread.arena", ind), ind < arenas_percpu_limit()
		    ? EPERM : 0);
		break;
	}
}

static void
step_prof_value(worker_t *w) {
	fuzz_t *f = &w->f;
	size_t rate = (size_t)1 << below(f, 20), bytes = below(f, 10) << 20;
	const char *text = one_in(f, 2) ? "worker" : "x y";
	switch (below(f, 7)) {
	case 0: expect(f, "sample_interval", ctl_write("prof.sample_interval", rate), EBUSY, ENOENT);
	    break;
	case 1: expect(f, "threshold", ctl_write("prof.threshold.alloc", bytes), 0, 0); break;
	case 2: expect(f, "threshold", ctl_write("prof.threshold.large", bytes), 0, 0); break;
	case 3: expect(f, "threshold", ctl_write("prof.threshold.highwater", bytes), 0, 0); break;
	case 4: expect(f, "name", ctl_write("thread.prof.name", text), ENOENT, EINVAL); break;
	case 5: ctl_write("prof.reset", rate); break;
	default: set_bool("thread.prof.active", one_in(f, 3)); break;
	}
}

static void
step_prof(worker_t *w) {
	static const char *const starts[] = {"", "sample_interval:1000", "reset:true",
	    "alloc:1M,max_seconds:1", "sample_interval:1,reset:false",
	    "highwater:2M,highwater_metric:active"};
	static const char *const dump_names[] = {"named.heap", "no/such/dir", ""};
	fuzz_t *f = &w->f;
	const char *text = starts[below(f, ARRAY_LEN(starts))];
	const char *file = dump_names[below(f, 3)];
	if (!config_prof) {
		return;
	}
	switch (below(f, 10)) {
	case 0: set_bool("prof.active", one_in(f, 2)); break;
	case 1:
	case 2: expect(f, "session.start", ctl_write("prof.session.start", text), EALREADY, EBUSY);
	    break;
	case 3:
	case 4: ctl_void("prof.session.stop"); break;
	case 5: ctl_write("prof.dump", file); break;
	case 6: set_bool("prof.gdump", one_in(f, 4)); break;
	case 7: ctl_write("prof.log_start", file); ctl_void("prof.log_stop"); break;
	default: step_prof_value(w); break;
	}
}

static void
print_nowhere(void *ctx, const char *text) {
	*(size_t *)ctx += strlen(text);
}

/* The child works on with what it got, and ends. */
static void
step_fork(worker_t *w) {
	fuzz_t *f = &w->f;
	int status = 0;
	pid_t pid = run.has_forks || run.threads == 1 ? fork() : -1;
	if (pid == 0) {
		for (unsigned i = 0; i < 50; i++) {
			block_t *b = &w->slots[below(f, N_SLOTS)];
			if (b->p == NULL) {
				block_get(f, b);
			} else {
				block_put(f, b);
			}
		}
		check_sums(w);
		_exit(0);
	}
	if (pid > 0 && (waitpid(pid, &status, 0) != pid || status != 0)) {
		breach(f, "a forked child ended with %#x", (unsigned)status);
	}
}

static void
step_other(worker_t *w) {
	static const char *const letters[] = {"", "J", "gJ", "ax", "mdablxhe", "Jbl"};
	fuzz_t *f = &w->f;
	size_t printed = 0;
	f->what = "another step";
	switch (below(f, 24)) {
	case 0: malloc_stats_print(print_nowhere, &printed, letters[below(f, ARRAY_LEN(letters))]);
	    break;
	case 1: step_fork(w); break;
	case 2:
	case 3:
	case 4:
	case 5: step_arena(w); break;
	case 6:
	case 7:
	case 8:
	case 9:
	case 10: step_tcache(w); break;
	default: step_prof(w); break;
	}
}

/* ------------------------------------------------------------ one step, one thread, one process */

/* The block waits for another thread, and one that waited comes instead. */
static void
step_swap(worker_t *w, block_t *b) {
	size_t i = below(&w->f, N_SWAPS);
	w->f.what = "after a change of hands";
	pthread_mutex_lock(&swaps[i].lock);
	block_t theirs = swaps[i].b;
	swaps[i].b = *b;
	pthread_mutex_unlock(&swaps[i].lock);
	*b = theirs;
	if (b->p != NULL) {
		block_check(&w->f, b);
	}
}

static void
step(worker_t *w) {
	fuzz_t *f = &w->f;
	block_t *b = &w->slots[below(f, one_in(f, 2) ? 8 : N_SLOTS)];
	size_t way = below(f, 100);
	if (way < 4) {
		step_other(w);
	} else if (way >= 90 && way < 94) {
		own_step(f, &w->own);
	} else if (way == 94 && run.has_helpers && one_in(f, 4)) {
		if (one_in(f, 3)) {
			background_step(f);
		} else {
			guest_step(f, w->slots, N_SLOTS, w->own.is_there && !w->own.has_hooks && one_in(f, 2)
			    ? w->own.ind : 0);
		}
	} else if (way < 5) {
		block_refuse(f, b);
	} else if (way < 15 && run.threads > 1) {
		step_swap(w, b);
	} else if (b->p == NULL) {
		block_get(f, b);
		overlap_check(f, b, w->slots, N_SLOTS);
	} else if (way < 55) {
		block_resize(f, b);
		if (b->p != NULL) {
			overlap_check(f, b, w->slots, N_SLOTS);
		}
	} else {
		block_put(f, b);
	}
}

static bool
is_skipped(unsigned long n) {
	for (unsigned i = 0; i < run.n_skips; i++) {
		if (n >= run.skip[i][0] && n < run.skip[i][1]) {
			return true;
		}
	}
	return false;
}

static void *
work(void *arg) {
	worker_t *w = arg;
	fuzz_t *f = &w->f;
	for (f->step = 0; f->step < run.steps; f->step++) {
		f->rng = f->seed * 1000003 + f->step * 64 + f->thread;
		f->rng = test_random(&f->rng);
		if (!is_skipped(f->step)) {
			step(w);
		}
		if (run.seed % 2 == 0) {
			check_thread(f);
		}
		if (f->step % 128 == 127) {
			check_sums(w);
		}
	}
	f->what = "the end";
	for (unsigned i = 0; i < N_SLOTS; i++) {
		if (w->slots[i].p != NULL) {
			block_put(f, &w->slots[i]);
		}
	}
	check_sums(w);
	if (w->own.is_there) {
		own_end(f, &w->own, true);
	}
	check_sums(w);
	flush_all(w);
	if (w->has_tcache) {
		expect(f, "tcache.destroy", ctl_write("tcache.destroy", w->tcache), 0, 0);
		w->has_tcache = false;
		f->tcache_flags = 0;
	}
	return NULL;
}

static void
worker_init(worker_t *w, unsigned thread) {
	w->f.seed = run.seed;
	w->f.thread = thread;
	w->f.is_loose = run.has_forks;
	w->f.what = "start";
}

/* Memory for the workers comes from the system, so that statistics show the blocks only. */
static worker_t *
workers_get(void) {
	worker_t *w = os_hooks_real.mmap(NULL, sizeof(worker_t) * (run.threads + 1),
	    PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (unsigned i = 0; i <= run.threads; i++) {
		worker_init(&w[i], i);
	}
	return w;
}

static void
run_threads(worker_t *w) {
	pthread_t t[16];
	for (unsigned i = 0; i < run.threads; i++) {
		if (pthread_create(&t[i], NULL, work, &w[i]) != 0) {
			breach(&w[i].f, "no thread");
		}
	}
	for (unsigned i = 0; i < run.threads; i++) {
		pthread_join(t[i], NULL);
	}
	worker_t *last = &w[run.threads];
	for (unsigned i = 0; i < N_SWAPS; i++) {
		if (swaps[i].b.p != NULL) {
			block_put(&last->f, &swaps[i].b);
		}
	}
	/* Now this thread is the only one, and nothing is live. */
	run.threads = 1;
	last->f.is_loose = true;
	check_sums(last);
}

static unsigned long
env_number(const char *name, unsigned long without) {
	const char *text = getenv(name);
	return text == NULL ? without : strtoul(text, NULL, 10);
}

static void
read_skips(const char *text) {
	while (text != NULL && run.n_skips < N_SKIPS && sscanf(text, "%lu-%lu",
	    &run.skip[run.n_skips][0], &run.skip[run.n_skips][1]) == 2) {
		run.n_skips++;
		text = strchr(text, ',');
		text = text == NULL ? NULL : text + 1;
	}
}

static int
child_run(void) {
	run.seed = env_number("FUZZ_SEED", 1);
	run.steps = env_number("FUZZ_STEPS", 1000);
	run.threads = env_number("FUZZ_THREADS", 1);
	run.has_forks = run.threads > 1 && run.seed % 4 == 0;
	run.has_helpers = run.seed % 3 == 1;
	fuzz_is_tracing = getenv("FUZZ_TRACE") != NULL;
	read_skips(getenv("FUZZ_SKIP"));
	for (unsigned i = 0; i < N_SWAPS; i++) {
		pthread_mutex_init(&swaps[i].lock, NULL);
	}
	worker_t *w = workers_get();
	/* What the C library wants once, so that it is in the base. */
	step_arena(&w[run.threads]);
	free(keep(malloc(10000)));
	worker_init(&w[run.threads], (unsigned)run.threads);
	w[run.threads].arena = 0;
	flush_all(&w[run.threads]);
	ctl_epoch();
	run.base = ctl_size("stats.allocated");
	w[0].f.sum.allocated = run.threads == 1 ? ctl_u64("thread.allocated") : 0;
	w[0].f.sum.deallocated = run.threads == 1 ? ctl_u64("thread.deallocated") : 0;
	if (run.threads == 1) {
		work(w);
	} else {
		run_threads(w);
	}
	return STATUS_DONE;
}

/* ------------------------------------------------------------------ the driver */

typedef struct {
	unsigned long seed, steps, threads;
	const char *page;       /* NULL: the system's */
	char conf[2048];
	char skips[8192];
} plan_t;

static void
plan_draw(plan_t *p, unsigned long seed, unsigned long steps) {
	static const char *const pages[] = {NULL, NULL, "16384", "65536"};
	uint64_t rng = seed;
	memset(p, 0, sizeof(*p));
	p->seed = seed;
	p->threads = test_random(&rng) % 3 == 0 ? 2 + test_random(&rng) % 5 : 1;
	p->steps = steps / p->threads;
	p->page = config_debug && !LG_PAGE_FIXED_P ? pages[test_random(&rng) % 4] : NULL;
	draw_conf(&rng, p->conf, sizeof(p->conf));
}

static bool
plan_has_passed(const plan_t *p, struct test_result *r) {
	static char env[7][8300];
	const char *list[8] = {NULL};
	unsigned n = 0;
	snprintf(env[n], sizeof(env[n]), "MALLOC_CONF=%s", p->conf);
	list[n] = env[n], n++;
	snprintf(env[n], sizeof(env[n]), "FUZZ_SEED=%lu", p->seed);
	list[n] = env[n], n++;
	snprintf(env[n], sizeof(env[n]), "FUZZ_STEPS=%lu", p->steps);
	list[n] = env[n], n++;
	snprintf(env[n], sizeof(env[n]), "FUZZ_THREADS=%lu", p->threads);
	list[n] = env[n], n++;
	snprintf(env[n], sizeof(env[n]), "FUZZ_SKIP=%s", p->skips);
	list[n] = env[n], n++;
	if (p->page != NULL) {
		snprintf(env[n], sizeof(env[n]), "JEMALLOC_TEST_PAGE=%s", p->page);
		list[n] = env[n], n++;
	}
	run_child_env(r, "run", list);
	return exited_with(r, STATUS_DONE);
}

static bool is_left_out[STEPS_MAX];

/* Writes what is left out as ranges. */
static bool
plan_has_room_for_skips(plan_t *p) {
	size_t len = 0;
	for (unsigned long i = 0; i < p->steps; i++) {
		unsigned long first = i;
		while (i < p->steps && is_left_out[i]) {
			i++;
		}
		if (i > first) {
			len += (size_t)snprintf(p->skips + len, sizeof(p->skips) - len, "%lu-%lu,", first, i);
		}
		if (len + 64 > sizeof(p->skips)) {
			return false;
		}
	}
	p->skips[len] = '\0';
	return true;
}

/* Leaves out steps, in ever smaller pieces, as long as the run still fails. */
static void
plan_shrink_steps(plan_t *p, struct test_result *r) {
	unsigned tries = 400;
	const char *at_step = strstr(r->out, " step ");
	unsigned long last = at_step == NULL ? p->steps : strtoul(at_step + 6, NULL, 10) + 1;
	p->steps = last < p->steps ? last : p->steps;
	for (unsigned long size = p->steps / 2; size >= 1 && tries > 0; size /= 2) {
		for (unsigned long at = 0; at < p->steps && tries > 0; at += size) {
			unsigned long end = at + size < p->steps ? at + size : p->steps;
			if (memchr(is_left_out + at, false, end - at) == NULL) {
				continue;
			}
			static bool before[STEPS_MAX];
			memcpy(before, is_left_out, sizeof(before));
			memset(is_left_out + at, true, end - at);
			tries--;
			if (!plan_has_room_for_skips(p) || plan_has_passed(p, r)) {
				memcpy(is_left_out, before, sizeof(before));
				plan_has_room_for_skips(p);
			}
		}
	}
}

/* The same with the pairs of the options. */
static void
plan_shrink_conf(plan_t *p, struct test_result *r) {
	static plan_t less;
	size_t at = 0;
	while (at < strlen(p->conf)) {
		size_t len = strcspn(p->conf + at, ",");
		less = *p;
		char *pair = less.conf + at;
		memmove(pair, pair + len + (pair[len] == ','), strlen(pair + len + (pair[len] == ',')) + 1);
		size_t left = strlen(less.conf);
		if (left > 0 && less.conf[left - 1] == ',') {
			less.conf[left - 1] = '\0';
		}
		if (plan_has_passed(&less, r)) {
			at += len + 1;
		} else {
			*p = less;
		}
	}
}

static void
plan_report(plan_t *p, struct test_result *r) {
	diag("seed %lu, %lu steps, %lu threads, page %s, MALLOC_CONF=%s:", p->seed, p->steps,
	    p->threads, p->page == NULL ? "as it is" : p->page, p->conf);
	diag_result(r);
	if (r->timed_out || p->threads > 1) {
		return;
	}
	memset(is_left_out, false, sizeof(is_left_out));
	plan_shrink_conf(p, r);
	plan_shrink_steps(p, r);
	diag("smaller: MALLOC_CONF=%s FUZZ_SEED=%lu FUZZ_STEPS=%lu FUZZ_SKIP=%s%s%s %s", p->conf,
	    p->seed, p->steps, p->skips, p->page == NULL ? "" : " JEMALLOC_TEST_PAGE=",
	    p->page == NULL ? "" : p->page, "FUZZ_TRACE=1 alloc --child=run");
	setenv("FUZZ_TRACE", "1", 1);
	plan_has_passed(p, r);
	diag_result(r);
	unsetenv("FUZZ_TRACE");
}

static unsigned long
argument(int argc, char **argv, const char *name, unsigned long without) {
	for (int i = 1; i + 1 < argc; i++) {
		if (strcmp(argv[i], name) == 0) {
			return strtoul(argv[i + 1], NULL, 10);
		}
	}
	return without;
}

int
main(int argc, char **argv) {
	static const struct test_child children[] = {{"run", child_run}, {NULL, NULL}};
	static struct test_result r;
	static plan_t p;
	char dir[] = "/tmp/fuzz-alloc.XXXXXX", command[64];
	test_children(argc, argv, children);
	unsigned long runs = argument(argc, argv, "--runs", 12), first = argument(argc, argv, "--seed",
	    1);
	unsigned long steps = argument(argc, argv, "--steps", 2000), bad = 0;
	steps = steps < STEPS_MAX ? steps : STEPS_MAX;
	if (mkdtemp(dir) == NULL || chdir(dir) != 0) {
		bail_out("no directory to work in");
	}
	for (unsigned long seed = first; seed < first + runs && bad < 5; seed++) {
		plan_draw(&p, seed, steps);
		if (!plan_has_passed(&p, &r)) {
			bad++;
			plan_report(&p, &r);
		}
	}
	is_uint(bad, 0, "%lu runs from seed %lu, %lu steps each", runs, first, steps);
	if (chdir("/") == 0) {
		snprintf(command, sizeof(command), "rm -rf %s", dir);
		ok(system(command) == 0, "files of the runs are gone");
	}
	return done_testing();
}
