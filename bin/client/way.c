/*
 * Opens a way into a process (jeprof_open). The ways are tried in this order: /proc/PID/mem; if
 * opening it fails with EACCES or EROFS, process_vm_readv() and its like; and if the memory cannot
 * be opened or searched, the memfd of prof_ctl_fd:true, then the control directory of prof_ctl_dir.
 * If none is open, the reason is found out. Invariant: jeprof_open() checks the start time of the
 * process after it has opened /proc/PID/mem, so that the descriptor is not one of a later process
 * with that pid; jeprof_ask() checks it again before each request. No locks, no state but the
 * target's. Called by bin/ctl and bin/agent; jeprof_probe() and jeprof_close() also by image_box.c.
 * client_denial_reason() is called only here and by a test.
 */
#include "client/target.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "client/proc_stat.h"

enum {
	ENVIRON_MAX = 262144, /* bytes of the environment that are searched for MALLOC_CONF */
	CAP_PTRACE = 19,   /* the bit of CAP_SYS_PTRACE */
	PF_KTHREAD = 0x200000, /* the kernel's flag of its own threads */
};

/*
 * Opens /proc/PID/mem, for writing too unless is_reader. That fails with EACCES if we have the
 * right to attach (CAP_SYS_PTRACE) but not to open a file of that owner, and with EROFS in a
 * read-only /proc; then process_vm_readv() is tried, which needs the right to attach only. It is
 * refused if a read at address 0 fails with EPERM (no right) or ENOSYS; any other errno comes from
 * the address. Sets t->way, also if it fails. 0, or the errno with which the file cannot be opened;
 * EPERM instead of EROFS.
 */
static int
open_memory(jeprof_target_t *t, bool is_reader) {
	char path[64], byte;
	snprintf(path, sizeof(path), "/proc/%d/mem", t->task);
	t->way = jeprof_way_memory;
	t->fd = open(path, (is_reader ? O_RDONLY : O_RDWR) | O_CLOEXEC);
	int error = t->fd < 0 ? errno : 0;
	if (error != EROFS && error != EACCES) {
		return error;
	}
	t->way = jeprof_way_calls;
	bool is_refused = !client_read_memory(t, 0, &byte, 1) && (errno == EPERM || errno == ENOSYS);
	return !is_refused ? 0 : error == EROFS ? EPERM : error;
}

static void
close_fd(jeprof_target_t *t) {
	if (t->fd >= 0) {
		close(t->fd);
	}
	t->fd = -1;
}

/*
 * A client_open_fd_t: opens the file behind a descriptor of the process if it is that process's
 * mailbox, as t->fd; sets t->head, and t->has_foreign_file if what is in it is no mailbox.
 */
