/*
 * Finds the processes that run the library, and refreshes their records (watch.h). Each round reads
 * the directory /proc, adds new processes to the table, removes those that have ended, and queues
 * the records that are due for a look, which reads the process. A record is due every
 * options.look_ms if the process runs the library. Other processes may start a program with the
 * library by exec; they are looked at again when as much time has passed as the record was old at
 * the last look (1 s to 5 min). Watchers, a few threads, take records from the queue and look at
 * their processes.
 *
 * Invariant: a record with is_busy is in the queue or belongs to one watcher, which works on it
 * without a lock. A process can block the thread that reads it (userfaultfd, its own file system);
 * a watcher that is blocked for HELD_UP_MS is replaced and ends when its look returns. Locks: the
 * table's, and the queue's (`lock`, also for `watchers`), which may be taken inside the table's.
 * Called by main.c, and by scrape.c (watch_hold).
 */
#include "watch.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/proc_stat.h"
#include "dead.h"
#include "elsewhere.h"
#include "labels.h"

enum {
	/*
	 * threads that are not blocked; several, because a look at an idle process takes ASK_MS / 2,
	 * and there may be hundreds of these
	 */
	LOOKERS = 8,
	WATCHERS_MAX = 32,      /* with those that are blocked */
	HELD_UP_MS = 5000,      /* a watcher whose look lasts longer counts as blocked */
	ASK_MS = 400,           /* for a process to take a request; as long again for its answer */
	QUEUE_ROOM = 4096,      /* records; those beyond it wait for the next round */
	FAILURES_MAX = 8,      /* each failed request doubles the wait, at most this many times */
	RETRY_MIN_MS = 1000,    /* bounds of the time between looks at a process that is not ours */
	RETRY_MAX_MS = 300000,
	SEARCH_MS = 300000,     /* from a search for a heap beside malloc's (elsewhere.h) to the next */
	STACK_BYTES = 512 << 10, /* of a watcher */
};

/* A watcher: a thread that reads processes. Under the queue's lock. */
typedef struct looker_s {
	pthread_t thread;
	bool is_started;      /* the thread exists; false: this element is free */
	bool is_written_off;  /* was blocked and replaced: ends after its current look */
	int64_t since_ms;     /* start of the current look (monotonic clock); 0: it waits for work */
} watcher_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static proc_t *queue[QUEUE_ROOM];
/*
 * How many records were ever taken from the queue (first) and put into it (last), modulo 2^32;
 * modulo QUEUE_ROOM these are the indexes of the oldest one and of the next one.
 */
static unsigned first, last;
static watcher_t watchers[WATCHERS_MAX];
static bool is_full; /* there was a process too many for --max-processes; under the table's lock */

/* ---- one look, without a lock ---- */

/* The results of a look; store() copies them into the record. */
typedef struct look_s {
	proc_kind_t kind;     /* ours: it runs the library; denied: it may not be read; else foreign */
	bool is_new;          /* the process was opened anew: labels, start and uid are set here */
	bool is_ended;        /* there is no such process any more */
	jeprof_head_t head;
	figures_t figures;
	labels_t labels;
	uint64_t start;       /* clock ticks from boot to the start of the process */
	unsigned uid;         /* effective */
} look_t;

/* Sets the figures from the lines of an answer to "status". */
static void
take_figures(look_t *l, const char *answer) {
	char text[32];
	l->figures.known = 0;
	for (int i = 0; i < fig_count; i++) {
		const char *value = jeprof_value(answer, fig_keys[i], text, sizeof(text));
		if (value != NULL && isdigit((unsigned char)value[0])) {
			l->figures.values[i] = strtoull(value, NULL, 10);
			l->figures.known |= 1u << i;
		}
	}
}

/*
 * Asks the process for its figures. Does not ask if the next request is not due, or if the number
 * of its heartbeats is the same as when it was last asked: then it has allocated little or nothing.
 * The request has failed if the process refuses, or is not idle and does not answer; the time until
 * the next one doubles with each failure, up to FAILURES_MAX. That it is idle (EAGAIN) is no
 * failure.
 */
