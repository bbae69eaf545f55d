/*
 * The system calls of the allocator, as wrappers over one table of hooks.
 * Nearly all uses of the calls in the table os_hooks go through the table, so that a test can make
 * each fail at its k-th use. (Exceptions: the mapping of the mailbox in prof_control.c,
 * sys_is_readable(), messages of util/compiler.c.) Calls that are not in it, such as ftruncate,
 * fallocate, ppoll and futex, are made directly. os/pages, os/thread and extent/dss use the table
 * itself, the rest of src/ the sys_*() functions. Those for files retry EINTR (up to SYS_TRIES_MAX
 * times; sys_close() does not) and report failure as an errno value;
 * those that return a number or a descriptor report it as -errno. All functions of this file
 * preserve errno. None of them allocates, takes a lock of the C library or is a cancellation point,
 * except where the comment of a function says so. They take no lock of ours; their state is the
 * table, facts that are learned once, and what is known of the loader's lock (sys_modules.c).
 * Called by the profiler, unwind/, conf.c, meta/region, extent/guard, arena/canary, thread/tsd,
 * jemalloc_init.c and the other files of os/.
 *
 * A program may forbid system calls after its start, and the kernel then ends it for making one of
 * those. So from the end of boot on the library makes only the calls that the C library's malloc
 * makes: mmap, munmap, mremap, mprotect, madvise, brk, futex, getrandom, and write of a message,
 * with rt_sigprocmask (rt_sigpending too where the program blocks SIGPIPE or SIGXFSZ, and
 * rt_sigtimedwait if the write failed). (sys_is_readable() asks by futex.) It makes
 * others only for what the user asks for and what needs them: a profile, a request from outside, a
 * session, a timer (test/integration/confined.c; doc/PRODUCTION.md lists them).
 */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>

#include "util/compiler.h"

/*
 * Tries, each ended by EINTR, after which a call counts as failed with EINTR. With 2000 signals a
 * second this is 5 s, so signals alone hardly cause it.
 */
#define SYS_TRIES_MAX 10000u

/* Returns n, or -errno in place of a negative n, and sets errno to `saved`. */
ssize_t sys_count_end(ssize_t n, int saved);

/*
 * The result of a call that returns a number or -1: the number or -errno; errno is kept. Tried
 * again after EINTR, SYS_TRIES_MAX times in all.
 */
#define COUNT_OF(call) __extension__({ \
	int saved_ = errno; \
	ssize_t n_; \
	unsigned tries_ = SYS_TRIES_MAX; \
	while ((n_ = (call)) < 0 && errno == EINTR && --tries_ > 0) { } \
	sys_count_end(n_, saved_); \
})

/* The result of a call that returns 0 or -1: 0 or the errno value. */
#define ERROR_OF(call) (-(int)COUNT_OF(call))

/*
 * Each member has the convention of the system call of its name: on failure -1 (of mmap and mremap
 * MAP_FAILED, of sbrk (void *)-1) and errno, unless it says otherwise.
 */
struct os_hooks_s {
	void *(*mmap)(void *addr, size_t size, int prot, int flags, int fd, off_t off);
	int (*munmap)(void *addr, size_t size);
	int (*mprotect)(void *addr, size_t size, int prot);
	int (*madvise)(void *addr, size_t size, int advice);
	void *(*mremap)(void *from, size_t size, size_t new_size, int flags, void *to);
	void *(*sbrk)(intptr_t bytes);
	/* process_madvise(2) on this process: the number of bytes advised, or -1. */
	ssize_t (*madvise_many)(const struct iovec *ranges, size_t n, int advice);
	int (*open)(const char *path, int flags, unsigned mode);
	ssize_t (*read)(int fd, void *buf, size_t size);
	ssize_t (*write)(int fd, const void *buf, size_t size);
	int (*close)(int fd);
	int (*fstat)(int fd, struct stat *st);
	int (*fchmod)(int fd, unsigned mode);
	int (*unlink)(const char *path);
	int (*link)(const char *from, const char *to);
	int (*rename)(const char *from, const char *to);
	/* renameat2(2) with both paths relative to the current directory. */
	int (*rename2)(const char *from, const char *to, unsigned flags);
	ssize_t (*readlink)(const char *path, char *buf, size_t size);
	/* As the system call: the length including the NUL, or -1. */
	ssize_t (*getcwd)(char *buf, size_t size);
	ssize_t (*getrandom)(void *buf, size_t size, unsigned flags);
	/* Returns an errno value, like the function of the C library. */
	int (*pthread_create)(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *),
	    void *arg);
};

/* The real system, and the table in use; tests store another one. */
extern HIDDEN const struct os_hooks_s os_hooks_real;
extern HIDDEN const struct os_hooks_s *os_hooks;

/*
 * The kernel's page size in bytes; os/pages sets it at boot. It is here because sys.c, which is
 * below os/pages, needs it.
 */
extern HIDDEN size_t os_page_size;

