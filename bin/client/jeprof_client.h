/*
 * jeprof_client: controls the heap profiler of a running process from outside
 * (libjeprof_client.a).
 *
 *   jeprof_target_t t;
 *   jeprof_reply_t reply;
 *   if (jeprof_find(&t, pid) == 0 && jeprof_open(&t, NULL) == 0
 *       && jeprof_ask(&t, &(jeprof_request_t){.text = "status", .wait_ms = 5000}, &reply) == 0)
 *           puts(reply.text);
 *   else
 *           puts(t.why);
 *   jeprof_close(&t);
 *
 * Nothing here prints, exits or changes signal handlers. All state is in the target or the image;
 * there are no locks. Each target and each image belongs to one thread at a time; threads may use
 * different ones at the same time. Unless its comment says otherwise, a function that can fail
 * returns 0 or an errno, and puts one sentence into t->why, without a newline at its end. Names and
 * paths in the sentence come from the process and may hold any byte but NUL, so a caller that
 * prints it replaces control characters. Used by bin/ctl (jeprofctl) and bin/agent (jeprofd).
 * Errors (functions name others of their own):
 *   ESRCH      no such process, it has ended, or its pid belongs to another one by now
 *   ENXIO      the process does not run the library, or the library offers no way in
 *   EPROTO     its library speaks another version of the protocol
 *   EACCES     the kernel or the file system refuses; the sentence says why and what would help
 *   ETIMEDOUT  the process has not taken the request in time (wait_ms), and it was taken back; or
 *              it is stopped, frozen or waiting in the kernel, and `why` says whether it has taken
 *              the request; or, with jeprof_way_dir, it has taken it and not answered in time; or
 *              the profile could not be read within taken_ms
 *   EBUSY      the requests of others are in the way, or the process, which runs, has taken the
 *              request but not answered it in time (wait_ms + taken_ms; not with jeprof_way_dir)
 *   EAGAIN     the process is idle, and the manner of the request says not to wait
 *   EINTR      request.interrupts reached request.patience; the request was taken back, or `why`
 *              says that the process has taken it
 *   E2BIG      the request is longer than JEPROF_TEXT - 1 bytes, or a path is too long
 *   EFBIG      the profile is larger than bytes_max of the request, or of jeprof_image_text(); or
 *              the tables in a core in a pipe take more than 1 GiB
 *   EIO        the profile was gone before it was fetched, or a file could not be written
 *   ENOMEM     no memory
 *
 * The process may have forged every byte that is read from it. That costs the caller at most the
 * times and bytes of its request (wait_ms, taken_ms, bytes_max), and of an image up to 64 MiB for
 * the memory map, and memory in proportion to the bytes of the tables, or to bytes_max where it is
 * given. One exception: a read of its memory may block as long as the process lives if it handles
 * its own page faults (userfaultfd). A caller that no process may delay asks each in a thread of
 * its own.
 */
#ifndef JEPROF_CLIENT_H
#define JEPROF_CLIENT_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct stat;

