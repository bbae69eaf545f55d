/*
 * Finds the processes that run the library, and looks at each of them again and again: see watch.h.
 * /proc/PID of another process has another inode number, so a round over processes that are known
 * costs no more than reading the directory. A process that does not run the library is looked at
 * again when its age has doubled, because it may have become another program by exec.
 *
 * Invariant: a record with is_busy belongs to one looker, which works without the lock. Lookers are
 * threads, because a process can keep its reader waiting (userfaultfd, a file system of its own):
 * one that is held up is written off and replaced. Locks: the table's, and the queue's inside of
 * it. Called by main.
 */
#include "watch.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "labels.h"

enum {
	LOOKERS = 2,
	LOOKERS_MOST = 32,      /* with those that are held up */
	HELD_UP_MS = 5000,
	ASK_MS = 400,
	QUEUE_ROOM = 4096,
	FAILURES_MOST = 8,      /* that make the wait longer */
	STILL_MS = 60000,       /* the age of the figures of a process that allocates nothing */
	RETRY_MIN_MS = 1000,
	RETRY_MAX_MS = 300000,
	STACK_BYTES = 512 << 10,
};

/* A thread that looks. */
typedef struct looker_s {
	pthread_t thread;
	bool is_started;
	bool is_written_off;
	int64_t since_ms;     /* of the process it looks at; 0: none */
} looker_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static proc_t *queue[QUEUE_ROOM];
static unsigned first, last;  /* of the queue, counted on */
static looker_t lookers[LOOKERS_MOST];

/* ---- one look, without the lock ---- */

/* What a look has found out, before it is put into the record. */
typedef struct look_s {
	proc_kind_t kind;
	bool is_new;          /* labels and identity are */
	bool is_ended;
	jeprof_head_t head;
	figures_t figures;
	labels_t labels;
	uint64_t start;
	unsigned uid;
} look_t;

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
 * Asks for its figures if it has done anything since it was asked. Who is idle (EAGAIN) has done
 * nothing wrong; who runs and does not answer is asked more and more rarely.
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
	p->failures = is_told || error == EAGAIN ? 0 : p->failures + (p->failures < FAILURES_MOST);
	p->ask_again_ms = now + ((int64_t)options.look_ms << p->failures) - 1;
}

/* Finds out anew what it is. */
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
	l->is_ended = jeprof_find(t, p->pid) != 0;
	int error = l->is_ended ? ESRCH : jeprof_probe(t);
	jeprof_close(t); /* was opened for reading */
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
	l->is_new = true;
	l->start = t->start;
	l->uid = t->uids[1];
	l->head = t->head;
	l->figures.known = 0;
	read_labels(t, &l->labels);
}

/* It has allocated nothing since: what it takes is read less often. */
static bool
is_still(const proc_t *p, const look_t *l, int64_t now) {
	return !l->is_new && p->beats_seen == l->head.heartbeats && now - p->usage_ms < STILL_MS;
}

/* l holds what was known. */
static void
look_at(proc_t *p, look_t *l) {
	if (l->kind != kind_ours || jeprof_look(p->target) != 0) {
		look_anew(p, l);
	} else {
		l->head = p->target->head;
	}
	if (l->kind != kind_ours || is_still(p, l, client_now_ms())) {
		return;
	}
	p->beats_seen = l->head.heartbeats;
	p->usage_ms = client_now_ms();
	l->is_ended = !read_usage(p->pid, l->start, &l->figures);
	if (!l->is_ended) {
		read_cgroup_memory(l->is_new ? l->labels.cgroup : p->labels->cgroup, &l->figures);
		ask_figures(p, l, client_now_ms());
	}
}

/* ---- the record, under the table's lock ---- */

/* Whether there is room for what is kept of a process that runs the library. */
static bool
make_room(proc_t *p) {
	if (p->labels != NULL) {
		return true;
	}
	if (counts.processes >= options.processes_max) {
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

static void
store(proc_t *p, look_t *l, int64_t now) {
	int64_t age = now - p->born_ms;
	if (l->kind == kind_ours && !make_room(p)) {
		l->kind = kind_foreign;
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

/* Looks at the process that the looker has taken from the queue. */
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
looker_main(void *arg) {
	looker_t *me = arg;
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

/* Called with the queue's lock. */
static int
start_looker(void) {
	int i = 0;
	while (i < LOOKERS_MOST && lookers[i].is_started) {
		i++;
	}
	if (i == LOOKERS_MOST) {
		return EAGAIN;
	}
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	lookers[i] = (looker_t){.is_started = true};
	int error = pthread_create(&lookers[i].thread, &attributes, looker_main, &lookers[i]);
	lookers[i].is_started = error == 0;
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

/* Writes off the lookers that a process holds up, and replaces them. */
static void
replace_lookers(int64_t now) {
	unsigned count = 0;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < LOOKERS_MOST; i++) {
		looker_t *l = &lookers[i];
		if (l->is_started && !l->is_written_off && l->since_ms != 0
		    && now - l->since_ms > HELD_UP_MS) {
			l->is_written_off = true;
			count += start_looker() == 0;
		}
	}
	pthread_mutex_unlock(&lock);
	if (count > 0) {
		table_lock();
		counts.written_off += count;
		table_unlock();
	}
}

/* Under the table's lock: gives it to a looker if it is time. */
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

/* Under the table's lock: it is there. */
static proc_t *
see(int pid, uint64_t inode) {
	proc_t *p = table_find(pid);
	if (p != NULL && inode != 0 && p->inode != inode && p->inode != 0) {
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
			see(pid, e->d_ino);
		}
	}
	table_each(queue_due, &now);
	table_unlock();
	closedir(dir);
}

void
watch_tick(int64_t now_ms) {
	static int64_t next_ms;
	int64_t every = options.look_ms < 5000 ? (int64_t)options.look_ms : 5000;
	replace_lookers(now_ms);
	if (now_ms >= next_ms) {
		next_ms = now_ms + every;
		read_processes(now_ms);
	}
}

proc_t *
watch_hold(jeprof_target_t *t) {
	table_lock();
	proc_t *p = see(t->pid, 0);
	if (p != NULL && p->kind != kind_ours && !p->is_busy) {
		p->look_again_ms = 0; /* a request was sooner than the round */
	}
	if (p != NULL) {
		p->holders++;
	}
	table_unlock();
	return p;
}
