/*
 * The ctl tree at odd moments: in destructors after the thread's cache is gone, in fork handlers,
 * from many threads at once with forks between.
 */
#include "test.h"

#include <pthread.h>

#include "ctl/ctl.h"
#include "stats.h"
#include "util/atomic.h"

static const char *const reads[] = { "thread.arena", "thread.allocated", "thread.allocatedp",
    "thread.deallocatedp", "thread.tcache.enabled", "thread.tcache.max", "thread.peak.read",
    "thread.prof.name", "thread.prof.active", "tcache.create", "arenas.create", "epoch",
    "stats.allocated", "stats.arenas.4096.small.nmalloc", "prof.active" };
static const char *const acts[] = { "thread.tcache.flush", "thread.peak.reset", "thread.idle",
    "arena.0.decay", "arena.4096.purge", "stats.mutexes.reset" };

static int
write_value(const char *name, uint64_t value, size_t size) {
	return ctl_byname(name, NULL, NULL, &value, size);
}

/* Everything that looks at the calling thread, and what everybody shares. */
static void
ask_all(void) {
	static const char *ranges = "8-64:5|1024-2048:0";
	uint64_t value;
	size_t len;

	for (size_t i = 0; i < ARRAY_LEN(reads); i++) {
		len = strcmp(reads[i], "thread.arena") == 0 || strstr(reads[i], "create") != NULL ? 4
		    : strstr(reads[i], "active") != NULL || strstr(reads[i], "enabled") != NULL ? 1 : 8;
		ctl_byname(reads[i], &value, &len, NULL, 0);
		if (strcmp(reads[i], "tcache.create") == 0)
			write_value("tcache.destroy", (unsigned)value, 4);
	}
	for (size_t i = 0; i < ARRAY_LEN(acts); i++)
		ctl_byname(acts[i], NULL, NULL, NULL, 0);
	write_value("epoch", 1, 8);
	write_value("thread.arena", 0, 4);
	write_value("thread.tcache.enabled", 0, 1);
	write_value("thread.tcache.enabled", 1, 1);
	write_value("thread.tcache.max", 2000, 8);
	ctl_byname("thread.tcache.ncached_max.write", NULL, NULL, &ranges, sizeof(ranges));
	free(malloc(1000));
}

static pthread_key_t keys[2];
static atomic_zu_t late;

static void
destructor(void *rounds) {
	atomic_fetch_add_zu(&late, 1, MO_RELAXED);
	ask_all();
	if ((uintptr_t)rounds > 1)
		pthread_setspecific(keys[0], (void *)((uintptr_t)rounds - 1));
}

static void *
run_late(void *arg) {
	free(malloc(10));
	pthread_setspecific(keys[0], (void *)(uintptr_t)4);
	pthread_setspecific(keys[1], (void *)(uintptr_t)1);
	return arg;
}

static void
test_destructors(void) {
	for (int i = 0; i < 10; i++) {
		pthread_t t;

		pthread_create(&t, NULL, run_late, NULL);
		pthread_join(t, NULL);
	}
	is_uint(atomic_load_zu(&late, MO_RELAXED), 50, "in four rounds of destructors");
}

static void
count_text(void *opaque, const char *s) {
	*(size_t *)opaque += strlen(s);
	free(malloc(100));
}

static size_t printed;

static void
handler(void) {
	ask_all();
	stats_print(count_text, &printed, "Ja");
}

static bool
fork_is_fine(void) {
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		size_t n = 0;

		ask_all();
		stats_print(count_text, &n, "Jbel");
		_exit(n > 500 ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	return status == 0;
}

static void
test_fork_handlers(void) {
	pthread_atfork(handler, handler, handler);
	bool good = true;
	for (int i = 0; i < 5; i++)
		good = good && fork_is_fine();
	ok(good && printed > 1000, "in fork handlers");
}

static atomic_b_t stop;

static void *
run_all(void *arg) {
	size_t n = 0;

	do { /* once at least, however late it comes to run */
		ask_all();
		stats_print(count_text, &n, "gJ");
	} while (!atomic_load_b(&stop, MO_RELAXED));
	return n > 0 ? arg : NULL;
}

static void
test_threads(void) {
	pthread_t threads[6];
	bool good = true;
	void *result;

	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		pthread_create(&threads[i], NULL, run_all, threads);
	for (int i = 0; i < 10; i++)
		good = good && fork_is_fine();
	atomic_store_b(&stop, true, MO_RELAXED);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
		pthread_join(threads[i], &result);
		good = good && result == threads;
	}
	ok(good, "from six threads, with forks between");
}

int
main(void) {
	free(malloc(1));
	pthread_key_create(&keys[0], destructor);
	pthread_key_create(&keys[1], destructor);
	alarm(400);
	test_destructors();
	test_threads();
	test_fork_handlers();
	return done_testing();
}
