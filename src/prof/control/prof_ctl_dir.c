/*
 * The control directory: checks it, renames the command PID.cmd to PID.taken, checks and reads that
 * file, executes it and writes PID.status (prof_ctl_dir.h).
 *
 * Invariant: a command is executed at most once, because it is renamed before it is read. Locks:
 * none; buffers are static, because only one thread at a time calls. Called by prof_control.c,
 * which has set control.server; the option is also used by prof.c and conf_table.c.
 */
#include "prof/control/prof_ctl_dir.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/malloc_io.h"
#include "os/tls.h"
#include "os/sys.h"
#include "prof/file/prof_sys.h"
#include "util/fmt.h"

/* Longest command in bytes, with its newline; mode bits that a trusted file must not have. */
#define CMD_MAX 4096
#define OTHERS_MAY_WRITE 022

EARLY_DATA const char *opt_prof_ctl_dir = "";

static LARGE_BSS struct {
	bool is_good;      /* result of the last check of the directory */
	const char *fault; /* fault that was reported last; NULL: none since it was good */
	char path[PROF_CTL_DIR_MAX + 64];   /* PID.cmd, then PID.status */
	char temp[PROF_CTL_DIR_MAX + 64];   /* PID.taken, then PID.status.tmp */
	char text[CMD_MAX + 2];             /* the command */
	char reply[PROF_MAILBOX_TEXT + 64]; /* what is written to PID.status */
	prof_answer_t answer;
} ctl_dir;

/* ---------------------------------------------------------------- whom to trust */

static bool
is_owner_good(const struct stat *st, unsigned euid) {
	return st->st_uid == euid || st->st_uid == 0;
}

const char *
prof_ctl_dir_fault(const struct stat *st, unsigned euid) {
	if (!S_ISDIR(st->st_mode)) {
		return "is not a directory";
	}
	if (!is_owner_good(st, euid)) {
		return "belongs to another user";
	}
	return (st->st_mode & OTHERS_MAY_WRITE) != 0 ? "is writable by others" : NULL;
}

const char *
prof_ctl_cmd_fault(const struct stat *st, unsigned euid) {
	if (!S_ISREG(st->st_mode)) {
		return "the command is no regular file";
	}
	if (!is_owner_good(st, euid)) {
		return "the command belongs to another user";
	}
	if ((st->st_mode & OTHERS_MAY_WRITE) != 0) {
		return "the command is writable by others";
	}
	if (st->st_nlink != 1) {
		return "the command has more than one link";
	}
	return st->st_size > CMD_MAX ? "the command is too long" : NULL;
}

/*
 * If *text begins with the key (such as "nonce="), reads the hexadecimal number and the blank
 * behind it and moves *text there; else leaves both as they are. False if the key has no such
 * number.
 */
static bool
number_try_take(char **text, const char *key, uint64_t *number) {
	size_t len = strlen(key);
	char *end;
	int err;
	if (strncmp(*text, key, len) != 0) {
		return true;
	}
	*number = fmt_parse_uint(*text + len, &end, 16, &err);
	*text = end + 1;
	return err == 0 && *end == ' ';
}

char *
prof_ctl_cmd_parse(char *text, size_t len, uint64_t *nonce, uint64_t *until_ms) {
	*nonce = 0;
	*until_ms = 0;
	if (len == 0 || text[len - 1] != '\n' || memchr(text, '\0', len) != NULL
	    || memchr(text, '\n', len) != text + len - 1) {
		return NULL;
	}
	text[len - 1] = '\0';
	return number_try_take(&text, "nonce=", nonce) && number_try_take(&text, "until=", until_ms)
	    ? text : NULL;
}

/* ---------------------------------------------------------------- the files */

bool
prof_ctl_dir_is_on(void) {
	return opt_prof_ctl_dir[0] != '\0';
}

/* Puts the path of this process's file with the suffix into buf. */
static void
path_of(char *buf, size_t size, const char *suffix) {
	fmt_snprintf(buf, size, "%s/%d.%s", opt_prof_ctl_dir, sys_pid(), suffix);
}

/* Whether the error that sys_open returned is a lack of resources that may be over soon. */
static bool
is_temporary(int fd) {
	return fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM;
}

/* Notes the result of a check (NULL: good), and reports a fault unless it was the last one too. */
static void
dir_judge(const char *fault) {
	ctl_dir.is_good = fault == NULL;
	if (fault != NULL && fault != ctl_dir.fault) {
		malloc_printf("<jemalloc>: prof_ctl_dir:%.*s is not used: it %s\n", 800,
		    opt_prof_ctl_dir, fault);
	}
	ctl_dir.fault = fault;
}

/*
 * Checks the directory. Returns 0, EAGAIN for a temporary lack of resources or a failed fstat, or
 * EACCES if the directory is refused or cannot be opened.
 */
