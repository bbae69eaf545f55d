/*
 * Holds the boxes of the living (dead.h: a box is a memory file with the tables of a process's
 * profiler; to hold it is to keep it open). The threads of watchers (watch.c) and jobs (scrape.c)
 * call dead_look() for a process that they have open (jeprof_target_t); it lists the process if
 * that has a box, and drops it from the list if the listed box is no longer its box. A thread waits
 * for the ends of listed processes, by their pidfds, and then keeps what is known of them
 * (dead_store.c).
 *
 * A process that calls exec has no box any more, though it lives on. The library has an exclusive
 * lock (flock) on the file of a box while the process has it open or mapped, so the thread checks
 * once a second which locks are gone. It closes such a box if the process still lives CONFIRM_MS
 * later, because when a process ends its lock goes first, and only then its pidfd tells the end.
 *
 * Invariant: whoever takes an element out of the list owns it, and frees it with its descriptors.
 * Its pidfd is of the process with the pid and the start time: that was compared after the pidfd
 * was made. Lock: `lock`, for the list, its elements and the counts; under it nothing blocks and no
 * other lock is taken. The table's may be held around it: metrics.c asks so for what is held.
 * Called by main.c, watch.c, scrape.c and metrics.c.
 */
#include "dead.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "labels.h"

enum {
	/*
	 * At most so many elements with an open box (up to 3 descriptors each: box, pidfd, root), and
	 * as many without one (a pidfd each). While so many boxes are open, dead_look() adds no element
	 * of either kind. While there are so many elements without a box, a look at one more such
	 * process opens its pidfd and closes it again. If the system permits fewer descriptors, both
	 * limits are lower (held_most).
	 */
	HELD_MAX = 512,
	HELD_DESCRIPTORS = 3 + 1, /* for one element of each kind */
	EXPIRE_MS = 60000,          /* between two turns of dead_expire() and dead_sweep() */
	LOCKS_MS = 1000,            /* between two checks of the locks */
	CONFIRM_MS = 300,           /* a process that outlives its lock by this is not ending */
	STACK_BYTES = 1 << 20,      /* of the thread */
};

/* A process that has a box, even if jeprofd cannot open that. */
typedef struct held_s {
	uint64_t number;     /* of this element alone; epoll tells it at the end of the process */
	int pid;
	uint64_t start;      /* clock ticks from boot to its start; with the pid its identity */
	uint64_t opened;     /* when the process opened its box, ns since 1970 */
	/*
	 * descriptor of the box; -1: none, because the box is no memory file or may not be opened. Then
	 * the element is there only so that later looks do not search for the box again.
	 */
	int box;
	bool is_locked;      /* the library held a lock on the box when it was opened here */
	int64_t unlocked_ms; /* when that lock was found gone, on the monotonic clock; 0: it was not */
	int process;         /* a pidfd */
	/*
	 * descriptor of its root directory; 0 (always jeprofd's stdin): it has ours, or it is not open
	 */
	int root;
	labels_t labels;
	uint64_t limit;      /* of memory of its cgroup, bytes; UINT64_MAX: none, or not known */
	/*
	 * numbers of out-of-memory kills, in its cgroup and on the machine, that did not end it: as
	 * read when it was last seen alive, and raised by spend_kill() for a kill that has ended
	 * another process of the list
	 */
	kills_t kills;
	struct held_s *next;
} held_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static held_t *list;
static unsigned held_most = HELD_MAX; /* only main() changes it, before there are threads */
static unsigned counts_of[2]; /* elements of the list: [0] without an open box, [1] with one */
static uint64_t number; /* of the element that put_in() got last */
/* an epoll of the pidfds, made before watchers run, so read without lock; -1: none */
static int waiter = -1;

unsigned
dead_held(void) {
	pthread_mutex_lock(&lock);
	unsigned n = counts_of[true];
	pthread_mutex_unlock(&lock);
	return n;
}

/* The element of a process; NULL: there is none. The caller holds the lock. */
static held_t *
find(int pid, uint64_t start) {
	held_t *h = list;
	while (h != NULL && (h->pid != pid || h->start != start)) {
		h = h->next;
	}
	return h;
}

bool
dead_holds(int pid, uint64_t start) {
	pthread_mutex_lock(&lock);
	const held_t *h = find(pid, start);
	bool holds = h != NULL && h->box >= 0;
	pthread_mutex_unlock(&lock);
	return holds;
}

static void
free_held(held_t *h) {
	int *const all[] = {&h->box, &h->process, &h->root};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (*all[i] > 0) {
			close(*all[i]);
		}
	}
	free(h);
}

/*
 * Takes out the element of a process, by pid and start time, or with pid 0 by its number; `key` is
 * the start time or the number. NULL: there is none.
 */
