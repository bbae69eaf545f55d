/*
 * A first sample that nothing was prepared for selects the unwinder outside the gate: a fork
 * meanwhile does not wait for it, and its child takes backtraces too. A child of the thread that
 * selects it goes on with that.
 */
#include "test.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sys/wait.h>

#include "os/gate.h"
#include "prof/control/prof_start.h"
#include "prof/sites/prof_backtrace.h"
#include "prof/sites/prof_switch.h"
#include "unwind/unwind.h"

typedef int loader_cb_t(struct dl_phdr_info *, size_t, void *);

static int (*real_iterate)(loader_cb_t *, void *);
static bool is_watched, has_begun, has_forked;
static __thread bool is_second; /* this is the thread that takes the first sample */
static unsigned n_inside, n_calls;
static bool begins_anew; /* who boots during the first boot asks the loader too */
static int booter_status = -1; /* of a child that the thread that boots has forked */

/* In a child of its own the thread that boots goes on with it; nobody else may begin. */
static void
fork_in_boot(void) {
	pid_t pid = fork();
	if (pid == 0) {
		_exit(prof_backtrace_has_begun() ? 0 : 1);
	}
	waitpid(pid, &booter_status, 0);
}

static void
until(const bool *is_so) {
	while (!__atomic_load_n(is_so, __ATOMIC_SEQ_CST)) {
		usleep(100);
	}
}

/* Stands before the C library's; the first call that is watched ends after main() has forked. */
int
dl_iterate_phdr(loader_cb_t *cb, void *ctx) {
	if (is_watched) {
		n_calls++;
		n_inside += gate_is_entered(tls_get());
		if (is_second && !has_begun) {
			__atomic_store_n(&has_begun, true, __ATOMIC_SEQ_CST);
			until(&has_forked);
			fork_in_boot();
			unsigned before = n_calls;
			unwind_select("fp");
			begins_anew = n_calls != before;
		}
	}
	return real_iterate(cb, ctx);
}

static uint64_t
nsamples(void) {
	struct unwind_stats_s st;
	unwind_stats_read(&st);
	return st.samples;
}

/* Objects that are samples for certain. */
static void *
sample(void *arg) {
	is_second = arg != NULL;
	for (unsigned i = 0; i < 4; i++) {
		free(keep(malloc(64 << 20)));
	}
	return arg;
}

static NOINLINE void
start(void) {
	struct tls_s *t = tls_get();
	t->inside++;
	gate_enter(t);
	is_int(prof_start_now(), 0, "the profiler starts");
	gate_exit(t);
	t->inside--;
}

int
main(void) {
	pthread_t t;
	int status = -1;

	if (!config_prof) {
		skip(6, "no profiler");
		return done_testing();
	}
	alarm(300); /* a fork that waits for the other thread waits for ever */
	*(void **)&real_iterate = dlsym(RTLD_NEXT, "dl_iterate_phdr");
	free(keep(malloc(1)));
	start();
	is_watched = true;
	prof_active_set(true);
	pthread_create(&t, NULL, sample, &is_second);
	until(&has_begun);
	pid_t pid = fork();
	if (pid == 0) {
		has_forked = true;
		sample(NULL);
		_exit(nsamples() > 0 ? 0 : 1);
	}
	__atomic_store_n(&has_forked, true, __ATOMIC_SEQ_CST);
	pthread_join(t, NULL);
	waitpid(pid, &status, 0);
	is_int(status, 0, "a child of a fork meanwhile takes backtraces");
	is_int(booter_status, 0, "nor is the boot undone in a child that the booting thread forks");
	is_uint(n_inside, 0, "the loader is asked outside the gate only");
	ok(nsamples() > 0, "samples are taken");
	ok(begins_anew || unwind_select("fp") != 0, "a boot that has not listed objects is none");
	return done_testing();
}
