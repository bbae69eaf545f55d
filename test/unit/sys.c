/* Files, environment, readable memory, maps and modules; interrupted and failing calls. */
#include "test.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* musl-gcc finds no headers of the kernel. */
#if __has_include(<linux/filter.h>)
#define HAS_FILTERS 1
#include <linux/filter.h>
#include <linux/seccomp.h>
#else
#define HAS_FILTERS 0
#endif

#include "os/gate.h"
#include "os/malloc_io.h"
#include "os/pages.h"
#include "os/sys.h"
#include "util/atomic.h"

static struct os_hooks_s hooks;
static char dir[] = "/tmp/sys-test.XXXXXX";
static char path_a[128], path_b[128];

/* ---- a system that interrupts, shortens and fails ---- */

static unsigned n_interrupts;

static int
open_interrupted(const char *path, int flags, unsigned mode) {
	if (n_interrupts > 0) {
		n_interrupts--;
		errno = EINTR;
		return -1;
	}
	return os_hooks_real.open(path, flags, mode);
}

static ssize_t
write_short(int fd, const void *buf, size_t size) {
	if (n_interrupts > 0) {
		n_interrupts--;
		errno = EINTR;
		return -1;
	}
	return os_hooks_real.write(fd, buf, size > 3 ? 3 : size);
}

static ssize_t
write_full(int fd, const void *buf, size_t size) {
	(void)fd;
	(void)buf;
	static size_t room = 5;
	if (room == 0) {
		errno = ENOSPC;
		return -1;
	}
	size_t n = size < room ? size : room;
	room -= n;
	return (ssize_t)n;
}

static int
rename2_missing(const char *from, const char *to, unsigned flags) {
	(void)from;
	(void)to;
	(void)flags;
	errno = EINVAL;
	return -1;
}

static ssize_t
getrandom_missing(void *buf, size_t size, unsigned flags) {
	(void)buf;
	(void)size;
	(void)flags;
	errno = ENOSYS;
	return -1;
}

static void
put(const char *path, const char *text) {
	int fd = sys_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	sys_write_all(fd, text, strlen(text), 0, NULL);
	sys_close(fd);
}

static void
is_content(const char *path, const char *want, const char *what) {
	char text[128] = "";
	sys_read_text(path, text, sizeof(text));
	is_str(text, want, "%s", what);
}