static held_t *
take_out(int pid, uint64_t key) {
	pthread_mutex_lock(&lock);
	held_t **at = &list;
	while (*at != NULL && !(pid != 0 ? (*at)->pid == pid && (*at)->start == key
	    : (*at)->number == key)) {
		at = &(*at)->next;
	}
	held_t *h = *at;
	if (h != NULL) {
		*at = h->next;
		counts_of[h->box >= 0]--;
		epoll_ctl(waiter, EPOLL_CTL_DEL, h->process, NULL);
	}
	pthread_mutex_unlock(&lock);
	return h;
}

/* ---- holding ---- */

/*
 * Whether somebody else holds the lock (flock) of the file. Takes a shared one for a moment; a
 * library that finds that tries again (prof_box_try_lock).
 */
static bool
is_lock_held(int fd) {
	bool is_free = flock(fd, LOCK_SH | LOCK_NB) == 0;
	if (is_free) {
		flock(fd, LOCK_UN);
	}
	return !is_free && errno == EWOULDBLOCK;
}

/* Opens the root directory of a process; 0: it has ours, or it cannot be opened. */
static int
open_root(int pid) {
	char path[64];
	struct stat here, there;
	snprintf(path, sizeof(path), "/proc/%d/root", pid);
	int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root >= 0 && stat("/", &here) == 0 && fstat(root, &there) == 0
	    && here.st_dev == there.st_dev && here.st_ino == there.st_ino) {
		close(root);
		root = 0;
	}
	return root > 0 ? root : 0;
}

/* Tells once that boxes stay closed: their processes end unseen. error: an errno of the kernel. */
static void
tell_closed(const jeprof_target_t *t, int error) {
	static atomic_flag is_told = ATOMIC_FLAG_INIT;
	if (error != ENOENT && error != ESRCH && !atomic_flag_test_and_set(&is_told)) {
		talk("%d %s: its box cannot be opened (%s), so its end will not be below /dead/; others "
		    "are not told", t->pid, t->name, strerror(error));
	}
}

/*
 * Opens box, pidfd and, if there is a box, root directory of a process and reads its labels. False:
 * it has ended, there is no pidfd, or a descriptor or memory for the box lacks; then the next look
 * tries again. A root directory that cannot be opened is not tried again: it is 0 then, and names
 * are taken from files of the same build-id (dead_profile.c). The start time is compared last, in
 * read_usage(), so all of these are of this process.
 */
static bool
try_open(held_t *h, const jeprof_target_t *t) {
	figures_t f;
	h->box = jeprof_box_open(t);
	if (h->box < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) {
		return false;
	}
	if (h->box < 0) {
		tell_closed(t, errno);
	}
	h->is_locked = h->box >= 0 && is_lock_held(h->box);
	h->process = (int)syscall(SYS_pidfd_open, t->pid, 0);
	h->root = h->box >= 0 ? open_root(t->task) : 0;
	read_labels(t, &h->labels);
	return h->process >= 0 && read_usage(t->pid, t->start, &f);
}

/*
 * Adds an element, or frees it if the process has one already or there are too many. The caller
 * does not use it afterwards.
 */
static void
put_in(held_t *h) {
	bool is_in = false;
	pthread_mutex_lock(&lock);
	h->number = ++number;
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = h->number};
	/* A watcher and a job may have opened the same box. */
	if (find(h->pid, h->start) == NULL && counts_of[h->box >= 0] < held_most
	    && epoll_ctl(waiter, EPOLL_CTL_ADD, h->process, &event) == 0) {
		h->next = list;
		list = h;
		counts_of[h->box >= 0]++;
		is_in = true;
	}
	pthread_mutex_unlock(&lock);
	if (!is_in) {
		free_held(h);
	}
}

/*
 * Adds an element for a process, if it lives. opened: when the process opened its box, ns since
 * 1970.
 */
static void
hold(const jeprof_target_t *t, uint64_t opened) {
	figures_t f = {0};
	held_t *h = calloc(1, sizeof(*h));
	if (h == NULL) {
		return;
	}
	*h = (held_t){.pid = t->pid, .start = t->start, .opened = opened, .box = -1, .process = -1};
	if (!try_open(h, t)) {
		free_held(h);
		return;
	}
	read_cgroup_memory(h->labels.cgroup, &f);
	h->limit = f.has_cgroup ? f.cgroup_limit : UINT64_MAX;
	h->kills = end_kills(h->labels.cgroup);
	put_in(h);
}

