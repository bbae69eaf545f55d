/*
 * Inside of watch.c: watchers that are blocked where no thread can be started, and records of
 * processes whose pid another one has now. Prints what is wrong. Built by inside.t.
 */
#define pthread_create start_none
#include "watch.c"
#include "expect.h"

counts_t counts;
volatile sig_atomic_t ending;

static bool can_start;
static proc_t *record;
static unsigned removed;

int
pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *),
    void *arg) {
	(void)thread;
	(void)attributes;
	(void)main;
	(void)arg;
	return can_start ? 0 : EAGAIN;
}

void
table_lock(void) {}

void
table_unlock(void) {}

proc_t *
table_find(int pid) {
	return record != NULL && record->pid == pid ? record : NULL;
}

proc_t *
table_add(int pid, uint64_t inode) {
	record = calloc(1, sizeof(*record));
	record->pid = pid;
	record->inode = inode;
	return record;
}

void
table_remove(proc_t *p) {
	removed += p == record;
	record = NULL;
}

/* Watchers that go on when the process that blocks them lets them. */
static unsigned
staying(void) {
	unsigned n = 0;
	for (int i = 0; i < WATCHERS_MAX; i++) {
		n += watchers[i].is_started && !watchers[i].is_written_off;
	}
	return n;
}

/* All are blocked, one minute after the other. */
static void
block_all(int64_t now) {
	for (int i = 0; i < WATCHERS_MAX; i++) {
		watchers[i].since_ms = watchers[i].is_started ? now : 0;
	}
	replace_watchers(now + 60000);
}

static void
try_lookers(void) {
	can_start = true;
	watch_start();
	expect("watchers at the start", staying(), LOOKERS);
	can_start = false;
	block_all(1);
	expect("blocked, and no thread can be started: stay", staying(), LOOKERS);
	expect("and none is replaced", (unsigned)counts.written_off, 0);
	can_start = true;
	for (int64_t i = 1; i < WATCHERS_MAX; i++) {
		block_all(i * 100000);
		expect("replaced: as many stay", staying(), LOOKERS);
	}
	expect("all but these were replaced", (unsigned)counts.written_off, WATCHERS_MAX - LOOKERS);
}

static void
try_hold(void) {
	labels_t labels = {0};
	jeprof_target_t t = {.pid = 7, .start = 5};
	proc_t *old = table_add(7, 1000);
	old->labels = &labels;
	old->start = 5;
	expect("the same process: its record", watch_hold(&t) == old, true);
	t.start = 6;
	expect("another one with its pid: a new record", watch_hold(&t) != old, true);
	expect("in place of the old one", removed, 1);
	expect("a record without labels serves any", watch_hold(&t) == record, true);
	expect("and stays", removed, 1);
}

/* The kernel gives /proc/PID another inode number when it has dropped the old one. */
static void
try_inode(void) {
	labels_t labels = {0};
	proc_stat_t own = {0};
	proc_stat_read(getpid(), &own);
	removed = 0;
	proc_t *p = table_add(getpid(), 1000);
	p->labels = &labels;
	p->start = own.start;
	expect("another inode, the same start: its record", find_or_add(getpid(), 1001) == p, true);
	expect("which has the new number", (unsigned)p->inode, 1001);
	expect("nothing is removed", removed, 0);
	p->start = own.start + 1;
	expect("the same inode: is not asked", find_or_add(getpid(), 1001) == p, true);
	expect("another start: a new record", find_or_add(getpid(), 1002) != p, true);
	expect("in place of the old one: start", removed, 1);
}

int
main(void) {
	try_lookers();
	try_hold();
	try_inode();
	return bad;
}