static void
test_files(void) {
	errno = 9;
	is_uint(sys_auxval(0x7fffffff), 0, "the kernel has told no such thing");
	is_int(errno, 9, "and errno is kept");
	is_int(sys_open("/nonexistent/x", O_RDONLY, 0), -ENOENT, "open: the error");
	char text[4] = "old";
	uint64_t number;
	is_int(sys_read_text("/nonexistent/x", text, sizeof(text)), -ENOENT, "read_text: the error");
	is_str(text, "", "and an empty text");
	ok(!sys_try_read_number("/nonexistent/x", &number), "no file, no number");
	is_int(sys_read(-1, path_a, 1), -EBADF, "read: the error");
	is_int(sys_close(-1), EBADF, "close: the error");
	is_int(sys_unlink("/nonexistent/x"), ENOENT, "unlink: the error");
	put(path_a, "hello");
	is_content(path_a, "hello", "written and read");
	is_int(sys_read_text(path_a, text, sizeof(text)), 3, "a text that is longer");
	is_str(text, "hel", "is cut");
	ok(!sys_try_read_number(path_a, &number), "a word is no number");
	put(path_a, "42\n");
	ok(sys_try_read_number(path_a, &number) && number == 42, "a number");
	put(path_a, "hello");
	int fd = sys_open(path_a, O_RDONLY, 0);
	ok((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0, "opened close-on-exec");
	struct stat st;
	ok(sys_fchmod(fd, 0640) == 0 && sys_fstat(fd, &st) == 0 && (st.st_mode & 0777) == 0640,
	    "mode changed and seen");
	sys_close(fd);
	put(path_b, "there");
	is_int(sys_rename_noreplace(path_a, path_b), EEXIST, "rename_noreplace does not replace");
	is_content(path_b, "there", "nothing overwritten");
	hooks = os_hooks_real;
	hooks.rename2 = rename2_missing;
	os_hooks = &hooks;
	is_int(sys_rename_noreplace(path_a, path_b), EEXIST, "nor without the kernel's help");
	sys_unlink(path_b);
	is_int(sys_rename_noreplace(path_a, path_b), 0, "a free name, without the kernel's help");
	os_hooks = &os_hooks_real;
	is_content(path_b, "hello", "moved");
	is_int(sys_unlink(path_a), ENOENT, "the old name is gone");
	is_int(sys_rename_noreplace(path_b, path_a), 0, "a free name");
	put(path_b, "old");
	is_int(sys_rename(path_a, path_b), 0, "rename replaces");
	is_content(path_b, "hello", "replaced");
	is_int(errno, 9, "errno is kept all the way");
	sys_unlink(path_b);
}

static void
test_interrupts(void) {
	hooks = os_hooks_real;
	hooks.open = open_interrupted;
	hooks.write = write_short;
	os_hooks = &hooks;
	n_interrupts = 3;
	int fd = sys_open(path_a, O_WRONLY | O_CREAT, 0600);
	ok(fd >= 0, "an interrupted open is retried");
	n_interrupts = 2;
	size_t written = 0;
	is_int(sys_write_all(fd, "0123456789", 10, 0, &written), 0, "short and interrupted writes");
	is_uint(written, 10, "all is counted");
	n_interrupts = UINT_MAX;
	is_int(sys_write_all(fd, "abc", 3, 0, &written), EINTR,
	    "a write that is interrupted without end fails");
	is_uint(written, 0, "none is counted");
	is_int(sys_open(path_a, O_RDONLY, 0), -EINTR, "as does an open");
	sys_close(fd);
	os_hooks = &os_hooks_real;
	is_content(path_a, "0123456789", "all is there");
	hooks.write = write_full;
	os_hooks = &hooks;
	is_int(sys_write_all(1, "0123456789", 10, 0, &written), ENOSPC, "full: the error");
	os_hooks = &os_hooks_real;
	is_uint(written, 5, "full: what got out");
	sys_unlink(path_a);
}

static void
test_names(void) {
	char buf[4096];
	char *want = getcwd(NULL, 0);
	is_int(sys_getcwd(buf, sizeof(buf)), 0, "getcwd");
	is_str(buf, want, "the directory");
	free(want);
	is_int(sys_getcwd(buf, 1), ERANGE, "getcwd without room");
	is_int(symlink("the-target", path_a), 0, "a link");
	is_int(sys_readlink(path_a, buf, sizeof(buf)), 10, "readlink: length");
	is_str(buf, "the-target", "readlink: target");
	is_int(sys_readlink(path_a, buf, 4), 3, "readlink: cut");
	is_str(buf, "the", "readlink: cut and ended");
	is_int(sys_readlink("/nonexistent", buf, 4), -ENOENT, "readlink: the error");
	sys_unlink(path_a);
	is_int(sys_pid(), (int)getpid(), "pid");
	struct stat st;
	if (stat("/proc/self/ns/pid", &st) == 0) {
		is_uint(sys_pidns(), st.st_ino, "pid namespace");
	} else {
		is_uint(sys_pidns(), 0, "no pid namespace");
	}
}

static void
test_environment(void) {
	setenv("SYS_TEST_A", "value", 1);
	setenv("SYS_TEST_AB", "other", 1);
	setenv("SYS_TEST_EMPTY", "", 1);
	is_str(sys_env("SYS_TEST_A"), "value", "a variable");
	is_str(sys_env("SYS_TEST_EMPTY"), "", "an empty one");
	is_str(sys_env("SYS_TEST_"), NULL, "a prefix of a name is not one");
	is_str(sys_env("SYS_TEST_NOT"), NULL, "an unset one");
	char **saved = environ;
	environ = NULL;
	is_str(sys_env("SYS_TEST_A"), NULL, "no environment yet");
	environ = saved;
	ok(!sys_is_secure(), "not set-user-id");
}

static void
test_random_numbers(void) {
	ok(sys_random() != sys_random(), "random numbers differ");
	hooks = os_hooks_real;
	hooks.getrandom = getrandom_missing;
	os_hooks = &hooks;
	ok(sys_random() != sys_random(), "also without the kernel");
	os_hooks = &os_hooks_real;
}

static void
test_readable(void) {
	size_t page = os_page_size;
	char *p = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(p + page, page, PROT_NONE);
	munmap(p + 2 * page, page);
	errno = 9;
	ok(sys_is_readable(p, 1) && sys_is_readable(p, page), "mapped");
	ok(!sys_is_readable(p + page, 1), "mapped without access");
	ok(!sys_is_readable(p, page + 1), "reaches into it");
	ok(!sys_is_readable(p + 2 * page, 1), "not mapped");
	ok(!sys_is_readable(NULL, 8) && !sys_is_readable((void *)1, 8), "page 0");
	ok(!sys_is_readable((void *)(UINTPTR_MAX - 3), 8), "past the end of memory");
	ok(sys_is_readable("text", 5) && sys_is_readable(&page, 8), "text and stack");
	is_int(errno, 9, "errno is kept");
	munmap(p, 2 * page);
}

#if HAS_FILTERS

/* Where a filter of system calls refuses the question, no memory is said to be readable. */
static void
readable_without_futex(void *arg) {
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {ARRAY_LEN(f), f};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
	    || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) != 0) {
		_exit(77);
	}
	_exit(sys_is_readable(arg, 1));
}

