/*
 * The k-th system call for memory fails, once or from then on for ever: every function answers NULL
 * and ENOMEM or an errno, what lives stays whole, nothing is lost, and all works again afterwards.
 */
#include "ctl.h"

#include <malloc.h>
#include <pthread.h>

#include "arena/arenas.h"
#include "arena/inspect.h"
#include "meta/base.h"
#include "meta/freepool.h"
#include "os/sys.h"
#include "thread/tsd.h"

const char *malloc_conf = "narenas:4"; /* also with one CPU */

enum { call_mmap, call_munmap, call_madvise, call_mprotect, call_count };
static const char *const call_names[] = {"mmap", "munmap", "madvise", "mprotect"};

static struct os_hooks_s hooks;
static struct {
	int call;            /* which one fails; -1: none */
	unsigned k;          /* at this use of it */
	bool is_for_ever;
	atomic_u32_t n[call_count];
} fault = {.call = -1};

static bool
has_failed(int call, int err) {
	unsigned n = atomic_fetch_add_u32(&fault.n[call], 1, MO_RELAXED) + 1;
	if (call != fault.call || n < fault.k || (n > fault.k && !fault.is_for_ever)) {
		return false;
	}
	errno = err;
	return true;
}

static void *
hook_mmap(void *addr, size_t size, int prot, int flags, int fd, off_t off) {
	return has_failed(call_mmap, ENOMEM) ? (void *)-1
	    : os_hooks_real.mmap(addr, size, prot, flags, fd, off);
}

static int
hook_munmap(void *addr, size_t size) {
	return has_failed(call_munmap, ENOMEM) ? -1 : os_hooks_real.munmap(addr, size);
}

static int
hook_madvise(void *addr, size_t size, int advice) {
	return has_failed(call_madvise, EINVAL) ? -1 : os_hooks_real.madvise(addr, size, advice);
}

static int
hook_mprotect(void *addr, size_t size, int prot) {
	return has_failed(call_mprotect, ENOMEM) ? -1 : os_hooks_real.mprotect(addr, size, prot);
}

static void
fault_resume(int call, unsigned k, bool is_for_ever) {
	fault.call = call;
	fault.k = k;
	fault.is_for_ever = is_for_ever;
	__atomic_store_n(&os_hooks, &hooks, __ATOMIC_SEQ_CST);
}

static void
fault_start(int call, unsigned k, bool is_for_ever) {
	for (unsigned i = 0; i < call_count; i++) {
		atomic_store_u32(&fault.n[i], 0, MO_RELAXED);
	}
	fault_resume(call, k, is_for_ever);
}

static void
fault_stop(void) {
	fault.call = -1;
	__atomic_store_n(&os_hooks, &os_hooks_real, __ATOMIC_SEQ_CST);
}

/* ------------------------------------------------------------------ the work */

#define N_OBJECTS 60

static struct {
	char *p;
	size_t size;
	unsigned char fill;
} objects[N_OBJECTS];
static unsigned bad_answers;
static unsigned n_null, n_refused;

/* Checks an answer: memory, or NULL with ENOMEM. */
static void
got(unsigned i, char *p, size_t size, bool zero) {
	if (p == NULL) {
		bad_answers += errno != ENOMEM;
		n_null++;
		return;
	}
	bad_answers += wrong_if(malloc_usable_size(p) < size)
	    || wrong_if((zero && !is_filled(p, 0, size)));
	objects[i].p = p;
	objects[i].size = size;
	objects[i].fill = (unsigned char)(i + 1);
	memset(p, (int)(i + 1), size);
}

static void
work_allocate(int flags) {
	static const size_t sizes[] = {100, 3000, 14000, 40000, 130000, 600000};
	for (unsigned i = 0; i < N_OBJECTS; i++) {
		size_t size = sizes[i % 6] + i;
		errno = 0;
		switch (i % 5) {
		case 0:
			got(i, keep(mallocx(size, flags | MALLOCX_ZERO)), size, true);
			break;
		case 1:
			got(i, keep(mallocx(size, flags | MALLOCX_ALIGN((size_t)64 << i % 12))), size, false);
			break;
		case 2:
			got(i, keep(calloc(1, size)), size, true);
			break;
		case 3:
			got(i, keep(aligned_alloc((size_t)16 << i % 14, size)), size, false);
			break;
		default:
			got(i, keep(mallocx(size, flags)), size, false);
			break;
		}
	}
}

