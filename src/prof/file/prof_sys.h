/*
 * Files of the profiler: their names, opening them so that no file is overwritten or seen half
 * written, and facts about the process that dumps report.
 *
 * A file is written under a temporary name in the same directory and renamed at the end. Where that
 * is impossible (a device, a bind-mounted file, a directory without write permission), an explicit
 * path that exists is written in place; a regular file only if the user owns it and it has no other
 * name (else EACCES) and no other process writes it so (EBUSY), a FIFO only if the user or root
 * owns it (EACCES). A symbolic link fails with ELOOP, a directory with EISDIR. A path of a
 * descriptor (/dev/stdout) is written in place without these tests, a regular file from the
 * descriptor's offset on; a socket fails with ENXIO.
 *
 * A prof_file_t belongs to its caller, who serializes its use. Locks: `prof_prefix` for the prefix,
 * taken inside the gate (os/gate.h: fork waits until no thread is inside), which the functions for
 * the prefix and prof_dump_filename() enter themselves. Called by prof_dump.c, prof_log.c,
 * prof_write.c, prof_box.c, prof_keep.c and prof_dir.c for files and names, by conf_table.c and
 * most modules of the profiler for the prefix and facts about the process (prof_sys.c lists them).
 */
#pragma once

#include "os/mutex.h"
#include "os/sys.h"
#include "util/atomic.h"
#include "util/compiler.h"

#define PROF_PATH_SIZE 4097 /* bytes of a buffer for a path: PATH_MAX and one */

/*
 * What a file is: a profile, with the reason why it was written, or one of the last two kinds. Each
 * kind but the log has a letter in file names (prof_sys.c).
 */
typedef enum {
	prof_kind_final,     /* the process ends */
	prof_kind_interval,  /* so many bytes were allocated (lg_prof_interval) */
	prof_kind_manual,    /* mallctl or a request asked for it */
	prof_kind_gdump,     /* a new maximum of mapped memory (prof_gdump) */
	prof_kind_session,   /* a session ends */
	/* the thresholds of prof_trigger.h: allocated bytes, a large request, live memory, time */
	prof_kind_alloc,
	prof_kind_large,
	prof_kind_highwater,
	prof_kind_timer,
	prof_kind_delta,     /* asked for: what was added since the mark (prof_mark.h) */
	prof_kind_box,       /* a box (prof_box.h): no profile, but what one can be made from */
	prof_kind_log,       /* an allocation log (prof_log.h), no profile either */
	prof_kind_n
} prof_kind_t;

/* The word for the metadata of a dump: "final", "interval" and so on. */
const char *prof_kind_name(prof_kind_t kind);

/* Whether every file name made from this prefix of len bytes is short enough. */
bool prof_sys_prefix_fits(const char *prefix, size_t len);
/* Bytes of the path up to its last slash, with it; 0: it has none. */
size_t prof_sys_dir_len(const char *path, size_t len);
/*
 * Copies the path, which is shorter than size, to buf; a relative one made absolute, unless it
 * becomes too long for buf or the working directory is not known.
 */
void prof_sys_path_absolute(char *buf, size_t size, const char *path);
/*
 * Whether the directory of the prefix exists; also true if that cannot be found out, and for an
 * empty prefix. One thread at a time: called at boot and by the thread that starts a session.
 */
bool prof_sys_prefix_has_dir(const char *prefix, size_t len);
/*
 * Stores the prefix, made absolute unless it is "", would become too long, or the working directory
 * is not known. 0, or EINVAL if prof_sys_prefix_fits() is false; then the old prefix stays.
 */
int prof_sys_prefix_set(const char *prefix);
/* Copies the prefix into buf, cut to size - 1 bytes; PROF_PREFIX_MAX + 1 bytes hold each prefix. */
void prof_sys_prefix_get(char *buf, size_t size);
/* Whether the prefix is "", so that no name can be made from it; takes no lock. */
bool prof_sys_prefix_is_empty(void);

/* The parts of a name other than prefix, pid and sequence number. */
typedef struct {
	prof_kind_t kind;
	uint64_t kseq;      /* number among the files of this kind, from 0 on; not used for a log */
	/*
	 * start of the dump or of the session, and end of the session (nstime_realtime_ns); not used
	 * for a log
	 */
	uint64_t begin_ns;
	uint64_t end_ns;
} prof_name_t;

