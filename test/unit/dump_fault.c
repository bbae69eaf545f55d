/*
 * Writing a profile while the system fails: each call at its k-th use, with each errno that means
 * something to somebody.  Either the profile is whole under its name, or there is no new file at
 * all, the errno of the call comes back and prof.last_error tells it.  No descriptor and no
 * temporary file is left.  Killed at any write: nothing half-written has a final name.
 */
#include "test.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "os/gate.h"
#include "os/malloc_io.h"
#include "os/nstime.h"
#include "os/sys.h"
#include "os/tls.h"
#include "prof/file/prof_dump.h"
#include "prof/file/prof_sys.h"
#include "prof/prof.h"
#include "prof/sites/prof_data.h"
#include "prof/sites/prof_sample.h"

enum { call_open, call_read, call_write, call_close, call_fchmod, call_link, call_rename,
    call_rename2, call_readlink, call_mmap, call_munmap };
static const char *const call_names[] = {"open", "read", "write", "close", "fchmod", "link",
    "rename", "rename2", "readlink", "mmap", "munmap"};

static struct os_hooks_s hooks;
static struct {
	int call;      /* -1: none */
	unsigned k;
	bool for_ever;
	int err;
	unsigned n;    /* uses of the call so far */
	unsigned hit;  /* how often it failed */
	bool is_poor;  /* interrupted at every other use, and seven bytes at a time */
	unsigned kill_at; /* the write at which the process is killed; 0: none */
	unsigned writes;
	bool is_slow;  /* a write hangs */
	bool is_full;  /* no room for a new file, nor for a byte */
} fault = {.call = -1};

static char dir[] = "/tmp/dump_fault.XXXXXX";
static char prefix[64], named[64];
static char text[4 << 20];

/* ---- the failing system ---- */

static bool
has_failed(int call) {
	static unsigned uses;

	if (fault.is_poor && call <= call_write && ++uses % 2 != 0) {
		errno = EINTR;
		return true;
	}
	if (call != fault.call)
		return false;
	fault.n++;
	if (fault.n < fault.k || (fault.n > fault.k && !fault.for_ever))
		return false;
	fault.hit++;
	errno = fault.err;
	return true;
}

static int
h_open(const char *path, int flags, unsigned mode) {
	if (fault.is_full && (flags & O_CREAT) != 0) {
		errno = ENOSPC;
		return -1;
	}
	return has_failed(call_open) ? -1 : os_hooks_real.open(path, flags, mode);
}

static ssize_t
h_read(int fd, void *buf, size_t size) {
	return has_failed(call_read) ? -1 : os_hooks_real.read(fd, buf, size);
}

static ssize_t
h_write(int fd, const void *buf, size_t size) {
	/* What a test says itself is no part of a dump. */
	if (fd <= 2)
		return os_hooks_real.write(fd, buf, size);
	if (fault.is_slow) {
		__atomic_store_n(&fault.writes, 1, __ATOMIC_RELEASE);
		for (;;)
			pause();
	}
	if (fault.is_full) {
		errno = ENOSPC;
		return -1;
	}
	if (has_failed(call_write))
		return -1;
	if (fault.kill_at != 0 && ++fault.writes == fault.kill_at) {
		os_hooks_real.write(fd, buf, size / 2);
		kill(getpid(), SIGKILL);
	}
	return os_hooks_real.write(fd, buf, fault.is_poor && size > 777 ? 777 : size);
}

static int
h_close(int fd) {
	int rc = os_hooks_real.close(fd);

	return has_failed(call_close) ? -1 : rc;
}

static int
h_fchmod(int fd, unsigned mode) {
	return has_failed(call_fchmod) ? -1 : os_hooks_real.fchmod(fd, mode);
}

static int
h_link(const char *from, const char *to) {
	return has_failed(call_link) ? -1 : os_hooks_real.link(from, to);
}

static int
h_rename(const char *from, const char *to) {
	return has_failed(call_rename) ? -1 : os_hooks_real.rename(from, to);
}

static bool has_no_rename2;

static int
h_rename2(const char *from, const char *to, unsigned flags) {
	if (has_no_rename2) {
		errno = EINVAL;
		return -1;
	}
	return has_failed(call_rename2) ? -1 : os_hooks_real.rename2(from, to, flags);
}