static int
dir_look(void) {
	struct stat st;
	int fd = sys_open(opt_prof_ctl_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	bool is_seen = fd >= 0 && sys_fstat(fd, &st) == 0;
	if (fd >= 0) {
		sys_close(fd);
	}
	if ((fd >= 0 && !is_seen) || is_temporary(fd)) {
		return EAGAIN;
	}
	dir_judge(fd < 0 ? "cannot be opened as a directory"
	    : prof_ctl_dir_fault(&st, (unsigned)geteuid()));
	return ctl_dir.is_good ? 0 : EACCES;
}

/* Checks and reads the file of a command; returns NULL or why it is refused. */
static const char *
command_read(int fd, size_t *len) {
	struct stat st;
	if (sys_fstat(fd, &st) != 0) {
		return "the command cannot be examined";
	}
	const char *fault = prof_ctl_cmd_fault(&st, (unsigned)geteuid());
	*len = 0;
	while (fault == NULL) {
		ssize_t n = sys_read(fd, ctl_dir.text + *len, CMD_MAX + 1 - *len);
		if (n < 0) {
			return "the command cannot be read";
		}
		*len += (size_t)n;
		if (n == 0) {
			break;
		}
		fault = *len > CMD_MAX ? "the command is too long" : NULL;
	}
	return fault;
}

/*
 * Writes the answer to a temporary file and renames it to PID.status. If that fails, or the limit
 * on file sizes forbids it, there is no answer.
 */
static void
status_write(uint64_t nonce, int err) {
	int len = fmt_snprintf(ctl_dir.reply, sizeof(ctl_dir.reply), "nonce=%llx error=%d\n%s\n",
	    (unsigned long long)nonce, err, ctl_dir.answer.text);
	path_of(ctl_dir.temp, sizeof(ctl_dir.temp), "status.tmp");
	path_of(ctl_dir.path, sizeof(ctl_dir.path), "status");
	sys_unlink(ctl_dir.temp);
	if (prof_sys_file_is_forbidden((uint64_t)len)) {
		return;
	}
	int fd = sys_open(ctl_dir.temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	if (fd < 0) {
		return;
	}
	int write_err = sys_write_all(fd, ctl_dir.reply, (size_t)len, 0, NULL);
	sys_close(fd);
	if (write_err != 0 || sys_rename(ctl_dir.temp, ctl_dir.path) != 0) {
		sys_unlink(ctl_dir.temp);
	}
}

/*
 * Removes PID.taken. If it is a directory, unlink() refuses that, and no later command could be
 * renamed to this name; so it is renamed back to PID.cmd, where jeprofctl reports it, unless there
 * is a newer PID.cmd.
 */
static void
taken_remove(void) {
	if (sys_unlink(ctl_dir.temp) == EISDIR) {
		sys_rename_noreplace(ctl_dir.temp, ctl_dir.path);
	}
}

/* Checks and reads the open file PID.taken, removes it, executes its command, and answers. */
static void
command_serve(int fd) {
	static const prof_asker_t asker = {.is_confined = true};
	size_t len;
	uint64_t nonce = 0, until_ms = 0;
	const char *fault = command_read(fd, &len);
	taken_remove(); /* after command_read(), which counts the links */
	char *text = fault != NULL ? NULL : prof_ctl_cmd_parse(ctl_dir.text, len, &nonce, &until_ms);
	int err;
	if (text != NULL) {
		err = prof_request_check_lease(&ctl_dir.answer, until_ms, until_ms == 0 ? 0
		    : PROF_LEASE_MS);
		err = err != 0 ? err : prof_request(text, &asker, &ctl_dir.answer);
	} else {
		err = prof_request_refuse(&ctl_dir.answer, fault != NULL ? EACCES : EBADMSG, "%s",
		    fault != NULL ? fault : "a command is one line, ended by a newline");
	}
	status_write(nonce, err);
}

/* Takes the command by renaming it, so that of two in a row none is lost or executed twice. */
static bool
command_try_take(void) {
	path_of(ctl_dir.path, sizeof(ctl_dir.path), "cmd");
	path_of(ctl_dir.temp, sizeof(ctl_dir.temp), "taken");
	return sys_rename(ctl_dir.path, ctl_dir.temp) == 0;
}

void
prof_ctl_dir_look(void) {
	assert(prof_ctl_dir_is_on() && tls_get()->gate_depth == 0);
	/* A directory that was refused may have been repaired. */
	if (!ctl_dir.is_good && dir_look() != 0) {
		return;
	}
	/* Usually there is no command; this costs getpid() twice and a rename that fails. */
	if (!command_try_take()) {
		return;
	}
	int err = dir_look();
	bool is_good = err == 0;
	int fd = is_good ? sys_open(ctl_dir.temp, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0)
	    : -1;
	if (is_good ? is_temporary(fd) : err == EAGAIN) {
		/* Put back for the next call, unless a newer command has come. */
		if (sys_rename_noreplace(ctl_dir.temp, ctl_dir.path) != 0) {
			sys_unlink(ctl_dir.temp);
		}
		return;
	}
	if (is_good && fd >= 0) {
		command_serve(fd);
	} else {
		taken_remove();
	}
	if (is_good && fd < 0) {
		err = fd == -ELOOP ? EACCES : -fd;
		prof_request_refuse(&ctl_dir.answer, err, "the command cannot be opened as a plain file");
		status_write(0, err);
	}
	if (fd >= 0) {
		sys_close(fd);
	}
}
