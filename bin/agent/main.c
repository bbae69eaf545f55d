/*
 * jeprofd: serves the heap profiles and metrics of all processes of a machine that run the library,
 * for Prometheus, Parca, Pyroscope and go tool pprof. This file starts and ends it.
 *
 * Threads: this one, once per second, begins rounds over /proc, begins the profiles that are due
 * for --push (push.c), and looks for threads, requests and connections that are late; one of
 * libmicrohttpd serves connections (server.c); several read the state of processes (watch.c); each
 * job, such as a profile, has one of its own (scrape.c); one waits for the ends of processes, and
 * expires what is kept of them (dead_watch.c; not with --blackbox off and no --cache); one sends
 * profiles (push.c; only with --push). They share the table of processes (table.h). Lock: the
 * table's, which in this file only memory_give_back() takes.
 * Invariant: all input of processes and clients is checked, and no process or client makes another
 * one wait without a time limit.
 */
#include "agent.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "client/standard.h"
#include "dead.h"
#include "names/cache.h"
#include "push.h"
#include "scrape.h"
#include "server.h"
#include "table.h"
#include "watch.h"

enum {
	TICK_MS = 1000,        /* between two turns of the loop of main() */
	KEPT_BYTES = 32 << 20, /* freed bytes that an arena may keep; larger blocks are mapped alone */
	KEPT_MS = 60000,       /* from the end of the last job until kept memory is given back */
	STEP_BYTES = 1 << 20,  /* by which an arena grows beyond what it needs */
	JOB_DESCRIPTORS = 8,   /* that a job takes, at most: its process, its objects and tables */
	SPARE_DESCRIPTORS = 128, /* for everything else, such as connections that are being closed */
};

static void
on_signal(int number) {
	(void)number;
	ending = 1;
}

static void
catch_signals(void) {
	struct sigaction action = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN}, hangup;
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN) { /* no nohup */
		sigaction(SIGHUP, &action, NULL);
	}
	/* Who started us may ignore it; then nobody could wait for a child (names/maker.c). */
	sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
	sigaction(SIGPIPE, &ignore, NULL); /* a write then fails with EPIPE */
	sigaction(SIGXFSZ, &ignore, NULL); /* a write then fails with EFBIG */
}

/*
 * Makes and checks the directory of --cache once, at the start, so that a failure is not told for
 * each profile. If it cannot be used, tells that and sets options.cache_dir to NULL.
 */
static void
cache_choose(void) {
	cache_t cache;
	char buf[80];
	if (options.cache_dir == NULL) {
		return;
	}
	int error = cache_begin(&cache, options.cache_dir, options.cache_max);
	const char *why = error != 0 ? strerror(error) : cache_doubt(cache.dir, buf);
	if (error == 0) {
		cache_end(&cache);
	}
	if (why == NULL && access(options.cache_dir, W_OK | X_OK) != 0) {
		why = strerror(errno);
	}
	if (why != NULL) {
		talk("--cache %s: %s; names are kept in memory", options.cache_dir, why);
		options.cache_dir = NULL;
	}
}

/*
 * Raises the soft limit of descriptors to what the options may take, or else to the hard limit. If
 * the hard limit is too low, lowers the numbers of processes and of boxes that are kept open,
 * because jobs would find no descriptor left and fail; the message tells the number of processes.
 */
static void
descriptors_raise(void) {
	struct rlimit limit;
	uint64_t others = options.connections_max + JOB_DESCRIPTORS * options.scrapes_max
	    + SPARE_DESCRIPTORS;
	uint64_t wanted = options.processes_max + dead_descriptors() + others;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
		return;
	}
	if (limit.rlim_cur < wanted) {
		limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	if (limit.rlim_cur < wanted) {
		uint64_t most = limit.rlim_cur, left = most > 2 * others ? most - others : most / 2;
		uint64_t processes = dead_descriptors() > 0 ? left / 2 : left;
		processes = processes < options.processes_max ? processes : options.processes_max;
		options.processes_max = processes > 0 ? processes : 1;
		dead_limit(left - processes);
		talk("the limit of descriptors is %llu: at most %llu processes are kept in mind",
		    (unsigned long long)most, (unsigned long long)options.processes_max);
	}
}

/*
 * Has malloc keep freed memory, so that a profile reuses that of the one before and takes fewer
 * page faults. Threads share two arenas (those of glibc), so that what is kept is little.
 */
static void
malloc_configure(void) {
	mallopt(M_ARENA_MAX, 2);
	mallopt(M_MMAP_THRESHOLD, KEPT_BYTES);
	mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
	mallopt(M_TOP_PAD, STEP_BYTES);
}

/*
 * With --debuginfod: files from the servers are kept in the cache, because libdebuginfod, which
 * jeprof-symbolize uses, needs a directory that it may write to, and a service may have no home.
 */
static void
debuginfod_prepare(void) {
	char path[4096];
	const char *servers = getenv("DEBUGINFOD_URLS");
	if (!options.use_debuginfod) {
		return;
	}
	if (servers == NULL || servers[0] == '\0') {
		talk("--debuginfod: DEBUGINFOD_URLS names no server, so none is asked");
	}
	if (options.cache_dir != NULL
	    && snprintf(path, sizeof(path), "%s/debuginfod", options.cache_dir) < (int)sizeof(path)) {
		(void)setenv("DEBUGINFOD_CACHE_PATH", path, 0);
	}
}

/* Returns kept memory to the system when no job has ended for KEPT_MS; once until the next job. */
static void
memory_give_back(int64_t now_ms) {
	static uint64_t seen;
	static int64_t since_ms;
	static bool is_kept;
	table_lock();
	uint64_t jobs = counts.jobs;
	table_unlock();
	if (jobs != seen) {
		seen = jobs;
		since_ms = now_ms;
		is_kept = true;
	} else if (is_kept && now_ms - since_ms > KEPT_MS) {
		is_kept = false;
		malloc_trim(0);
	}
}

int
main(int argc, char **argv) {
	client_hold_standard();
	read_options(argc, argv);
	descriptors_raise();
	malloc_configure();
	catch_signals();
	server_listen();
	drop_rights();
	cache_choose();
	debuginfod_prepare();
	int error = dead_start();
	error = error != 0 ? error : watch_start();
	if (error != 0) {
		leave(1, "no thread: %s", strerror(error));
	}
	watch_tick(client_now_ms());
	server_start();
	push_start();
	while (!ending) {
		client_sleep_ms(TICK_MS);
		int64_t now = client_now_ms();
		watch_tick(now);
		scrape_tick(now);
		server_tick(now);
		push_tick(now);
		memory_give_back(now);
	}
	push_stop();
	scrape_tick(client_now_ms()); /* ends the requests that still wait, before the server stops */
	server_drain();
	server_stop();
	/* Exit handlers of the TLS library must not run beside the sender (push.c). */
	if (!push_is_stopped()) {
		_exit(0);
	}
	return 0;
}
