/*
 * Names of profile files, and opening, writing and closing them (prof_sys.h).
 *
 * Invariant: a name that exists is never overwritten, unless the user gave the path; a profile gets
 * its name only when all of it has been written, unless it must be written in place (prof_sys.h).
 * Locks: `prof_prefix`, inside the gate (os/gate.h: fork waits until no thread is inside), for the
 * prefix; no lock is taken under it. Sequence numbers are atomic. Large buffers are in the caller's
 * prof_file_t, because a dump may run on a very small stack. Called for files by prof_dump.c,
 * prof_write.c, prof_log.c and prof_keep.c; for names by prof_dump.c, prof_log.c, prof_box.c and
 * prof_dir.c; for the prefix by conf_table.c, prof.c, prof_start.c, prof_session.c, prof_request.c,
 * prof_dir.c, prof_box.c, prof_auto.c and prof_trigger.c; for facts about the process by most of
 * these, prof_course.c, prof_earlier.c, prof_control.c and prof_ctl_dir.c; by prof_dump.c and
 * prof_box.c at exit, and by prof.c in a forked child.
 */
#include "prof/file/prof_sys.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/gate.h"
#include "os/mutex.h"
#include "os/nstime.h"
#include "os/pages.h"
#include "os/sys.h"
#include "os/sys_call.h"
#include "os/thread.h"
#include "prof/sites/prof_opt.h"
#include "util/atomic.h"
#include "util/fmt.h"

/* Time in ms after which a write to a pipe without a reader's progress is given up. */
#define PIPE_WAIT_MS 5000
/* Numbers of existing names are skipped one by one for so many attempts, then in larger steps. */
#define NAME_STEPS 64

#define PROFILE_ENDING ".heap"
#define PROFILE_ENDING_LEN 5
#define BOX_ENDING ".box"
#define PROFILE_BEGINNING "heap_v2/"
#define PROFILE_BEGINNING_LEN 8

/* The prefix, and the counters from which the numbers in file names come. */
static LARGE_BSS struct {
	mutex_t mtx;                    /* protects prefix */
	char prefix[PROF_PREFIX_MAX + 1];
	char dir[PROF_PREFIX_MAX + 1];  /* of a prefix, for prof_sys_prefix_has_dir() */
	atomic_b_t has_prefix;          /* it is not empty; for readers without the lock */
	char exe[PROF_PATH_SIZE];       /* path of the program at the start; "": not known */
	atomic_u64_t seq;               /* next number of a profile or box of any kind */
	atomic_u64_t temp_seq;          /* next number of a temporary file */
	atomic_u64_t kseq[prof_kind_n]; /* next number of each kind */
} names = {.mtx = MUTEX_INITIALIZER("prof_prefix", WITNESS_RANK_PROF_MISC)};

atomic_u64_t prof_sys_instance;

/* Attempts to lock a file that is written in place, with pauses: 1 s at least. */
#define LOCK_TRIES 5000

/* Rounds of os_pause() (1 s) for which exit waits until other threads have created their files. */
#define CREATE_TRIES 5000

struct prof_sys_creation_s prof_sys_creation;

/* The letter of each kind in file names, and its word in the metadata; a log has no letter. */
static const struct {
	char letter;
	const char *word;
} kinds[prof_kind_n] = {
	[prof_kind_final] = {'f', "final"},
	[prof_kind_interval] = {'i', "interval"},
	[prof_kind_manual] = {'m', "manual"},
	[prof_kind_gdump] = {'u', "gdump"},
	[prof_kind_session] = {'s', "session"},
	[prof_kind_alloc] = {'a', "alloc"},
	[prof_kind_large] = {'l', "large"},
	[prof_kind_highwater] = {'h', "highwater"},
	[prof_kind_timer] = {'t', "timer"},
	[prof_kind_delta] = {'d', "delta"},
	[prof_kind_box] = {'b', "blackbox"},
	[prof_kind_log] = {'\0', "log"},
};

