/*
 * The table of the machine's processes, with labels, figures and history of those that run the
 * library. The watchers, threads of watch.c that read processes, fill it; the functions that answer
 * requests read it, and jobs (scrape.c) keep the lease and the mark of a process in it. Invariant:
 * records are read and changed only under the table's lock, but for the fields that belong to a
 * watcher, and nothing that a process can hold up is done under that lock. A record is found by
 * pid. If the inode number of /proc/PID has changed, the start time of the process is read; if this
 * is not that of the record, another process has got the pid, and the record is replaced. A record
 * that was removed is freed when no job holds it and no watcher works on it any more. Used by
 * watch.c, dead_watch.c, scrape.c, push.c, the files that write answers (tell.h), server.c and
 * main.c.
 */
#pragma once
#include "agent.h"
#include "text.h"

enum { HISTORY_POINTS = 240 }; /* kept of one process: an hour of them at one look in 15 s */

typedef struct labels_s {
	char comm[JEPROF_NAME];   /* name of the main thread */
	/* path of the program, as its process sees it; if it was removed, without " (deleted)" */
	char exe[512];
	char build_id[130];       /* hex, of the program; "": none */
	char cgroup[512];         /* path of the (memory) cgroup; "": not known */
	char container_id[80];    /* hex, "": none */
	char unit[128];           /* of systemd, "": none */
	char user[64];            /* name, or uid in digits */
	/* unit without ".service"; comm if unit does not end so, or begins with "user@" */
	char service[128];
	uint64_t started;         /* seconds since 1970 */
} labels_t;

/* The figures that are taken from the answer to a "status" request. */
typedef enum { fig_allocated, fig_active, fig_metadata, fig_resident, fig_mapped, fig_retained,
    fig_interval, fig_dumps, fig_suppressed, fig_errors, fig_rejected, fig_count } fig_t;
extern const char *const fig_keys[fig_count]; /* their keys in that answer */

/* Figures of a process. */
typedef struct figures_s {
	uint64_t values[fig_count]; /* bytes or counts, as the process told them */
	unsigned known;           /* bit i: values[i] was in the last answer */
	uint64_t rss;             /* resident memory of the process, bytes */
	/* bytes of rss that are code and mapped files; set only where is_elsewhere() (elsewhere.h) */
	uint64_t rss_shared;
	/* 1 + index in page_heaps of the heap that it may have beside malloc's; 0: not known */
	unsigned heap;
	uint64_t threads;
	uint64_t cgroup_current;  /* bytes */
	uint64_t cgroup_limit;    /* bytes, UINT64_MAX: none */
	bool has_cgroup;          /* the two figures of the cgroup are known */
} figures_t;

/* One point of the history. */
typedef struct point_s {
	int64_t at_ms;            /* of the monotonic clock; of the dead (dead.h) of the wall clock */
	uint64_t rss;             /* bytes; 0: not known */
	uint64_t allocated;       /* bytes; 0: not known */
} point_t;

/* Why a session that was to have a box has none (jeprof_check_box); refused: by the process. */
typedef enum { lack_none, lack_filter, lack_room, lack_refused, lack_count } lack_t;
extern const char *const lack_words[lack_count];

/* A session that this jeprofd has started: a lease, or that of a POST /start (not is_renewed). */
typedef struct lease_s {
	uint64_t instance;        /* random number of the library's run that has it (jeprof_head_t) */
	uint64_t session;         /* its number; 0: none is ours */
	bool is_renewed;          /* a scrape started it, so each scrape extends its time limit */
	lack_t lack;              /* lack_none also if no box was wanted */
	/* sampling interval (bytes) of our start while the process has not answered that; else 0 */
	uint64_t pending_rate;
	/* if is_renewed: end of the limit that was last asked for (monotonic ms); never moved back */
	int64_t until_ms;
} lease_t;

/*
 * unknown: not looked at yet. ours: it runs the library and is served. denied: this jeprofd may not
 * read it, even if it has a control directory. foreign: not served, because it does not run the
 * library; or because it may be read but was not opened (--max-processes is reached, there is no
 * descriptor or memory left, or requests could reach it by its control directory only).
 */
typedef enum { kind_unknown, kind_foreign, kind_denied, kind_ours } proc_kind_t;