static void
test_readable_filtered(void) {
	static struct test_result r;
	run_forked(&r, readable_without_futex, &r);
	if (exited_with(&r, 77)) {
		skip(1, "no filter can be put on here");
	} else {
		child_exits(&r, 0, "not known to be readable where futex(2) is refused");
	}
}

#else

static void
test_readable_filtered(void) {
	skip(1, "no headers for filters of system calls");
}

#endif

static void
test_copy(void) {
	size_t page = os_page_size;
	char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *end = p + page, to[64];
	memset(p, 'x', page);
	strcpy(end - 4, "in two pages");
	memset(to, 'y', sizeof(to));
	ok(sys_copy_text(to + 8, end - 4, 13) && strcmp(to + 8, "in two pages") == 0
	    && memcmp(to, "yyyyyyyy", 8) == 0 && to[21] == 'y', "a text in two pages");
	ok(!sys_copy_text(to, end - 4, 12), "not without its end");
	munmap(end, page);
	memset(p, 'x', page);
	errno = 9;
	ok(sys_copy_memory(to, end - 8, 8) && memcmp(to, "xxxxxxxx", 8) == 0,
	    "the last bytes of a page are copied");
	ok(!sys_copy_memory(to, end - 8, 9), "and not beyond");
	ok(!sys_copy_memory(to, NULL, 8), "nor from NULL");
	ok(!sys_copy_text(to, end - 8, sizeof(to)), "a text without an end in its page");
	end[-1] = '\0';
	ok(sys_copy_text(to, end - 8, sizeof(to)) && strcmp(to, "xxxxxxx") == 0,
	    "a text that ends with its page");
	ok(!sys_copy_text(to, end - 8, 7) && sys_copy_text(to, end - 8, 8),
	    "a text is copied with its NUL or not at all");
	is_int(errno, 9, "errno is kept");
	munmap(p, page);
}

struct maps_seen {
	size_t len;
	bool has_stack;
};

static int
on_maps(void *ctx, const char *text, size_t len) {
	struct maps_seen *s = ctx;
	s->len += len;
	s->has_stack = s->has_stack || memmem(text, len, "[stack]", 7) != NULL;
	return 0;
}

static int
stop_maps(void *ctx, const char *text, size_t len) {
	(void)ctx;
	(void)text;
	(void)len;
	return 77;
}

struct module_seen {
	unsigned n;
	bool has_us;
	char path[4096];
};

/* The loader's list, and behind it an object of which nothing is loaded. */
static bool has_empty;
static struct dl_phdr_info empty = {.dlpi_name = "empty"};

/* AddressSanitizer calls this before it is ready. */
NO_SANITIZE_ADDRESS int
dl_iterate_phdr(int (*cb)(struct dl_phdr_info *, size_t, void *), void *ctx) {
	static int (*list)(int (*)(struct dl_phdr_info *, size_t, void *), void *);
	if (list == NULL) {
		*(void **)&list = dlsym(RTLD_NEXT, "dl_iterate_phdr");
	}
	int ret = list(cb, ctx);
	return ret == 0 && has_empty ? cb(&empty, sizeof(empty), ctx) : ret;
}

