/*
 * What the profiler has to do with the system: names of files, opening them so that nothing is ever
 * overwritten or seen half-written, and the process's own name and id.
 *
 * A file is written under a temporary name in the same directory and moved to its name at the end.
 * Only where that cannot be (a device, a bind-mounted file, a directory that may not be written) an
 * explicitly given path is written in place; a regular file then only if it is the user's own and has
 * no other name.
 */
#ifndef PROF_SYS_H
#define PROF_SYS_H

#include <signal.h>

#include "util/compiler.h"

#define PROF_PATH_SIZE 4097 /* PATH_MAX and one */

typedef enum {
	prof_kind_final,
	prof_kind_interval,
	prof_kind_manual,
	prof_kind_gdump,
	prof_kind_session,
	prof_kind_alloc,
	prof_kind_large,
	prof_kind_highwater,
	prof_kind_timer,
	prof_kind_log,
	prof_kind_n
} prof_kind_t;

/* "final", "interval" ...: for the metadata. */
const char *prof_kind_name(prof_kind_t kind);

/* No name that begins so is too long. */
bool prof_sys_prefix_fits(const char *prefix, size_t len);
/* At boot only, before one is set: false if the directory of the prefix is not there. */
bool prof_sys_prefix_has_dir(const char *prefix);
/* Resolves a relative prefix now and keeps it. EINVAL: too long for any name. "" is kept as it is. */
int prof_sys_prefix_set(const char *prefix);
/* Copies; what prof_sys_prefix_set() takes back. size: PROF_PREFIX_MAX + 1. */
void prof_sys_prefix_get(char *buf, size_t size);
bool prof_sys_prefix_is_empty(void);

/* What a name is made of besides prefix, pid and sequence number. */
typedef struct {
	prof_kind_t kind;
	uint64_t kseq;
	uint64_t begin_ns;  /* instant the dump, or the session, began (UTC) */
	uint64_t end_ns;    /* of a session: when it stopped; else 0 */
} prof_name_t;

uint64_t prof_sys_kseq_next(prof_kind_t kind);
/*
 * The one place where names of profiles are made.  Each call takes the next sequence number, so
 * that a second call is how to avoid a name that exists.  ENAMETOOLONG.
 */
int prof_dump_filename(char *buf, size_t size, const prof_name_t *name);

/*
 * The kind of a profile by its name without directory, prof_kind_n if it is none of a prefix with this
 * last part; whatever process has written it.
 */
prof_kind_t prof_sys_name_kind(const char *name, const char *base);

/* A regular file that ends and begins as profiles do. */
bool prof_sys_is_profile(const char *path);

/* Takes what would go to a file: 0 or errno. */
typedef int prof_sink_t(const void *data, size_t len);

typedef struct {
	int fd;             /* -1: not open */
	int err;            /* first error; nothing is written after it */
	bool is_explicit;   /* path was given: an older file of that name is replaced */
	bool is_confined;   /* but none that is no profile */
	bool is_new;        /* confined: there was none of that name */
	bool has_temp;
	int temp_pid;       /* of the process that made it */
	bool may_block;     /* a pipe or such: wait for it a bounded time */
	prof_sink_t *sink;  /* instead of fd */
	uint64_t written;
	prof_name_t name;
	sigset_t old_mask;
	bool was_pending[2];
	char path[PROF_PATH_SIZE];
	char temp[PROF_PATH_SIZE];
} prof_file_t;

/*
 * SIGXFSZ and SIGPIPE stay blocked from open to close, whatever open returns; close must follow.
 * path NULL: a name made from `name`.  0 or errno, also in f->err.
 */
int prof_file_open(prof_file_t *f, const char *path, const prof_name_t *name);
/* The same for a path from somebody who may not replace what is no profile: EEXIST. */
int prof_file_open_confined(prof_file_t *f, const char *path, const prof_name_t *name);
int prof_file_open_sink(prof_file_t *f, prof_sink_t *sink);
void prof_file_write(prof_file_t *f, const void *data, size_t len);
/* Gives the file its name, or removes it if anything failed: 0 or the first errno. */
int prof_file_close(prof_file_t *f);

/* In a forked child: the copy of a descriptor that another thread of the parent had open. */
void prof_file_forget(prof_file_t *f);
/* The process exits while another thread writes: its temporary file does not stay behind. */
void prof_file_abandon(prof_file_t *f);

/* "ENOSPC"; a number for what has no name here. */
const char *prof_errno_name(int err, char buf[16]);

/* Resident bytes of the process as the kernel counts them, 0 if it does not tell. */
uint64_t prof_sys_rss(void);
/* Path of the program, "" if unknown. */
void prof_sys_exe(char *buf, size_t size);
void prof_sys_postfork_child(void);

#endif /* PROF_SYS_H */