/* Two stamps with their separators are the longest part of what follows a prefix. */
cassert(PROF_SUFFIX_MAX > 2 * NSTIME_STAMP_SIZE + 2 && PROF_SUFFIX_MAX < PROF_FILE_NAME_MAX);
cassert(PROF_PREFIX_MAX + 1 <= PROF_PATH_SIZE);
cassert(PROF_NAME_TRIES > NAME_STEPS && PROF_NAME_TRIES < NAME_STEPS + 64);

const char *
prof_kind_name(prof_kind_t kind) {
	assert(kind < prof_kind_n);
	return kinds[kind].word;
}

/* ---------------------------------------------------------------- prefix */

void
prof_sys_path_absolute(char *buf, size_t size, const char *path) {
	size_t len = strlen(path), at = 0;
	assert(len < size);
	if (path[0] != '/' && sys_getcwd(buf, size) == 0) {
		at = strlen(buf);
		if (at > 1) { /* else it is "/" */
			buf[at++] = '/';
		}
	}
	at = at + len < size ? at : 0;
	memcpy(buf + at, path, len + 1);
}

size_t
prof_sys_dir_len(const char *path, size_t len) {
	const char *slash = memrchr(path, '/', len);
	return slash == NULL ? 0 : (size_t)(slash - path) + 1;
}

bool
prof_sys_prefix_fits(const char *prefix, size_t len) {
	if (len > PROF_PREFIX_TEXT_MAX) {
		return false;
	}
	return len - prof_sys_dir_len(prefix, len) <= PROF_PREFIX_BASE_MAX;
}

/* Whether a directory exists, and was not deleted; also true if that cannot be found out. */
static bool
is_dir_there(const char *dir) {
	struct stat st;
	char none[1];
	int fd = sys_open(dir, O_PATH | O_DIRECTORY, 0);
	if (fd < 0) {
		/* Other errors, such as EACCES, do not prove that the directory is missing. */
		return fd != -ENOENT && fd != -ENOTDIR;
	}
	/*
	 * The current directory can be opened after it was deleted. It has no link and no path then;
	 * one of a file system that counts no links has a path (here ERANGE).
	 */
	bool is_deleted = sys_fstat(fd, &st) == 0 && st.st_nlink == 0
	    && sys_getcwd(none, sizeof(none)) == ENOENT;
	sys_close(fd);
	return !is_deleted;
}

bool
prof_sys_prefix_has_dir(const char *prefix, size_t len) {
	size_t dir = prof_sys_dir_len(prefix, len);
	if (len == 0 || dir > PROF_PREFIX_MAX) {
		return true;
	}
	memcpy(names.dir, prefix, dir);
	names.dir[dir] = '\0';
	return is_dir_there(dir == 0 ? "." : names.dir);
}

int
prof_sys_prefix_set(const char *prefix) {
	if (!prof_sys_prefix_fits(prefix, strnlen(prefix, PROF_PREFIX_MAX))) {
		return EINVAL;
	}
	gate_lock(&names.mtx);
	names.prefix[0] = '\0';
	if (prefix[0] != '\0') {
		prof_sys_path_absolute(names.prefix, PROF_PREFIX_TEXT_MAX + 1, prefix);
	}
	atomic_store_b(&names.has_prefix, prefix[0] != '\0', MO_RELAXED);
	gate_unlock(&names.mtx);
	return 0;
}

void
prof_sys_prefix_get(char *buf, size_t size) {
	assert(size > 0);
	gate_lock(&names.mtx);
	fmt_snprintf(buf, size, "%s", names.prefix);
	gate_unlock(&names.mtx);
}

bool
prof_sys_prefix_is_empty(void) {
	return !atomic_load_b(&names.has_prefix, MO_RELAXED);
}

/* ---------------------------------------------------------------- names */

uint64_t
prof_sys_kseq_next(prof_kind_t kind) {
	assert(kind < prof_kind_n);
	return atomic_fetch_add_u64(&names.kseq[kind], 1, MO_RELAXED);
}

/* Writes ".<stamp>", for a session ".<start>_<stop>"; "" without the option. */
static void
stamp_text(char out[2 * NSTIME_STAMP_SIZE + 2], const prof_name_t *name) {
	out[0] = '\0';
	if (!opt_prof_dump_timestamp) {
		return;
	}
	out[0] = '.';
	nstime_utc_stamp(out + 1, name->begin_ns);
	if (name->kind == prof_kind_session) {
		size_t len = strlen(out);
		out[len] = '_';
		nstime_utc_stamp(out + len + 1, name->end_ns);
	}
}