static void
work_resize(void) {
	for (unsigned i = 0; i < N_OBJECTS; i += 2) {
		if (objects[i].p == NULL) {
			continue;
		}
		size_t old = objects[i].size, size = i % 4 == 0 ? old * 2 : old / 2 + 1;
		errno = 0;
		char *p = keep(realloc(objects[i].p, size));
		if (p == NULL) {
			bad_answers += errno != ENOMEM;
			bad_answers += !is_filled(objects[i].p, objects[i].fill, old);
			n_null++;
			continue;
		}
		bad_answers += !is_filled(p, objects[i].fill, old < size ? old : size);
		objects[i].p = p;
		objects[i].size = size;
		memset(p, objects[i].fill, size);
	}
}

static void
work_release(void) {
	for (unsigned i = 0; i < N_OBJECTS; i++) {
		if (objects[i].p != NULL) {
			bad_answers += !is_filled(objects[i].p, objects[i].fill, objects[i].size);
			free(objects[i].p);
			objects[i].p = NULL;
		}
	}
}

static void *
thread_work(void *arg) {
	char *p;
	for (size_t size = 10; size < 100000; size *= 3) {
		errno = 0;
		p = keep(malloc(size));
		if (p == NULL) {
			__atomic_fetch_add((unsigned *)arg, errno != ENOMEM, __ATOMIC_RELAXED);
		} else {
			memset(p, 1, size);
			free(p);
		}
	}
	return NULL;
}

static void
work_thread(void) {
	pthread_t t;
	if (pthread_create(&t, NULL, thread_work, &bad_answers) == 0) {
		pthread_join(t, NULL);
	}
}

static bool
is_errno_or_done(int err) {
	return err == 0 || err == EAGAIN || err == EFAULT || err == ENOMEM;
}

static void
work_mallctl(unsigned ind) {
	unsigned id;
	size_t len = sizeof(id);
	uint64_t epoch = 1;
	char name[64];
	int err = mallctl("tcache.create", &id, &len, NULL, 0);
	bad_answers += !is_errno_or_done(err);
	if (err == 0) {
		free(keep(mallocx(50, MALLOCX_TCACHE(id))));
		bad_answers += mallctl("tcache.destroy", NULL, NULL, &id, sizeof(id)) != 0;
	}
	bad_answers += !is_errno_or_done(mallctl("epoch", NULL, NULL, &epoch, sizeof(epoch)));
	bad_answers += mallctl("thread.tcache.flush", NULL, NULL, NULL, 0) != 0;
	snprintf(name, sizeof(name), "arena.%u.purge", ind);
	bad_answers += !is_errno_or_done(mallctl(name, NULL, NULL, NULL, 0));
	bool on = false;
	len = sizeof(on);
	bad_answers += !is_errno_or_done(mallctl("thread.tcache.enabled", NULL, NULL, &on, len));
	on = true;
	bad_answers += !is_errno_or_done(mallctl("thread.tcache.enabled", NULL, NULL, &on, len));
}

/* Nothing of the arena is in use, and its pages are where they should be. */
static unsigned
has_leaked(unsigned ind) {
	static arena_stats_t st;
	arena_t *a = arenas_get(ind);
	unsigned bad = 0;
	size_t slabs = 0;
	bool on = true;
	mallctl("thread.tcache.enabled", NULL, NULL, &on, sizeof(on));
	mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
	tsd_enter();
	arenas_decay(a, true);
	memset(&st, 0, sizeof(st));
	arena_stats_merge(a, &st);
	tsd_leave();
	for (unsigned i = 0; i < SC_NBINS; i++) {
		slabs += st.bins[i].curslabs * bin_infos[i].slab_size / PAGE;
		bad += st.bins[i].curregs != 0;
	}
	bad += wrong_if(st.large.allocated != 0) || wrong_if(st.pdirty + st.pmuzzy != 0)
	    || wrong_if(st.pactive != slabs);
	bad += atomic_load_zu(&a->pac.mapped, MO_RELAXED) != slabs * PAGE;
	return bad;
}