static void
ask_figures(proc_t *p, look_t *l, int64_t now) {
	jeprof_reply_t reply;
	if (now < p->ask_again_ms || (p->was_asked && l->head.heartbeats == p->heartbeats)) {
		return;
	}
	p->was_asked = true;
	p->heartbeats = l->head.heartbeats;
	int error = jeprof_ask(p->target, &(jeprof_request_t){.text = "status", .wait_ms = ASK_MS,
	    .taken_ms = ASK_MS, .idle_ms = ASK_MS / 2, .manner = jeprof_manner_return, .interrupts =
	    &ending}, &reply);
	bool is_told = error == 0 && reply.error == 0;
	if (is_told) {
		take_figures(l, reply.text);
		l->head = p->target->head;
		p->heartbeats = l->head.heartbeats;
	}
	p->failures = is_told || error == EAGAIN ? 0 : p->failures + (p->failures < FAILURES_MAX);
	p->ask_again_ms = now + ((int64_t)options.look_ms << p->failures) - 1;
}

/*
 * Closes the process if it is open, opens it again and decides its kind: first a probe that only
 * reads, then, if it runs the library, an open that can also write requests. Sets p->target (NULL
 * unless kind_ours), kind and is_ended, and for kind_ours the other results too. If there is no
 * memory, does nothing; l->kind stays as it was.
 */
static void
look_anew(proc_t *p, look_t *l) {
	jeprof_target_t *t = p->target != NULL ? p->target : calloc(1, sizeof(*t));
	if (t == NULL) {
		return;
	}
	if (p->target != NULL) {
		jeprof_close(t);
	}
	p->target = NULL;
	int error = jeprof_find(t, p->pid);
	l->is_ended = error == ESRCH; /* EACCES: /proc hides it (hidepid) */
	error = error != 0 ? error : jeprof_probe(t);
	jeprof_close(t); /* it was opened for reading only */
	if (error == 0) {
		error = jeprof_open(t, NULL);
	}
	l->kind = error == 0 && t->way != jeprof_way_dir ? kind_ours : error == EACCES ? kind_denied
	    : kind_foreign;
	if (l->kind != kind_ours) {
		jeprof_close(t);
		free(t);
		return;
	}
	p->target = t;
	p->was_asked = false;
	p->failures = 0;
	p->ask_again_ms = 0;
	p->search_again_ms = 0;
	l->is_new = true;
	l->start = t->start;
	l->uid = t->uids[1];
	l->head = t->head;
	l->figures.known = 0;
	l->figures.heap = 0;
	read_labels(t, &l->labels);
}

/*
 * If is_elsewhere() says that much memory is not malloc's, reads how much it is, and searches for
 * the heap that may have it. The process may load the shared object that shows this late, so a
 * search without result is repeated, after SEARCH_MS at the earliest.
 */
static void
look_elsewhere(proc_t *p, look_t *l, int64_t now) {
	if (!is_elsewhere(&l->figures)) {
		return;
	}
	bool may_search = now >= p->search_again_ms;
	elsewhere_look(p->pid, l->is_new ? l->labels.exe : p->labels->exe, may_search, &l->figures);
	p->search_again_ms = may_search ? now + SEARCH_MS : p->search_again_ms;
}

/* One look at the process, which may block; on entry *l has the values of the record. */
static void
look_at(proc_t *p, look_t *l) {
	if (l->kind != kind_ours || jeprof_look(p->target) != 0) {
		look_anew(p, l);
	} else {
		l->head = p->target->head;
	}
	if (l->kind == kind_ours) {
		dead_look(p->target);
	}
	if (l->kind != kind_ours) {
		return;
	}
	/* Also of one that allocates nothing: it may map memory, and others share its cgroup. */
	l->is_ended = !read_usage(p->pid, l->start, &l->figures);
	if (!l->is_ended) {
		read_cgroup_memory(l->is_new ? l->labels.cgroup : p->labels->cgroup, &l->figures);
		ask_figures(p, l, client_now_ms());
		look_elsewhere(p, l, client_now_ms());
	}
}

/* ---- the record, under the table's lock ---- */

/*
 * Allocates labels and history of a process that runs the library, if it has none yet. False if
 * options.processes_max is reached or there is no memory.
 */