/* Writes <prefix>[.<pidns>].<pid> and returns its length; size or more if it does not fit. */
static size_t
name_head(char *buf, size_t size) {
	gate_lock(&names.mtx);
	size_t len = strlen(names.prefix);
	if (len < size) {
		memcpy(buf, names.prefix, len + 1);
	}
	gate_unlock(&names.mtx);
	if (len >= size) {
		return size;
	}
	if (opt_prof_pid_namespace) {
		len += (size_t)fmt_snprintf(buf + len, size - len, ".%llu",
		    (unsigned long long)sys_pidns());
	}
	if (len < size) {
		len += (size_t)fmt_snprintf(buf + len, size - len, ".%d", sys_pid());
	}
	return len;
}

static const char *
ending_of(prof_kind_t kind) {
	return kind == prof_kind_box ? BOX_ENDING : PROFILE_ENDING;
}

int
prof_dump_filename(char *buf, size_t size, const prof_name_t *name) {
	assert(name->kind < prof_kind_n);
	char stamp[2 * NSTIME_STAMP_SIZE + 2];
	size_t len = name_head(buf, size);
	if (len >= size) {
		return ENAMETOOLONG;
	}
	if (name->kind == prof_kind_log) {
		len += (size_t)fmt_snprintf(buf + len, size - len, ".%llu.json",
		    (unsigned long long)prof_sys_kseq_next(prof_kind_log));
	} else {
		char kseq[24] = "";
		unsigned long long seq = atomic_fetch_add_u64(&names.seq, 1, MO_RELAXED);
		if (name->kind != prof_kind_final && name->kind != prof_kind_box) {
			fmt_snprintf(kseq, sizeof(kseq), "%llu", (unsigned long long)name->kseq);
		}
		stamp_text(stamp, name);
		len += (size_t)fmt_snprintf(buf + len, size - len, "%s.%llu.%c%s%s", stamp, seq,
		    kinds[name->kind].letter, kseq, ending_of(name->kind));
	}
	return len >= size ? ENAMETOOLONG : 0;
}

/*
 * Called after attempt i, from 0 on, has taken a number and found that its name exists. From
 * NAME_STEPS on it skips 2^(i - NAME_STEPS) numbers more, so that not every number used by an
 * earlier process with the same pid is tried.
 */
static void
seq_skip(atomic_u64_t *seq, unsigned i) {
	assert(i < PROF_NAME_TRIES);
	if (i >= NAME_STEPS) {
		atomic_fetch_add_u64(seq, UINT64_C(1) << (i - NAME_STEPS), MO_RELAXED);
	}
}

void
prof_sys_seq_skip(unsigned i) {
	seq_skip(&names.seq, i);
}

/*
 * Whether [at, end), which follows "<prefix>.", consists of numbers and stamps separated by dots,
 * as name_head() and stamp_text() write them.
 */
static bool
is_name_middle(const char *at, const char *end) {
	assert(at <= end);
	for (const char *c = at; c < end; c++) {
		if ((*c < '0' || *c > '9') && strchr(".TZ_", *c) == NULL) {
			return false;
		}
	}
	return at < end && *at >= '0' && *at <= '9' && end[-1] >= '0' && end[-1] <= '9';
}

prof_kind_t
prof_sys_name_kind(const char *name, const char *base) {
	size_t len = strlen(name);
	size_t head = strlen(base);
	const char *dot = strrchr(name, '.');
	bool is_box = dot != NULL && strcmp(dot, BOX_ENDING) == 0;
	if (len < head + 1 + PROFILE_ENDING_LEN || memcmp(name, base, head) != 0 || name[head] != '.'
	    || (!is_box && strcmp(dot, PROFILE_ENDING) != 0)) {
		return prof_kind_n;
	}
	const char *end = dot;
	const char *digits = end;
	while (digits > name && digits[-1] >= '0' && digits[-1] <= '9') {
		digits--;
	}
	const char *letter = digits - 1;
	if (letter < name + head + 2 || letter[-1] != '.'
	    || !is_name_middle(name + head + 1, letter - 1)) {
		return prof_kind_n;
	}
	for (unsigned i = 0; i < prof_kind_log; i++) {
		if (kinds[i].letter == *letter) {
			bool is_numbered = i != prof_kind_final && i != prof_kind_box;
			return is_numbered != (digits == end) && is_box == (i == prof_kind_box)
			    ? (prof_kind_t)i : prof_kind_n;
		}
	}
	return prof_kind_n;
}