static ssize_t
h_readlink(const char *path, char *buf, size_t size) {
	return has_failed(call_readlink) ? -1 : os_hooks_real.readlink(path, buf, size);
}

static void *
h_mmap(void *addr, size_t size, int prot, int flags, int fd, off_t off) {
	return has_failed(call_mmap) ? MAP_FAILED : os_hooks_real.mmap(addr, size, prot, flags, fd,
	    off);
}

static int
h_munmap(void *addr, size_t size) {
	return has_failed(call_munmap) ? -1 : os_hooks_real.munmap(addr, size);
}

static void
hooks_make(void) {
	hooks = os_hooks_real;
	hooks.open = h_open;
	hooks.read = h_read;
	hooks.write = h_write;
	hooks.close = h_close;
	hooks.fchmod = h_fchmod;
	hooks.link = h_link;
	hooks.rename = h_rename;
	hooks.rename2 = h_rename2;
	hooks.readlink = h_readlink;
	hooks.mmap = h_mmap;
	hooks.munmap = h_munmap;
}

static void
fault_start(int call, unsigned k, bool for_ever, int err) {
	fault.call = call;
	fault.k = k;
	fault.for_ever = for_ever;
	fault.err = err;
	fault.n = 0;
	fault.hit = 0;
	__atomic_store_n(&os_hooks, &hooks, __ATOMIC_SEQ_CST);
}

static void
fault_stop(void) {
	__atomic_store_n(&os_hooks, &os_hooks_real, __ATOMIC_SEQ_CST);
	fault.call = -1;
}

/* ---- what is there ---- */

static bool
is_whole(const char *path) {
	unsigned long long before;
	char *end;
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	end = strstr(text, "\n# end ");
	return strncmp(text, "heap_v2/", 8) == 0 && end != NULL && sscanf(end, "\n# end %llu\n",
	    &before) == 1 && before == (unsigned long long)(end + 1 - text)
	    && strchr(end + 1, '\n') == text + n - 1;
}

struct seen {
	unsigned whole, half, temp;
};