static int
on_module(void *ctx, const struct sys_module_s *m) {
	struct module_seen *s = ctx;
	s->n++;
	errno = 22;
	uintptr_t here = (uintptr_t)on_module;
	if (here >= m->start && here < m->end) {
		s->has_us = m->path != NULL && m->bias <= m->start;
		strcpy(s->path, m->path);
	}
	return 0;
}

static void
test_maps_and_modules(void) {
	char buf[8192];
	struct maps_seen s = {0, false};
	is_int(sys_maps_copy(buf, sizeof(buf), on_maps, &s), 0, "maps");
	ok(s.len > 100 && s.has_stack, "the stack is in them");
	is_int(sys_maps_copy(buf, sizeof(buf), stop_maps, NULL), 77, "the reader can stop");
	struct module_seen m = {0, false, ""}, again = m;
	errno = 9;
	is_int(sys_modules(on_module, &m, "/the/program"), 0, "modules");
	is_int(errno, 9, "errno is kept, whatever the reader does");
	ok(m.n >= 1 && m.has_us, "this program is one of %u", m.n);
	is_str(m.path, "/the/program", "its path is the one that was given");
	has_empty = true;
	is_int(sys_modules(on_module, &again, "/the/program"), 0, "an object without a segment");
	is_uint(again.n, m.n, "is not shown");
	has_empty = false;
}

/* What the kernel tells of the program; no headers: what it has told of this one. */
static struct {
	const ElfW(Phdr) *headers;
	unsigned long n, base;
} kernel;

/* AddressSanitizer calls this before it is ready. */
NO_SANITIZE_ADDRESS unsigned long
getauxval(unsigned long type) {
	static unsigned long (*real)(unsigned long);
	if (real == NULL) {
		*(void **)&real = dlsym(RTLD_NEXT, "getauxval");
	}
	if (kernel.headers == NULL) {
		return real(type);
	}
	return type == AT_PHDR ? (unsigned long)kernel.headers : type == AT_PHNUM ? kernel.n
	    : type == AT_BASE ? kernel.base : real(type);
}

/* Programs of all kinds: which of them a loader runs as a program of its own, which have a note. */
static void
test_kinds_of_program(void) {
	static const struct {
		const char *name;
		unsigned long base, n;
		unsigned types[5];
		bool is_run_by_loader, has_note;
	} rows[] = {
		{"started by the system", 4096, 4, {PT_PHDR, PT_INTERP, PT_LOAD, PT_NOTE}, false, true},
		{"run by the loader", 0, 4, {PT_PHDR, PT_INTERP, PT_LOAD, PT_NOTE}, true, true},
		{"the same with the path first", 0, 2, {PT_INTERP, PT_LOAD}, true, false},
		{"the same with the path last", 0, 3, {PT_NOTE, PT_LOAD, PT_INTERP}, true, true},
		{"a static one", 0, 2, {PT_LOAD, PT_NOTE}, false, true},
		{"what is behind the headers is none", 0, 1, {PT_LOAD, PT_INTERP, PT_NOTE}, false, false},
		{"it has no headers", 0, 0, {PT_NOTE}, false, false},
	};
	static const struct {
		ElfW(Nhdr) h;
		char owner[8];
	} note = {{.n_namesz = 5, .n_descsz = 0, .n_type = 77}, "jtes"};
	for (unsigned r = 0; r < ARRAY_LEN(rows); r++) {
		static ElfW(Phdr) headers[5];
		bool has_phdr = rows[r].types[0] == PT_PHDR;
		uintptr_t bias = has_phdr ? (uintptr_t)headers - sizeof(ElfW(Ehdr)) : 0;
		for (unsigned i = 0; i < ARRAY_LEN(headers); i++) {
			headers[i] = (ElfW(Phdr)){.p_type = rows[r].types[i], .p_align = 4};
			headers[i].p_vaddr = headers[i].p_type == PT_NOTE ? (uintptr_t)&note - bias
			    : (uintptr_t)&headers[0] - bias;
			headers[i].p_memsz = headers[i].p_type == PT_NOTE ? sizeof(note) : sizeof(headers);
		}
		kernel.base = rows[r].base;
		kernel.n = rows[r].n;
		kernel.headers = headers;
		bool is_run = sys_is_run_by_loader(), has_note = sys_program_has_note("jtes", 77);
		bool has_other = sys_program_has_note("jtes", 76);
		kernel.headers = NULL;
		is_int(is_run, rows[r].is_run_by_loader, "%s: who has run it", rows[r].name);
		ok(has_note == rows[r].has_note && !has_other, "%s: its notes", rows[r].name);
	}
}

