/*
 * Each system call that the library makes, and each allocation of metadata, fails at its k-th use, once
 * or from then on for ever, under a workload of threads, forks, arenas, caches by hand, sessions, dumps
 * and the log. Answers are memory or ENOMEM, 0 or an errno; a file under its final name is whole; when the
 * fault is over all works again, and no memory, descriptor or metadata is lost. (test/unit/fault.c looks
 * closer at the calls for memory.)
 */
#include "ctl.h"

#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "meta/base.h"
#include "meta/freepool.h"
#include "os/sys.h"
#include "prof_control.h"
#include "prof_ctl_dir.h"

#define CALLS(X) \
	X(mmap) X(munmap) X(mprotect) X(madvise) X(mremap) X(open) X(read) X(write) X(close) X(fstat) \
	X(fchmod) X(unlink) X(link) X(rename) X(rename2) X(readlink) X(getcwd) X(getrandom) \
	X(pthread_create) X(metadata)
#define AS_ENUM(n) call_##n,
enum { CALLS(AS_ENUM) call_count };
#define AS_NAME(n) #n,
static const char *const call_names[] = {CALLS(AS_NAME)};

static struct os_hooks_s hooks;
/* In memory shared with forked children: their calls count too. */
static struct {
	int call;            /* which one fails; -1: none */
	unsigned k;          /* at this use of it */
	bool is_for_ever;
	atomic_u32_t n[call_count];
} *shared;
#define fault (*shared)
static char dir[] = "/tmp/fault_calls.XXXXXX";
static unsigned bad;

#define check(good) check_that((good), #good, __LINE__)
static void
check_that(bool good, const char *what, int line) {
	if (!good) {
		bad++;
		diag("line %d, %s %u%s: not %s", line, fault.call < 0 ? "no fault" : call_names[fault.call], fault.k,
		    fault.is_for_ever ? " and on" : "", what);
	}
}

static bool
has_failed(int call, int err) {
	unsigned n = atomic_fetch_add_u32(&fault.n[call], 1, MO_RELAXED) + 1;
	if (call != fault.call || n < fault.k || (n > fault.k && !fault.is_for_ever)) {
		return false;
	}
	errno = err;
	return true;
}

#define HOOK(name, err, type, params, args) \
	static type hook_##name params { \
		return has_failed(call_##name, err) ? (type)-1 : os_hooks_real.name args; \
	}
HOOK(mmap, ENOMEM, void *, (void *a, size_t n, int p, int f, int fd, off_t o), (a, n, p, f, fd, o))
HOOK(munmap, ENOMEM, int, (void *a, size_t n), (a, n))
HOOK(mprotect, ENOMEM, int, (void *a, size_t n, int p), (a, n, p))
HOOK(madvise, EINVAL, int, (void *a, size_t n, int advice), (a, n, advice))
HOOK(mremap, ENOMEM, void *, (void *a, size_t o, size_t n, int f, void *to), (a, o, n, f, to))
HOOK(open, EMFILE, int, (const char *p, int f, unsigned m), (p, f, m))
HOOK(read, EIO, ssize_t, (int fd, void *b, size_t n), (fd, b, n))
HOOK(write, ENOSPC, ssize_t, (int fd, const void *b, size_t n), (fd, b, n))
HOOK(fstat, EIO, int, (int fd, struct stat *st), (fd, st))
HOOK(fchmod, EPERM, int, (int fd, unsigned m), (fd, m))
HOOK(unlink, EACCES, int, (const char *p), (p))
HOOK(link, EPERM, int, (const char *a, const char *b), (a, b))
HOOK(rename, EACCES, int, (const char *a, const char *b), (a, b))
HOOK(readlink, EACCES, ssize_t, (const char *p, char *b, size_t n), (p, b, n))
HOOK(getcwd, ENOENT, ssize_t, (char *b, size_t n), (b, n))
HOOK(getrandom, ENOSYS, ssize_t, (void *b, size_t n, unsigned f), (b, n, f))

/* The turn of link comes where there is no renameat2. */
static int
hook_rename2(const char *from, const char *to, unsigned flags) {
	if (fault.call == call_link) {
		errno = ENOSYS;
		return -1;
	}
	return has_failed(call_rename2, EACCES) ? -1 : os_hooks_real.rename2(from, to, flags);
}

/* As the system: the descriptor is gone all the same. */
static int
hook_close(int fd) {
	int result = os_hooks_real.close(fd);
	return has_failed(call_close, EIO) ? -1 : result;
}

static int
hook_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg) {
	return has_failed(call_pthread_create, EAGAIN) ? EAGAIN : os_hooks_real.pthread_create(t, attr, fn, arg);
}

static bool
hook_metadata(void) {
	return has_failed(call_metadata, errno);
}

#define SET_HOOK(name) hooks.name = hook_##name;
static void
hooks_set(void) {
	SET_HOOK(mmap) SET_HOOK(munmap) SET_HOOK(mprotect) SET_HOOK(madvise) SET_HOOK(mremap) SET_HOOK(open)
	SET_HOOK(read) SET_HOOK(write) SET_HOOK(close) SET_HOOK(fstat) SET_HOOK(fchmod) SET_HOOK(unlink)
	SET_HOOK(link) SET_HOOK(rename) SET_HOOK(rename2) SET_HOOK(readlink) SET_HOOK(getcwd) SET_HOOK(getrandom)
	SET_HOOK(pthread_create)
	base_fault_hook = hook_metadata;
	__atomic_store_n(&os_hooks, &hooks, __ATOMIC_SEQ_CST);
}

/* ------------------------------------------------------------------ the work */