/* Raises the counters of a process to those that are known in `seen`, never lowers one. */
static void
raise_kills(kills_t *kills, const kills_t *seen) {
	if (seen->has_group && (!kills->has_group || kills->of_group < seen->of_group)) {
		kills->has_group = true;
		kills->of_group = seen->of_group;
	}
	if (seen->has_machine && (!kills->has_machine || kills->of_machine < seen->of_machine)) {
		kills->has_machine = true;
		kills->of_machine = seen->of_machine;
	}
}

/*
 * Whether the list has the box that the process opened at the time `opened`, in ns since 1970. 0:
 * the process has no box now, or is ending; no element has this time. If the list has it and the
 * process lives, notes the kills in its cgroup and on the machine so far. Sets *other to whether
 * the list has another box of the process.
 */
static bool
note_kills(const jeprof_target_t *t, uint64_t opened, bool *other) {
	char cgroup[sizeof(list->labels.cgroup)] = "";
	pthread_mutex_lock(&lock);
	const held_t *h = find(t->pid, t->start);
	bool is_it = h != NULL && h->opened == opened;
	*other = h != NULL && !is_it;
	if (is_it) {
		memcpy(cgroup, h->labels.cgroup, sizeof(cgroup));
	}
	pthread_mutex_unlock(&lock);
	if (!is_it) {
		return false;
	}
	kills_t kills = end_kills(cgroup);
	figures_t f;
	/* It lives after the counter was read: none of these kills was its own. */
	bool is_alive = read_usage(t->pid, t->start, &f);
	pthread_mutex_lock(&lock);
	held_t *to = find(t->pid, t->start);
	if (to != NULL && is_alive) {
		raise_kills(&to->kills, &kills); /* spend_kill() may have raised them meanwhile */
	}
	pthread_mutex_unlock(&lock);
	return true;
}

void
dead_look(const jeprof_target_t *t) {
	bool has_other;
	if (waiter < 0 || options.box_bytes == 0) {
		return;
	}
	uint64_t opened = jeprof_box_opened(t);
	if (note_kills(t, opened, &has_other)) {
		return;
	}
	figures_t f;
	/*
	 * The box of a process that is ending must be kept. Its memory is gone then, so that `opened`
	 * and f.rss are 0.
	 */
	if (!read_usage(t->pid, t->start, &f) || (opened == 0 && f.rss == 0)) {
		return;
	}
	/* It lives, and has no box now or another one: the listed one is of no use any more. */
	held_t *h = has_other ? take_out(t->pid, t->start) : NULL;
	if (h != NULL) {
		free_held(h);
	}
	if (opened != 0 && dead_held() < held_most) {
		hold(t, opened);
	}
}

/* ---- the end ---- */

/*
 * An out-of-memory kill has ended `dead`. So that it does not explain the ends of others too,
 * raises their counters to the number that includes this kill. They are not increased by one,
 * because note_kills() has counted this kill already for a process that was seen alive after it.
 */
static void
spend_kill(const held_t *dead) {
	const kills_t *k = &dead->kills;
	kills_t in_group = {.has_group = k->has_group, .of_group = k->of_group + 1};
	kills_t anywhere = {.has_machine = k->has_machine, .of_machine = k->of_machine + 1};
	pthread_mutex_lock(&lock);
	for (held_t *h = list; h != NULL; h = h->next) {
		if (strcmp(h->labels.cgroup, dead->labels.cgroup) == 0) {
			raise_kills(&h->kills, &in_group);
		}
		raise_kills(&h->kills, &anywhere);
	}
	pthread_mutex_unlock(&lock);
}

/* Removes the record of the process from the table now, before a round over /proc does it. */
static void
forget_process(const held_t *h) {
	table_lock();
	proc_t *p = table_find(h->pid);
	if (p != NULL && p->labels != NULL && p->start == h->start) {
		table_remove(p);
	}
	table_unlock();
}

static void
free_answer(void *arg, const answer_t *answer) {
	(void)arg;
	free(answer->body);
}

/*
 * Has a job make the profile now, because the files of the process, below its root, may be gone
 * soon. If it can be started, it owns the descriptor of the root, and closes it if that is not 0.
 */
static void
begin_profile(held_t *h, const dead_t *d) {
	order_t order = {.kind = job_dead, .is_own = true, .root = h->root};
	memcpy(order.key, d->key, sizeof(order.key));
	if (scrape_begin(&order, free_answer, NULL)) {
		h->root = 0;
	}
}