/* The path of the loader of this program; NULL: it has none. */
static const char *
own_loader(void) {
	const ElfW(Phdr) *ph = (const void *)sys_auxval(AT_PHDR);
	uintptr_t bias = 0;
	for (size_t i = 0; i < sys_auxval(AT_PHNUM); i++) {
		bias = ph[i].p_type == PT_PHDR ? (uintptr_t)ph - ph[i].p_vaddr : bias;
		if (ph[i].p_type == PT_INTERP) {
			return (const char *)(bias + ph[i].p_vaddr);
		}
	}
	return NULL;
}

static int
child_loaded(void) {
	return sys_is_run_by_loader() ? 7 : 8;
}

static void
test_loader(void) {
	static struct test_result r;
	char self[4096] = "";
	const char *loader = own_loader();
	const char *argv[] = {loader, self, "--child=loaded", NULL};
	ok(!sys_program_has_note("nobody", 1), "a note that no program has");
	/* musl's getauxval() tells of the loader then, not of the program. */
	if (loader == NULL || strstr(loader, "musl") != NULL || getenv("TEST_EMULATOR") != NULL
	    || readlink("/proc/self/exe", self, sizeof(self) - 1) <= 0) {
		skip(2, "not started as usual");
		return;
	}
	ok(!sys_is_run_by_loader(), "the system has started this program");
	run_program(&r, argv, NULL);
	child_exits(&r, 7, "the loader, as a program of its own, has started this one");
}

static int
fork_in_it(void *ctx, const struct sys_module_s *m) {
	(void)m;
	pid_t *pid = ctx;
	*pid = fork();
	if (*pid == 0) {
		sys_modules_postfork_child();
	}
	return 1;
}

/* As fork() does, but no handler has run when the child asks. */
static int
fork_in_it_early(void *ctx, const struct sys_module_s *m) {
	(void)m;
	struct module_seen seen = {0, false, ""};
	pid_t *pid = ctx;
	gate_prefork();
	*pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (*pid == 0) {
		_exit(sys_modules(on_module, &seen, "/the/program") == -1 && seen.n == 0 ? 7 : 8);
	}
	gate_postfork_parent();
	return 1;
}

static void
test_modules_before_handlers(void) {
	struct module_seen m = {0, false, ""};
	pid_t pid = -1;
	int status = 0;
	sys_modules(fork_in_it_early, &pid, "");
	ok(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 7,
	    "a child in which no handler of fork has run does not ask either");
	is_int(sys_modules(on_module, &m, "/the/program"), 0, "its parent does");
}

/* The child's lock of the loader is its parent's. */
static void
test_modules_after_fork(void) {
	struct module_seen m = {0, false, ""};
	uint64_t adds, subs;
	pid_t pid = -1;
	int status = 0;
	sys_modules(fork_in_it, &pid, "");
	if (pid == 0) {
		alarm(100);
		bool is_quiet = sys_modules(on_module, &m, "/the/program") == -1 && m.n == 0;
		_exit(is_quiet && !sys_module_changes(&adds, &subs) ? 7 : 8);
	}
	ok(waitpid(pid, &status, 0) == pid && WIFEXITED(status),
	    "a child of a fork in the midst of the list ends");
	is_int(WEXITSTATUS(status), 7, "and has asked no more");
	is_int(sys_modules(on_module, &m, "/the/program"), 0, "its parent does");
	pid = fork();
	if (pid == 0) {
		sys_modules_postfork_child();
		_exit(sys_modules(on_module, &m, "/the/program") == 0 ? 7 : 8);
	}
	ok(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 7,
	    "and another child");
}