#ifdef __cplusplus
extern "C" {
#endif

#define JEPROF_CLIENT_PROTOCOL 2u    /* version of the mailbox's protocol that is spoken */
#define JEPROF_TEXT 1024             /* bytes of the longest request or answer, with its NUL */
#define JEPROF_WHY 3072              /* bytes of the longest sentence, with its NUL */
#define JEPROF_NAME 64               /* bytes of the longest name of a process, with its NUL */
#define JEPROF_SLOTS 4               /* requests that may wait in one process */

/* How the process is reached. */
typedef enum jeprof_way_e {
	jeprof_way_none,    /* not open */
	jeprof_way_memory,  /* its mailbox, through /proc/PID/mem */
	/* its mailbox, through process_vm_readv(2): /proc/PID/mem is not accessible */
	jeprof_way_calls,
	jeprof_way_memfd,   /* its mailbox, in the file that MALLOC_CONF=prof_ctl_fd:true keeps open */
	jeprof_way_dir      /* its control directory, MALLOC_CONF=prof_ctl_dir:DIR: no stream */
} jeprof_way_t;

/* The state of the profiler. A library that is newer than this header may have larger numbers. */
typedef enum jeprof_state_e {
	jeprof_state_idle,
	jeprof_state_active,      /* a session runs */
	jeprof_state_stopping,    /* a session ends: its profile is being written */
	jeprof_state_paused,      /* a session runs, but the program has switched sampling off */
	jeprof_state_sampling,    /* no session, but MALLOC_CONF has switched sampling on */
	jeprof_state_switched_on  /* no session, but the program has switched sampling on */
} jeprof_state_t;

/* The part of the mailbox that can be read without a request, as it was last read. */
typedef struct jeprof_head_s {
	uint32_t state;            /* a jeprof_state_t */
	uint32_t pid;              /* as the process sees itself */
	bool is_barred;            /* system calls are filtered (seccomp): the profiler has no thread */
	uint64_t session_id;       /* of this or the last session; 0: there was none */
	/* ns since 1970, UTC; an earlier time is a negative number in two's complement */
	uint64_t session_start_ns;
	uint64_t heartbeats;       /* changes now and then while the process allocates */
	uint64_t instance;         /* random number of this run of the library; differs after fork */
	char library_version[64];
} jeprof_head_t;

/* A process. The caller provides the memory, zeroed or not, and may read all but private fields. */
typedef struct jeprof_target_s {
	/* Set by jeprof_find. */
	int pid;                /* in the caller's pid namespace */
	/*
	 * the id whose directory in /proc shows memory and files: pid, or that of a thread that runs,
	 * if the first thread has ended before the others (pthread_exit() in main)
	 */
	int task;
	unsigned own_pid;       /* as the process sees itself */
	uint64_t start;         /* clock ticks from boot to its start; with the pid its identity */
	char state;             /* 'R', 'S', ... of `task` */
	unsigned uids[3];       /* real, effective, saved */
	uint64_t caps;          /* permitted capabilities, one bit each */
	char name[JEPROF_NAME]; /* of its main thread */
	/* Set by jeprof_open, jeprof_open_dir and jeprof_probe. */
	jeprof_way_t way;
	char dir[PATH_MAX];     /* the control directory, with jeprof_way_dir */
	jeprof_head_t head;     /* not with jeprof_way_dir */
	/* The last failure: one sentence. */
	char why[JEPROF_WHY];
	/* Private. */
	int fd;
	uint64_t block;         /* address, or offset in the file, of the mailbox */
	unsigned slot;          /* of the unanswered request, if sequence is not 0 */
	uint64_t sequence;      /* of the unanswered request; 0: there is none */
	int64_t clock_ahead_ms; /* of the monotonic clock of the process, compared with ours */
	/*
	 * What was last read in each slot of the mailbox: the sequence of the request; the end of its
	 * lease (until when the process may take it), in ms by the monotonic clock of the process;
	 * whether it was answered. slot_seen_ms: when one of these three was last seen to change, in ms
	 * by our monotonic clock.
	 */
	uint64_t slot_seen[JEPROF_SLOTS];
	uint64_t slot_lease[JEPROF_SLOTS];
	int64_t slot_seen_ms[JEPROF_SLOTS];
	bool slot_was_answered[JEPROF_SLOTS];
	bool has_foreign_file;  /* a file with the name of that of a mailbox has none that we know */
} jeprof_target_t;

/* Whether a session runs in this state, even if it just ends or is paused. */
static inline bool
jeprof_is_session(uint32_t state) {
	return state >= jeprof_state_active && state <= jeprof_state_paused;
}

/* The same of the last look (t->head). */
static inline bool
jeprof_has_session(const jeprof_target_t *t) {
	return jeprof_is_session(t->head.state);
}

/*
 * How a request treats a process that is idle, that is, allocates nothing and therefore does not
 * read its mailbox. With jeprof_way_dir every request waits.
 */
typedef enum jeprof_manner_e {
	/* waits for wait_ms; if it is not taken by then, takes the request back: ETIMEDOUT */
	jeprof_manner_wait,
	jeprof_manner_return,  /* takes the request back after idle_ms: EAGAIN */
	/*
	 * returns EAGAIN after idle_ms and leaves the request in its slot; the caller then calls
	 * jeprof_let_stay() or jeprof_take_back()
	 */
	jeprof_manner_stay
} jeprof_manner_t;

typedef struct jeprof_request_s {
	/*
	 * "start k:v,k:v", "stop [N]", "dump [PATH]", "dump-stream", "dump-delta [PATH]",
	 * "dump-delta-stream", "mark", "status", "set k:v,...", "rearm"; one line without its newline
	 */
	const char *text;
	unsigned wait_ms;         /* time for the process to take the request; 0: 5000 */
	/* more time for the answer, after wait_ms, if the process has taken the request; 0: 60000 */
	unsigned taken_ms;
	unsigned idle_ms;         /* time without a heartbeat after which it is idle; 0: 1000 */
	jeprof_manner_t manner;
	uint64_t bytes_max;       /* largest profile that is fetched; 0: 4 GiB */
	/* A count of signals, by which the caller ends the wait; may be NULL. */
	const volatile sig_atomic_t *interrupts;
	sig_atomic_t patience;    /* the count at which the wait ends; 0: 1 */
} jeprof_request_t;

typedef struct jeprof_reply_s {
	int error;                /* 0, or the errno with which the process refuses */
	char text[JEPROF_TEXT];   /* the answer; with an error one sentence, or "" */
	char *profile;            /* of "...-stream": heap_v2, ended with NUL; the caller frees it */
	uint64_t profile_bytes;   /* without the NUL */
} jeprof_reply_t;

/*
 * Fills in *t for the process with this pid; the id of a thread stands for its process. EACCES if
 * /proc does not show it to us, or is not mounted; EMFILE, ENFILE or ENOMEM, and no word about the
 * process, if we lack descriptors or memory. ESRCH if there is none, or if it has ended but is
 * still in /proc; in the second case t->state is 'Z' (its parent has not yet fetched its exit
 * status) or 'X'. Clears the private fields also after an error, so jeprof_close() may be called
 * then. An open target is to be closed first: its descriptor is forgotten.
 */
int jeprof_find(jeprof_target_t *t, int pid);

/*
 * The field `task` of a process: the id whose directory in /proc shows its memory and files. pid if
 * it has ended.
 */
int jeprof_task(int pid);

/*
 * Whether t is still the process that was found; sets state and task. 0, ESRCH, or the errno with
 * which /proc cannot be read.
 */
int jeprof_check_same(jeprof_target_t *t);

/*
 * Calls f for each process but the caller's, with a target that jeprof_find has filled in and that
 * is valid during this call only. Processes that jeprof_find does not find are left out. 0, or the
 * errno of opening /proc (ENOENT: it is not mounted), EMFILE, ENFILE or ENOMEM; there is no
 * sentence.
 */
int jeprof_each(void (*f)(jeprof_target_t *t, void *arg), void *arg);

/*
 * Whether the name is that of its main thread, of the file of its program, or of the first word of
 * its command line; the last two are compared without their directories.
 */
bool jeprof_is_named(const jeprof_target_t *t, const char *name);

/*
 * Checks whether the process runs the library; sets way and head. Only reads its memory, so no
 * right to write is needed; if that cannot be read, opens the file of jeprof_way_memfd. 0; ENXIO if
 * it does not run it; EPROTO; EACCES if there is neither; ESRCH; or another errno, such as EMFILE.
 * jeprof_close() is to be called in any case. Requests need jeprof_open().
 */
int jeprof_probe(jeprof_target_t *t);

/*
 * Finds the best way into the process and opens it. If `wait` is not NULL and the process was
 * started less than wait->wait_ms ago, waits for its first allocation, which opens the mailbox;
 * EINTR if wait->interrupts reaches wait->patience meanwhile. Of `wait` only these three count.
 * jeprof_close() is to be called in any case.
 */
int jeprof_open(jeprof_target_t *t, const jeprof_request_t *wait);

/* Uses this control directory instead, which need not be there yet; E2BIG: the path is too long. */
int jeprof_open_dir(jeprof_target_t *t, const char *dir);

/*
 * What the process sees at its absolute path: sets *file, and buf to a path that leads us there
 * while the process lives (/proc/PID/root/..., with room for that and PATH_MAX bytes). 0; ESRCH, or
 * the errno with which its root directory may not be opened; ENOSYS: it is not known, as the kernel
 * cannot follow the links of that root, or as no path of ours leads there; else the errno that the
 * process would get. No sentence.
 */
int jeprof_find_below(const jeprof_target_t *t, const char *path, char *buf, size_t size,
    struct stat *file);

/* Whether our path leads to the file of which stat() or jeprof_find_below() told this. */
bool jeprof_leads_to(const char *path, const struct stat *file);

/* Takes back the unanswered request, if there is one, and closes the descriptor. */
void jeprof_close(jeprof_target_t *t);

/*
 * Reads head again; 0, or ESRCH if the memory is gone: an exec, or the end. Always ESRCH with
 * jeprof_way_dir.
 */
int jeprof_look(jeprof_target_t *t);

/*
 * Sends a request and waits for the answer. 0: *reply has the answer, which may be a refusal
 * (reply->error), and with "...-stream" the whole profile. After an error *reply owns no memory.
 * Adds the lines rss= and pid= to an answer to "status" that came through a mailbox.
 */
int jeprof_ask(jeprof_target_t *t, const jeprof_request_t *request, jeprof_reply_t *reply);

/*
 * After EAGAIN of jeprof_manner_stay: leaves the request to the process, which carries it out at
 * its next allocation, if that comes within keep_ms (0: whenever it comes). To be called at once:
 * without this call the request lapses after 10 s, because its client may have been killed.
 */
void jeprof_let_stay(jeprof_target_t *t, uint64_t keep_ms);

/* Removes the unanswered request, if there is one, from the mailbox. */
void jeprof_take_back(jeprof_target_t *t);

/*
 * Copies the first pending request of another client with this verb; false if there is none. A
 * request is pending if the process has not taken it and its lease is not over. One that
 * jeprof_let_stay() has left counts as another client's.
 */
bool jeprof_find_pending(jeprof_target_t *t, const char *verb, char text[JEPROF_TEXT]);

/*
 * After EAGAIN of jeprof_manner_stay: whether another client's pending request with this verb has
 * precedence, so that ours is to be taken back. Waits a moment for one that may be withdrawn too.
 */
bool jeprof_comes_second(jeprof_target_t *t, const char *verb);

/* Number of pending requests of other clients with the verbs start and set. */
unsigned jeprof_count_pending(jeprof_target_t *t);

/* Pending requests that were removed. */
typedef struct jeprof_withdrawn_s {
	unsigned starts, sets; /* those with the verbs start and set */
} jeprof_withdrawn_t;

/*
 * Removes the pending requests of other clients with the verbs start and set. The process may take
 * one while it is being removed, and then carries it out; *w counts the others. 0 or ESRCH.
 */
int jeprof_withdraw_pending(jeprof_target_t *t, jeprof_withdrawn_t *w);

/* Sets buf to what was removed, as a sentence without its full stop. */
void jeprof_withdrawn_text(const jeprof_withdrawn_t *w, char buf[80]);

/* The word for a jeprof_state_t, as in an answer to "status"; "unknown" for any other number. */
const char *jeprof_state_word(uint32_t state);

/*
 * The value of a key in an answer of lines key=value, copied and cut off at size; NULL if the key
 * is not there.
 */
const char *jeprof_value(const char *answer, const char *key, char *buf, size_t size);

/*
 * Finds out why an idle process did not answer this request, after jeprof_ask() has returned
 * EAGAIN; does not wait. Sets the sentence and returns its errno, never 0: ETIMEDOUT; ENXIO, as
 * jeprof_check_allocator(); ESRCH; EINTR if request.interrupts has reached request.patience.
 */
int jeprof_explain_silence(jeprof_target_t *t, const jeprof_request_t *request);

/*
 * Why a process that does not answer cannot run at all: "stopped (...)", "frozen (...)" or "waiting
 * in the kernel (...)", to be put behind "is"; NULL: it can. By t->state and its control group; the
 * freezer of cgroup version 1 shows as a wait in the kernel. No sentence in t->why.
 */
const char *jeprof_halted(const jeprof_target_t *t);

/*
 * ENXIO with a sentence if the program has a malloc of its own though the library is loaded, so
 * that the library is idle for ever; else 0. Reads up to 256 MiB of the program's file.
 */
int jeprof_check_allocator(jeprof_target_t *t);

/*
 * An image: the tables of the profiler as they lie in the memory of a process, or in a file that
 * has that memory: a core file, or a box (MALLOC_CONF=prof_blackbox). The process need not answer:
 * it may be stopped, hang in a lock, or be dead. Errors and the sentence are as above; EPROTO: the
 * tables are of another version or byte order; ENOENT: nothing has started the profiler, or a core
 * has no tables; EINVAL: the file is neither a core nor a box, or it is damaged; ENODATA: the core
 * lacks the memory in which the tables lay.
 */
typedef struct jeprof_image_s jeprof_image_t;

typedef struct jeprof_image_facts_s {
	uint32_t pid;              /* as the process sees itself */
	uint64_t session_id;       /* of this or the last session; 0: there was none */
	uint64_t session_start_ns; /* ns since 1970, UTC */
	uint64_t rate;             /* sampling interval in bytes */
	/* when the process wrote the next six figures (about once a second); ns since 1970, UTC */
	uint64_t time_ns;
	uint64_t allocated;        /* this one and the next five are bytes */
	uint64_t active;
	uint64_t resident;
	uint64_t retained;
	uint64_t rss;              /* 0: not known */
	uint64_t limit;            /* of memory; 0: none, or not known */
	uint64_t samples;          /* whose objects are not freed */
	uint64_t sites;            /* stacks that the profile shows */
	/* objects of the tables that were left out as damaged, and walks that were given up */
	uint64_t torn;
	bool is_broken;            /* the list of stacks was not followed to its end */
	uint64_t no_room;          /* samples whose stacks found no room in the box */
	bool lacks_files;          /* a core does not tell all files that were mapped (NT_FILE) */
	uint64_t lacking;          /* files mapped as code whose ELF headers or notes cannot be read */
	uint64_t cut;              /* bytes that the core file or box lacks at its end */
	/* when the box was closed, by the end of the process or by exec; 0: by neither, or no box */
	uint64_t ended_ns;
} jeprof_image_facts_t;

/* A line of the ring (image_course.c): the figures at one second. */
typedef struct jeprof_image_line_s {
	uint64_t time_ns;          /* ns since 1970, UTC */
	uint64_t allocated;        /* this one and the next four are bytes */
	uint64_t active;
	uint64_t resident;
	uint64_t rss;              /* 0: not known */
	uint64_t limit;            /* of memory; 0: none, or not known */
	uint64_t samples;          /* since the start */
	uint64_t faults;           /* major page faults since the start */
} jeprof_image_line_t;

enum { JEPROF_COURSE_MAX = 3600 }; /* lines of an image: an hour or more */

/*
 * Reads the image of a process that was opened or probed; EACCES if only its mailbox file or its
 * directory is open. The target must stay open, and belongs to the image, until
 * jeprof_image_close(). After an error there is no image to be closed.
 */
int jeprof_image_of_process(jeprof_image_t **image, jeprof_target_t *t);
/*
 * The same after a jeprof_ask() for a profile that failed with `error`, if that says that the
 * process did not answer (ETIMEDOUT, EBUSY). 0; `error` if it says something else, or there is no
 * image. Either way the sentence is that of the request. bytes_max: the profile that the caller
 * wants to write has at most so many bytes, 0: any number; tables of which a larger one would be
 * made may be refused, so the memory of the image is bounded in proportion to bytes_max.
 */
int jeprof_image_unanswered(jeprof_image_t **image, jeprof_target_t *t, int error,
    uint64_t bytes_max);
/*
 * Reads a core file or a box; from a pipe only a core. fd stays the caller's, who keeps it open
 * until jeprof_image_close(). The sentence of an error goes to `why`, which must stay valid as long
 * as the image.
 */
int jeprof_image_of_file(jeprof_image_t **image, int fd, char why[JEPROF_WHY]);
jeprof_image_facts_t jeprof_image_facts(const jeprof_image_t *image);
/* Writes it as a profile, heap_v2. ENOMEM, or the errno of a write; the sentence as at opening. */
int jeprof_image_write(jeprof_image_t *image, FILE *to);
/*
 * The same into memory: *text has *bytes and ends with NUL; the caller frees it. EFBIG if there are
 * more than bytes_max (0: none are allowed). After an error *text is NULL.
 */
int jeprof_image_text(jeprof_image_t *image, uint64_t bytes_max, char **text, size_t *bytes);
/*
 * Copies the last lines, at most `most`, in the order in which they were written; returns their
 * number. Their times may step back where the clock was set.
 */
size_t jeprof_image_course(jeprof_image_t *image, jeprof_image_line_t *lines, size_t most);
/*
 * How much the resident memory (rss, where that is known) has risen up to the last of these lines,
 * without a great fall; in bytes. *ms: how long that took; if the clock was set back, 1000 (a
 * second) for each line. Both are 0 if the rise is less than an eighth of the last value.
 */
uint64_t jeprof_course_growth(const jeprof_image_line_t *lines, size_t count, uint64_t *ms);
/* Frees the image; NULL: nothing. The target or fd stays open. */
void jeprof_image_close(jeprof_image_t *image);

/*
 * When the process opened the box that its tables lie in, ns since 1970; 0: they lie in none, the
 * box is not in use any more, or the memory may not be read. The process must be open.
 */
uint64_t jeprof_box_opened(const jeprof_target_t *t);
/* Bytes of a box whose size neither a request nor prof_blackbox_size names. */
enum { JEPROF_BOX_BYTES = 16 << 20, JEPROF_BOX_MAX = 1 << 30 };
/*
 * To be called before a process is asked to start with a box ("blackbox:true" or "blackbox:fd"):
 * whether it can have one. The kernel is asked, not the process. 0, also if it has a box already;
 * EPERM: it has a filter of system calls (seccomp) of its own, or one that is not known to be that
 * of its container, so the calls that make a box may end it. ENOSPC: its memory cgroup, or one
 * above, has room for less than four boxes of so many bytes, and where the kernel finds no room it
 * kills.
 */
int jeprof_check_box(jeprof_target_t *t, uint64_t bytes);
/*
 * Opens the first memory file of a box among the descriptors of the process, so that it can be read
 * after its end. Checks neither that the tables lie in it, nor that the pid is still that of the
 * process: the caller does. The descriptor, or -1 and errno: ENOENT if there is none; EMFILE,
 * ENFILE or ENOMEM if a later call may find it; another one if it may not be opened. The kernel
 * frees the memory of the box only when this descriptor is closed too.
 */
int jeprof_box_open(const jeprof_target_t *t);

#ifdef __cplusplus
}
#endif

#endif /* JEPROF_CLIENT_H */
