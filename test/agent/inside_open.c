/*
 * Inside of dead_watch.c: processes whose box cannot be opened. One that lacks only a descriptor or
 * memory now is tried again at each look; one that may not be opened is listed, and not tried
 * again. Prints what is wrong. Built by inside.t.
 */
#include "dead_watch.c"
#include "expect.h"

options_t options = {.box_bytes = 1};

static int error;
static unsigned tries;

int
jeprof_box_open(const jeprof_target_t *t) {
	(void)t;
	tries++;
	errno = error;
	return -1;
}

uint64_t
jeprof_box_opened(const jeprof_target_t *t) {
	(void)t;
	return 1;
}

bool
read_usage(int pid, uint64_t start, figures_t *f) {
	(void)pid;
	(void)start;
	*f = (figures_t){.rss = 1};
	return true;
}

void
read_labels(const jeprof_target_t *t, labels_t *l) {
	(void)t;
	memset(l, 0, sizeof(*l));
}

void
read_cgroup_memory(const char *cgroup, figures_t *f) {
	(void)cgroup;
	f->has_cgroup = false;
}

kills_t
end_kills(const char *cgroup) {
	(void)cgroup;
	return (kills_t){0};
}

void
talk(const char *format, ...) {
	(void)format;
}

int
main(void) {
	static const int passing[] = {EMFILE, ENFILE, ENOMEM};
	jeprof_target_t t = {.pid = getpid(), .task = getpid(), .start = 5};
	waiter = epoll_create1(EPOLL_CLOEXEC);
	for (unsigned i = 0; i < 3; i++) {
		error = passing[i];
		dead_look(&t);
		expect("cannot be opened now: is not listed", list == NULL, true);
		expect("and is tried", tries, i + 1);
	}
	error = EACCES;
	dead_look(&t);
	dead_look(&t);
	expect("may not be opened: is listed", list != NULL, true);
	expect("and not tried again", tries, 4);
	return bad;
}