/*
 * The value of an environment variable. NULL if it is unset, in a set-user-id process (unless built
 * with --enable-force-getenv), or before the C library has set up its environment.
 */
const char *sys_env(const char *name);
/* Whether the process has privileges that its environment must not control (AT_SECURE). */
bool sys_is_secure(void);
/*
 * The process id in the process's own pid namespace, by a system call. A filter may forbid that
 * later, so it is to be called at the start of the process, or in work that makes other system
 * calls anyway.
 */
int sys_pid(void);
/* Inode number of the pid namespace; 0 if not known. */
uint64_t sys_pidns(void);
/* The value of an auxiliary vector entry; 0 if absent. */
unsigned long sys_auxval(unsigned long type);

/*
 * Ends the process from a handler of its exit (atexit), with this status and not that of exit().
 * What the program has written to stdio may still be in its buffers: it is written out, so locks of
 * the C library are taken; the caller holds none of ours.
 */
_Noreturn void sys_exit_from_handler(int status);

/* Returns a descriptor (O_CLOEXEC is added), or -errno. */
int sys_open(const char *path, int flags, unsigned mode);
/* Another descriptor above stderr (O_CLOEXEC) of the same open file, offset and all; or -errno. */
int sys_dup(int fd);
/*
 * Opens a file of /proc/thread-self or, if that fails, /proc/self. The name (like "statm") has at
 * most 15 bytes. What such a file says of memory is true of the whole process, also that of
 * thread-self.
 */
int sys_open_own(const char *name);
/* Returns the number of bytes read (0: end of file), or -errno. */
ssize_t sys_read(int fd, void *buf, size_t size);
/*
 * Opens a file of the kernel (in /proc, /sys), reads at most size - 1 bytes of its beginning by one
 * read, closes it, and adds a NUL, also after a failure. Returns the number of bytes, or -errno.
 */
ssize_t sys_read_text(const char *path, char *text, size_t size);
/* Reads the decimal number at the begin of such a file; false: none, and *number means nothing. */
bool sys_try_read_number(const char *path, uint64_t *number);
/*
 * Reads the file statm of /proc: memory of the process in bytes, also if its first thread has ended
 * (with thread-self: Linux 3.17 and later). A field that cannot be read is 0.
 */
enum { STATM_SPACE, STATM_RESIDENT, STATM_SHARED, STATM_DATA = 5, STATM_FIELDS };
void sys_read_statm(uint64_t fields[STATM_FIELDS]);
/*
 * Writes all bytes. Where the descriptor would block (EAGAIN), waits for room, for timeout_ms at
 * most each time; 0: not at all. Returns 0 or an errno value, ETIMEDOUT after such a wait; *written
 * (written may be NULL) becomes the number of bytes that were written, also after an error.
 */
int sys_write_all(int fd, const void *buf, size_t size, unsigned timeout_ms, size_t *written);
/*
 * sys_write_signals_block() blocks SIGXFSZ and SIGPIPE, which a failing write raises, in the
 * calling thread; sys_write_signals_restore() sets its old mask again. The caller sets has_failed
 * if a write has failed in between: then the signal that it raised is taken away first.
 */
typedef struct sys_write_signals_s {
	sigset_t old_mask;
	bool was_pending[2]; /* SIGXFSZ, SIGPIPE: a program that blocks them may have them pending */
} sys_write_signals_t;
void sys_write_signals_block(sys_write_signals_t *w);
void sys_write_signals_restore(const sys_write_signals_t *w, bool has_failed);
/* The functions from here to sys_rename_noreplace() return 0 or an errno value. */

/* Never retries; EINTR is success. */
int sys_close(int fd);
int sys_fstat(int fd, struct stat *st);
int sys_fchmod(int fd, unsigned mode);
int sys_ftruncate(int fd, uint64_t size);
/* Makes a file at least so long, with all its blocks; EOPNOTSUPP where the file system cannot. */
int sys_reserve(int fd, uint64_t size);
int sys_unlink(const char *path);
int sys_rename(const char *from, const char *to);
/*
 * Renames a file; EEXIST if `to` exists, which is not replaced. Where neither renameat2(2) nor
 * link(2) works, a file may be replaced that another process puts there during the call.
 */
int sys_rename_noreplace(const char *from, const char *to);
/* Returns the length of the target (NUL terminated, cut to size - 1), or -errno. */
ssize_t sys_readlink(const char *path, char *buf, size_t size);
/* The working directory. 0 or an errno value: ENOENT: it has no path, ERANGE: buf is too small. */
int sys_getcwd(char *buf, size_t size);
/* 64 random bits from getrandom(2); if that fails, of the clock, AT_RANDOM and an address. */
uint64_t sys_random(void);

/*
 * Whether all these bytes can be read; size > 0. Asks the kernel, so it never faults; the kernel
 * may make the pages present for that. False for page 0, even if it is mapped, for a range that
 * wraps around, and where a filter refuses the question.
 */
