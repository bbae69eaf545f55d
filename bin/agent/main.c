/*
 * jeprofd: serves the heap profiles, metrics and names of all processes of a machine that run the
 * library, for the scrapers that exist: Prometheus, Parca, Pyroscope, go tool pprof.
 *
 * Threads: this one looks after the others each second; one of libmicrohttpd serves connections
 * (server.c); lookers look at processes in turn (watch.c); each profile has one of its own
 * (scrape.c). What they know in common is the table (table.h). Nothing of a process or client is
 * believed or waited for without a bound.
 */
#include "agent.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "names/cache.h"
#include "scrape.h"
#include "server.h"
#include "table.h"
#include "watch.h"

enum {
	TICK_MS = 1000,
	KEPT_BYTES = 32 << 20, /* of memory that profiles took, for the next ones */
	KEPT_MS = 60000,       /* after the last profile */
	STEP_BYTES = 1 << 20,
};

static void
on_signal(int number) {
	(void)number;
	ending = 1;
}

static void
catch_signals(void) {
	struct sigaction action = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN};
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGPIPE, &ignore, NULL);
}

/* A directory that cannot be used is told of at once; names are then kept in memory. */
static void
check_cache(void) {
	cache_t cache;
	int error = options.cache_dir != NULL ? cache_begin(&cache, options.cache_dir,
	    options.cache_max) : 0;
	if (error == 0 && options.cache_dir != NULL) {
		cache_end(&cache);
		error = access(options.cache_dir, W_OK | X_OK) != 0 ? errno : 0;
	}
	if (error != 0) {
		talk("--cache %s: %s; names are kept in memory", options.cache_dir, strerror(error));
		options.cache_dir = NULL;
	}
}

/*
 * The next profile uses the memory of the one before: fresh pages cost as much as the rest of the
 * work. Threads share few heaps, so memory stays flat.
 */
static void
set_memory(void) {
	mallopt(M_ARENA_MAX, 2);
	mallopt(M_MMAP_THRESHOLD, KEPT_BYTES);
	mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
	mallopt(M_TOP_PAD, STEP_BYTES);
}

/* When profiles have not been asked for a while, it goes back to the system. */
static void
give_back(int64_t now_ms) {
	static uint64_t seen;
	static int64_t since_ms;
	static bool is_kept;
	table_lock();
	uint64_t scrapes = counts.scrapes;
	table_unlock();
	if (scrapes != seen) {
		seen = scrapes;
		since_ms = now_ms;
		is_kept = true;
	} else if (is_kept && now_ms - since_ms > KEPT_MS) {
		is_kept = false;
		malloc_trim(0);
	}
}

int
main(int argc, char **argv) {
	read_options(argc, argv);
	set_memory();
	catch_signals();
	server_listen();
	drop_rights();
	check_cache();
	int error = watch_start();
	if (error != 0) {
		leave(1, "no thread: %s", strerror(error));
	}
	watch_tick(client_now_ms());
	server_start();
	while (!ending) {
		client_sleep_ms(TICK_MS);
		int64_t now = client_now_ms();
		watch_tick(now);
		scrape_tick(now);
		server_tick(now);
		give_back(now);
	}
	scrape_tick(client_now_ms()); /* answers what still waits */
	server_stop();
	return 0;
}
