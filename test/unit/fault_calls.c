/*
 * Each system call that the library makes, and each allocation of metadata, fails at its 1st, 2nd,
 * 3rd ... use until the work gets by without that use; once, and from then on for ever. Answers are
 * memory or ENOMEM, 0 or an errno; a file under its final name is whole; when the fault is over all
 * works again, and no memory, address space, descriptor or metadata is lost. (test/unit/fault.c
 * looks closer at the calls for memory, dump_fault.c at those for a profile.)
 *
 * The linker leads every call of the functions in test/unit/calls.txt here (--wrap), whoever of the
 * library makes it; calls by number come through sys_call_six(). test/unit/calls.t holds that list
 * against the library. Without TEST_FULL the uses from the 4th on are tried in growing steps.
 * FAULT_ALL=1: each fault under the whole work and not only under its parts, for hours of patience.
 */
#include "ctl.h"

#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "arena/background_thread.h"
#include "meta/base.h"
#include "meta/emap.h"
#include "meta/freepool.h"
#include "meta/region.h"
#include "os/mutex.h"
#include "os/nstime.h"
#include "os/pages.h"
#include "os/room.h"
#include "os/room_group.h"
#include "os/sys.h"
#include "os/thread.h"
#include "prof/control/prof_control.h"
#include "prof/control/prof_ctl_dir.h"
#include "prof/sites/prof_opt.h"
#include "prof/trigger/prof_signal.h"

/* By name, and by number; and what the library allocates for itself. */
#define CALLS_BY_NAME(X) \
	X(mmap) X(munmap) X(mprotect) X(madvise) X(fstat) X(lstat) X(fchmod) X(unlink) X(link) \
	X(rename) X(readlink) X(ftruncate) X(prctl) X(sysconf) X(sched_getcpu) X(sbrk) \
	X(pthread_create)
#define CALLS_BY_NUMBER(X) \
	X(openat) X(read) X(write) X(close) X(renameat2) X(getcwd) X(getrandom) X(memfd_create) \
	X(fcntl) X(futex) X(process_madvise) X(ppoll) X(getdents64) \
	X(rt_sigtimedwait) X(sched_getaffinity) X(timer_create) X(timer_settime) \
	X(clock_gettime) X(fallocate) X(flock) X(mremap)
#define CALLS(X) CALLS_BY_NAME(X) CALLS_BY_NUMBER(X) X(metadata)
/*
 * Not needed by this work, but as the process begins (child_boot), or without overcommit
 * (child_strict).
 */
#define is_of_boot(call) ((call) == call_sysconf || (call) == call_fcntl \
	|| (call) == call_ftruncate || (call) == call_sched_getaffinity \
	|| (call) == call_getrandom || (call) == call_sched_getcpu)
/* Waits where two threads meet; needs leave; reads a directory again only after a while. */
#define is_by_chance(call) \
	((call) == call_futex || (call) == call_process_madvise || (call) == call_getdents64)
#define is_unused(call) \
	(is_of_boot(call) || (!config_hardening && (call) == call_mprotect))

#define AS_ENUM(n) call_##n,
enum { CALLS(AS_ENUM) call_count };
#define AS_NAME(n) #n,
static const char *const call_names[] = {CALLS(AS_NAME)};
#define AS_NUMBER(n) {SYS_##n, call_##n},
static const struct {
	long number;
	int call;
} numbers[] = {CALLS_BY_NUMBER(AS_NUMBER)};
/* By number too, and nothing that fails; the probe of a page is made to fail. */
static const long harmless[] = {SYS_getpid, SYS_gettid, SYS_tgkill, SYS_madvise};

/* In memory shared with forked children: their calls count too. */
static struct {
	int call;            /* which one fails; -1: none */
	unsigned k;          /* at this use of it */
	bool is_for_ever;
	atomic_u32_t n[call_count];
	atomic_u32_t unknown; /* a number that no list here has */
} *shared;
#define fault (*shared)
static char dir[] = "/tmp/fault_calls.XXXXXX";
static unsigned bad;
/* Bytes that the library has mapped and not unmapped, in this process. */
static atomic_zu_t mapped;

#define check(good) check_that((good), #good, __LINE__)
static void
check_that(bool good, const char *what, int line) {
	if (!good) {
		bad++;
		diag("line %d, %s %u%s: not %s", line, fault.call < 0 ? "no fault" : call_names[fault.call],
		    fault.k, fault.is_for_ever ? " and on" : "", what);
	}
}

/* A child that is to fail before main: FAULT_BOOT is "CALL K FOR_EVER". */
static void
fault_from_environment(void) {
	static unsigned char page[4096] __attribute__((aligned(16)));
	const char *text = NULL;
	for (char **e = environ; e != NULL && *e != NULL; e++) {
		text = strncmp(*e, "FAULT_BOOT=", 11) == 0 ? *e + 11 : text;
	}
	if (text != NULL) {
		shared = (void *)page;
		fault.call = (text[0] - '0') * 10 + text[1] - '0';
		fault.k = (unsigned)((text[3] - '0') * 100 + (text[4] - '0') * 10 + text[5] - '0');
		fault.is_for_ever = text[7] == '1';
	}
}