/* Makes f->temp, a name with pid and number in the directory of f->path. 0 or ENAMETOOLONG. */
static int
temp_name(prof_file_t *f) {
	size_t dir = prof_sys_dir_len(f->path, strlen(f->path));
	assert(dir < sizeof(f->temp));
	memcpy(f->temp, f->path, dir);
	int n = fmt_snprintf(f->temp + dir, sizeof(f->temp) - dir, ".jeprof.%d.%llu.tmp", sys_pid(),
	    (unsigned long long)atomic_fetch_add_u64(&names.temp_seq, 1, MO_RELAXED));
	return dir + (size_t)n >= sizeof(f->temp) ? ENAMETOOLONG : 0;
}

/* ---------------------------------------------------------------- files */

/* The descriptor; -1 if the file is not open. */
static int
file_fd(const prof_file_t *f) {
	return f->fd_plus_1 - 1;
}

/* Notes whether there is a temporary file, made by this process: only its maker removes it. */
static void
temp_note(prof_file_t *f, bool has_temp) {
	f->temp_pid = has_temp ? sys_pid() : 0;
	__atomic_store_n(&f->has_temp, has_temp, MO_RELEASE);
}

/* Creates the file under a temporary name. 0 or an errno. */
static int
temp_create(prof_file_t *f) {
	int fd = -EEXIST;
	assert(!prof_file_is_open(f) && !f->has_temp);
	for (unsigned i = 0; i < PROF_NAME_TRIES && fd == -EEXIST; i++) {
		int err = temp_name(f);
		if (err != 0) {
			return err;
		}
		fd = sys_open(f->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, opt_prof_dump_mode);
		if (fd == -EEXIST) {
			seq_skip(&names.temp_seq, i);
		}
	}
	if (fd < 0) {
		return -fd;
	}
	f->fd_plus_1 = fd + 1;
	temp_note(f, true);
	return 0;
}

/* The same; ECANCELED if another thread ends the process. Sets the mode. */
static int
temp_open(prof_file_t *f) {
	if (!prof_sys_create_begin()) {
		return ECANCELED;
	}
	int err = temp_create(f);
	prof_sys_create_end();
	if (err == 0) {
		/* opt_prof_dump_mode applies whatever the umask is. */
		sys_fchmod(file_fd(f), opt_prof_dump_mode);
	}
	return err;
}