extern struct r_debug _r_debug WEAK;

/* In a dlopen() of another thread the lock is taken too, and glibc's fork does not renew it. */
static void
test_modules_amid_loading(void) {
	struct module_seen m = {0, false, ""};
	int status = 0;
	if (&_r_debug == NULL) {
		skip(2, "this loader does not tell what it does");
		return;
	}
	_r_debug.r_state = RT_ADD;
	pid_t pid = fork();
	if (pid == 0) {
		sys_modules_postfork_child();
		_r_debug.r_state = RT_CONSISTENT;
		_exit(sys_modules(on_module, &m, "/the/program") == -1 && m.n == 0 ? 7 : 8);
	}
	_r_debug.r_state = RT_CONSISTENT;
	ok(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 7,
	    "a child of a fork while an object is loaded does not ask");
	is_int(sys_modules(on_module, &m, "/the/program"), 0, "its parent does");
}

/* ---- messages ---- */

static char said[4096];

static void
hear(void *opaque, const char *s) {
	(void)opaque;
	strncat(said, s, sizeof(said) - strlen(said) - 1);
	errno = 33;
}

static void
speak_raw(void *arg) {
	(void)arg;
	malloc_write("to descriptor 2\n");
	malloc_printf("%d of %s\n", 3, "four");
}

static void
test_messages(void) {
	static struct test_result r;
	run_forked(&r, speak_raw, NULL);
	is_str(r.out, "to descriptor 2\n3 of four\n", "without a message function");
	malloc_io_message = hear;
	errno = 4;
	malloc_write("abc ");
	malloc_printf("%u ", 5u);
	is_int(errno, 4, "errno is kept");
	is_str(said, "abc 5 ", "with a message function");
	said[0] = '\0';
	char longer[3000];
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	malloc_printf("%s", longer);
	is_uint(strlen(said), MALLOC_PRINTF_MAX - 1, "a long text is cut");
	malloc_io_message = NULL;
}

/* Nobody reads the pipe: the first wait is in vain, and the rest of the text is dropped. */
static void
speak_long(void *arg) {
	static char text[1 << 18];
	malloc_io_text_t long_text = {NULL, 1};
	int fds[2], told = dup(STDERR_FILENO);
	(void)arg;
	memset(text, 'x', sizeof(text) - 1);
	if (told < 0 || pipe(fds) != 0 || fcntl(fds[0], F_SETFL, O_NONBLOCK) != 0
	    || fcntl(fds[1], F_SETFL, O_WRONLY | O_NONBLOCK) != 0 || dup2(fds[1], STDERR_FILENO) < 0) {
		_exit(2);
	}
	malloc_write_long(&long_text, "begin ");
	dprintf(told, "%u ", long_text.timeout_ms);
	malloc_write_long(&long_text, text);
	ssize_t n = read(fds[0], text, sizeof(text));
	dprintf(told, "%u %d %.7s ", long_text.timeout_ms, n > 7, text);
	malloc_write_long(&long_text, "more");
	dprintf(told, "%zd", read(fds[0], text, sizeof(text)));
}

static ssize_t
write_once_full(int fd, const void *buf, size_t size) {
	static unsigned n;
	if (size > 2 && n++ < 2) {
		return os_hooks_real.write(fd, buf, 2);
	}
	if (n++ == 2) {
		errno = ENOSPC;
		return -1;
	}
	return os_hooks_real.write(fd, buf, size);
}

/* The disk is full amid the first piece, and has room again for the next ones. */
static void
speak_to_disk(void *arg) {
	malloc_io_text_t long_text = {NULL, 1}, next_text = {NULL, 1};
	(void)arg;
	hooks = os_hooks_real;
	hooks.write = write_once_full;
	os_hooks = &hooks;
	malloc_write_long(&long_text, "begins");
	malloc_write_long(&long_text, "more");
	malloc_write_long(&next_text, "|next");
}

static void
test_long_message(void) {
	static struct test_result r;
	run_forked(&r, speak_long, NULL);
	is_str(r.out, "1 0 1 begin x -1", "a long text ends where nobody has read it");
	run_forked(&r, speak_to_disk, NULL);
	is_str(r.out, "begi|next", "and where the disk was full");
}

