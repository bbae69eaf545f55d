/*
 * The real system calls behind os_hooks, and the wrappers for files, environment and process.
 * sys.h has the contract. Calls for which os_hooks has no element, such as ftruncate, fallocate,
 * getdents64, ppoll, futex and getpid, are made directly.
 * open, read, write and close are called by number, for two reasons: the functions of the C library
 * are cancellation points, where a thread may be ended, and no function of malloc may be one; and
 * programs often interpose them. No lock; the state is the hook table and facts that are learned
 * once.
 */
#include "os/sys.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/nstime.h"
#include "os/sys_call.h"
#include "util/atomic.h"
#include "util/bits.h"
#include "util/fmt.h"
#include "util/hash.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise 440 /* on all processors */
#endif

extern char **environ;

static void *
real_mmap(void *addr, size_t size, int prot, int flags, int fd, off_t off) {
	return mmap(addr, size, prot, flags, fd, off);
}

/* Stands for the calling process where a pidfd is expected. Linux before 6.14 rejects it. */
#define PIDFD_OF_SELF (-10001)

static ssize_t
real_madvise_many(const struct iovec *ranges, size_t n, int advice) {
	long number = PROCESS_MADVISE_NR > 0 ? PROCESS_MADVISE_NR : SYS_process_madvise;
	return sys_call(number, PIDFD_OF_SELF, ranges, n, advice, 0);
}

static int
real_open(const char *path, int flags, unsigned mode) {
	return (int)sys_call(SYS_openat, AT_FDCWD, path, flags, mode);
}

static ssize_t
real_read(int fd, void *buf, size_t size) {
	return sys_call(SYS_read, fd, buf, size);
}

static ssize_t
real_write(int fd, const void *buf, size_t size) {
	return sys_call(SYS_write, fd, buf, size);
}

static int
real_close(int fd) {
	return (int)sys_call(SYS_close, fd);
}

static int
real_fchmod(int fd, unsigned mode) {
	return fchmod(fd, (mode_t)mode);
}

static int
real_rename2(const char *from, const char *to, unsigned flags) {
	return (int)sys_call(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags);
}

static ssize_t
real_getcwd(char *buf, size_t size) {
	return sys_call(SYS_getcwd, buf, size);
}

static ssize_t
real_getrandom(void *buf, size_t size, unsigned flags) {
	return sys_call(SYS_getrandom, buf, size, flags);
}

static void *
real_mremap(void *from, size_t size, size_t new_size, int flags, void *to) {
	return (void *)sys_call(SYS_mremap, from, size, new_size, flags, to);
}

const struct os_hooks_s os_hooks_real = {
	.mmap = real_mmap,
	.munmap = munmap,
	.mprotect = mprotect,
	.madvise = madvise,
	.mremap = real_mremap,
	.sbrk = sbrk,
	.madvise_many = real_madvise_many,
	.open = real_open,
	.read = real_read,
	.write = real_write,
	.close = real_close,
	.fstat = fstat,
	.fchmod = real_fchmod,
	.unlink = unlink,
	.link = link,
	.rename = rename,
	.rename2 = real_rename2,
	.readlink = readlink,
	.getcwd = real_getcwd,
	.getrandom = real_getrandom,
	.pthread_create = pthread_create,
};

size_t os_page_size;
const struct os_hooks_s *os_hooks = &os_hooks_real;

/* glibc's exit() may be called by a handler: it goes on with the handlers that are left. */
void
sys_exit_from_handler(int status) {
#if defined(__GLIBC__)
	exit(status);
#else
	fflush(NULL);
	_exit(status);
#endif
}

unsigned long
sys_auxval(unsigned long type) {
	int saved = errno;
	unsigned long v = getauxval(type);
	errno = saved;
	return v;
}

bool
sys_is_secure(void) {
	return sys_auxval(AT_SECURE) != 0;
}

const char *
sys_env(const char *name) {
	assert(name[0] != '\0' && strchr(name, '=') == NULL);
	char **env = environ;
	if (env == NULL || (!config_force_getenv && sys_is_secure())) {
		return NULL;
	}
	size_t len = strlen(name);
	for (; *env != NULL; env++) {
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=') {
			return *env + len + 1;
		}
	}
	return NULL;
}