static void
work_memory(int flags) {
	static const size_t sizes[] = {20, 700, 9000, 40000, 300000, 3000000};
	char *p[24];
	for (unsigned i = 0; i < 24; i++) {
		size_t size = sizes[i % 6] + i;
		errno = 0;
		p[i] = keep(i % 2 == 0 ? mallocx(size, flags) : malloc(size));
		check(p[i] != NULL ? malloc_usable_size(p[i]) >= size : errno == ENOMEM);
		if (p[i] != NULL) {
			memset(p[i], (int)i + 1, size);
		}
	}
	for (unsigned i = 0; i < 24; i++) {
		size_t size = sizes[i % 6] + i;
		char *larger = p[i] == NULL ? NULL : keep(realloc(p[i], size + size / 2));
		p[i] = larger != NULL ? larger : p[i];
		check(p[i] == NULL || is_filled(p[i], (int)i + 1, size));
		free(p[i]);
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
	if (pthread_create(&t, NULL, thread_work, NULL) == 0) {
		pthread_join(t, NULL);
	}
	pid_t pid = fork();
	if (pid == 0) {
		bad = 0;
		work_memory(0);
		_exit(bad == 0 ? 7 : 8);
	}
	waitpid(pid, &status, 0);
	check(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static bool
is_errno_or_done(int err) {
	return err >= 0 && err < 134;
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
	const char *options = "sample_interval:64,reset:true", *path = "by-hand.heap", *log = "log.json";
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
	unlink(path);
	unlink(log);
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
	prof_ctl_dir_look();
	snprintf(name, sizeof(name), "%s/%d.status", dir, (int)getpid());
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		ssize_t n = read(fd, text, sizeof(text) - 1);
		close(fd);
		unlink(name);
		text[n < 0 ? 0 : n] = '\0';
		check(n > 0 && text[n - 1] == '\n' && strncmp(text, "nonce=", 6) == 0);
	} else {
		check(errno == ENOENT && fault.call >= 0);
	}
}

/* Arenas are never given back: one in sixteen runs makes one. */
static void
work_arena(unsigned run) {
	unsigned ind;
	size_t len = sizeof(ind);
	int err = run % 16 != 0 ? ENOENT : mallctl("arenas.create", &ind, &len, NULL, 0);
	check(is_errno_or_done(err));
	if (err == 0) {
		work_memory((int)MALLOCX_ARENA(ind) | MALLOCX_TCACHE_NONE);
	}
}

static void
work(void) {
	static unsigned n_runs;
	work_memory(0);
	work_arena(n_runs++);
	work_control();
	work_life();
	work_profile();
	work_directory();
}

/* ------------------------------------------------------------------ what may be lost */

/* Empties the directory; the number of files in it. */
static unsigned
files_remove(void) {
	unsigned n = 0;
	DIR *d = opendir(dir);
	struct dirent *e;
	while (d != NULL && (e = readdir(d)) != NULL) {
		n += e->d_name[0] != '.' && unlink(e->d_name) == 0;
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

/* One run with one fault, and one after it. */
static unsigned
run(int call, unsigned k, bool is_for_ever) {
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
	ctl_void("prof.session.stop"); /* if the fault let it not end */
	files_remove();
	check(descriptors() == fds);
	size_t now = live_bytes();
	/* The C library keeps a little of the profiler's thread. */
	check(!config_stats || now == live || (call == call_pthread_create && now < live + 4096));
	return n;
}

static void
test_call(int call) {
	unsigned n_failed = 0, before = bad;
	opt_prof_thread = call == call_pthread_create ? prof_thread_auto : prof_thread_false;
	for (int is_for_ever = 0; is_for_ever < 2; is_for_ever++) {
		unsigned n = 1;
		for (unsigned k = 1; k <= n; k += k < 5 ? 1 : k / 2) {
			n = run(call, k, is_for_ever);
			n_failed += n >= k;
		}
	}
	unsigned n_bad = bad - before;
	/* Nothing of this work needs these two: fault.c has them. */
	bool is_unused = call == call_mprotect || call == call_mremap;
	ok(n_failed > 0 || is_unused, "%s is used", call_names[call]);
	is_uint(n_bad, 0, "%s: %u runs in which it failed", call_names[call], n_failed);
}

/* Without a fault everything is done, not only answered. */
static void
test_after(void) {
	const char *options = "sample_interval:64", *path = "after.heap";
	work();
	is_int(ctl_write("prof.session.start", options), 0, "afterwards a session starts");
	work_memory(0);
	is_int(ctl_write("prof.dump", path), 0, "a profile is written");
	ok(access(path, F_OK) == 0 && is_whole_or_absent(path), "whole");
	is_int(ctl_void("prof.session.stop"), 0, "the session stops");
}

int
main(void) {
	char command[64];
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (mkdtemp(dir) == NULL || chdir(dir) != 0 || shared == MAP_FAILED) {
		bail_out("no directory");
	}
	if (!config_prof) {
		plan_skip_all("built without the profiler");
	}
	fault.call = -1;
	snprintf(opt_prof_ctl_dir, sizeof(opt_prof_ctl_dir), "%s", dir);
	opt_prof_thread = prof_thread_false; /* so that the k-th call is the same each time */
	free(keep(malloc(1)));
	hooks = os_hooks_real;
	hooks_set();
	for (unsigned i = 0; i < 3; i++) {
		work();
	}
	files_remove();
	is_uint(bad, 0, "the work goes well without a fault");
	size_t metadata = meta_in_use();
	for (int call = 0; call < call_count; call++) {
		test_call(call);
	}
	unsigned seen = bad;
	test_after();
	is_uint(bad - seen, 0, "and all the rest as before");
	ok(meta_in_use() < metadata + (1 << 20), "metadata: %zu bytes before, %zu after", metadata, meta_in_use());
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ok(chdir("/") == 0 && system(command) == 0, "no files are left");
	return done_testing();
}