/* ---- an image of our own making ---- */

static struct {
	ElfW(Ehdr) e;
	ElfW(Phdr) ph[40];
	char notes[700];
} image;
static unsigned char image_id[SYS_BUILD_ID_MAX + 1];

/* Adds a note of this type, owner GNU, at `at`; returns where the next one begins. */
static size_t
image_note(size_t at, unsigned type, unsigned bytes) {
	ElfW(Nhdr) h = {.n_namesz = 4, .n_descsz = bytes, .n_type = type};
	memcpy(image.notes + at, &h, sizeof(h));
	memcpy(image.notes + at + sizeof(h), "GNU", 4);
	memset(image.notes + at + sizeof(h) + 4, 7, bytes);
	return at + sizeof(h) + 4 + bytes;
}

/* A segment of a page, an .eh_frame_hdr, a build id of `id` bytes behind a note of `other`. */
static void
image_make(unsigned id, unsigned other) {
	memset(&image, 0, sizeof(image));
	memcpy(image.e.e_ident, ELFMAG, SELFMAG);
	image.e.e_phoff = offsetof(__typeof__(image), ph);
	image.e.e_phnum = 3;
	image.ph[0] = (ElfW(Phdr)){.p_type = PT_LOAD, .p_memsz = 4096};
	image.ph[1] = (ElfW(Phdr)){.p_type = PT_GNU_EH_FRAME, .p_vaddr = 100};
	size_t end = image_note(other == 0 ? 0 : image_note(0, 99, other), NT_GNU_BUILD_ID, id);
	image.ph[2] = (ElfW(Phdr)){.p_type = PT_NOTE, .p_memsz = end, .p_align = 4,
	    .p_vaddr = offsetof(__typeof__(image), notes)};
}

static bool
image_reads(struct sys_module_s *m, size_t size) {
	uintptr_t start = (uintptr_t)&image;
	*m = (struct sys_module_s){.bias = start};
	return sys_module_of_image(m, start, start + size, image_id);
}

static void
test_image(void) {
	struct sys_module_s m;
	uintptr_t start = (uintptr_t)&image;
	image_make(20, 0);
	ok(image_reads(&m, 4096) && m.start == start && m.end == start + 4096
	    && m.eh_frame_hdr == (const void *)(start + 100), "an image: its range and tables");
	ok(m.build_id == image_id && m.build_id_len == 20 && image_id[19] == 7, "its build id");
	ok(image_reads(&m, sizeof(image.e)) && !image_reads(&m, sizeof(image.e) - 1),
	    "the least bytes of one");
	image.ph[3] = (ElfW(Phdr)){.p_type = PT_LOAD, .p_vaddr = 8192, .p_memsz = 100};
	image.e.e_phnum = 4;
	ok(image_reads(&m, 4096) && m.end == start + 8292, "a second segment behind the first");
	image.ph[3].p_vaddr = (ElfW(Addr))-4096;
	ok(!image_reads(&m, 4096), "one that begins before the image");
	image_make(20, 0);
	image.ph[0].p_memsz = 1;
	ok(image_reads(&m, 4096) && m.end == start + 1, "a segment of one byte");
	image.ph[0].p_memsz = 0;
	ok(!image_reads(&m, 4096), "of none");
	image_make(20, 0);
	image.e.e_phnum = 1536 / sizeof(image.ph[0]);
	ok(image_reads(&m, 4096), "as many headers as are read");
	image.e.e_phnum++;
	ok(!image_reads(&m, 4096), "one more");
	image.e.e_phnum = 0;
	ok(!image_reads(&m, 4096), "none");
	image_make(20, 0);
	image.e.e_phoff = 4097;
	ok(!image_reads(&m, 4096), "headers that are not in it");
	image_make(20, 0);
	image.e.e_ident[0]++;
	ok(!image_reads(&m, 4096), "no image");
	image_make(SYS_BUILD_ID_MAX, 0);
	image_id[SYS_BUILD_ID_MAX] = 3;
	ok(image_reads(&m, 4096) && m.build_id_len == SYS_BUILD_ID_MAX, "the longest build id");
	image_make(SYS_BUILD_ID_MAX + 4, 0);
	ok(image_reads(&m, 4096) && m.build_id_len == SYS_BUILD_ID_MAX
	    && image_id[SYS_BUILD_ID_MAX] == 3, "a longer one is cut");
	image_make(20, 460);
	ok(image_reads(&m, 4096) && m.build_id_len == 20, "one that ends with the notes that are read");
	image_make(20, 464);
	ok(image_reads(&m, 4096) && m.build_id == NULL, "and one behind them");
	image_make(20, 0);
	image.ph[2].p_memsz = 0;
	ok(image_reads(&m, 4096) && m.build_id == NULL, "no notes");
}