static bool
make_room(proc_t *p) {
	if (p->labels != NULL) {
		return true;
	}
	if (counts.processes >= options.processes_max) {
		is_full = true;
		return false;
	}
	labels_t *labels = calloc(1, sizeof(*labels));
	point_t *history = calloc(HISTORY_POINTS, sizeof(*history));
	if (labels == NULL || history == NULL) {
		free(labels);
		free(history);
		return false;
	}
	p->labels = labels;
	p->history = history;
	return true;
}

/*
 * Copies the results into the record and sets the time of the next look. A process for which there
 * is no room is stored as foreign and closed. A look leaves no request in a mailbox, so to close
 * the process writes nothing into it, which could block under the table's lock.
 */
static void
store(proc_t *p, look_t *l, int64_t now) {
	int64_t age = now - p->born_ms;
	if (l->kind == kind_ours && !make_room(p)) {
		l->kind = kind_foreign;
		jeprof_close(p->target);
		free(p->target);
		p->target = NULL;
	}
	counts.processes += (l->kind == kind_ours) - (p->kind == kind_ours);
	counts.unreadable += (l->kind == kind_denied) - (p->kind == kind_denied);
	p->kind = l->kind;
	age = age < RETRY_MIN_MS ? RETRY_MIN_MS : age > RETRY_MAX_MS ? RETRY_MAX_MS : age;
	p->look_again_ms = now + (l->kind == kind_ours ? (int64_t)options.look_ms : age);
	if (l->kind != kind_ours) {
		return;
	}
	if (l->is_new) {
		p->start = l->start;
		p->uid = l->uid;
		*p->labels = l->labels;
	}
	p->head = l->head;
	p->figures = l->figures;
	proc_add_point(p, now);
}

/*
 * Looks at the process of a record from the queue, without a lock, and stores the results. A record
 * that was removed from the table meanwhile is freed unless a job holds it.
 */
static void
serve(proc_t *p) {
	table_lock();
	look_t l = {.kind = p->kind, .head = p->head, .figures = p->figures, .start = p->start,
	    .uid = p->uid};
	bool is_gone = p->is_gone;
	table_unlock();
	if (!is_gone) {
		look_at(p, &l);
	}
	table_lock();
	p->is_busy = false;
	if (p->is_gone) {
		p->holders++; /* frees it if nobody else holds it */
		table_release(p);
	} else if (l.is_ended) {
		table_remove(p);
	} else {
		store(p, &l, client_now_ms());
	}
	table_unlock();
}

static void *
watcher_main(void *arg) {
	watcher_t *me = arg;
	pthread_mutex_lock(&lock);
	while (!ending && !me->is_written_off) {
		if (first == last) {
			pthread_cond_wait(&wake, &lock);
			continue;
		}
		proc_t *p = queue[first++ % QUEUE_ROOM];
		me->since_ms = client_now_ms();
		pthread_mutex_unlock(&lock);
		serve(p);
		pthread_mutex_lock(&lock);
		me->since_ms = 0;
	}
	me->is_started = me->is_written_off = false;
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* ---- rounds ---- */

/* Starts a watcher in a free element; 0, or an errno, EAGAIN if none is free. The lock is held. */
static int
start_looker(void) {
	int i = 0;
	while (i < WATCHERS_MAX && watchers[i].is_started) {
		i++;
	}
	if (i == WATCHERS_MAX) {
		return EAGAIN;
	}
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	watchers[i] = (watcher_t){.is_started = true};
	int error = pthread_create(&watchers[i].thread, &attributes, watcher_main, &watchers[i]);
	watchers[i].is_started = error == 0;
	pthread_attr_destroy(&attributes);
	return error;
}

int
watch_start(void) {
	int error = 0;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < LOOKERS && error == 0; i++) {
		error = start_looker();
	}
	pthread_mutex_unlock(&lock);
	return error;
}

/*
 * Starts a new watcher for each that is blocked for HELD_UP_MS, and writes the blocked one off. If
 * none can be started, because there are WATCHERS_MAX or the system has no more threads, the
 * blocked one is not written off: it takes the next record when its look returns. So there are
 * always LOOKERS threads that are not written off.
 */