static bool
has_failed(int call, int err) {
	if (shared == NULL) {
		fault_from_environment();
	}
	if (shared == NULL) {
		return false;
	}
	unsigned n = atomic_fetch_add_u32(&fault.n[call], 1, MO_RELAXED) + 1;
	if (call != fault.call || n < fault.k || (n > fault.k && !fault.is_for_ever)) {
		return false;
	}
	errno = err;
	return true;
}

/* ------------------------------------------------------ where the library leaves for the system */

#define SPOILT 4321

/* A call that succeeds may leave anything in errno: whoever of the library calls keeps its own. */
static void
spoil(bool has_succeeded) {
	errno = has_succeeded ? SPOILT : errno;
}

#define WRAP(name, err, type, params, args) \
	type __real_##name params; \
	type __wrap_##name params; \
	type __wrap_##name params { \
		type result = has_failed(call_##name, err) ? (type)-1 : __real_##name args; \
		spoil(result != (type)-1); \
		return result; \
	}
WRAP(mprotect, ENOMEM, int, (void *a, size_t n, int p), (a, n, p))
WRAP(madvise, EINVAL, int, (void *a, size_t n, int advice), (a, n, advice))
WRAP(fstat, EIO, int, (int fd, struct stat *st), (fd, st))
WRAP(lstat, EACCES, int, (const char *p, struct stat *st), (p, st))
WRAP(fchmod, EPERM, int, (int fd, mode_t m), (fd, m))
WRAP(unlink, EACCES, int, (const char *p), (p))
WRAP(link, EPERM, int, (const char *a, const char *b), (a, b))
WRAP(rename, EACCES, int, (const char *a, const char *b), (a, b))
WRAP(readlink, EACCES, ssize_t, (const char *p, char *b, size_t n), (p, b, n))
WRAP(ftruncate, EINVAL, int, (int fd, off_t n), (fd, n))
WRAP(prctl, EINVAL, int, (int op, unsigned long a, unsigned long b, unsigned long c,
    unsigned long d), (op, a, b, c, d))
WRAP(sysconf, EINVAL, long, (int name), (name))
WRAP(sched_getcpu, ENOSYS, int, (void), ())

void *__real_mmap(void *a, size_t n, int p, int f, int fd, off_t o);
void *__wrap_mmap(void *a, size_t n, int p, int f, int fd, off_t o);
void *
__wrap_mmap(void *a, size_t n, int p, int f, int fd, off_t o) {
	/* The turn of sbrk comes where mmap has nothing. */
	bool is_bad = has_failed(call_mmap, ENOMEM) || (shared != NULL && fault.call == call_sbrk);
	void *m = is_bad ? MAP_FAILED : __real_mmap(a, n, p, f, fd, o);
	if (is_bad) {
		errno = ENOMEM;
	}
	if (m != MAP_FAILED && (f & MAP_FIXED) == 0) {
		atomic_fetch_add_zu(&mapped, n, MO_RELAXED);
	}
	spoil(m != MAP_FAILED);
	return m;
}

int __real_munmap(void *a, size_t n);
int __wrap_munmap(void *a, size_t n);
int
__wrap_munmap(void *a, size_t n) {
	int result = has_failed(call_munmap, ENOMEM) ? -1 : __real_munmap(a, n);
	if (result == 0) {
		atomic_fetch_sub_zu(&mapped, n, MO_RELAXED);
	}
	spoil(result == 0);
	return result;
}

void *__real_sbrk(intptr_t n);
void *__wrap_sbrk(intptr_t n);
void *
__wrap_sbrk(intptr_t n) {
	void *p = has_failed(call_sbrk, ENOMEM) ? (void *)-1 : __real_sbrk(n);
	if (p != (void *)-1) {
		atomic_fetch_add_zu(&mapped, (size_t)n, MO_RELAXED);
	}
	spoil(p != (void *)-1);
	return p;
}

int __real_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);
int
__wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg) {
	int err = has_failed(call_pthread_create, EAGAIN) ? EAGAIN : __real_pthread_create(t, attr, fn,
	    arg);
	spoil(true); /* of the calls that it makes itself */
	return err;
}

static int
error_of(int call) {
	switch (call) {
	case call_openat: return EMFILE;
	case call_read: return EIO;
	case call_write: return ENOSPC;
	case call_getcwd: return ENOENT;
	case call_getrandom:
	case call_memfd_create:
	case call_fcntl:
	case call_futex:
	case call_rt_sigtimedwait: return EINTR;
	case call_timer_create: return EAGAIN;
	case call_renameat2: return EACCES;
	default: return EINVAL;
	}
}

/*
 * A descriptor is gone all the same; the turn of link comes where there is no renameat2, of sysconf
 * where the mask of the processors is not told; of futex only waiting can fail.
 */