/* Counts and removes the files of the directory. */
static struct seen
look_and_clean(void) {
	struct seen s = {0, 0, 0};
	DIR *d = opendir(dir);
	struct dirent *e;
	char path[400];

	while ((e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		if (e->d_name[0] == '.')
			s.temp++;
		else if (is_whole(path))
			s.whole++;
		else
			s.half++;
		unlink(path);
	}
	closedir(d);
	return s;
}

/* ---- each call fails ---- */

enum { to_new_path, to_old_path, to_own_name, n_targets };

static int
dump_once(int target) {
	prof_dump_t d = {.kind = prof_kind_manual, .path = target == to_own_name ? NULL : named,
	    .may_wait = true};

	return prof_dump(&d);
}

static void
old_file_make(void) {
	int fd = open(named, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || write(fd, "old\n", 4) != 4)
		bail_out("old file");
	close(fd);
}

static bool
old_file_is_there(void) {
	char got[8] = "";
	int fd = open(named, O_RDONLY);
	ssize_t n = read(fd, got, sizeof(got));

	close(fd);
	return n == 4 && memcmp(got, "old\n", 4) == 0;
}

/* A failed dump tells errno and path. */
static bool
last_error_is(int err, int target) {
	char got[PROF_TEXT_SIZE], name[16];

	prof_dump_last_error(got, sizeof(got));
	return strncmp(got, prof_errno_name(err, name), strlen(prof_errno_name(err, name))) == 0
	    && strstr(got, target == to_own_name ? prefix : named) != NULL;
}

/* One dump with one fault; 0: as it must be. */
static int
one_run(int target, int call, unsigned k, bool for_ever, int err) {
	int before = files_in("/proc/self/fd");
	bool kept = true;

	if (target == to_old_path)
		old_file_make();
	fault_start(call, k, for_ever, err);
	int got = dump_once(target);
	unsigned hit = fault.hit;
	bool told = got == 0 || last_error_is(got, target);
	fault_stop();
	if (got != 0 && target == to_old_path) {
		kept = old_file_is_there();
		unlink(named);
	}
	struct seen s = look_and_clean();
	if (s.half != 0)
		return 1;
	if (s.whole != (got == 0 ? 1 : 0))
		return 2;
	if (s.temp != 0)
		return 3;
	if (files_in("/proc/self/fd") != before)
		return 4;
	if (got != 0 && (got != err || hit == 0))
		return 5;
	if (!told)
		return 6;
	return kept ? 0 : 7;
}

static void
fails_each(int call, const int *errs) {
	unsigned runs = 0, bad = 0, failed = 0;

	for (int target = 0; target < n_targets; target++) {
		for (const int *e = errs; *e != 0; e++) {
			for (unsigned k = 1; k < 200; k++) {
				for (int for_ever = 0; for_ever < 2; for_ever++) {
					int why = one_run(target, call, k, for_ever != 0, *e);

					runs++;
					failed += fault.hit != 0;
					if (why != 0 && bad++ < 5)
						diag("%s, use %u%s, errno %d, target %d: fault %d", call_names[call], k,
						    for_ever ? " and on" : "", *e, target, why);
				}
				if (fault.hit == 0)
					break;
			}
		}
	}
	ok(bad == 0 && failed > 0, "%s fails: %u dumps, %u of them met it", call_names[call], runs,
	    failed);
}

#define ERRORS(...) (const int[]){__VA_ARGS__, 0}

static void
test_each_call(void) {
	fails_each(call_open, ERRORS(ENOSPC, EMFILE, ENFILE, EDQUOT, EIO, EINVAL));
	fails_each(call_read, ERRORS(EIO, EACCES));
	fails_each(call_write, ERRORS(ENOSPC, EFBIG, EIO, EDQUOT, EPERM));
	fails_each(call_close, ERRORS(EIO, ENOSPC, EDQUOT));
	fails_each(call_fchmod, ERRORS(EPERM));
	fails_each(call_rename, ERRORS(EIO, ENOSPC, EROFS));
	fails_each(call_rename2, ERRORS(EIO, EROFS, ENOSPC, ENOSYS, EINVAL, EPERM));
	has_no_rename2 = true;
	fails_each(call_link, ERRORS(EIO, EMLINK, EPERM, EOPNOTSUPP, ENOSYS));
	has_no_rename2 = false;
	fails_each(call_readlink, ERRORS(EACCES));
	fails_each(call_mmap, ERRORS(ENOMEM));
	fails_each(call_munmap, ERRORS(ENOMEM));
}

/* A name that is taken is never written over, also where neither rename2 nor link is there. */
static void
test_no_links(void) {
	static prof_file_t file;
	prof_name_t n = {.kind = prof_kind_manual, .begin_ns = 1};
	char taken[PROF_PATH_SIZE];
	struct stat st;

	has_no_rename2 = true;
	fault_start(call_link, 1, true, EPERM);
	is_int(dump_once(to_own_name), 0, "a file system without links");
	prof_file_open(&file, NULL, &n, false);
	prof_file_write(&file, "x", 1);
	/* Somebody takes the name while the file is written. */
	snprintf(taken, sizeof(taken), "%s", file.path);
	close(open(taken, O_WRONLY | O_CREAT | O_EXCL, 0600));
	is_int(prof_file_close(&file), 0, "and a name that is taken");
	ok(strcmp(taken, file.path) != 0, "the next one");
	ok(stat(taken, &st) == 0 && st.st_size == 0, "the older file is as it was");
	fault_stop();
	has_no_rename2 = false;
	look_and_clean();
}

/* Not even a name fits any more: the older file must not be emptied for a try. */
static void
test_full(void) {
	old_file_make();
	fault.is_full = true;
	fault_start(-1, 0, false, 0);
	is_int(dump_once(to_old_path), ENOSPC, "a full disk");
	fault_stop();
	fault.is_full = false;
	ok(old_file_is_there(), "the older file is as it was");
	look_and_clean();
}

static void
test_poor(void) {
	fault.is_poor = true;
	fault_start(-1, 0, false, 0);
	is_int(dump_once(to_new_path), 0, "interrupted calls and short writes");
	fault_stop();
	fault.is_poor = false;
	ok(is_whole(named), "the profile is whole");
	look_and_clean();
}

/* ---- killed ---- */

static void
die_writing(void *arg) {
	fault.kill_at = *(unsigned *)arg;
	fault_start(-1, 0, false, 0);
	_exit(dump_once(to_own_name) == 0 ? 7 : 8);
}

static void
test_killed(void) {
	static struct test_result r;
	unsigned at = 0, killed = 0, half = 0, whole = 0, temp = 0;

	do {
		at++;
		run_forked(&r, die_writing, &at);
		struct seen s = look_and_clean();
		half += s.half;
		whole += s.whole;
		temp += s.temp;
		killed += died_of(&r, SIGKILL);
	} while (died_of(&r, SIGKILL) && at < 100);
	ok(exited_with(&r, 7) && killed >= 3, "killed at each of %u writes", killed);
	is_uint(half, 0, "no half file under a final name");
	is_uint(whole, 1, "the one that was not killed is whole");
	is_uint(temp, killed, "each other left its temporary file, whose name begins with a dot");
}

static void *
dump_slowly(void *arg) {
	dump_once(to_own_name);
	return arg;
}

static void
exit_writing(void *arg) {
	pthread_t t;
	pid_t pid;
	int status = -1;

	fault.is_slow = true;
	fault_start(-1, 0, false, 0);
	pthread_create(&t, NULL, dump_slowly, NULL);
	while (__atomic_load_n(&fault.writes, __ATOMIC_ACQUIRE) == 0)
		usleep(100);
	/* A child that exits has no say in it. */
	pid = fork();
	if (pid == 0)
		exit(0);
	waitpid(pid, &status, 0);
	if (status != 0 || files_in(dir) != 1)
		_exit(9);
	exit(arg == NULL ? 7 : 8);
}

/* Exit does not wait for a thread that writes, and leaves nothing of it. */
static void
test_exit(void) {
	static struct test_result r;

	run_forked(&r, exit_writing, NULL);
	child_exits(&r, 7, "exit in the middle of another thread's dump");
	struct seen s = look_and_clean();
	is_uint(s.whole + s.half + s.temp, 0, "no file is left of it");
}

/* What a killed process of the same number left is passed over, not written into. */
static void
test_left_behind(void) {
	char path[128];
	unsigned n = 0;

	for (unsigned i = 0; i < 50; i++) {
		snprintf(path, sizeof(path), "%s/.jeprof.%d.%u.tmp", dir, getpid(), i + 100000);
		n += close(open(path, O_WRONLY | O_CREAT | O_EXCL, 0600)) == 0;
	}
	is_uint(n, 50, "fifty old temporary files");
	is_int(dump_once(to_own_name), 0, "a dump beside them");
	struct seen s = look_and_clean();
	is_uint(s.whole, 1, "is whole");
	is_uint(s.temp, 50, "they are as they were");
}

/* ---- automatic dumps ---- */

static uint64_t fake_ns = 1000 * NSTIME_PER_SEC;

static uint64_t
fake_now(void) {
	return fake_ns;
}

static char said[4096];

static void
listen(void *opaque, const char *s) {
	(void)opaque;
	strncat(said, s, sizeof(said) - 1 - strlen(said));
}

static int
automatic(prof_kind_t kind) {
	prof_dump_t d = {.kind = kind, .metric = "test"};

	return prof_dump(&d);
}

static void
test_back_off(void) {
	uint64_t errors = prof_dump_nerrors();
	unsigned lines = 0;
	malloc_io_write_t *old_voice = malloc_io_message;

	nstime_now_hook = fake_now;
	prof_abort = false;
	malloc_io_message = listen;
	fault_start(call_write, 1, true, ENOSPC);
	for (unsigned i = 0; i < 3; i++)
		is_int(automatic(prof_kind_interval), ENOSPC, "failure %u", i + 1);
	is_int(automatic(prof_kind_alloc), EAGAIN, "then it is not even tried, for any kind");
	is_uint(prof_dump_nerrors() - errors, 3, "prof.dump_errors counts what was tried");
	fake_ns += NSTIME_PER_SEC - 1;
	is_int(automatic(prof_kind_interval), EAGAIN, "for a second");
	fake_ns += 1;
	is_int(automatic(prof_kind_interval), ENOSPC, "tried again");
	fake_ns += 2 * NSTIME_PER_SEC - 1;
	is_int(automatic(prof_kind_interval), EAGAIN, "then not for two");
	fake_ns += 1;
	for (unsigned i = 0; i < 10; i++) {
		is_int(automatic(prof_kind_interval), ENOSPC, "tried again");
		fake_ns += 60 * NSTIME_PER_SEC;
	}
	is_int(automatic(prof_kind_interval), ENOSPC, "never longer than a minute");
	for (char *at = said; (at = strstr(at, "<jemalloc>: ")) != NULL; at++)
		lines++;
	is_uint(lines, 1, "one line for the whole row");
	contains(said, prefix, "with the path");
	contains(said, "ENOSPC", "and the reason");
	is_int(dump_once(to_new_path), ENOSPC, "a dump by hand is tried in any case");
	is_int(automatic(prof_kind_final), ENOSPC, "and the final one");
	fault_stop();
	fake_ns += 60 * NSTIME_PER_SEC;
	is_int(automatic(prof_kind_interval), 0, "the disk has room again");
	fault_start(call_write, 1, true, ENOSPC);
	said[0] = '\0';
	is_int(automatic(prof_kind_interval), ENOSPC, "a new row");
	is_int(automatic(prof_kind_interval), ENOSPC, "begins with no wait");
	fault_stop();
	contains(said, "ENOSPC", "and is told again");
	is_int(automatic(prof_kind_interval), 0, "the end of it");
	malloc_io_message = old_voice;
	nstime_now_hook = NULL;
	look_and_clean();
}

static unsigned hook_calls;
static char hook_name[PROF_PATH_SIZE];

static void
count_hook(const char *filename) {
	hook_calls++;
	snprintf(hook_name, sizeof(hook_name), "%s", filename);
}

/* As upstream: whoever waits for a file learns that there is none. */
static void
test_hook(void) {
	prof_hook_set(PROF_HOOK_DUMP, (prof_hook_fn_t)count_hook);
	fault_start(call_write, 2, true, ENOSPC);
	is_int(dump_once(to_new_path), ENOSPC, "a dump that fails");
	fault_stop();
	is_uint(hook_calls, 1, "the program's hook is called");
	is_str(hook_name, named, "with the name");
	is_int(dump_once(to_new_path), 0, "one that does not");
	is_uint(hook_calls, 2, "it is called");
	fault_start(call_mmap, 1, true, ENOMEM);
	is_int(dump_once(to_own_name), ENOMEM, "one without memory");
	fault_stop();
	is_uint(hook_calls, 3, "it is called");
	contains(hook_name, prefix, "with the name that the profile would have had");
	prof_hook_set(PROF_HOOK_DUMP, NULL);
	look_and_clean();
}

static void
books_fill(prof_tdata_t *td) {
	for (uintptr_t i = 0; i < 3000; i++) {
		void *vec[4] = {(void *)(0x1001 + i), (void *)0x2000, (void *)(0x7fff00000000 + i),
		    (void *)8};
		prof_bt_t bt = {vec, 4, false, 0};

		prof_data_add(td, &bt, 1, 100 + i, prof_weight(100 + i, 1));
	}
}

int
main(void) {
	if (!config_prof)
		plan_skip_all("built without the profiler");
	free(keep(malloc(1)));
	if (mkdtemp(dir) == NULL)
		bail_out("mkdtemp");
	snprintf(prefix, sizeof(prefix), "%s/auto", dir);
	snprintf(named, sizeof(named), "%s/named", dir);
	gate_enter(tls_get());
	opt_prof_active = false;
	if (prof_boot() != 0)
		bail_out("boot");
	prof_sys_prefix_set(prefix);
	books_fill(prof_data_tdata_new(true));
	gate_exit(tls_get());
	prof_boot_late();
	hooks_make();
	test_poor();
	test_each_call();
	test_full();
	test_no_links();
	test_killed();
	test_exit();
	test_left_behind();
	test_back_off();
	test_hook();
	is_int(rmdir(dir), 0, "nothing is left");
	return done_testing();
}
