/*
 * The processes that run the library, as last looked at: who they are, their figures, their last
 * hour. Filled by watch.c, read by the answers. Invariant: what hangs on the table is read and
 * changed under its lock only, and nothing that waits is done under it. A process is known by pid
 * and start time; its record outlives the table's interest in it while somebody holds it.
 */
#pragma once
#include "agent.h"
#include "text.h"

enum { HISTORY_POINTS = 240 };

typedef struct labels_s {
	char comm[JEPROF_NAME];
	char exe[512];
	char build_id[130];       /* hex, of the program; "": none */
	char cgroup[512];
	char container_id[80];    /* hex, "": none */
	char unit[128];           /* of systemd, "": none */
	char user[64];            /* name, or uid in digits */
	char service[128];        /* unit without ".service", else comm */
	uint64_t started;         /* seconds since 1970 */
} labels_t;

/* Values that the process has told; known says which. */
typedef enum { fig_allocated, fig_active, fig_metadata, fig_resident, fig_mapped, fig_retained,
    fig_interval, fig_dumps, fig_suppressed, fig_rejected, fig_count } fig_t;
extern const char *const fig_keys[fig_count];

typedef struct figures_s {
	uint64_t values[fig_count];
	unsigned known;           /* one bit for each */
	uint64_t rss;             /* bytes */
	uint64_t threads;
	uint64_t cgroup_current;  /* bytes */
	uint64_t cgroup_limit;    /* bytes, UINT64_MAX: none */
	bool has_cgroup;
} figures_t;

typedef struct point_s {
	int64_t at_ms;
	uint64_t rss;
	uint64_t allocated;       /* 0: not known */
} point_t;

/* A session that we have started. */
typedef struct lease_s {
	uint64_t instance;        /* of the library that it runs in */
	uint64_t session;         /* 0: none */
	bool is_renewed;          /* by each scrape: it was a scrape that began it */
	/* bytes, of a start that was left pending; 0: the start was answered */
	uint64_t rate;
	int64_t until_ms;         /* its time limit is not set to less: a scrape relies on it */
} lease_t;

/* What a record is about. */
typedef enum { kind_unknown, kind_foreign, kind_denied, kind_ours } proc_kind_t;

typedef struct proc_s {
	/* Set when it is made. */
	int pid;
	uint64_t inode;           /* of /proc/PID: another process has another */
	/* Changed by the looker that holds it (is_busy), without the lock. */
	jeprof_target_t *target;
	uint64_t heartbeats;      /* when its figures were asked for */
	bool was_asked;
	uint64_t beats_seen;      /* heartbeats at the last look */
	int64_t usage_ms;         /* when its resident memory was read */
	unsigned failures;        /* of asking, in a row */
	int64_t ask_again_ms;
	/* Under the lock. */
	proc_kind_t kind;
	uint64_t start;
	unsigned uid;
	bool is_busy;             /* a looker has it */
	bool is_gone;
	bool is_seen;             /* in this round */
	int64_t born_ms;          /* first seen */
	int64_t look_again_ms;
	labels_t *labels;         /* NULL until it is found to be ours */
	jeprof_head_t head;
	figures_t figures;
	lease_t lease;
	unsigned scrapes;         /* that go on */
	point_t *history;         /* HISTORY_POINTS of them, with labels */
	unsigned points;          /* ever added */
	char *mark;               /* a profile (heap_v2) to compare with, or NULL */
	size_t mark_bytes;
	int64_t mark_ms;
	unsigned holders;
	struct proc_s *next;      /* in its chain */
} proc_t;

/* Counters of the agent itself; under the lock. */
typedef struct counts_s {
	uint64_t requests;
	uint64_t scrapes;
	uint64_t failed;
	uint64_t refused;         /* for want of room */
	double seconds;           /* spent in scrapes */
	uint64_t bytes;           /* of profiles that were sent */
	uint64_t sessions;        /* started */
	uint64_t renewed;
	uint64_t written_off;     /* lookers and scrapes that a process holds up */
	unsigned scraping;        /* now */
	unsigned processes;       /* that run the library */
	unsigned unreadable;
	size_t mark_bytes;        /* all together */
} counts_t;

extern counts_t counts;

void table_lock(void);
void table_unlock(void);

/* The rest is called under the lock. */
proc_t *table_find(int pid);
proc_t *table_add(int pid, uint64_t inode); /* NULL: no memory */

/* Takes it out of the table; it is freed when nobody holds it. */
void table_remove(proc_t *p);
void table_release(proc_t *p);

/* Calls f for each record; f may remove it. */
void table_each(void (*f)(proc_t *p, void *arg), void *arg);

/*
 * Records that run the library, by pid, in a malloc()ed array that ends with NULL; NULL: no memory.
 */
proc_t **table_sorted(void);

void proc_add_point(proc_t *p, int64_t now_ms);
bool proc_has(const proc_t *p, fig_t figure);

/* "active", "idle" ... */
const char *state_word(uint32_t state);