static bool
has_failed_number(int call, long first, long second) {
	/* musl-gcc does not find the kernel's header of it: the low bits are the operation, 0 waits. */
	if (call == call_futex && (second & 0x7f) != 0) {
		return false;
	}
	if ((call == call_renameat2 && fault.call == call_link)
	    || (call == call_sched_getaffinity && fault.call == call_sysconf)) {
		errno = ENOSYS;
		return true;
	}
	bool is_bad = has_failed(call, call == call_close ? EIO : error_of(call));
	if (is_bad && call == call_close) {
		close((int)first);
		errno = EIO;
	}
	return is_bad;
}

/* What the system says of overcommit, if a child is to see something else than there is. */
static const char *overcommit_path;

long __real_sys_call_six(long number, long a, long b, long c, long d, long e, long f);
long __wrap_sys_call_six(long number, long a, long b, long c, long d, long e, long f);
long
__wrap_sys_call_six(long number, long a, long b, long c, long d, long e, long f) {
	bool is_known = shared == NULL;
	if (number == SYS_openat && overcommit_path == NULL && getenv("FAULT_OVERCOMMIT") != NULL) {
		overcommit_path = getenv("FAULT_OVERCOMMIT");
	}
	if (number == SYS_openat && overcommit_path != NULL && strstr((char *)(uintptr_t)b,
	    "overcommit_memory") != NULL) {
		b = (long)(uintptr_t)overcommit_path;
	}
	for (unsigned i = 0; i < ARRAY_LEN(harmless); i++) {
		is_known = is_known || harmless[i] == number;
	}
	for (unsigned i = 0; i < ARRAY_LEN(numbers) && shared != NULL; i++) {
		if (numbers[i].number == number) {
			is_known = true;
			if (has_failed_number(numbers[i].call, a, b)) {
				return -1;
			}
		}
	}
	if (!is_known) {
		atomic_store_u32(&fault.unknown, (uint32_t)number, MO_RELAXED);
	}
	return __real_sys_call_six(number, a, b, c, d, e, f);
}

static bool
hook_metadata(void) {
	return has_failed(call_metadata, errno);
}

/* ------------------------------------------------------------------ the work */

#define KEPT 1234 /* errno before a call that must not change it */

static void
work_memory(int flags) {
	static const size_t sizes[] = {20, 700, 9000, 40000, 150000, 20};
	char *p[24];
	for (unsigned i = 0; i < 24; i++) {
		size_t size = i == 11 ? 2500000 : sizes[i % 6] + i;
		errno = KEPT;
		p[i] = keep(i % 2 == 0 ? mallocx(size, flags) : malloc(size));
		check(errno == (p[i] != NULL ? KEPT : ENOMEM));
		check(p[i] == NULL || malloc_usable_size(p[i]) >= size);
		if (p[i] != NULL) {
			memset(p[i], (int)i + 1, size);
		}
	}
	for (unsigned i = 0; i < 24; i++) {
		size_t size = i == 11 ? 2500000 : sizes[i % 6] + i;
		errno = KEPT;
		char *larger = p[i] == NULL ? NULL : keep(realloc(p[i], size + size / 2));
		check(errno == (p[i] == NULL || larger != NULL ? KEPT : ENOMEM));
		p[i] = larger != NULL ? larger : p[i];
		check(p[i] == NULL || is_filled(p[i], (int)i + 1, size));
		errno = KEPT;
		free(p[i]);
		check(errno == KEPT);
	}
}

static void *
thread_work(void *arg) {
	(void)arg;
	work_memory(MALLOCX_ZERO);
	return NULL;
}

static void
work_life(void) {
	pthread_t t;
	int status = -1;
	if (__real_pthread_create(&t, NULL, thread_work, NULL) == 0) {
		pthread_join(t, NULL);
	}
	errno = KEPT;
	pid_t pid = fork();
	if (pid == 0) {
		bad = 0;
		check(errno == KEPT);
		work_memory(0);
		_exit(bad == 0 ? 7 : 8);
	}
	waitpid(pid, &status, 0);
	check(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

/* An answer of a call that leaves errno alone, as each does that answers an error. */
#define is_errno_or_done(call) (errno = KEPT, is_answer(call))

static bool
is_answer(int err) {
	return err >= 0 && err < 134 && errno == KEPT;
}

/* A profile under its final name is whole. */
static bool
is_whole_or_absent(const char *path) {
	static char text[1 << 18];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return errno == ENOENT;
	}
	ssize_t n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n < 0 ? 0 : n] = '\0';
	return strncmp(text, "heap_v2/", 8) == 0 && strstr(text, "MAPPED_LIBRARIES:") != NULL;
}

static void
work_profile(void) {
	const char *options = "sample_interval:64,reset:true", *path = "by-hand.heap",
	    *log = "log.json";
	int started = ctl_write("prof.session.start", options);
	check(is_errno_or_done(started));
	work_memory(0);
	int dumped = ctl_write("prof.dump", path);
	check(is_errno_or_done(dumped) && is_whole_or_absent(path));
	check(dumped != 0 || access(path, F_OK) == 0);
	check(is_errno_or_done(ctl_write("prof.log_start", log)));
	work_memory(0);
	check(is_errno_or_done(ctl_void("prof.log_stop")));
	check(is_errno_or_done(ctl_void("prof.session.stop")));
	__real_unlink(path);
	__real_unlink(log);
}