static void
replace_watchers(int64_t now) {
	unsigned count = 0;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < WATCHERS_MAX; i++) {
		watcher_t *l = &watchers[i];
		if (l->is_started && !l->is_written_off && l->since_ms != 0
		    && now - l->since_ms > HELD_UP_MS && start_looker() == 0) {
			l->is_written_off = true;
			count++;
		}
	}
	pthread_mutex_unlock(&lock);
	if (count > 0) {
		table_lock();
		counts.written_off += count;
		table_unlock();
	}
}

/*
 * Removes the record if neither this round, in /proc, nor a job since the last one has found its
 * process; else queues it if a look is due. The caller holds the table's lock.
 */
static void
queue_due(proc_t *p, void *arg) {
	const int64_t *now = arg;
	if (!p->is_seen) {
		table_remove(p);
		return;
	}
	p->is_seen = false;
	if (p->is_busy || p->look_again_ms > *now) {
		return;
	}
	pthread_mutex_lock(&lock);
	if (last - first < QUEUE_ROOM) {
		p->is_busy = true;
		queue[last++ % QUEUE_ROOM] = p;
		pthread_cond_signal(&wake);
	}
	pthread_mutex_unlock(&lock);
}

/* Whether the process that has the record's pid now is that of the record, by its start time. */
static bool
is_same_start(const proc_t *p) {
	proc_stat_t stat;
	return p->labels != NULL && proc_stat_read(p->pid, &stat) == 0 && stat.start == p->start;
}

/*
 * Finds or makes the record of a process that exists. One of an earlier process with that pid is
 * removed. Another inode number alone does not show that: the kernel drops the inode of /proc/PID
 * for want of memory, and makes another one. A record that never ran the library has no start time,
 * and loses nothing if it is made anew. inode: of /proc/PID; 0: not known. NULL: no memory. The
 * caller holds the table's lock.
 */
static proc_t *
find_or_add(int pid, uint64_t inode) {
	proc_t *p = table_find(pid);
	bool is_other = p != NULL && inode != 0 && p->inode != 0 && p->inode != inode;
	if (is_other && !is_same_start(p)) {
		table_remove(p);
		p = NULL;
	}
	if (p == NULL) {
		p = table_add(pid, inode);
	}
	if (p != NULL) {
		p->inode = inode != 0 ? inode : p->inode;
		p->is_seen = true;
	}
	return p;
}

/* One round over /proc; takes the table's lock. Without /proc all records stay as they are. */
static void
read_processes(int64_t now) {
	DIR *dir = opendir("/proc");
	if (dir == NULL) {
		talk("/proc: %s", strerror(errno));
		return;
	}
	table_lock();
	for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
		int pid = isdigit((unsigned char)e->d_name[0]) ? atoi(e->d_name) : 0;
		if (pid > 0) {
			find_or_add(pid, e->d_ino);
		}
	}
	table_each(queue_due, &now);
	table_unlock();
	closedir(dir);
}

/* Tells once that processes are left out. */
static void
tell_full(void) {
	static bool is_told;
	table_lock();
	bool is_new = is_full && !is_told;
	table_unlock();
	if (is_new) {
		is_told = true;
		talk("more than %llu processes run the library (--max-processes): the others are left out",
		    (unsigned long long)options.processes_max);
	}
}

void
watch_tick(int64_t now_ms) {
	static int64_t next_ms;
	int64_t every = options.look_ms < 5000 ? (int64_t)options.look_ms : 5000;
	replace_watchers(now_ms);
	tell_full();
	if (now_ms >= next_ms) {
		next_ms = now_ms + every;
		read_processes(now_ms);
	}
}

proc_t *
watch_hold(jeprof_target_t *t) {
	table_lock();
	proc_t *p = table_find(t->pid);
	if (p != NULL && p->labels != NULL && p->start != t->start) {
		table_remove(p); /* of an earlier process: a round may not have seen its end yet */
	}
	p = find_or_add(t->pid, 0);
	if (p != NULL && p->kind != kind_ours && !p->is_busy) {
		p->look_again_ms = 0; /* the next round looks at it, however young it is */
	}
	if (p != NULL) {
		p->holders++;
	}
	table_unlock();
	return p;
}