bool sys_is_readable(const void *addr, size_t size);
/* Whether the kernel says that this word cannot be read; false where a filter refuses to ask. */
bool sys_is_unmapped(const uint32_t *word);
/*
 * Copies memory of this process that may be unmapped; size > 0. Returns false if not all of it can
 * be read; `to` is unchanged then. The memory is tested and then read, because a filter may forbid
 * process_vm_readv(2): it faults if another thread unmaps the memory just in between.
 */
bool sys_copy_memory(void *to, const void *from, size_t size);
/*
 * Copies a text with its NUL like sys_copy_memory(), and perhaps bytes behind it. False if it does
 * not end within `size` bytes or cannot be read; `to` has undefined contents then.
 */
bool sys_copy_text(char *to, const char *from, size_t size);

/*
 * Passes the text of the process's memory map to cb in pieces, through the caller's buffer. A
 * nonzero result of cb ends the copy and is returned (the caller knows it from an errno value);
 * otherwise the result is 0 or the errno value of open or read.
 */
int sys_maps_copy(char *buf, size_t size, int (*cb)(void *ctx, const char *text, size_t len),
    void *ctx);

/*
 * Calls cb for the name of each entry of a directory, also "." and "..". buf is aligned to 8 bytes.
 * The result is like that of sys_maps_copy().
 */
int sys_dir_each(const char *path, char *buf, size_t size, int (*cb)(void *ctx, const char *name),
    void *ctx);

/* A loaded object. */
struct sys_module_s {
	/* The first address of its loaded segments, and the address behind their last one. */
	uintptr_t start;
	uintptr_t end;
	/* Address in memory minus the address that the program headers name (p_vaddr). */
	uintptr_t bias;
	/* NULL if it has no build id. */
	const unsigned char *build_id;
	size_t build_id_len;
	const char *path;
	/* Start of .eh_frame_hdr; NULL if there is none. */
	const void *eh_frame_hdr;
	/* The program headers, as an array of ElfW(Phdr), during cb of sys_modules(); else NULL. */
	const void *headers;
	unsigned n_headers;
};

/*
 * Calls cb for each loaded object with loaded segments, the program first, until it returns
 * nonzero. Takes the loader's lock: the caller must hold no lock of the allocator. build_id and
 * path are valid only during cb. exe: the path that cb gets for the program, because the loader's
 * name for it is empty or not its path. Returns what the last cb returned, or -1 if the objects
 * cannot be listed; see sys_modules_postfork_child().
 */
int sys_modules(int (*cb)(void *ctx, const struct sys_module_s *m), void *ctx, const char *exe);
/*
 * The first object, the program, in the chain of the loader's descriptions; NULL if the C library
 * shows none. Takes no lock: only the objects of the process's start stay in the chain.
 */
struct link_map;
const struct link_map *sys_module_chain(void);
/* Bytes of a build id that sys_module_of_image() keeps; more are cut off. */
#define SYS_BUILD_ID_MAX 64
/*
 * Fills in the range, .eh_frame_hdr and the build id (stored in the caller's array) of a loaded
 * object from the headers at the start of its image [start, end). In *m the caller has set the bias
 * and the path, and all else is zero. Returns false if there are no headers or too many (more than
 * 1536 bytes), or if the lowest loaded segment does not begin at `start`; *m may have changed then.
 * Another thread may have unmapped the image before; it is read by sys_copy_memory(), which says
 * when it faults all the same.
 */
bool sys_module_of_image(struct sys_module_s *m, uintptr_t start, uintptr_t end,
    unsigned char build_id[SYS_BUILD_ID_MAX]);
/*
 * Whether the program's own ELF notes, in memory, contain one of this owner and type. Takes no
 * lock.
 */
bool sys_program_has_note(const char *owner, unsigned type);
/*
 * Whether the command that started the process names the loader (ld.so PROGRAM): the kernel has
 * loaded no interpreter, although the program's headers ask for one. /proc/self/exe is that loader
 * then; glibc's sets AT_EXECFN and AT_PHDR to what is the program's.
 */
bool sys_is_run_by_loader(void);
/*
 * Counts of objects loaded and unloaded since the start of the process; false, and both are 0, if
 * the C library does not provide them or the loader cannot be called
 * (sys_modules_postfork_child()). Takes the loader's lock.
 */
bool sys_module_changes(uint64_t *adds, uint64_t *subs);
/*
 * Prevents the object that contains this code from being unloaded, since threads, exit handlers and
 * destructors of keys lead into it. Calls the loader, which may allocate: to be called from a
 * constructor, with no lock held.
 */
void sys_module_keep_self(void);
/*
 * In a forked child: notes whether sys_modules() or sys_module_changes() was under way in the
 * parent, or an object was being loaded or unloaded, so that the loader's lock may be held by a
 * thread that does not exist here; then both fail from now on. Calls of dl_iterate_phdr() by the
 * program are not seen.
 */
void sys_modules_postfork_child(void);