/* A profile by itself, under a prefix for which the directory was not read yet. */
static void
work_trigger(void) {
	static unsigned n;
	char text[200], *options = text;
	uint64_t none = 0;
	snprintf(text, sizeof(text), "prefix:%s/t%u,large:1M,reset:true", dir, n++);
	check(ctl_write("prof.dump_min_gap_ms", none) == 0);
	check(is_errno_or_done(ctl_write("prof.session.start", options)));
	errno = KEPT;
	free(keep(malloc(1 << 20)));
	check(errno == KEPT || errno == ENOMEM);
	check(is_errno_or_done(ctl_void("prof.session.stop")));
}

static void
work_control(void) {
	unsigned id;
	size_t len = sizeof(id);
	bool on = false;
	int err = mallctl("tcache.create", &id, &len, NULL, 0);
	check(is_errno_or_done(err));
	if (err == 0) {
		work_memory(MALLOCX_TCACHE(id));
		check(ctl_write("tcache.destroy", id) == 0);
	}
	check(is_errno_or_done(ctl_write("thread.tcache.enabled", on)));
	work_memory(0);
	on = true;
	check(is_errno_or_done(ctl_write("thread.tcache.enabled", on)));
	check(is_errno_or_done(ctl_void("arena.4096.purge")));
	ctl_epoch();
}

/* A command in the control directory; the answer is either whole or not there. */
static void
work_directory(void) {
	char name[128], text[2048];
	snprintf(name, sizeof(name), "%s/%d.cmd", dir, (int)getpid());
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	check(fd >= 0 && write(fd, "nonce=5 status\n", 15) == 15);
	close(fd);
	check(prof_ctl_dir_is_on());
	errno = KEPT;
	prof_ctl_dir_look();
	check(errno == KEPT);
	snprintf(name, sizeof(name), "%s/%d.status", dir, (int)getpid());
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		ssize_t n = read(fd, text, sizeof(text) - 1);
		close(fd);
		__real_unlink(name);
		text[n < 0 ? 0 : n] = '\0';
		check(n > 0 && text[n - 1] == '\n' && strncmp(text, "nonce=", 6) == 0);
	} else {
		check(errno == ENOENT && fault.call >= 0);
	}
}

/* An arena's whole life, in it something aligned beyond its size. */
static void
work_arena(void) {
	unsigned ind;
	size_t len = sizeof(ind);
	char name[64];
	int err = mallctl("arenas.create", &ind, &len, NULL, 0);
	check(is_errno_or_done(err));
	if (err != 0) {
		return;
	}
	int flags = (int)MALLOCX_ARENA(ind) | MALLOCX_TCACHE_NONE;
	work_memory(flags);
	errno = KEPT;
	char *p = keep(mallocx(5000, flags | MALLOCX_ALIGN((size_t)8 << 20)));
	check(errno == (p != NULL ? KEPT : ENOMEM));
	check(p == NULL || ((uintptr_t)p & (((size_t)8 << 20) - 1)) == 0);
	check(is_errno_or_done(ctl_void(ctl_name(name, "arena.%u.purge", ind))));
	check(ctl_void(ctl_name(name, "arena.%u.destroy", ind)) == 0);
}

/* Started and ended again; who ends them waits until they are gone. */
static void
work_background(void) {
	bool on = true;
	check(is_errno_or_done(ctl_write("background_thread", on)));
	work_memory(0);
	on = false;
	check(is_errno_or_done(ctl_write("background_thread", on)));
}

static void
work_plain(void) {
	work_memory(0);
}

/*
 * An arena by functions that pass on to the system's; without overcommit they also commit and
 * decommit.
 */
static void
work_hooks(void) {
	static extent_hooks_t own, *table = &own;
	extent_hooks_t *below = NULL;
	unsigned ind;
	size_t len = sizeof(below);
	char name[64];
	if (mallctl("arena.0.extent_hooks", (void *)&below, &len, NULL, 0) != 0) {
		check(false);
		return;
	}
	own = *below;
	len = sizeof(ind);
	int err = mallctl("arenas.create", &ind, &len, (void *)&table, sizeof(table));
	check(is_errno_or_done(err));
	for (unsigned i = 0; i < 3 && err == 0; i++) {
		work_memory((int)MALLOCX_ARENA(ind) | MALLOCX_TCACHE_NONE);
		check(is_errno_or_done(ctl_void(ctl_name(name, "arena.%u.purge", ind))));
	}
	check(err != 0 || ctl_void(ctl_name(name, "arena.%u.destroy", ind)) == 0);
}

static unsigned
uses_of(int call) {
	return atomic_load_u32(&fault.n[call], MO_RELAXED);
}

/*
 * Reads what the library writes, from the moment on at which it has to wait for a reader; or leaves
 * then.
 */
static struct {
	int fd;
	bool leaves;
	atomic_b_t is_over;   /* nobody will wait any more */
	atomic_u32_t n_signals;
} taker;

static void
until_waiting(int call) {
	while (uses_of(call) == 0 && !atomic_load_b(&taker.is_over, MO_ACQUIRE)) {
		usleep(50);
	}
}