/* One run with one fault. Returns the number of things that went wrong. */
static unsigned
run(int call, unsigned k, bool is_for_ever) {
	unsigned ind, bad;
	size_t len = sizeof(ind);
	char name[64];
	bad_answers = 0;
	fault_start(call, k, is_for_ever);
	int err = mallctl("arenas.create", &ind, &len, NULL, 0);
	if (err != 0) {
		bad_answers += err != EAGAIN;
		fault_stop();
		bad_answers += mallctl("arenas.create", &ind, &len, NULL, 0) != 0;
		fault_resume(call, k, is_for_ever);
	}
	int flags = (int)MALLOCX_ARENA(ind) | MALLOCX_TCACHE_NONE;
	work_allocate(flags);
	work_resize();
	work_thread();
	work_mallctl(ind);
	work_release();
	fault_stop();
	bad = bad_answers;
	n_refused = n_null;
	bad += has_leaked(ind);
	/* All works again. */
	bad_answers = n_null = 0;
	work_allocate(flags);
	work_resize();
	bad += n_null;
	work_thread();
	work_mallctl(ind);
	work_release();
	bad += bad_answers + has_leaked(ind);
	snprintf(name, sizeof(name), "arena.%u.destroy", ind);
	bad += mallctl(name, NULL, NULL, NULL, 0) != 0;
	if (bad != 0) {
		diag("%s %u%s: %u", call_names[call], k, is_for_ever ? " and on" : "", bad);
	}
	return bad;
}

/* k = 1, 2, 3 ... until the work gets by with fewer uses. */
static void
test_call(int call) {
	for (int is_for_ever = 0; is_for_ever < 2; is_for_ever++) {
		unsigned bad = 0, n_failed = 0, n_nulls = 0, n = 1;
		for (unsigned k = 1; k <= n; k++) {
			n_null = 0;
			bad += run(call, k, is_for_ever);
			n = atomic_load_u32(&fault.n[call], MO_RELAXED);
			n_nulls += n_refused;
			n_failed += n >= k;
		}
		is_uint(bad, 0, "%s fails at its k-th call%s", call_names[call],
		    is_for_ever ? " and ever after" : "");
		ok(n_failed > 0 || call == call_mprotect || call == call_munmap, "in %u runs", n_failed);
		ok(n_nulls > 0 || call != call_mmap || !is_for_ever, "%u requests were refused", n_nulls);
	}
}

static unsigned n_meta, fail_meta_from;

static bool
no_meta(void) {
	return ++n_meta >= fail_meta_from;
}

typedef struct {
	uint64_t epoch;
	size_t allocated, pactive, merged;
	uint64_t nmalloc;
} seen_t;

static seen_t
see(void) {
	seen_t s = {.epoch = ctl_u64("epoch"), .allocated = ctl_size("stats.allocated"),
	    .pactive = ctl_size("stats.arenas.0.pactive"),
	    .merged = ctl_size("stats.arenas.4096.small.allocated"),
	    .nmalloc = ctl_u64("stats.arenas.4096.large.nmalloc")};
	return s;
}

static bool
is_same(const seen_t *a, const seen_t *b) {
	return a->epoch == b->epoch && a->allocated == b->allocated && a->pactive == b->pactive
	    && a->merged == b->merged && a->nmalloc == b->nmalloc;
}

/*
 * A refresh that finds no memory for the k-th of four new arenas changes nothing; the first of them
 * is an automatic one, whose index the snapshot has already.
 */