/* Keeps record (made in *d) and box of an ended process; closes the box; begins the profile. */
static void
keep(held_t *h, dead_t *d) {
	struct timespec now;
	figures_t f = {0};
	clock_gettime(CLOCK_REALTIME, &now);
	*d = (dead_t){.pid = h->pid, .labels = h->labels, .limit = h->limit,
	    .ended_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000};
	kills_t kills = end_kills(h->labels.cgroup);
	d->how = end_read(h->process, h->pid, h->start, end_has_kill(&h->kills, &kills), &d->code);
	if (d->how == end_oom) {
		spend_kill(h);
	}
	read_cgroup_memory(h->labels.cgroup, &f);
	d->limit = f.has_cgroup ? f.cgroup_limit : d->limit; /* the cgroup may be gone */
	facts_read(d, h->box);
	bool is_kept = dead_keep(d, h->box);
	close(h->box); /* its memory counts for the cgroup of the process until here */
	h->box = -1;
	if (is_kept && d->why[0] == '\0') {
		begin_profile(h, d);
	}
}

/* Handles the end of the process of an element that is out of the list; frees the element. */
static void
end(held_t *h) {
	dead_t *d = h->box >= 0 ? malloc(sizeof(*d)) : NULL;
	forget_process(h);
	if (d != NULL) {
		keep(h, d);
		free(d);
	}
	free_held(h);
}

/* ---- boxes of living processes that have them no more ---- */

/* Whether the process has ended; true also if poll() fails, as its box is kept then. */
static bool
has_ended(const held_t *h) {
	struct pollfd end = {.fd = h->process, .events = POLLIN};
	return poll(&end, 1, 0) != 0;
}

/* Notes since when the lock of a box is gone, if it had one. The caller holds the lock. */
static void
note_box_lock(held_t *h, int64_t now_ms) {
	if (!h->is_locked || is_lock_held(h->box)) {
		h->unlocked_ms = 0;
	} else if (h->unlocked_ms == 0) {
		h->unlocked_ms = now_ms;
	}
}

/* Whether the lock has been gone for CONFIRM_MS, and the process lives. */
static bool
is_let_go(const held_t *h, int64_t now_ms) {
	return h->unlocked_ms != 0 && now_ms - h->unlocked_ms >= CONFIRM_MS && !has_ended(h);
}

/* Frees the elements whose box the process no longer has. Returns the time of the next check. */
static int64_t
look_at_box_locks(int64_t now_ms) {
	held_t *gone = NULL;
	int64_t next_ms = now_ms + LOCKS_MS;
	pthread_mutex_lock(&lock);
	for (held_t **at = &list; *at != NULL;) {
		held_t *h = *at;
		note_box_lock(h, now_ms);
		if (is_let_go(h, now_ms)) {
			*at = h->next;
			counts_of[true]--;
			epoll_ctl(waiter, EPOLL_CTL_DEL, h->process, NULL);
			h->next = gone;
			gone = h;
			continue;
		}
		next_ms = h->unlocked_ms != 0 ? now_ms + CONFIRM_MS : next_ms;
		at = &h->next;
	}
	pthread_mutex_unlock(&lock);
	while (gone != NULL) {
		held_t *next = gone->next;
		free_held(gone);
		gone = next;
	}
	return next_ms;
}

/* The thread: handles ends, checks the locks every LOCKS_MS, and expires every EXPIRE_MS. */
static void *
wait_for_ends(void *arg) {
	struct epoll_event event;
	int64_t expire_ms = 0, locks_ms = 0;
	(void)arg;
	while (!ending) {
		int64_t wait_ms = locks_ms - client_now_ms();
		wait_ms = wait_ms < 0 ? 0 : wait_ms < LOCKS_MS ? wait_ms : LOCKS_MS;
		if (epoll_wait(waiter, &event, 1, (int)wait_ms) == 1) {
			held_t *h = take_out(0, event.data.u64);
			if (h != NULL) {
				end(h);
			}
		}
		if (client_now_ms() >= locks_ms) {
			locks_ms = look_at_box_locks(client_now_ms());
		}
		if (client_now_ms() >= expire_ms) {
			expire_ms = client_now_ms() + EXPIRE_MS;
			dead_expire();
			dead_sweep();
		}
	}
	return NULL;
}

uint64_t
dead_descriptors(void) {
	return options.box_bytes != 0 ? (uint64_t)HELD_DESCRIPTORS * held_most : 0;
}

void
dead_limit(uint64_t descriptors) {
	uint64_t most = descriptors / HELD_DESCRIPTORS;
	held_most = most < held_most ? (unsigned)most : held_most;
}

int
dead_start(void) {
	pthread_t thread;
	pthread_attr_t attributes;
	dead_open();
	if (options.box_bytes == 0 && options.cache_dir == NULL) {
		return 0; /* no box is held, and there is no directory whose files expire */
	}
	waiter = epoll_create1(EPOLL_CLOEXEC);
	if (waiter < 0) {
		return errno;
	}
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	int error = pthread_create(&thread, &attributes, wait_for_ends, NULL);
	pthread_attr_destroy(&attributes);
	return error;
}