int
sys_pid(void) {
	/* By the system call, because some C libraries cache the number across a raw clone(). */
	return (int)sys_call(SYS_getpid);
}

uint64_t
sys_pidns(void) {
	char text[64];
	if (sys_readlink("/proc/self/ns/pid", text, sizeof(text)) <= 0) {
		return 0;
	}
	const char *digits = strchr(text, '[');
	int err;
	uint64_t n = digits == NULL ? 0 : fmt_parse_uint(digits + 1, NULL, 10, &err);
	return n;
}

ssize_t
sys_count_end(ssize_t n, int saved) {
	n = n < 0 ? -errno : n;
	errno = saved;
	return n;
}

int
sys_open(const char *path, int flags, unsigned mode) {
	return (int)COUNT_OF(os_hooks->open(path, flags | O_CLOEXEC, mode));
}

int
sys_dup(int fd) {
	return (int)COUNT_OF(sys_call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

ssize_t
sys_read(int fd, void *buf, size_t size) {
	ssize_t n = COUNT_OF(os_hooks->read(fd, buf, size));
	assert(n <= (ssize_t)size);
	return n;
}

/* sys_read_text() of a descriptor, which it closes; fd may be -errno, which is then the result. */
static ssize_t
read_text(int fd, char *text, size_t size) {
	ssize_t n = fd < 0 ? fd : sys_read(fd, text, size - 1);
	text[n > 0 ? n : 0] = '\0';
	if (fd >= 0) {
		sys_close(fd);
	}
	return n;
}

ssize_t
sys_read_text(const char *path, char *text, size_t size) {
	return read_text(sys_open(path, O_RDONLY, 0), text, size);
}

bool
sys_try_read_number(const char *path, uint64_t *number) {
	char text[32];
	int err;
	sys_read_text(path, text, sizeof(text));
	*number = fmt_parse_uint(text, NULL, 10, &err);
	return err == 0;
}

/*
 * The file about the process (self) shows no memory after the first thread has ended
 * (pthread_exit() in main), and is opened only if that about the thread (thread-self) cannot be:
 * kernels before 3.17 have none.
 */
int
sys_open_own(const char *name) {
	char path[48];
	assert(strlen(name) < 16);
	fmt_snprintf(path, sizeof(path), "/proc/thread-self/%s", name);
	int fd = sys_open(path, O_RDONLY, 0);
	if (fd < 0) {
		fmt_snprintf(path, sizeof(path), "/proc/self/%s", name);
		fd = sys_open(path, O_RDONLY, 0);
	}
	return fd;
}

void
sys_read_statm(uint64_t fields[STATM_FIELDS]) {
	char text[128], *at = text;
	int err = 0;
	read_text(sys_open_own("statm"), text, sizeof(text));
	for (unsigned i = 0; i < STATM_FIELDS; i++) {
		uint64_t pages = fmt_parse_uint(at, &at, 10, &err);
		fields[i] = err == 0 ? pages * os_page_size : 0;
	}
}

/*
 * Waits until a pipe has room, or nobody can read it any more: 0. ETIMEDOUT after so many
 * milliseconds, or another errno.
 */
static int
wait_writable(int fd, unsigned ms) {
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	struct timespec left = {ms / 1000, ms % 1000 * 1000000L};
	/* Not poll(), which is a cancellation point. The kernel subtracts from `left`. */
	ssize_t n = COUNT_OF(sys_call(SYS_ppoll, &p, 1, &left, NULL, 0));
	return n > 0 ? 0 : n == 0 ? ETIMEDOUT : (int)-n;
}

int
sys_write_all(int fd, const void *buf, size_t size, unsigned timeout_ms, size_t *written) {
	size_t done = 0;
	int err = 0;
	while (done < size && err == 0) {
		ssize_t n = COUNT_OF(os_hooks->write(fd, (const char *)buf + done, size - done));
		if (n > 0) {
			done += (size_t)n;
		} else if (n == -EAGAIN && timeout_ms > 0) {
			err = wait_writable(fd, timeout_ms);
		} else {
			err = n == 0 ? EIO : (int)-n;
		}
	}
	assert(err != 0 || done == size);
	if (written != NULL) {
		*written = done;
	}
	return err;
}

static const int write_signals[2] = {SIGXFSZ, SIGPIPE};

void
sys_write_signals_block(sys_write_signals_t *w) {
	sigset_t block, pending;
	sigemptyset(&block);
	sigemptyset(&pending);
	sigaddset(&block, write_signals[0]);
	sigaddset(&block, write_signals[1]);
	sigemptyset(&w->old_mask);
	pthread_sigmask(SIG_BLOCK, &block, &w->old_mask);
	/* Only a signal that was blocked before can be pending: any other was delivered at once. */
	if (sigismember(&w->old_mask, write_signals[0]) == 1
	    || sigismember(&w->old_mask, write_signals[1]) == 1) {
		sigpending(&pending);
	}
	for (unsigned i = 0; i < ARRAY_LEN(write_signals); i++) {
		w->was_pending[i] = sigismember(&pending, write_signals[i]) == 1;
	}
}

void
sys_write_signals_restore(const sys_write_signals_t *w, bool has_failed) {
	static const struct timespec now = {0, 0};
	for (unsigned i = 0; i < ARRAY_LEN(write_signals); i++) {
		if (has_failed && !w->was_pending[i]) {
			sigset_t one;
			sigemptyset(&one);
			sigaddset(&one, write_signals[i]);
			/* 8: bytes of the kernel's set of signals. */
			COUNT_OF(sys_call(SYS_rt_sigtimedwait, &one, NULL, &now, 8));
		}
	}
	pthread_sigmask(SIG_SETMASK, &w->old_mask, NULL);
}

int
sys_close(int fd) {
	int saved = errno;
	/* Not retried: on Linux the descriptor is closed even if the result is EINTR. */
	int err = os_hooks->close(fd) == 0 || errno == EINTR ? 0 : errno;
	errno = saved;
	return err;
}

int
sys_fstat(int fd, struct stat *st) {
	return ERROR_OF(os_hooks->fstat(fd, st));
}

int
sys_fchmod(int fd, unsigned mode) {
	return ERROR_OF(os_hooks->fchmod(fd, mode));
}

int
sys_ftruncate(int fd, uint64_t size) {
	return ERROR_OF(ftruncate(fd, (off_t)size));
}

int
sys_reserve(int fd, uint64_t size) {
	return ERROR_OF(sys_call(SYS_fallocate, fd, 0, (off_t)0, (off_t)size));
}

int
sys_unlink(const char *path) {
	return ERROR_OF(os_hooks->unlink(path));
}

int
sys_rename(const char *from, const char *to) {
	return ERROR_OF(os_hooks->rename(from, to));
}

/*
 * For file systems and kernels without RENAME_NOREPLACE: creates a second link and removes the
 * first. On file systems without hard links (some of FUSE) the name is claimed by creating an empty
 * file, which is then replaced. Until then other processes find an empty file under that name; and
 * if one of them replaces it by a file of its own in that time, its file is replaced too.
 */
static int
link_and_unlink(const char *from, const char *to) {
	int err = ERROR_OF(os_hooks->link(from, to));
	if (err == 0) {
		/* The file has its new name; failing to remove the old one is not an error. */
		sys_unlink(from);
		return 0;
	}
	if (err != EPERM && err != ENOSYS && err != EOPNOTSUPP) {
		return err;
	}
	int fd = sys_open(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	if (fd < 0) {
		return -fd;
	}
	sys_close(fd);
	err = sys_rename(from, to);
	if (err != 0) {
		sys_unlink(to);
	}
	return err;
}

int
sys_rename_noreplace(const char *from, const char *to) {
	assert(from != to);
	int err = ERROR_OF(os_hooks->rename2(from, to, RENAME_NOREPLACE));
	if (err == ENOSYS || err == EINVAL || err == EPERM) {
		err = link_and_unlink(from, to);
	}
	return err;
}

ssize_t
sys_readlink(const char *path, char *buf, size_t size) {
	assert(size > 0);
	ssize_t n = COUNT_OF(os_hooks->readlink(path, buf, size - 1));
	if (n >= 0) {
		buf[n] = '\0';
	}
	return n;
}

int
sys_getcwd(char *buf, size_t size) {
	assert(size > 0);
	ssize_t n = COUNT_OF(os_hooks->getcwd(buf, size));
	/* A directory outside of the root ("(unreachable)/...") has no usable name. */
	return n < 0 ? (int)-n : buf[0] != '/' ? ENOENT : 0;
}

uint64_t
sys_random(void) {
	uint64_t v;
	/*
	 * 1 is GRND_NONBLOCK: a program that starts early in boot must not hang for lack of
	 * entropy.
	 */
	if (COUNT_OF(os_hooks->getrandom(&v, sizeof(v), 1)) == (ssize_t)sizeof(v)) {
		return v;
	}
	const void *from_kernel = (const void *)sys_auxval(AT_RANDOM);
	v = 0;
	if (from_kernel != NULL) {
		memcpy(&v, from_kernel, sizeof(v));
	}
	return hash_mix64(v ^ hash_mix64(nstime_realtime_ns()) ^ (uint64_t)(uintptr_t)&v);
}

/*
 * 0 if the word at p can be read, EFAULT if not. Asks by a futex call that reads the word to
 * compare it. The call is told to wake no thread and to move no waiting thread to another futex, so
 * it has no other effect. After another error, as of a filter of system calls, nothing is known.
 */
static int
ask_word(uintptr_t p) {
	enum { CMP_REQUEUE_PRIVATE = 4 | 128 };
	int err = ERROR_OF(sys_call(SYS_futex, p, CMP_REQUEUE_PRIVATE, 0, 0L, p, 0));
	return err == EAGAIN ? 0 : err; /* EAGAIN: the word is not 0 */
}

bool
sys_is_unmapped(const uint32_t *word) {
	return ask_word((uintptr_t)word) == EFAULT;
}

bool
sys_is_readable(const void *addr, size_t size) {
	assert(size > 0);
	uintptr_t p = align_down((uintptr_t)addr, os_page_size);
	uintptr_t end = align_up((uintptr_t)addr + size, os_page_size);
	/* Page 0 counts as unreadable; end is 0 or smaller if the range wraps around. */
	bool is_ok = p != 0 && end > p;
	for (; is_ok && p < end; p += os_page_size) {
		is_ok = ask_word(p) == 0;
	}
	return is_ok;
}

NO_SANITIZE_ADDRESS bool
sys_copy_memory(void *to, const void *from, size_t size) {
	bool is_ok = sys_is_readable(from, size);
	if (is_ok) {
		__builtin_memcpy(to, from, size);
	}
	return is_ok;
}

bool
sys_copy_text(char *to, const char *from, size_t size) {
	for (size_t at = 0; at < size;) {
		/* At most to the end of the page, since the next page may be unmapped. */
		size_t page_left = os_page_size - ((uintptr_t)(from + at) & (os_page_size - 1));
		size_t n = size - at < page_left ? size - at : page_left;
		if (!sys_copy_memory(to + at, from + at, n)) {
			return false;
		}
		if (memchr(to + at, '\0', n) != NULL) {
			return true;
		}
		at += n;
	}
	return false;
}

/* The kernel's layout of a directory entry: inode, position, length of the entry, type, name. */
typedef struct {
	uint64_t ino;
	int64_t off;
	unsigned short reclen;
	unsigned char type;
	char name[];
} dirent_t;

int
sys_dir_each(const char *path, char *buf, size_t size, int (*cb)(void *ctx, const char *name),
    void *ctx) {
	assert(((uintptr_t)buf & 7) == 0);
	int fd = sys_open(path, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0) {
		return -fd;
	}
	long n = 0;
	int err = 0;
	while (err == 0 && (n = COUNT_OF(sys_call(SYS_getdents64, fd, buf, size))) > 0) {
		for (long at = 0; at < n && err == 0;) {
			const dirent_t *d = (const void *)(buf + at);
			at += d->reclen;
			err = cb(ctx, d->name);
		}
	}
	sys_close(fd);
	return err != 0 ? err : (int)-n;
}

int
sys_maps_copy(char *buf, size_t size, int (*cb)(void *ctx, const char *text, size_t len),
    void *ctx) {
	assert(size > 0);
	int fd = sys_open_own("maps");
	if (fd < 0) {
		return -fd;
	}
	int err = 0;
	for (;;) {
		ssize_t n = sys_read(fd, buf, size);
		if (n <= 0) {
			err = (int)-n;
			break;
		}
		err = cb(ctx, buf, (size_t)n);
		if (err != 0) {
			break;
		}
	}
	sys_close(fd);
	return err;
}
