/*
 * The system as a contract: every system call that can fail goes through one table of hooks, so
 * that a test can make any call fail at its k-th use.  The sys_*() functions below are what the
 * other floors call: they retry EINTR (SYS_TRIES_MAX), report failure as an errno value and leave errno alone.
 * None of them allocates, takes a lock of the C library or is a cancellation point.
 */
#ifndef OS_SYS_H
#define OS_SYS_H

#include <pthread.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#include "util/compiler.h"

/* So many interrupts without an end (seconds of them, at 2 kHz) are no signals but a call that fails. */
#define SYS_TRIES_MAX 10000u

/* Each member follows the convention of the system call of its name: -1 and errno. */
struct os_hooks_s {
	void *(*mmap)(void *addr, size_t size, int prot, int flags, int fd, off_t off);
	int (*munmap)(void *addr, size_t size);
	int (*mprotect)(void *addr, size_t size, int prot);
	int (*madvise)(void *addr, size_t size, int advice);
	void *(*sbrk)(intptr_t bytes);
	/* process_madvise(2) on this process: bytes advised, or -1. */
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
	/* renameat2(2) with the current directory on both sides. */
	int (*rename2)(const char *from, const char *to, unsigned flags);
	ssize_t (*readlink)(const char *path, char *buf, size_t size);
	/* As the system call: the length with the final 0, or -1. */
	ssize_t (*getcwd)(char *buf, size_t size);
	ssize_t (*getrandom)(void *buf, size_t size, unsigned flags);
	/* Returns an errno value, as the function of the C library does. */
	int (*pthread_create)(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *),
	    void *arg);
};

extern HIDDEN const struct os_hooks_s os_hooks_real;
extern HIDDEN const struct os_hooks_s *os_hooks;

/* The kernel's page size; set by os/pages at boot. */
extern HIDDEN size_t os_page_size;

/*
 * Value of an environment variable; NULL in a set-user-id process (unless built with
 * --enable-force-getenv), when it is unset, or before the C library has its environment.
 */
const char *sys_env(const char *name);
bool sys_is_secure(void);
int sys_pid(void);
/* Inode number of the pid namespace, 0 when unknown. */
uint64_t sys_pidns(void);
/* Number in an auxiliary vector entry, 0 when absent. */
unsigned long sys_auxval(unsigned long type);

/* A descriptor (O_CLOEXEC is added), or -errno. */
int sys_open(const char *path, int flags, unsigned mode);
/* Number of bytes read (0: end of file), or -errno. */
ssize_t sys_read(int fd, void *buf, size_t size);
/* Fills buf up to size bytes from the file at path: bytes read, or -errno. */
ssize_t sys_read_file(const char *path, void *buf, size_t size);
/* One write: bytes written, or -errno. */
ssize_t sys_write(int fd, const void *buf, size_t size);
/* Writes everything: 0 or errno; *written (may be NULL) counts what got out. */
int sys_write_all(int fd, const void *buf, size_t size, size_t *written);
int sys_close(int fd);
int sys_fstat(int fd, struct stat *st);
int sys_fchmod(int fd, unsigned mode);
int sys_unlink(const char *path);
int sys_rename(const char *from, const char *to);
/* Moves `from` to `to`; EEXIST when something of that name is there, never replacing it. */
int sys_rename_noreplace(const char *from, const char *to);
/* Length of the target (0-terminated, cut to size - 1), or -errno. */
ssize_t sys_readlink(const char *path, char *buf, size_t size);
int sys_getcwd(char *buf, size_t size);
/* Up to 8 random bytes; falls back to clock and addresses where the kernel has none to give. */
uint64_t sys_random(void);

/* True if these bytes can be read; asks the kernel, never faults. */
bool sys_is_readable(const void *addr, size_t size);

/*
 * Feeds the text of the process's memory map to cb in pieces, through the caller's buffer; a
 * nonzero result of cb ends the copy and is returned.  Else 0 or the errno of open or read.
 */
int sys_maps_copy(char *buf, size_t size, int (*cb)(void *ctx, const char *text, size_t len),
    void *ctx);

struct sys_module_s {
	uintptr_t start;
	uintptr_t end;
	uintptr_t bias;
	const unsigned char *build_id;
	size_t build_id_len;
	const char *path;
	/* Start of .eh_frame_hdr, NULL if there is none. */
	const void *eh_frame_hdr;
};

/*
 * Calls cb for each loaded object until it returns nonzero.  Takes the loader's lock: never
 * call it while holding a lock of the allocator.  build_id and path are valid during cb only.  exe:
 * room for the program's own path, which is empty if there is none (size 0).  -1: they cannot be listed,
 * see sys_modules_postfork_child.
 */
int sys_modules(int (*cb)(void *ctx, const struct sys_module_s *m), void *ctx, char *exe,
    size_t size);
/* Counters of objects loaded and unloaded so far; false if the C library does not tell. */
bool sys_module_changes(uint64_t *adds, uint64_t *subs);
/* In a forked child: the lock of the loader may be held by a thread that is not there. */
void sys_modules_postfork_child(void);

#endif