/* Returns the next number of this kind, counted from 0. */
uint64_t prof_sys_kseq_next(prof_kind_t kind);
/*
 * Makes the path of a profile, box or log; no other function does:
 *   <prefix>[.<pidns>].<pid>[.<stamp>[_<stamp>]].<seq>.<letter>[<kseq>].heap  (a box: .b.box)
 *   <prefix>[.<pidns>].<pid>.<kseq>.json                                      (a log)
 * <stamp> is there with prof_dump_timestamp; a session has two. Each call takes the next <seq>,
 * which all kinds but the log share, or the next <kseq> of a log; so calling it again avoids a name
 * that exists. Returns 0 or ENAMETOOLONG.
 */
int prof_dump_filename(char *buf, size_t size, const prof_name_t *name);
/* Names that are tried before the error is EEXIST. */
#define PROF_NAME_TRIES 104
/*
 * Called when the name of attempt i, from 0 on, exists: after many attempts the next <seq> is far
 * away, so that not each name of an earlier process with the same pid is tried.
 */
void prof_sys_seq_skip(unsigned i);

/*
 * The kind of a file by its name, which is without the directory. base: what a prefix has behind
 * its last slash. prof_kind_n: the name is not one that prof_dump_filename() makes from that prefix
 * for a profile or a box, in this or another process.
 */
prof_kind_t prof_sys_name_kind(const char *name, const char *base);

/*
 * Reads up to size (8 or more) first bytes of a regular file that begins as a profile does. Returns
 * their number; 0 if the file begins otherwise, is not regular or cannot be read.
 */
size_t prof_sys_head_read(const char *path, char *buf, size_t size);

/* Receives what would go to a file; returns 0 or an errno. */
typedef int prof_sink_t(const void *data, size_t len);

/* A file being written; also the state from which prof_file_close() names or removes it. */
typedef struct {
	int fd_plus_1;      /* descriptor + 1, 0: not open; so a zeroed struct is a closed file */
	int err;            /* first error; nothing is written after it */
	bool is_explicit;   /* the path was given, so an existing file of that name may be replaced */
	bool is_confined;   /* explicit, and only a profile may be replaced */
	bool is_new;        /* of an explicit path: no file of that name existed at open */
	bool has_temp;      /* the file has its temporary name (temp) */
	int temp_pid;       /* process that made the temporary file; 0: there is none */
	bool may_block;     /* a pipe or a device: wait for it, at most 5 s for each piece */
	prof_sink_t *sink;  /* receives the data instead of a descriptor; NULL: none */
	uint64_t written;   /* bytes */
	prof_name_t name;   /* for another path, if a file with this one exists at prof_file_close() */
	sys_write_signals_t signals; /* mask before open */
	char path[PROF_PATH_SIZE]; /* "-" of a sink; prof_file_close() may change a made name */
	char temp[PROF_PATH_SIZE];
} prof_file_t;

/* Whether a descriptor is open; false for a sink. */
static inline bool
prof_file_is_open(const prof_file_t *f) {
	return f->fd_plus_1 != 0;
}

/*
 * Opens a file. path NULL: a path made from `name`. is_confined: the path comes from outside the
 * process, and the file is never written in place, and only a profile may be replaced; else EEXIST
 * (also from prof_file_close(), which looks again), ELOOP or EISDIR. Returns 0, or an errno, which
 * is in f->err too; ECANCELED after prof_sys_end() of another thread. Blocks SIGXFSZ and SIGPIPE in
 * this thread until prof_file_close(), also if opening fails; so prof_file_close() must follow in
 * that case too.
 */
int prof_file_open(prof_file_t *f, const char *path, const prof_name_t *name, bool is_confined);
/*
 * Passes what is written to the sink instead of a file. Returns 0. prof_file_close() must follow.
 */
int prof_file_open_sink(prof_file_t *f, prof_sink_t *sink);
/* Writes all of data unless f->err is set; an error, perhaps after a part, goes to f->err. */
void prof_file_write(prof_file_t *f, const void *data, size_t len);
/*
 * Closes the file and gives it its name, or removes it if anything failed; one written in place
 * stays, incomplete. Returns 0 or the first errno.
 */