static void
test_epoch(void) {
	unsigned ind[3], bad = 0, k = 0, last = arenas_narenas_auto() - 1;
	size_t len = sizeof(ind[0]);
	uint64_t epoch = 1;
	char name[64];
	int err = EAGAIN;
	ctl_epoch();
	seen_t first = see(), s;
	bad += arenas_get(last) != NULL;
	free(keep(mallocx(8 * PAGE, (int)MALLOCX_ARENA(last) | MALLOCX_TCACHE_NONE)));
	for (unsigned i = 0; i < 3; i++) {
		bad += mallctl("arenas.create", &ind[i], &len, NULL, 0) != 0;
		for (unsigned n = 0; n < 100; n++) {
			size_t size = n % 10 == 0 ? 8 * PAGE : 10 * n;
			keep(mallocx(size, (int)MALLOCX_ARENA(ind[i]) | MALLOCX_TCACHE_NONE));
		}
	}
	base_fault_hook = no_meta;
	while (err == EAGAIN && k < 10) {
		n_meta = 0;
		fail_meta_from = ++k;
		err = ctl_write("epoch", epoch);
		s = see();
		bad += err == EAGAIN && wrong_if(!is_same(&s, &first));
		snprintf(name, sizeof(name), "stats.arenas.%u.dss", last);
		bad += (k > 1) != (ctl_str(name) != NULL);
		snprintf(name, sizeof(name), "stats.arenas.%u.large.nmalloc", last);
		bad += k > 1 && wrong_if(ctl_u64(name) != 1);
	}
	base_fault_hook = NULL;
	is_uint(bad, 0, "a refresh without memory changes nothing");
	ok(err == 0 && k >= 5, "for the %u-th time it needs none", k);
	ok(s.epoch > first.epoch && s.merged > first.merged && s.nmalloc >= first.nmalloc + 3,
	    "then it is done");
	for (unsigned i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "stats.arenas.%u.large.nmalloc", ind[i]);
		bad += ctl_u64(name) == 0 || ctl_u64(name) > 100;
		snprintf(name, sizeof(name), "arena.%u.destroy", ind[i]);
		bad += ctl_void(name) != 0;
	}
	is_uint(bad, 0, "each new arena is told of");
}

/* A thread's first malloc when not a byte of metadata is left. */
static volatile int phase;

static void *
thread_first(void *arg) {
	while (phase == 0) {
		usleep(100);
	}
	errno = 0;
	char *p = keep(malloc(200));
	*(int *)arg = p != NULL ? 1 : errno == ENOMEM ? 2 : 3;
	free(p);
	while (phase == 1) {
		usleep(100);
	}
	p = keep(malloc(300));
	if (p == NULL || tls_get()->tsd == NULL) {
		*(int *)arg = 4;
	}
	free(p);
	return NULL;
}

static void
first_malloc_now(void *arg) {
	pthread_t t[4];
	int answer[4] = {0};
	(void)arg;
	for (unsigned i = 0; i < 4; i++) {
		pthread_create(&t[i], NULL, thread_first, &answer[i]);
	}
	usleep(20000);
	fault_start(call_mmap, 1, true);
	tsd_enter();
	while (meta_alloc(sizeof(tsd_t)) != NULL) {
		continue;
	}
	for (size_t size = (size_t)1 << 15; size >= 16; size /= 2) {
		while (meta_alloc(size) != NULL) {
			continue;
		}
	}
	tsd_leave();
	phase = 1;
	usleep(50000);
	fault_stop();
	phase = 2;
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(t[i], NULL);
		if (answer[i] != 1 && answer[i] != 2)
			_exit(10 + answer[i]);
	}
	_exit(0);
}

/* fork and thread exit with mmap failing all the time. */
static void
fork_now(void *arg) {
	int status;
	(void)arg;
	fault_start(call_mmap, 1, true);
	for (unsigned i = 0; i < 20; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			work_thread();
			free(keep(malloc(1000000)));
			_exit(bad_answers == 0 ? 7 : 8);
		}
		waitpid(pid, &status, 0);
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 7)
			_exit(1);
	}
	fault_stop();
	void *p = keep(malloc(5000000));
	_exit(p == NULL ? 2 : 0);
}

/* Where mmap has nothing there is nothing. */
static void *
no_sbrk(intptr_t bytes UNUSED) {
	errno = ENOMEM;
	return (void *)-1;
}

int
main(void) {
	static struct test_result r;
	free(keep(malloc(1)));
	hooks = os_hooks_real;
	hooks.mmap = hook_mmap;
	hooks.munmap = hook_munmap;
	hooks.madvise = hook_madvise;
	hooks.mprotect = hook_mprotect;
	hooks.sbrk = no_sbrk;
	test_call(call_mmap);
	test_call(call_madvise);
	test_call(call_munmap);
	test_call(call_mprotect);
	opt_retain = false;
	test_call(call_munmap);
	test_call(call_mmap);
	opt_retain = true;
	test_epoch();
	run_forked(&r, first_malloc_now, NULL);
	child_exits(&r, 0, "a thread's first malloc without a byte of metadata");
	run_forked(&r, fork_now, NULL);
	child_exits(&r, 0, "forks without new memory");
	return done_testing();
}