/* The record of a process. Fields that end in _ms are times of the monotonic clock. */
typedef struct proc_s {
	/* Set by table_add(), the inode number also later if it was not known (0). */
	int pid;
	uint64_t inode;           /* of /proc/PID when last seen; another process has another */
	/* Used without a lock, but only by the watcher that works on the record (is_busy). */
	jeprof_target_t *target;  /* open; NULL if the last look did not make it kind_ours */
	uint64_t heartbeats;      /* of the process when its figures were last asked for */
	bool was_asked;           /* its figures were asked for since it was opened */
	unsigned failures;        /* failed requests in a row, at most FAILURES_MAX; idle is none */
	int64_t ask_again_ms;     /* earliest time of the next request */
	int64_t search_again_ms;  /* earliest time of the next search for figures.heap */
	/* Under the lock. */
	proc_kind_t kind;
	uint64_t start;           /* clock ticks from boot to its start; 0 while labels is NULL */
	unsigned uid;             /* effective; 0 while labels is NULL */
	bool is_busy;             /* in the queue of the watchers, or being worked on by one */
	bool is_gone;             /* no longer in the table */
	bool is_seen;             /* by the present round of watch.c, or by a job since the last one */
	int64_t born_ms;          /* when the record was made */
	int64_t look_again_ms;    /* earliest time of the next look */
	/*
	 * NULL until the process first runs the library, so never of a record of kind_ours. Only the
	 * watcher that works on the record writes it, under the lock; so this watcher may read it
	 * without the lock.
	 */
	labels_t *labels;
	jeprof_head_t head;       /* what its mailbox said at the last look */
	figures_t figures;
	lease_t lease;
	unsigned scrapes;         /* running jobs (scrape.c); one that sleeps does not count */
	int64_t push_again_ms;    /* earliest time of its next push */
	point_t *history;         /* ring of HISTORY_POINTS; NULL exactly while labels is NULL */
	unsigned points;          /* ever added; the next one goes to index points % HISTORY_POINTS */
	char *mark;               /* profile (heap_v2) that a POST /mark kept; NULL: none */
	size_t mark_bytes;        /* of it; 0 without one */
	bool has_own_mark;        /* the process itself was told to remember the last mark */
	unsigned holders;         /* jobs that hold the record (watch_hold), not its watcher */
	struct proc_s *next;      /* in the chain of the hash table */
} proc_t;

/* Counters of the agent itself; under the lock. */
typedef struct counts_s {
	uint64_t requests;        /* to the server */
	uint64_t jobs;            /* finished ones, of any kind */
	uint64_t scrapes;         /* finished jobs that a request or --push asked for */
	uint64_t failed;          /* of the scrapes: those whose status was not 200 */
	double seconds;           /* of the scrapes: from begin to end, with the sleep of deltas */
	uint64_t bytes;           /* of the scrapes: of the profiles in answers with status 200 */
	/* jobs that a request, not --push, asked for and that scrape_begin() did not start */
	uint64_t refused;
	/* that jobs began; one whose start was left pending counts when a job finds it running */
	uint64_t sessions;
	uint64_t lacks[lack_count]; /* those of `sessions`, by what they lack */
	uint64_t renewed;         /* extensions of leases */
	uint64_t written_off;     /* watchers replaced and jobs answered, as they took too long */
	unsigned processes;       /* kind_ours, now */
	unsigned unreadable;      /* kind_denied, now */
	size_t mark_bytes;        /* of all records together */
} counts_t;

extern counts_t counts;

/* Take and release the table's lock; its holder must not wait for a process. */
void table_lock(void);
void table_unlock(void);

/* The caller of each of the following functions holds the lock. */
proc_t *table_find(int pid);                /* NULL: there is no record */
proc_t *table_add(int pid, uint64_t inode); /* of a pid without a record; NULL: no memory */

/* Takes the record out of the table; frees it if it has no holder and no watcher, else later. */
void table_remove(proc_t *p);

/*
 * Lowers `holders`, and frees the record if it is gone, without a holder and not is_busy. A watcher
 * whose record is gone when its look ends clears is_busy, raises `holders` and calls this, to free
 * it.
 */
void table_release(proc_t *p);

/* Calls f for each record; f may remove it. */
void table_each(void (*f)(proc_t *p, void *arg), void *arg);

/*
 * The records of kind_ours, by pid, in an array that ends with NULL. Array and records are valid
 * until the lock is given up; the next call fills the same array.
 */
proc_t *const *table_sorted(void);

/*
 * Adds the figures of a record of kind_ours to its history, in place of the oldest point if the
 * ring is full.
 */
void proc_add_point(proc_t *p, int64_t now_ms);

enum { PROC_LABELS = 8 }; /* labels that proc_labels() lists, at most */

/*
 * Lists the labels of a record of kind_ours that are known, but for pid and start, at most
 * PROC_LABELS, and returns their number. The texts are those of the record.
 */
size_t proc_labels(const proc_t *p, label_t *labels);

/* Whether figures.values has this figure (figures.known). */
bool proc_has(const proc_t *p, fig_t figure);