static void *
pipe_reader(void *arg) {
	char some[4096];
	(void)arg;
	until_waiting(call_ppoll);
	while (!taker.leaves && read(taker.fd, some, sizeof(some)) > 0) {
	}
	close(taker.fd);
	return NULL;
}

static void
on_sigpipe(int number UNUSED) {
	atomic_fetch_add_u32(&taker.n_signals, 1, MO_RELAXED);
}

/* A profile into a pipe that is full and read then, or never.  Answers what prof.dump does. */
static int
dump_to_pipe(bool leaves) {
	const char *path = "pipe";
	static char some[1 << 16];
	pthread_t t;
	check(mkfifo(path, 0600) == 0);
	taker.fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	int full = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	check(taker.fd >= 0 && full >= 0 && fcntl(taker.fd, F_SETFL, 0) == 0);
	while (write(full, some, sizeof(some)) > 0) {
	}
	taker.leaves = leaves;
	atomic_store_b(&taker.is_over, false, MO_RELEASE);
	atomic_store_u32(&fault.n[call_ppoll], 0, MO_RELAXED);
	check(__real_pthread_create(&t, NULL, pipe_reader, NULL) == 0);
	int err = ctl_write("prof.dump", path);
	atomic_store_b(&taker.is_over, true, MO_RELEASE);
	close(full);
	pthread_join(t, NULL);
	__real_unlink(path);
	return err;
}

/* The signal that a pipe without a reader raises is taken back. */
static void
work_pipe(void) {
	const char *options = "sample_interval:64";
	void (*before)(int) = signal(SIGPIPE, on_sigpipe);
	atomic_store_u32(&taker.n_signals, 0, MO_RELAXED);
	if (ctl_write("prof.session.start", options) == 0) {
		int err = dump_to_pipe(false);
		/* ETIMEDOUT: it is only 5 s that a pipe is waited for. */
		check(fault.call >= 0 ? is_errno_or_done(err) : err == 0 || err == ETIMEDOUT);
		err = dump_to_pipe(true);
		check(err != 0 && is_errno_or_done(err));
		check(is_errno_or_done(ctl_void("prof.session.stop")));
	}
	check(atomic_load_u32(&taker.n_signals, MO_RELAXED) == 0
	    || (fault.call == call_rt_sigtimedwait && fault.is_for_ever));
	signal(SIGPIPE, before);
}

/* A profile that waits in the mailbox, in pages and in a memory file. */
static void
ask_stream(prof_mailbox_t *box, bool is_file) {
	static uint64_t sequence = 1000;
	static const char request[] = "dump-stream";
	prof_slot_t *slot = &box->slots[0];
	memcpy(slot->text, request, sizeof(request));
	slot->length = sizeof(request) - 1;
	slot->nonce = ++sequence;
	slot->checksum = prof_mailbox_sum(sequence, sequence, request, slot->length);
	slot->sequence = sequence;
	box->doorbell = 1;
	opt_prof_ctl_fd = is_file;
	errno = KEPT;
	check(prof_control_serve());
	check(errno == KEPT);
	opt_prof_ctl_fd = false;
	check(slot->answered == sequence && is_errno_or_done(slot->error));
	check(slot->error == 0 || fault.call >= 0);
	check((box->streams[0].nonce == sequence) == (slot->error == 0));
	slot->sequence = 0;
	box->streams[0].is_taken = 1;
	box->doorbell = 1;
	check(prof_control_serve() && box->streams[0].nonce == 0);
}