/* ---- signals of a write that fails ---- */

static volatile sig_atomic_t n_delivered;

static void
on_signal(int sig UNUSED) {
	n_delivered++;
}

static bool
is_in(const sigset_t *set, int sig) {
	return sigismember(set, sig) == 1;
}

/*
 * A signal that is blocked before or not, pending before or not, raised in between or not, where a
 * write has failed or not: what is blocked and pending then, and what is delivered.
 */
static void
test_write_signals(int sig, bool is_one_of_them) {
	struct sigaction old, own = {.sa_handler = on_signal};
	sigset_t was, set, one;
	unsigned bad = 0;
	sigaction(sig, &own, &old);
	sigemptyset(&one);
	sigaddset(&one, sig);
	for (unsigned k = 0; k < 16; k++) {
		bool is_blocked = (k & 1) != 0, is_raised = (k & 2) != 0, has_failed = (k & 4) != 0;
		bool was_pending = is_blocked && (k & 8) != 0;
		sys_write_signals_t w;
		pthread_sigmask(is_blocked ? SIG_BLOCK : SIG_UNBLOCK, &one, NULL);
		if (was_pending) {
			raise(sig);
		}
		pthread_sigmask(SIG_BLOCK, NULL, &was);
		n_delivered = 0;
		sys_write_signals_block(&w);
		pthread_sigmask(SIG_BLOCK, NULL, &set);
		for (int s = 1; s < SIGRTMIN; s++) {
			bool is_own = s == SIGXFSZ || s == SIGPIPE;
			bad += wrong_if(is_in(&set, s) != (is_own || is_in(&was, s)));
		}
		if (is_raised) {
			raise(sig);
		}
		bool waits = is_raised && (is_one_of_them || is_blocked);
		bad += wrong_if(n_delivered != (is_raised && !waits));
		sys_write_signals_restore(&w, has_failed);
		pthread_sigmask(SIG_BLOCK, NULL, &set);
		for (int s = 1; s < SIGRTMIN; s++) {
			bad += wrong_if(is_in(&set, s) != is_in(&was, s));
		}
		bool is_taken = has_failed && is_one_of_them && !was_pending;
		sigpending(&set);
		bad += wrong_if(is_in(&set, sig) != (was_pending || (is_blocked && waits && !is_taken)));
		bad += wrong_if(n_delivered != (is_raised && !is_blocked && !is_taken));
		pthread_sigmask(SIG_UNBLOCK, &one, NULL); /* delivers what is pending */
	}
	sigaction(sig, &old, NULL);
	is_uint(bad, 0, "%s around a write: blocked, taken away if it is the write's, given back",
	    strsignal(sig));
}

int
main(int argc, char **argv) {
	static const struct test_child children[] = {{"loaded", child_loaded}, {NULL, NULL}};
	test_children(argc, argv, children);
	pages_boot_size();
	if (mkdtemp(dir) == NULL) {
		bail_out("mkdtemp");
	}
	snprintf(path_a, sizeof(path_a), "%s/a", dir);
	snprintf(path_b, sizeof(path_b), "%s/b", dir);
	test_files();
	test_interrupts();
	test_names();
	test_environment();
	test_random_numbers();
	test_readable();
	test_readable_filtered();
	test_copy();
	test_maps_and_modules();
	test_kinds_of_program();
	test_loader();
	test_image();
	test_modules_after_fork();
	test_modules_amid_loading();
	test_modules_before_handlers();
	test_write_signals(SIGXFSZ, true);
	test_write_signals(SIGPIPE, true);
	test_write_signals(SIGUSR1, false);
	test_messages();
	test_long_message();
	rmdir(dir);
	return done_testing();
}