int prof_file_close(prof_file_t *f);

/*
 * Takes the flock() lock of a file, which lasts as long as a process has this open file or maps it,
 * in up to `tries` attempts with pauses: a reader of boxes that tests the lock holds it for a
 * moment. 0 or an errno: EWOULDBLOCK if another process has it; another one on a file system
 * without locks.
 */
int prof_sys_lock(int fd, unsigned tries);

/* In a forked child: closes the copy of a descriptor that another thread of the parent had open. */
void prof_file_forget(prof_file_t *f);
/* At exit, while another thread writes: removes that thread's temporary file. */
void prof_file_abandon(prof_file_t *f);

/* The name of an errno, such as "ENOSPC"; for one that is not in the table "errno=N", in buf. */
const char *prof_errno_name(int err, char buf[16]);

/*
 * Whether a file of so many bytes is above the limit on file sizes (RLIMIT_FSIZE): to make it so
 * large would raise SIGXFSZ. The limit holds for memory files too. For files that are not written
 * through a prof_file_t, which blocks that signal.
 */
bool prof_sys_file_is_forbidden(uint64_t bytes);
/*
 * Resident bytes of the process as the kernel reports them, 0 if it does not. *shared, unless NULL:
 * how many of these bytes belong to files or to shared memory.
 */
uint64_t prof_sys_rss(uint64_t *shared);
/* Clock ticks from the boot of the machine to the start of the process; 0: not known. */
uint64_t prof_sys_start_ticks(void);
/*
 * Random number of this process, which profiles tell and the mailbox has as `instance`; 0: there is
 * none, as the mailbox is closed. A forked child has another one. Set by prof_control.c.
 */
extern atomic_u64_t prof_sys_instance;
/*
 * Path of the program, "" if unknown, in a buffer of PROF_PATH_SIZE bytes or more. That is the path
 * that /proc gives now. If it gives none, or that of a loader that was named
 * (sys_is_run_by_loader), the one that prof_sys_exe_boot() has learned; else the path by which the
 * program was started (AT_EXECFN); else that of the loader.
 */
void prof_sys_exe(char *buf, size_t size);
/*
 * Learns that path; called at the start with prof:true, because /proc and the current directory may
 * be others later.
 */
void prof_sys_exe_boot(void);
/* In a forked child: numbers in file names begin at 0 again; no thread creates a file or exits. */
void prof_sys_postfork_child(void);

/*
 * A thread that makes a file which exit is to remove if it is not finished calls these two around
 * its creation: prof_sys_create_begin(); then it creates the file and notes it where exit looks;
 * then prof_sys_create_end(). False: another thread ends the process; then the caller creates no
 * file and does not call prof_sys_create_end().
 */
bool prof_sys_create_begin(void);
void prof_sys_create_end(void);
/* Waits, for 1 s or somewhat longer at most, until no thread is creating a file. */
void prof_sys_await_created(void);
/*
 * How a thread that creates a file and the thread that ends the process see each other: the first
 * adds to nbusy before it reads ender, the second stores ender before it reads nbusy, and all four
 * accesses are sequentially consistent. So at least one of the two sees the other.
 */
extern HIDDEN struct prof_sys_creation_s {
	atomic_u32_t nbusy; /* threads that create a file */
	atomic_u32_t ender; /* mutex_self() of the thread that ends the process; 0: none */
} prof_sys_creation;
/*
 * At exit. From then on no other thread creates such a file. If threads are creating files now,
 * waits until these are noted, or prof_sys_await_created() gives up. Inline, because every process
 * calls it at its end: in prof_sys.c its code would cost each of them one more page of memory.
 */
static inline void
prof_sys_end(void) {
	atomic_store_u32(&prof_sys_creation.ender, mutex_self(), MO_SEQ_CST);
	if (unlikely(atomic_load_u32(&prof_sys_creation.nbusy, MO_SEQ_CST) != 0)) {
		prof_sys_await_created();
	}
}
/* Whether another thread has called prof_sys_end(). */
bool prof_sys_is_ending(void);
