/*
 * The table of processes (table.h): a hash table of CHAINS chains by pid. Invariant: a record is in
 * a chain or is_gone. table_remove() and table_release() free a record that is gone if no job holds
 * it (`holders` is 0) and no watcher has it. A watcher is a thread of watch.c that reads processes;
 * it has the record while that is_busy. If the record is gone when its look ends, the watcher
 * clears is_busy, raises `holders` and calls table_release(). One mutex protects the table and
 * `counts`. Nothing is done under it that a watched process could make wait: jeprof_close() only
 * closes a descriptor here, because watchers leave no request in a mailbox (jeprof_manner_return).
 * watch.c adds and removes records, dead_watch.c removes those of processes that ended; scrape.c,
 * push.c, metrics.c, targets.c and pages.c use them; main.c and server.c use only the counts.
 */
#include "table.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { CHAINS = 1024 }; /* of the hash table, by pid modulo this */

const char *const lack_words[lack_count] = {"", "filter", "room", "refused"};
const char *const fig_keys[fig_count] = {"allocated", "active", "metadata", "resident", "mapped",
    "retained", "sample_interval", "dumps", "suppressed", "dump_errors",
    "rejected"};

counts_t counts;

/*
 * Error-checking where the C library has that: then a thread that takes the lock twice, or unlocks
 * what it has not locked, ends jeprofd (abort).
 */
#ifdef PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP
static pthread_mutex_t lock = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
#else
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
#endif
static proc_t *chains[CHAINS];
static size_t records;

/*
 * The list that table_sorted() fills anew each time. Room is made for it when a record is added, so
 * that there always is a list.
 */
static struct {
	proc_t **at;
	size_t count;
	size_t room; /* more than `records` once there is one, because NULL ends the list */
} sorted;

void
table_lock(void) {
	if (pthread_mutex_lock(&lock) != 0) {
		abort();
	}
}

void
table_unlock(void) {
	if (pthread_mutex_unlock(&lock) != 0) {
		abort();
	}
}

proc_t *
table_find(int pid) {
	proc_t *p = chains[(unsigned)pid % CHAINS];
	while (p != NULL && p->pid != pid) {
		p = p->next;
	}
	return p;
}

/* Makes room in the list for one more record; false without memory. */
static bool
try_make_room(void) {
	if (records + 1 < sorted.room) {
		return true;
	}
	size_t room = 2 * sorted.room + CHAINS;
	proc_t **at = realloc(sorted.at, room * sizeof(*at));
	if (at != NULL) {
		sorted.at = at;
		sorted.room = room;
	}
	return at != NULL;
}

proc_t *
table_add(int pid, uint64_t inode) {
	proc_t *p = try_make_room() ? calloc(1, sizeof(*p)) : NULL;
	if (p != NULL) {
		records++;
		p->pid = pid;
		p->inode = inode;
		p->born_ms = client_now_ms();
		p->next = chains[(unsigned)pid % CHAINS];
		chains[(unsigned)pid % CHAINS] = p;
	}
	return p;
}

/* Frees the record if it is gone, without a holder and not busy. The caller holds the lock. */
static void
free_unheld(proc_t *p) {
	if (!p->is_gone || p->holders > 0 || p->is_busy) {
		return;
	}
	if (p->target != NULL) {
		jeprof_close(p->target);
	}
	counts.mark_bytes -= p->mark_bytes;
	free(p->target);
	free(p->mark);
	free(p->labels);
	free(p->history);
	free(p);
}

void
table_remove(proc_t *p) {
	proc_t **at = &chains[(unsigned)p->pid % CHAINS];
	while (*at != NULL && *at != p) {
		at = &(*at)->next;
	}
	if (*at == p) {
		*at = p->next;
		records--;
		counts.processes -= p->kind == kind_ours;
		counts.unreadable -= p->kind == kind_denied;
		p->is_gone = true;
		free_unheld(p);
	}
}

void
table_release(proc_t *p) {
	p->holders--;
	free_unheld(p);
}

void
table_each(void (*f)(proc_t *p, void *arg), void *arg) {
	for (int i = 0; i < CHAINS; i++) {
		for (proc_t *p = chains[i], *next; p != NULL; p = next) {
			next = p->next;
			f(p, arg);
		}
	}
}

static int
compare_pids(const void *a, const void *b) {
	const proc_t *const *p = a, *const *q = b;
	return ((*p)->pid > (*q)->pid) - ((*p)->pid < (*q)->pid);
}

static void
add_ours(proc_t *p, void *arg) {
	(void)arg;
	if (p->kind == kind_ours) {
		sorted.at[sorted.count++] = p;
	}
}

proc_t *const *
table_sorted(void) {
	static proc_t *const none[] = {NULL};
	sorted.count = 0;
	table_each(add_ours, NULL);
	if (sorted.count == 0) {
		return none;
	}
	qsort(sorted.at, sorted.count, sizeof(proc_t *), compare_pids);
	sorted.at[sorted.count] = NULL;
	return sorted.at;
}

void
proc_add_point(proc_t *p, int64_t now_ms) {
	p->history[p->points++ % HISTORY_POINTS] = (point_t){now_ms, p->figures.rss,
	    proc_has(p, fig_allocated) ? p->figures.values[fig_allocated] : 0};
}

size_t
proc_labels(const proc_t *p, label_t *labels) {
	const labels_t *l = p->labels;
	const label_t all[PROC_LABELS] = {{"comm", l->comm}, {"exe", l->exe},
	    {"build_id", l->build_id}, {"cgroup", l->cgroup}, {"container_id", l->container_id},
	    {"unit", l->unit}, {"user", l->user}, {"service_name", l->service}};
	size_t n = 0;
	for (size_t i = 0; i < PROC_LABELS; i++) {
		if (all[i].value[0] != '\0') {
			labels[n++] = all[i];
		}
	}
	return n;
}

bool
proc_has(const proc_t *p, fig_t figure) {
	return (p->figures.known >> figure & 1) != 0;
}