/* A child forked while there is a black box, whose tables are then moved to memory of its own. */
static void
work_box_child(void) {
	int status = -1;
	errno = KEPT;
	pid_t pid = fork();
	if (pid == 0) {
		_exit(errno == KEPT ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	check(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void
work_stream(void) {
	const char *options = "sample_interval:64,blackbox:true";
	check(is_errno_or_done(ctl_write("prof.session.start", options)));
	work_box_child();
	ask_stream(&prof_mailbox_block.box, false);
	ask_stream(&prof_mailbox_block.box, true);
	check(is_errno_or_done(ctl_void("prof.session.stop")));
}

/*
 * A deadly signal that comes inside the allocator ends the process, whether it can be sent again in
 * a moment or not; and no later than it would have done.
 */
static void
work_signal(void) {
	static const struct timespec pause = {0, 100000};
	int status = -1;
	pid_t pid = fork();
	if (pid == 0) {
		signal(SIGTERM, SIG_DFL);
		alarm(300);
		opt_prof_final_signals = true;
		prof_signal_boot();
		tls_get()->inside++;
		raise(SIGTERM);
		tls_get()->inside--;
		for (;;) {
			nanosleep(&pause, NULL);
		}
	}
	waitpid(pid, &status, 0);
	check(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

/* What is not there stays unread. */
static void
work_copy(void) {
	char text[16] = "";
	check(sys_copy_text(text, "a path", sizeof(text)) && strcmp(text, "a path") == 0);
	check(!sys_copy_memory(text, (const void *)1, sizeof(text)));
}

/* What is asked of the system as allocations go on, but seldom. */
static void
work_asks(void) {
	char name[OS_THREAD_NAME_SIZE];
	errno = KEPT;
	os_thread_name_get(name, sizeof(name));
	check(strlen(name) < sizeof(name));
	(void)os_thread_has_users();
	(void)pages_has_thp();
	check(nstime_monotonic_syscall_ns() > 0);
	(void)room_limit();
	(void)room_machine();
	pages_set_name(&fault, 4096, "name");
	check(errno == KEPT);
}

static void
work_all(void) {
	work_memory(0);
	work_arena();
	work_hooks();
	work_control();
	work_life();
	work_profile();
	work_directory();
	work_background();
	work_pipe();
	work_stream();
	work_signal();
	work_copy();
	work_asks();
}

/* The whole at the end. */
static void (*const parts[])(void) = {work_plain, work_arena, work_hooks, work_control, work_life,
    work_profile, work_directory, work_background, work_pipe, work_stream, work_signal, work_copy,
    work_asks, work_trigger, work_all};

/* ------------------------------------------------------------------ what may be lost */

/* Empties the directory; the number of files in it. */
static unsigned
files_remove(void) {
	unsigned n = 0;
	DIR *d = opendir(dir);
	struct dirent *e;
	if (d == NULL) {
		return 0; /* a child that has none of its own */
	}
	while ((e = readdir(d)) != NULL) {
		n += e->d_name[0] != '.' && __real_unlink(e->d_name) == 0;
	}
	closedir(d);
	return n;
}

static unsigned
descriptors(void) {
	unsigned n = 0;
	for (int fd = 0; fd < 256; fd++) {
		n += fcntl(fd, F_GETFD) >= 0;
	}
	return n;
}

static size_t
live_bytes(void) {
	ctl_void("thread.tcache.flush");
	ctl_epoch();
	return ctl_size("stats.allocated");
}

/*
 * What the library has mapped but does not show as memory of arenas or metadata: page map, books,
 * shelter.
 */
static size_t
unshown_bytes(void) {
	ctl_void("arena.4096.purge");
	ctl_epoch();
	return atomic_load_zu(&mapped, MO_RELAXED) - ctl_size("stats.mapped")
	    - ctl_size("stats.retained") + emap_bytes();
}

/* One run with one fault. */
static unsigned
run(void (*work)(void), int call, unsigned k, bool is_for_ever) {
	unsigned fds = descriptors();
	size_t live = live_bytes();
	fault.k = k;
	fault.is_for_ever = is_for_ever;
	for (unsigned i = 0; i < call_count; i++) {
		atomic_store_u32(&fault.n[i], 0, MO_RELAXED);
	}
	fault.call = call;
	work();
	unsigned n = atomic_load_u32(&fault.n[call], MO_RELAXED);
	fault.call = -1;
	/* What the fault did not let end. */
	bool off = false;
	ctl_write("background_thread", off);
	ctl_void("prof.session.stop");
	ctl_void("prof.log_stop");
	files_remove();
	check(descriptors() == fds);
	check(pages_left() == 0); /* what munmap() refused is unmapped now */
	size_t now = live_bytes();
	/* The C library keeps a little of a thread; with checks freed blocks wait. */
	check(!config_stats || config_hardening || now == live
	    || (now < live + 4096 && now + 4096 > live));
	return n;
}

static unsigned n_runs;

/* The use that fails next, after the k-th has failed. */
static unsigned
next_use(unsigned k) {
	return k + 1 + (test_is_full() || getenv("FAULT_ALL") != NULL ? 0 : k / 4);
}

/* Until the work gets by with fewer uses than k. */
static unsigned
test_part(void (*work)(void), int call) {
	unsigned n_failed = 0;
	for (int is_for_ever = 0; is_for_ever < 2; is_for_ever++) {
		unsigned n = 1;
		for (unsigned k = 1; k <= n; k = next_use(k)) {
			n = run(work, call, k, is_for_ever);
			n_failed += n >= k;
			n_runs++;
		}
	}
	return n_failed;
}

static void
test_call(int call, bool is_all) {
	unsigned n_failed = 0, before = bad;
	size_t last = ARRAY_LEN(parts) - 1;
	opt_prof_thread = call == call_pthread_create ? prof_thread_auto : prof_thread_false;
	for (size_t i = is_all ? last : 0; i < (is_all ? last + 1 : last); i++) {
		n_failed += test_part(parts[i], call);
		if (getenv("FAULT_SAY") != NULL) {
			diag("%s, part %zu: %zu bytes unshown, %zu left", call_names[call], i, unshown_bytes(),
			    pages_left());
		}
	}
	unsigned n_bad = bad - before;
	/*
	 * Whether anybody waits is a matter of moments; whether many ranges are purged by one call, of
	 * the kernel.
	 */
	ok(is_by_chance(call) || (n_failed > 0) != is_unused(call), "%s is %sused", call_names[call],
	    is_unused(call) ? "not " : "");
	is_uint(n_bad, 0, "%s: %u runs in which it failed", call_names[call], n_failed);
}

/* Without a fault everything is done, not only answered. */
static void
test_after(void) {
	const char *options = "sample_interval:64", *path = "after.heap";
	work_all();
	is_int(ctl_write("prof.session.start", options), 0, "afterwards a session starts");
	work_memory(0);
	is_int(ctl_write("prof.dump", path), 0, "a profile is written");
	ok(access(path, F_OK) == 0 && is_whole_or_absent(path), "whole");
	is_int(ctl_void("prof.session.stop"), 0, "the session stops");
}

/* ----------------------------------------------- from the first call on, and without overcommit */

#define STATUS_WENT_WELL 40 /* the fault happened */
#define STATUS_NO_FAULT 41

/*
 * With the fault of FAULT_BOOT since before main. If the constructor could not boot, a later call
 * does, and starts the threads.
 */
static int
child_boot(void) {
	const char *path = "boot.heap";
	bool is_unbooted = base_b0() == NULL;
	background_thread_stats_t threads;
	errno = KEPT;
	ctl_epoch(); /* boots, unless that is done */
	check(errno == KEPT);
	work_memory(0);
	int err = ctl_write("prof.dump", path);
	check(is_errno_or_done(err) && is_whole_or_absent(path));
	unsigned n = atomic_load_u32(&fault.n[fault.call], MO_RELAXED);
	fault.call = -1;
	work_memory(0);
	err = ctl_write("prof.dump", path);
	check(err == 0 || err == ENOENT); /* ENOENT: the profiler could not be had at boot */
	background_thread_stats_read(&threads);
	check(!is_unbooted || threads.num_threads > 0);
	return bad != 0 ? 1 : n >= fault.k ? STATUS_WENT_WELL : STATUS_NO_FAULT;
}

/* What the system accounts for in this process: kB of private mappings that may be written. */
static size_t
paid_kb(void) {
	static char text[8192];
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	text[n > 0 ? n : 0] = '\0';
	char *line = strstr(text, "VmData:");
	return fd >= 0 && close(fd) == 0 && line != NULL ? strtoul(line + strlen("VmData:"), NULL, 10)
	    : 0;
}

/* What is in use is paid for, not much more, not once it was purged; arenas cost what they use. */
static void
work_paid(void) {
	enum { N = 8000, N_ARENAS = 10 };
	static void *p[N];
	unsigned ind;
	size_t full = 0, empty[3], len = sizeof(ind);
	for (int round = 0; round < 3; round++) { /* the first also pays for metadata, which is kept */
		empty[round] = paid_kb();
		for (unsigned i = 0; i < N; i++) {
			p[i] = keep(malloc(1000));
		}
		full = paid_kb();
		for (unsigned i = 0; i < N; i++) {
			free(p[i]);
		}
		check(ctl_void("thread.tcache.flush") == 0 && ctl_void("arena.4096.purge") == 0);
	}
	size_t after = paid_kb();
	for (unsigned i = 0; i < N_ARENAS; i++) {
		check(mallctl("arenas.create", &ind, &len, NULL, 0) == 0);
		free(keep(mallocx(1000, (int)MALLOCX_ARENA(ind) | MALLOCX_TCACHE_NONE)));
	}
	size_t arenas = paid_kb();
	diag("kB paid for: %zu, %zu with 8 MB, %zu after, %zu with %d arenas", empty[1], full, after,
	    arenas, N_ARENAS);
	check(empty[1] > 0 && full >= empty[2] + 7800 && full < empty[2] + 9500);
	check(empty[2] < empty[1] + 500 && after < empty[1] + 500 && arenas < after + N_ARENAS * 500);
}

/*
 * The mapping that takes the place of pages that are not paid for any more is marked as they were.
 */
static void
work_marked(void) {
	thp_mode_t was = opt_thp;
	char line[512];
	bool is_there = false, is_marked = false, commit = false;
	opt_thp = thp_mode_never;
	char *p = pages_map(NULL, HUGEPAGE, PAGE, &commit);
	check(p != NULL && !commit && pages_commit(p, HUGEPAGE) == 0 && pages_decommit(p,
	    HUGEPAGE) == 0);
	FILE *f = fopen("/proc/self/smaps", "re");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL && !is_marked) {
		unsigned long from, to;
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
			is_there = (uintptr_t)p >= from && (uintptr_t)p < to;
		}
		is_marked = is_there && strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " nh") != NULL;
	}
	check(f != NULL && fclose(f) == 0);
	/* Where the system gives no huge pages of itself, nothing is said of them. */
	check(is_marked || pages_system_thp_mode() == thp_mode_never
	    || pages_system_thp_mode() == thp_mode_not_supported);
	pages_unmap(p, HUGEPAGE);
	opt_thp = was;
}

/* The calls for memory alone, where each page has to be paid for. */
static int
child_strict(void) {
	static const int calls[] = {call_mmap, call_munmap, call_mprotect, call_madvise};
	fault.call = -1;
	work_paid();
	work_marked();
	work_hooks();
	work_arena();
	check(pages_can_decommit());
	for (unsigned i = 0; i < ARRAY_LEN(calls); i++) {
		unsigned n = test_part(work_hooks, calls[i]) + test_part(work_arena, calls[i]);
		check(n > 0 || calls[i] == call_madvise); /* pages go by new mappings over them */
	}
	return bad == 0 ? STATUS_WENT_WELL : 1;
}

static void
test_boot(void) {
	static struct test_result r;
	char text[64];
	unsigned n_bad = 0, n = 0;
	const char *env[] = {text,
	    "MALLOC_CONF=prof:true,prof_ctl_fd:true,prof_thread:false,background_thread:true,"
	    "abort:false", NULL};
	const char *by_cpu[] = {text, "MALLOC_CONF=percpu_arena:percpu", NULL};
	for (int call = 0; call < call_count; call++) {
		unsigned n_hit = 0;
		for (int is_for_ever = 0; is_for_ever < 2; is_for_ever++) {
			bool is_over = false;
			for (unsigned k = 1; k < 100 && !is_over; k = next_use(k)) {
				snprintf(text, sizeof(text), "FAULT_BOOT=%02d %03u %d", call, k, is_for_ever);
				run_child_env(&r, "boot", call == call_sched_getcpu ? by_cpu : env);
				n++;
				n_hit += exited_with(&r, STATUS_WENT_WELL);
				is_over = exited_with(&r, STATUS_NO_FAULT) || !exited_with(&r, STATUS_WENT_WELL);
				if (is_over && !exited_with(&r, STATUS_NO_FAULT)) {
					n_bad++;
					diag("%s at %u%s", call_names[call], k, is_for_ever ? " and on" : "");
					diag_result(&r);
				}
			}
		}
		ok(n_hit > 0 || !is_of_boot(call), "%s is used as the process begins", call_names[call]);
	}
	is_uint(n_bad, 0, "%u processes with a fault from their first call on", n);
}

static void
test_strict(void) {
	static struct test_result r;
	char text[64];
	snprintf(text, sizeof(text), "FAULT_OVERCOMMIT=%s/2", dir);
	const char *env[] = {text, "FAULT_BOOT=99 000 0", NULL};
	int fd = open("2", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ok(fd >= 0 && write(fd, "2", 1) == 1 && close(fd) == 0, "a system without overcommit");
	run_child_env(&r, "strict", env);
	child_exits(&r, STATUS_WENT_WELL, "the calls for memory, where each page has to be paid for");
}

static mutex_t wanted = MUTEX_INITIALIZER("wanted", WITNESS_RANK_OMIT);

static void *
thread_wants_lock(void *arg) {
	mutex_lock(&wanted);
	mutex_unlock(&wanted);
	return arg;
}

/*
 * The first who waits for any mutex asks for the number of processors: not in the midst of a run.
 */
static void
wait_once(void) {
	pthread_t t;
	mutex_lock(&wanted);
	bool is_made = __real_pthread_create(&t, NULL, thread_wants_lock, NULL) == 0;
	while (is_made && (atomic_load_u32(&wanted.word, MO_SEQ_CST) & MUTEX_WAITERS) == 0) {
		usleep(1000);
	}
	mutex_unlock(&wanted);
	ok(is_made && pthread_join(t, NULL) == 0, "a thread has waited for a mutex");
}

int
main(int argc, char **argv) {
	static const struct test_child children[] = {{"boot", child_boot}, {"strict", child_strict},
	    {NULL, NULL}};
	test_children(argc, argv, children);
	char command[64];
	bool is_all = getenv("FAULT_ALL") != NULL;
	void *page = __real_mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (mkdtemp(dir) == NULL || chdir(dir) != 0 || page == MAP_FAILED) {
		bail_out("no directory");
	}
	if (!config_prof) {
		plan_skip_all("built without the profiler");
	}
	shared = page;
	fault.call = -1;
	opt_prof_ctl_dir = dir;
	opt_prof_thread = prof_thread_false; /* so that the k-th call is the same each time */
	background_thread_abort = false;     /* what a debug build does by itself */
	prof_abort = false;
	free(keep(malloc(1)));
	wait_once();
	base_fault_hook = hook_metadata;
	for (unsigned i = 0; i < 3; i++) {
		work_all();
	}
	files_remove();
	is_uint(bad, 0, "the work goes well without a fault");
	size_t metadata = meta_in_use() + region_in_use(), unshown = unshown_bytes();
	test_boot();
	test_strict();
	files_remove();
	for (int call = 0; call < call_count; call++) {
		test_call(call, is_all);
	}
	unsigned seen = bad;
	test_after();
	is_uint(bad - seen, 0, "and all the rest as before");
	ok(meta_in_use() + region_in_use() < metadata + (1 << 20), "metadata: %zu before", metadata);
	is_uint(pages_left(), 0, "nothing waits to be unmapped");
	size_t now = unshown_bytes();
	/* Leaves of the page map, among others. */
	ok(now <= unshown + (32 << 20), "address space: %zu bytes that no statistic shows before %u "
	    "runs, %zu after", unshown, n_runs, now);
	is_uint(atomic_load_u32(&fault.unknown, MO_RELAXED), 0,
	    "no call by a number that is not listed here");
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ok(chdir("/") == 0 && system(command) == 0, "no files are left");
	return done_testing();
}