int
prof_sys_lock(int fd, unsigned tries) {
	int saved = errno;
	unsigned n = 0;
	int err = sys_call(SYS_flock, fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
	while (err == EWOULDBLOCK && ++n < tries) {
		os_pause(n);
		err = sys_call(SYS_flock, fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
	}
	errno = saved;
	return err;
}

/* Whether a file that was opened in place may receive the profile; empties it. 0 or an errno. */
static int
in_place_check(int fd) {
	struct stat st;
	int err = sys_fstat(fd, &st);
	if (err != 0) {
		return err;
	}
	bool is_ours = st.st_uid == geteuid();
	if (S_ISREG(st.st_mode)) {
		/*
		 * Another user may have created it to read the profile, or linked it to a file that we must
		 * not write.
		 */
		if (!is_ours || st.st_nlink != 1) {
			return EACCES;
		}
		return prof_sys_lock(fd, LOCK_TRIES) == EWOULDBLOCK ? EBUSY : sys_ftruncate(fd, 0);
	}
	return S_ISFIFO(st.st_mode) && !is_ours && st.st_uid != 0 ? EACCES : 0;
}

/* Opens the path itself for writing, not a temporary file, if in_place_check() permits it. */
static int
in_place_open(prof_file_t *f) {
	assert(!prof_file_is_open(f) && f->is_explicit && !f->is_confined);
	/* O_NONBLOCK, because what was a file a moment ago may be a pipe now. */
	int fd = sys_open(f->path, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW, 0);
	if (fd < 0) {
		return -fd;
	}
	int err = in_place_check(fd);
	if (err != 0) {
		sys_close(fd);
		return err;
	}
	f->fd_plus_1 = fd + 1;
	return 0;
}

/*
 * Opens the path of descriptor n. A regular file is written where the program stands in it, and the
 * program goes on behind the profile: opened by its path it would be another open file, with an
 * offset of its own and not for appending. Other files are opened, so that O_NONBLOCK is ours only.
 */
static int
descriptor_open(prof_file_t *f, int n) {
	struct stat st;
	assert(!prof_file_is_open(f) && f->is_explicit && !f->is_confined);
	bool is_regular = sys_fstat(n, &st) == 0 && S_ISREG(st.st_mode);
	int fd = is_regular ? sys_dup(n) : sys_open(f->path, O_WRONLY | O_NOCTTY | O_NONBLOCK, 0);
	if (fd < 0) {
		return -fd;
	}
	f->fd_plus_1 = fd + 1;
	return 0;
}

size_t
prof_sys_head_read(const char *path, char *buf, size_t size) {
	struct stat st;
	assert(size >= PROFILE_BEGINNING_LEN);
	int fd = sys_open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0) {
		return 0;
	}
	ssize_t n = sys_fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? sys_read(fd, buf, size) : -1;
	sys_close(fd);
	return n >= PROFILE_BEGINNING_LEN && memcmp(buf, PROFILE_BEGINNING, PROFILE_BEGINNING_LEN) == 0
	    ? (size_t)n : 0;
}

/* Whether path is a regular file that ends in ".heap" by name and begins as a profile does. */
static bool
is_profile(const char *path) {
	char text[PROFILE_BEGINNING_LEN];
	size_t len = strlen(path);
	return len > PROFILE_ENDING_LEN
	    && strcmp(path + len - PROFILE_ENDING_LEN, PROFILE_ENDING) == 0
	    && prof_sys_head_read(path, text, sizeof(text)) > 0;
}

/* The number that a text is, of at most 9 digits; -1: it is none. */
static int
number_of(const char *text) {
	uint64_t n;
	size_t len = strlen(text);
	return len <= 9 && fmt_parse_digits(text, len, &n) == 0 ? (int)n : -1;
}

/* The descriptor that a path stands for, -1: none. Only such a path may be a symbolic link. */
static int
descriptor_of(const char *path) {
	static const char *const fronts[] = {"/dev/fd/", "/proc/self/fd/"};
	if (strcmp(path, "/dev/stdout") == 0 || strcmp(path, "/dev/stderr") == 0) {
		return path[sizeof("/dev/std") - 1] == 'o' ? STDOUT_FILENO : STDERR_FILENO;
	}
	for (size_t i = 0; i < 2; i++) {
		size_t front = strlen(fronts[i]);
		if (strncmp(path, fronts[i], front) == 0) {
			return number_of(path + front);
		}
	}
	return -1;
}

/*
 * Opens a path that is free or that of a regular file: as a temporary file or, only if none can be
 * created beside the existing one, in place. After any other failure, such as a full disk, writing
 * in place would fail too, with the old content lost.
 */
static int
regular_open(prof_file_t *f, bool exists) {
	int err = temp_open(f);
	bool refused = err == EACCES || err == EPERM || err == EROFS || err == ENOENT;
	return refused && exists ? in_place_open(f) : err;
}

/* Opens an explicit path, according to what exists there. 0 or an errno. */
static int
explicit_open(prof_file_t *f) {
	struct stat st;
	int saved = errno;
	int err = lstat(f->path, &st) == 0 ? 0 : errno;
	errno = saved;
	int n = f->is_confined ? -1 : descriptor_of(f->path);
	if (n >= 0) {
		f->may_block = true;
		return descriptor_open(f, n);
	}
	f->is_new = err == ENOENT;
	if (f->is_new) {
		return regular_open(f, false);
	}
	if (err != 0) {
		return err;
	}
	switch (st.st_mode & S_IFMT) {
	case S_IFREG:
		if (f->is_confined) {
			return is_profile(f->path) ? temp_open(f) : EEXIST;
		}
		return regular_open(f, true);
	case S_IFLNK:
		return ELOOP;
	case S_IFDIR:
		return EISDIR;
	default:
		f->may_block = true;
		return f->is_confined ? EEXIST : in_place_open(f);
	}
}

/* Copies an explicit path to f->path. 0, ENAMETOOLONG, or ENOENT for "". */
static int
path_copy(prof_file_t *f, const char *path) {
	size_t len = strnlen(path, PROF_PATH_SIZE);
	if (len >= PROF_PATH_SIZE) {
		f->path[0] = '\0';
		return ENAMETOOLONG;
	}
	memcpy(f->path, path, len + 1);
	return len == 0 ? ENOENT : 0;
}

static void
file_init(prof_file_t *f) {
	f->fd_plus_1 = 0;
	f->err = 0;
	temp_note(f, false);
	f->may_block = false;
	f->written = 0;
	f->sink = NULL;
	sys_write_signals_block(&f->signals);
}

int
prof_file_open_sink(prof_file_t *f, prof_sink_t *sink) {
	file_init(f);
	f->is_explicit = true;
	f->sink = sink;
	memcpy(f->path, "-", 2);
	return 0;
}

int
prof_file_open(prof_file_t *f, const char *path, const prof_name_t *name, bool is_confined) {
	assert(name->kind < prof_kind_n && (opt_prof_dump_mode & ~0777u) == 0);
	file_init(f);
	f->is_explicit = path != NULL;
	f->is_confined = is_confined;
	f->name = *name;
	f->err = path != NULL ? path_copy(f, path)
	    : prof_dump_filename(f->path, sizeof(f->path), name);
	if (f->err == 0) {
		f->err = path != NULL ? explicit_open(f) : temp_open(f);
	}
	return f->err;
}

void
prof_file_write(prof_file_t *f, const void *data, size_t len) {
	if (f->sink != NULL) {
		f->err = f->err != 0 ? f->err : f->sink(data, len);
		f->written += f->err == 0 ? len : 0;
		return;
	}
	size_t done = 0;
	assert(len == 0 || f->err != 0 || prof_file_is_open(f));
	if (f->err == 0) {
		f->err = sys_write_all(file_fd(f), data, len, f->may_block ? PIPE_WAIT_MS : 0, &done);
	}
	f->written += done;
}

/* Renames f->temp to f->path, or to the next free name, which f->path becomes. 0 or an errno. */
static int
move_to_free_name(prof_file_t *f) {
	for (unsigned i = 0; i < PROF_NAME_TRIES; i++) {
		int err = sys_rename_noreplace(f->temp, f->path);
		if (err != EEXIST) {
			return err;
		}
		seq_skip(f->name.kind == prof_kind_log ? &names.kseq[prof_kind_log] : &names.seq, i);
		err = prof_dump_filename(f->path, sizeof(f->path), &f->name);
		if (err != 0) {
			return err;
		}
	}
	return EEXIST;
}

/*
 * Closes the descriptor, if there is one; 0 or an errno. Clears the number before it closes: a
 * child forked in between must not close what another thread opened under the same number.
 */
static int
file_shut(prof_file_t *f) {
	int fd = file_fd(f);
	__atomic_store_n(&f->fd_plus_1, 0, MO_SEQ_CST);
	return fd < 0 ? 0 : sys_close(fd);
}

void
prof_file_forget(prof_file_t *f) {
	file_shut(f);
	temp_note(f, false);
}

void
prof_file_abandon(prof_file_t *f) {
	if (__atomic_load_n(&f->has_temp, MO_ACQUIRE) && f->temp_pid == sys_pid()) {
		sys_unlink(f->temp);
	}
}

/*
 * Copies the temporary file into the existing one and removes it, where a rename is refused (a
 * mount point, a directory with the sticky bit). 0 or an errno.
 */
static int
copy_in_place(prof_file_t *f) {
	char buf[512];
	int in = sys_open(f->temp, O_RDONLY | O_NOFOLLOW, 0);
	if (in < 0) {
		return -in;
	}
	int err = in_place_open(f);
	ssize_t n = 1;
	while (err == 0 && n > 0) {
		n = sys_read(in, buf, sizeof(buf));
		err = n < 0 ? (int)-n : sys_write_all(file_fd(f), buf, (size_t)n, 0, NULL);
	}
	int close_err = file_shut(f);
	err = err != 0 ? err : close_err;
	sys_close(in);
	sys_unlink(f->temp);
	return err;
}

/* Gives the complete temporary file its name. 0 or an errno. */
static int
file_move(prof_file_t *f) {
	assert(!prof_file_is_open(f) && f->has_temp);
	if (!f->is_explicit) {
		return move_to_free_name(f);
	}
	if (f->is_confined) {
		/* Checks again what exists under that name by now. */
		return f->is_new || !is_profile(f->path) ? sys_rename_noreplace(f->temp, f->path)
		    : sys_rename(f->temp, f->path);
	}
	int err = sys_rename(f->temp, f->path);
	return err == EBUSY || err == EXDEV || err == EACCES || err == EPERM ? copy_in_place(f) : err;
}

int
prof_file_close(prof_file_t *f) {
	int err = file_shut(f);
	f->err = f->err != 0 ? f->err : err;
	if (f->has_temp && f->err == 0) {
		f->err = file_move(f);
	}
	if (f->has_temp && f->err != 0) {
		sys_unlink(f->temp);
	}
	temp_note(f, false);
	assert(!prof_file_is_open(f));
	sys_write_signals_restore(&f->signals, f->err != 0);
	return f->err;
}

/* ---------------------------------------------------------------- facts */

/* The names are in the rows: pointers to them would be one more page that each start relocates. */
static const struct {
	int err;
	char name[sizeof("ENAMETOOLONG")];
} errno_names[] = {
	{EACCES, "EACCES"}, {EAGAIN, "EAGAIN"}, {EBADF, "EBADF"}, {EBUSY, "EBUSY"},
	{ECANCELED, "ECANCELED"},
	{EDQUOT, "EDQUOT"}, {EEXIST, "EEXIST"}, {EFAULT, "EFAULT"}, {EFBIG, "EFBIG"},
	{EINTR, "EINTR"}, {EINVAL, "EINVAL"}, {EIO, "EIO"}, {EISDIR, "EISDIR"},
	{ELOOP, "ELOOP"}, {EMFILE, "EMFILE"}, {ENAMETOOLONG, "ENAMETOOLONG"}, {ENFILE, "ENFILE"},
	{ENODEV, "ENODEV"}, {ENOENT, "ENOENT"}, {ENOMEM, "ENOMEM"}, {ENOSPC, "ENOSPC"},
	{ENOSYS, "ENOSYS"}, {ENOTDIR, "ENOTDIR"}, {ENXIO, "ENXIO"}, {EPERM, "EPERM"},
	{EPIPE, "EPIPE"}, {EROFS, "EROFS"}, {ESPIPE, "ESPIPE"}, {ETIMEDOUT, "ETIMEDOUT"},
	{ETXTBSY, "ETXTBSY"}, {EXDEV, "EXDEV"},
};

const char *
prof_errno_name(int err, char buf[16]) {
	for (size_t i = 0; i < ARRAY_LEN(errno_names); i++) {
		if (errno_names[i].err == err) {
			return errno_names[i].name;
		}
	}
	fmt_snprintf(buf, 16, "errno=%d", err);
	return buf;
}

bool
prof_sys_file_is_forbidden(uint64_t bytes) {
	struct rlimit limit;
	int saved = errno;
	bool is_forbidden = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes;
	errno = saved;
	return is_forbidden;
}

/* Field 22 of /proc/self/stat. */
uint64_t
prof_sys_start_ticks(void) {
	char text[1024];
	sys_read_text("/proc/self/stat", text, sizeof(text));
	char *at = strrchr(text, ')'); /* the name before it may hold anything */
	for (unsigned field = 2; field < 22 && at != NULL; field++) {
		at = strchr(at + 1, ' ');
	}
	int err = 0;
	return at == NULL ? 0 : (uint64_t)fmt_parse_uint(at, &at, 10, &err);
}

uint64_t
prof_sys_rss(uint64_t *shared) {
	uint64_t statm[STATM_FIELDS];
	sys_read_statm(statm);
	if (shared != NULL) {
		*shared = statm[STATM_SHARED];
	}
	return statm[STATM_RESIDENT];
}

/*
 * Whether path is that of a program: of an ELF file, or of a script; then path becomes that of the
 * interpreter which the first line of the script names. *is_there: the file can be opened.
 */
static bool
program_try_follow(char *path, size_t size, bool *is_there) {
	char head[256] = "";
	int fd = sys_open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	*is_there = fd >= 0;
	if (fd < 0) {
		return false;
	}
	(void)sys_read(fd, head, sizeof(head) - 1);
	sys_close(fd);
	if (memcmp(head, "#!", 2) != 0) {
		return memcmp(head, "\177ELF", 4) == 0;
	}
	const char *at = head + 2 + strspn(head + 2, " \t");
	size_t len = strcspn(at, " \t\n");
	if (len >= size) {
		return false;
	}
	memcpy(path, at, len);
	path[len] = '\0';
	return len > 0;
}

/*
 * The path by which the program was started (AT_EXECFN), made absolute if the program is found from
 * the current directory; "" if it is not the path of a program, or too long.
 */
static void
exe_of_start(char *buf, size_t size) {
	const char *name = (const char *)sys_auxval(AT_EXECFN);
	bool is_there;
	buf[0] = '\0';
	if (name == NULL || name[0] == '\0' || strlen(name) >= size) {
		return;
	}
	name += strncmp(name, "./", 2) == 0 ? 2 : 0;
	prof_sys_path_absolute(buf, size, name);
	if (program_try_follow(buf, size, &is_there)) {
		return;
	}
	/* Not there: the directory is another one than at the start, or a chroot hides the file. */
	name = is_there ? "" : name;
	memcpy(buf, name, strlen(name) + 1);
}

void
prof_sys_exe_boot(void) {
	assert(names.exe[0] == '\0');
	prof_sys_exe(names.exe, sizeof(names.exe));
}

void
prof_sys_exe(char *buf, size_t size) {
	assert(size >= sizeof(names.exe));
	if (!sys_is_run_by_loader() && sys_readlink("/proc/self/exe", buf, size) >= 0) {
		return;
	}
	if (names.exe[0] != '\0') {
		memcpy(buf, names.exe, sizeof(names.exe));
		return;
	}
	exe_of_start(buf, size);
	if (buf[0] == '\0' && sys_readlink("/proc/self/exe", buf, size) < 0) {
		buf[0] = '\0';
	}
}

/* A child numbers its files from 0; names differ from those of the parent by the pid. */
void
prof_sys_postfork_child(void) {
	atomic_store_u64(&names.seq, 0, MO_RELAXED);
	for (unsigned i = 0; i < prof_kind_n; i++) {
		atomic_store_u64(&names.kseq[i], 0, MO_RELAXED);
	}
	atomic_store_u32(&prof_sys_creation.nbusy, 0, MO_RELAXED);
	atomic_store_u32(&prof_sys_creation.ender, 0, MO_RELAXED);
}

/* ---------------------------------------------------------------- files that exit removes */

bool
prof_sys_is_ending(void) {
	uint32_t ender = atomic_load_u32(&prof_sys_creation.ender, MO_SEQ_CST);
	return ender != 0 && ender != mutex_self();
}

bool
prof_sys_create_begin(void) {
	atomic_fetch_add_u32(&prof_sys_creation.nbusy, 1, MO_SEQ_CST);
	if (unlikely(prof_sys_is_ending())) {
		prof_sys_create_end();
		return false;
	}
	return true;
}

void
prof_sys_create_end(void) {
	assert(atomic_load_u32(&prof_sys_creation.nbusy, MO_RELAXED) > 0);
	atomic_fetch_sub_u32(&prof_sys_creation.nbusy, 1, MO_SEQ_CST);
}

void
prof_sys_await_created(void) {
	for (unsigned i = 0; i < CREATE_TRIES; i++) {
		if (atomic_load_u32(&prof_sys_creation.nbusy, MO_SEQ_CST) == 0) {
			return;
		}
		os_pause(i);
	}
}