static int
open_if_mailbox(int dir, const char *number, void *arg) {
	static const char want[] = "/memfd:" PROF_MAILBOX_FD_NAME;
	jeprof_target_t *t = arg;
	char link[sizeof(want)]; /* the name, and a blank before the kernel's mark */
	struct stat st;
	ssize_t n = readlinkat(dir, number, link, sizeof(link)), length = sizeof(want) - 1;
	bool has_name = n >= length && memcmp(link, want, (size_t)length) == 0
	    && (n == length || link[length] == ' ');
	t->fd = has_name ? openat(dir, number, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
	bool is_one = t->fd >= 0 && fstat(t->fd, &st) == 0 && S_ISREG(st.st_mode)
	    && client_read_head(t);
	t->has_foreign_file = t->has_foreign_file || (t->fd >= 0 && !is_one);
	if (t->fd >= 0 && (!is_one || t->head.pid != t->own_pid)) { /* a parent's, inherited by fork */
		close_fd(t);
	}
	errno = ENOENT;
	return t->fd;
}

/*
 * Searches the descriptors of the process for the memfd that prof_ctl_fd:true keeps open. That
 * needs only the right to read /proc/PID/fd, not to attach. False: it cannot be read, or no memfd
 * is found; t->fd is closed and t->way is jeprof_way_memfd.
 */
static bool
open_memfd(jeprof_target_t *t) {
	close_fd(t);
	t->way = jeprof_way_memfd;
	t->block = 0;
	t->has_foreign_file = false;
	return client_find_fd(t->task, open_if_mailbox, t) >= 0;
}

/*
 * Sets t->dir to the directory that a value of MALLOC_CONF, up to a comma, names: below the root or
 * the working directory of the process, else the same absolute path here. False if neither exists;
 * then t->dir is undefined.
 */
static bool
find_dir_named(jeprof_target_t *t, const char *value) {
	char path[sizeof(t->dir)];
	struct stat st;
	int n = snprintf(path, sizeof(path), "%.*s", (int)strcspn(value, ","), value);
	if (n <= 0 || n >= (int)sizeof(path)) {
		return false; /* also an empty value: the process has no control directory */
	}
	if (path[0] == '/' && jeprof_find_below(t, path, t->dir, sizeof(t->dir), &st) == 0) {
		return true;
	}
	n = path[0] == '/' ? snprintf(t->dir, sizeof(t->dir), "%s", path)
	    : snprintf(t->dir, sizeof(t->dir), "/proc/%d/cwd/%s", t->task, path);
	return n > 0 && n < (int)sizeof(t->dir) && stat(t->dir, &st) == 0;
}

/* Where in conf the value of the last pair with this key ("KEY:") begins; NULL: no such pair. */
static const char *
last_value(const char *conf, const char *key) {
	const char *value = NULL;
	for (const char *at = conf; (at = strstr(at, key)) != NULL; at += strlen(key)) {
		value = at > conf && (at[-1] == '=' || at[-1] == ',') ? at + strlen(key) : value;
	}
	return value;
}

/*
 * Sets t->dir to the control directory that MALLOC_CONF names in the environment with which the
 * process was started, in its first ENVIRON_MAX bytes. False if it names none that exists.
 */
static bool
find_dir(jeprof_target_t *t) {
	char *text = malloc(ENVIRON_MAX);
	ssize_t length = text != NULL ? client_read_proc(t->task, "environ", text, ENVIRON_MAX) : -1;
	bool is_found = false, is_seen = false;
	for (char *at = text; length > 0 && at < text + length && !is_seen; at += strlen(at) + 1) {
		is_seen = strncmp(at, "MALLOC_CONF=", 12) == 0;
		const char *value = is_seen ? last_value(at, "prof_ctl_dir:") : NULL;
		is_found = value != NULL && find_dir_named(t, value);
	}
	free(text);
	return is_found;
}

/* ---- refusals ---- */

#define NOT_DUMPABLE "it is not dumpable (set-user-id or with file capabilities, or it has " \
	"changed its user, or called prctl(PR_SET_DUMPABLE, 0))"
#define NO_PTRACE "root without CAP_SYS_PTRACE, as in a container: add it (docker run --cap-add " \
	"SYS_PTRACE), " OR_DIR
#define OR_DIR "or start it with MALLOC_CONF=prof_ctl_dir:DIR"

/* The reason for a user but root without CAP_SYS_PTRACE; NULL: none of the common ones. */
static const char *
missing_right(const client_denial_t *d, char *buf, size_t size) {
	if (d->is_set_id) {
		return "it is a set-user-id or set-group-id program, whose library ignores MALLOC_CONF "
		    "and is never controlled from outside: a copy without that right can be profiled";
	}
	if (d->is_other_user) {
		snprintf(buf, size, "it belongs to uid %u, we are uid %u: use sudo, " OR_DIR, d->uid,
		    d->our_uid);
		return buf;
	}
	if (!d->is_dumpable) {
		return NOT_DUMPABLE ": use sudo, " OR_DIR;
	}
	if (d->is_other_group) {
		return "its group is not ours: use sudo, or sg to take its group, " OR_DIR;
	}
	if (d->has_more_caps) {
		return "it has capabilities that we do not have (of its file, or ambient ones): use sudo, "
		    OR_DIR;
	}
	if (d->yama > 0) {
		snprintf(buf, size, "Yama's ptrace_scope is %d: use sudo, or start it with "
		    "MALLOC_CONF=prof_ctl_fd:true, or once: sysctl kernel.yama.ptrace_scope=0", d->yama);
		return buf;
	}
	return NULL;
}

const char *
client_denial_reason(const client_denial_t *d, char *buf, size_t size) {
	if (d->yama >= 3) {
		return "Yama's ptrace_scope is 3: nobody may attach until the next boot; start it with "
		    "MALLOC_CONF=prof_ctl_fd:true or prof_ctl_dir:DIR";
	}
	if (d->may_trace && d->is_dumpable) {
		return "we may attach, but a security module or a user namespace forbids it: ask from the "
		    "machine itself, " OR_DIR;
	}
	if (d->may_trace) {
		return NOT_DUMPABLE ", and our right to attach does not hold outside of this user "
		    "namespace: ask from the machine itself, " OR_DIR;
	}
	if (d->our_uid == 0) {
		return d->is_dumpable ? NO_PTRACE : NOT_DUMPABLE ", and we are " NO_PTRACE;
	}
	return missing_right(d, buf, size);
}

/* The value of kernel.yama.ptrace_scope; 0 if there is no Yama. */
static int
yama_scope(void) {
	char text[32];
	ssize_t length = client_read_file("/proc/sys/kernel/yama/ptrace_scope", text, sizeof(text));
	return length > 0 ? atoi(text) : 0;
}

/*
 * Whether a process with these group ids (real, effective, saved) is dumpable. If so, its effective
 * user and group own the files in /proc/PID; if not, root does. Of a process of root that tells
 * nothing: it is taken to be not dumpable if there is no other reason for the refusal (is_last).
 * True if not known.
 */
static bool
is_dumpable(const jeprof_target_t *t, const unsigned gids[3], bool is_last) {
	char path[64];
	struct stat st;
	snprintf(path, sizeof(path), "/proc/%d/maps", t->task);
	if (stat(path, &st) != 0) {
		return true;
	}
	bool is_same = st.st_uid == t->uids[1] && st.st_gid == gids[1];
	return is_same && !(is_last && st.st_uid == 0);
}

/* Collects the facts and sets the sentence; error is the kernel's refusal. Returns EACCES. */
static int
denied(jeprof_target_t *t, int error) {
	char text[CLIENT_STATUS_BYTES], buf[512];
	unsigned gids[3] = {0};
	client_denial_t d = {.our_uid = geteuid(), .uid = t->uids[1]};
	if (client_read_proc(t->pid, "status", text, sizeof(text)) > 0) {
		sscanf(client_status_line(text, "\nGid:"), "%u %u %u", &gids[0], &gids[1], &gids[2]);
	}
	for (int i = 0; i < 3; i++) {
		d.uid = d.uid == d.our_uid ? t->uids[i] : d.uid;
		d.is_other_user = d.uid != d.our_uid;
		d.is_other_group = d.is_other_group || gids[i] != getegid();
	}
	/* The saved id is compared too: it differs in a server that has changed its id for a while. */
	d.is_set_id = (t->uids[0] == getuid() && t->uids[1] != t->uids[0] && t->uids[2] == t->uids[1])
	    || (gids[0] == getgid() && gids[1] != gids[0] && gids[2] == gids[1]);
	uint64_t caps = client_read_proc(getpid(), "status", text, sizeof(text)) > 0
	    ? strtoull(client_status_line(text, "\nCapEff:"), NULL, 16) : 0;
	d.may_trace = (caps >> CAP_PTRACE) & 1;
	d.has_more_caps = (t->caps & ~caps) != 0;
	d.yama = yama_scope();
	bool is_last = !d.is_other_user && !d.is_other_group
	    && !d.has_more_caps && !d.may_trace && d.yama == 0;
	d.is_dumpable = is_dumpable(t, gids, is_last);
	const char *reason = client_denial_reason(&d, buf, sizeof(buf));
	const char *file = t->has_foreign_file
	    ? "its memory file " PROF_MAILBOX_FD_NAME " holds no mailbox that we know, and " : "";
	return client_fail(t, EACCES, "%d %s: no way in (%s): %s%s", t->pid, t->name, strerror(error),
	    file, reason != NULL ? reason : "the kernel does not say why; use sudo, or start it with "
	    "MALLOC_CONF=prof_ctl_dir:DIR");
}

/*
 * Sets the sentence for a process without the library: which malloc it uses, and the command line
 * that would start it with the library. Returns ENXIO.
 */
static int
foreign(jeprof_target_t *t) {
	char whose[PATH_MAX + 128], line[CLIENT_PATH];
	if (client_linked_allocator(t, whose, sizeof(whose)) != NULL) {
		return client_fail(t, ENXIO, "%d %s does not run the library: its malloc is that of %s, "
		    "which no preloaded library replaces", t->pid, t->name, whose);
	}
	client_restart_line(t, line, sizeof(line));
	if (client_loaded_allocator(t, whose, sizeof(whose)) != NULL) {
		return client_fail(t, ENXIO, "%d %s does not run the library, but another allocator (%s); "
		    "this would start it on ours: %s", t->pid, t->name, whose, line);
	}
	return client_fail(t, ENXIO, "%d %s does not run the library; jeprofctl list shows who does; "
	    "this would start it on ours: %s", t->pid, t->name, line);
}

/*
 * Whether the program runs with more rights than its user has: AT_SECURE in its auxiliary vector.
 * False also if that cannot be read.
 */
static bool
is_secure(const jeprof_target_t *t) {
	char text[4096] __attribute__((aligned(8)));
	ssize_t length = client_read_proc(t->task, "auxv", text, sizeof(text));
	const unsigned long *pair = (const void *)text;
	for (; length >= (ssize_t)(2 * sizeof(*pair)); pair += 2, length -= 2 * sizeof(*pair)) {
		if (pair[0] == AT_SECURE) {
			return pair[1] != 0;
		}
	}
	return false;
}

/* Finds out why a readable process has no open mailbox, and sets the sentence. EPROTO or ENXIO. */
static int
without_block(jeprof_target_t *t, const client_finding_t *f) {
	if (f->other_version != 0) {
		return client_fail(t, EPROTO, "%d %s: its library speaks mailbox protocol %u, this "
		    "program %u; use the jeprofctl of that library", t->pid, t->name, f->other_version,
		    PROF_MAILBOX_VERSION);
	}
	if (f->is_without && f->closed == 0) {
		return client_fail(t, ENXIO, "%d %s: its library was built without the profiler "
		    "(--disable-prof)", t->pid, t->name);
	}
	if (f->closed == 0) {
		return foreign(t);
	}
	int error = jeprof_check_allocator(t);
	return error != 0 ? error
	    : client_fail(t, ENXIO, "%d %s: its library keeps the mailbox closed: %s", t->pid, t->name,
	    is_secure(t) ? "the program was started with more rights than its user has (set-user-id, "
	    "set-group-id or file capabilities); a copy without them can be profiled"
	    : "nothing was allocated yet");
}

/* ---- opening ---- */

/*
 * Opens the memory and searches it for the mailbox; t->block is 0 if none is found. Returns 0, or
 * the errno of the opening or of the search. *gone, with its sentence, is the errno of
 * jeprof_check_same() if the process has ended meanwhile or cannot be checked, else 0.
 */
static int
look_inside(jeprof_target_t *t, client_finding_t *f, int *gone) {
	int error, task;
	memset(f, 0, sizeof(*f));
	do {
		close_fd(t);
		task = t->task;
		error = open_memory(t, false);
		*gone = jeprof_check_same(t); /* after the open: the descriptor refers to this process */
	} while (*gone == 0 && t->task != task);
	return *gone == 0 && error == 0 ? client_find_block(t, f) : error;
}

/*
 * Whether the process was started less than wait->wait_ms ago; false if wait is NULL. Then it may
 * not have reached its exec or its first allocation yet, as in "prog & jeprofctl start $!".
 */
static bool
is_young(const jeprof_target_t *t, const jeprof_request_t *wait) {
	struct timespec now;
	long ticks = sysconf(_SC_CLK_TCK);
	if (wait == NULL || clock_gettime(CLOCK_BOOTTIME, &now) != 0 || ticks <= 0) {
		return false;
	}
	int64_t now_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
	return now_ms < (int64_t)(t->start * 1000 / (uint64_t)ticks) + client_wait_ms(wait);
}

/*
 * Whether a mailbox may still appear: none is open, none is of another version, and there is no
 * library that was built without the profiler, or a closed mailbox beside it.
 */
static bool
may_come_yet(const jeprof_target_t *t, const client_finding_t *f) {
	return t->block == 0 && f->other_version == 0 && (!f->is_without || f->closed > 0);
}

/* Whether it is a thread of the kernel, which has no memory of its own. */
static bool
is_kernel_thread(const jeprof_target_t *t) {
	proc_stat_t s;
	return proc_stat_read(t->pid, &s) == 0 && (s.flags & PF_KTHREAD) != 0;
}

/* Does what jeprof_open() promises, but may leave t->fd open and t->way set after a failure. */
static int
try_open(jeprof_target_t *t, const jeprof_request_t *wait) {
	client_finding_t f;
	uint64_t start = t->start;
	int gone, error = look_inside(t, &f, &gone);
	while (gone == 0 && error == 0 && may_come_yet(t, &f) && is_young(t, wait)) {
		if (client_is_interrupted(wait)) {
			return client_fail(t, EINTR, "interrupted; %d %s has not allocated anything yet",
			    t->pid, t->name);
		}
		close_fd(t);
		client_sleep_ms(20);
		gone = jeprof_find(t, t->pid); /* sets the name again, which exec changes */
		gone = gone == 0 && t->start != start ? ESRCH : gone; /* another one has its pid */
		if (gone != 0) {
			return gone == ESRCH ? client_fail(t, ESRCH, "%d has ended", t->pid) : gone;
		}
		error = look_inside(t, &f, &gone);
	}
	if (gone != 0) {
		return gone;
	}
	if (t->block == 0 && is_kernel_thread(t)) {
		return client_fail(t, ENXIO, "%d %s does not run the library: it is a thread of the "
		    "kernel, which has no malloc; jeprofctl list shows who does", t->pid, t->name);
	}
	if (error != 0 && open_memfd(t)) {
		return 0;
	}
	if (error != 0 && find_dir(t)) {
		t->way = jeprof_way_dir;
		return 0;
	}
	if (client_is_lack(error)) {
		return client_fail(t, error, "%d %s: %s", t->pid, t->name, strerror(error));
	}
	if (error != 0) {
		return denied(t, error);
	}
	return t->block != 0 && client_read_head(t) ? 0 : without_block(t, &f);
}

int
jeprof_open(jeprof_target_t *t, const jeprof_request_t *wait) {
	int error = try_open(t, wait);
	if (error != 0) {
		close_fd(t);
		t->way = jeprof_way_none;
	}
	return error;
}

int
jeprof_probe(jeprof_target_t *t) {
	client_finding_t f = {0};
	int error = open_memory(t, true);
	error = error == 0 ? client_find_block(t, &f) : error;
	if (error == 0 ? t->block != 0 && client_read_head(t) : open_memfd(t)) {
		return jeprof_check_same(t);
	}
	if (error != 0) {
		bool is_gone = error == ENOENT || error == ESRCH;
		return client_fail(t, is_gone ? ESRCH : error == EPERM ? EACCES : error,
		    "%d %s: its memory may not be read (%s)", t->pid, t->name, strerror(error));
	}
	return client_fail(t, f.other_version != 0 ? EPROTO : ENXIO,
	    "%d %s: there is no mailbox of this protocol", t->pid, t->name);
}

int
jeprof_open_dir(jeprof_target_t *t, const char *dir) {
	int n = snprintf(t->dir, sizeof(t->dir), "%s", dir);
	bool is_whole = n >= 0 && (size_t)n < sizeof(t->dir);
	t->way = is_whole ? jeprof_way_dir : jeprof_way_none;
	return is_whole ? 0 : client_fail(t, E2BIG, "too long: %.80s...", dir);
}

void
jeprof_close(jeprof_target_t *t) {
	if (t->way == jeprof_way_none) {
		return;
	}
	jeprof_take_back(t);
	close_fd(t);
	t->way = jeprof_way_none;
}
