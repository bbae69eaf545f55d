/*
 * Memory does not creep: for an hour of the library's clock, which is the program's own here, as
 * many bytes live all the time, in blocks of 16 bytes to 64 KiB that come and go at random. What is
 * resident in the end is what was resident after a minute, within 3 percent.
 */
#include "ctl.h"
#include <sys/syscall.h>

#define LIVE ((size_t)12 << 20)
#define N_BLOCKS 32768u
#define MINUTES 60
/* Blocks that go in a minute: as many as live, four times. */
#define STEPS 6000

static struct {
	char *p;
	size_t size;
} blocks[N_BLOCKS];
static unsigned n_blocks;
static size_t live, page;
static uint64_t seed = 1, passed_ns;

/* For the program and for the library, which calls it by name. */
int
clock_gettime(clockid_t id, struct timespec *ts) {
	static time_t start;
	int err = (int)syscall(SYS_clock_gettime, id, ts);

	if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)
		return err;
	if (start == 0)
		start = ts->tv_sec + 1;
	ts->tv_sec = start + (time_t)(passed_ns / 1000000000);
	ts->tv_nsec = (long)(passed_ns % 1000000000);
	return err;
}

/* Of 16 bytes to 64 KiB; each doubling is as likely as another one. Each page is written. */
static void
add(void) {
	size_t least = (size_t)16 << test_random(&seed) % 12;
	size_t size = least + test_random(&seed) % least;
	char *p = (char *)keep(malloc(size));

	for (size_t at = 0; at < size; at += page)
		p[at] = 1;
	blocks[n_blocks].p = p;
	blocks[n_blocks++].size = size;
	live += size;
}

static void
take_one(void) {
	size_t i = test_random(&seed) % n_blocks;

	free(blocks[i].p);
	live -= blocks[i].size;
	blocks[i] = blocks[--n_blocks];
}

static void
pass_a_minute(void) {
	for (int i = 0; i < STEPS; i++) {
		while (live < LIVE && n_blocks < N_BLOCKS)
			add();
		take_one();
		passed_ns += UINT64_C(60) * 1000000000 / STEPS;
	}
}

/* The mean of some minutes, because single ones differ by what lies in the thread's cache. */
static size_t
resident(int minutes) {
	size_t sum = 0;

	for (int i = 0; i < minutes; i++) {
		pass_a_minute();
		ctl_epoch();
		sum += ctl_size("stats.resident");
	}
	return sum / (size_t)minutes;
}

int
main(void) {
	if (ctl_ssize("opt.dirty_decay_ms") != 10000 || !ctl_bool("config.stats"))
		plan_skip_all("for the default decay time");
	page = ctl_size("arenas.page");
	pass_a_minute();
	size_t early = resident(5);
	resident(MINUTES - 11);
	size_t late = resident(5);
	ok(late * 100 <= early * 103, "resident after a minute %zu KiB, after an hour %zu, of %zu live",
	    early >> 10, late >> 10, LIVE >> 10);
	return done_testing();
}
