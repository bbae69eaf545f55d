/*
 * Sends requests through the control directory (prof_mailbox.h has the form of its files): writes
 * the command to a temporary file, renames it to PID.cmd unless another command is there, and polls
 * PID.status for an answer with its nonce, a random number for each try. Meanwhile it renews the
 * lease in the file: until when the process may take the command. Each request waits, whatever its
 * manner (jeprof_manner_t). PID is that of the process in its own namespace. Invariant: a command
 * that the process has not taken is removed before client_ask_dir() returns. No locks, no state but
 * the target's. Called by jeprof_ask() in mailbox.c.
 */
#include "client/target.h"

#include "client/word.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Bytes of a path; bytes of a status file that are read; pause between two polls. */
enum { PATH_BYTES = PATH_MAX + 64, STATUS_MAX = 4096, PAUSE_MS = 20 };
/*
 * Times that a command is sent again, at most: because its lease was over by the clock of the
 * process or, once, without a lease, because an older library may not know that word.
 */
enum { STALE_MAX = 8 };

/* One command and its files. */
typedef struct command_s {
	uint64_t nonce;
	int fd;               /* of the file with the command; -1: not open */
	bool has_lease;       /* it has the word until=; an older library does not understand that */
	char temporary[PATH_BYTES];
	char command[PATH_BYTES];
	char status[PATH_BYTES];
	/* the status file when the process had not taken the command; zeros: none */
	struct stat old;
} command_t;

/* Renames the command into place; EEXIST if another one is there. 0 or an errno. */
static int
place_command(const char *from, const char *to) {
#ifdef SYS_renameat2
	if (syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 1u /* RENAME_NOREPLACE */) == 0) {
		return 0;
	}
	if (errno != EINVAL && errno != ENOSYS) {
		return errno;
	}
#endif
	if (access(to, F_OK) == 0) {
		return EEXIST;
	}
	return rename(from, to) == 0 ? 0 : errno;
}

/* Whether the open status file is *old, so of another command; true also if there is none (-1). */
static bool
is_old(int fd, const struct stat *old) {
	struct stat st;
	return fd < 0 || fstat(fd, &st) != 0 || (st.st_ino == old->st_ino
	    && st.st_mtim.tv_sec == old->st_mtim.tv_sec && st.st_mtim.tv_nsec == old->st_mtim.tv_nsec);
}

/*
 * Reads the answer from PID.status; false if it is none to our command. Once that is taken, a new
 * status file with nonce 0 and an error counts too: the process could not read the command.
 */
static bool
read_answer(const command_t *c, bool is_taken, jeprof_reply_t *reply) {
	char text[STATUS_MAX];
	uint64_t answered;
	int start = 0, error;
	int fd = open(c->status, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	bool was_there = is_old(fd, &c->old);
	if (fd >= 0) {
		close(fd);
	}
	text[n > 0 ? n : 0] = '\0';
	if (sscanf(text, "nonce=%" SCNx64 " error=%d%n", &answered, &error, &start) != 2
	    || (answered != c->nonce && (answered != 0 || error == 0 || was_there || !is_taken))) {
		return false;
	}
	reply->error = error;
	start += text[start] == '\n';
	snprintf(reply->text, sizeof(reply->text), "%.*s", JEPROF_TEXT - 1, text + start);
	size_t length = strlen(reply->text);
	if (length > 0 && reply->text[length - 1] == '\n') {
		reply->text[length - 1] = '\0';
	}
	return true;
}

static void
name_files(const jeprof_target_t *t, command_t *c) {
	c->nonce = client_random_word();
	snprintf(c->temporary, PATH_BYTES, "%s/.%u.%016" PRIx64, t->dir, t->own_pid, c->nonce);
	snprintf(c->command, PATH_BYTES, "%s/%u.cmd", t->dir, t->own_pid);
	snprintf(c->status, PATH_BYTES, "%s/%u.status", t->dir, t->own_pid);
}

/*
 * Sets `head` to the beginning of the command: its nonce, and the end of a lease that begins now.
 * Returns its length, which is the same each time, so that it can be overwritten in the file.
 */
static int
command_head(const jeprof_target_t *t, const command_t *c, char head[64]) {
	return c->has_lease ? snprintf(head, 64, "nonce=%016" PRIx64 " until=%016" PRIx64 " ", c->nonce,
	    client_lease_end(t, PROF_LEASE_MS)) : snprintf(head, 64, "nonce=%016" PRIx64 " ", c->nonce);
}

/*
 * Lets the process, if it is another user's and we are root, read the command: gives its user the
 * file, as a library trusts those of its own user, but knows no root of ours if it runs in a user
 * namespace of its own; or, if we may not do that, lets everybody read it.
 */
static void
share_command(const jeprof_target_t *t, const command_t *c) {
	if (geteuid() == 0 && t->uids[1] != 0 && fchown(c->fd, t->uids[1], (gid_t)-1) != 0) {
		(void)!fchmod(c->fd, 0644);
	}
}

/* Writes the command under its temporary name, and leaves the file open. 0, EACCES or EIO. */
static int
write_command(jeprof_target_t *t, command_t *c, const char *text) {
	c->fd = open(c->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (c->fd < 0) {
		return client_fail(t, EACCES, "%s: %s; the control directory is written by root or the "
		    "process's own user", t->dir, strerror(errno));
	}
	share_command(t, c);
	char head[64];
	command_head(t, c, head);
	bool is_written = dprintf(c->fd, "%s%s\n", head, text) > 0;
	return is_written ? 0 : client_fail(t, EIO, "%s: %s", c->command, strerror(errno));
}

/* Writes another end of the lease into the file, whose name may have changed. */
static void
renew_lease(const jeprof_target_t *t, const command_t *c) {
	char head[64];
	size_t length = (size_t)command_head(t, c, head);
	(void)!pwrite(c->fd, head, length, 0); /* if it fails, the command is not carried out */
}

/* Whether the command in PID.cmd is ours; that of another client must not be removed. */
static bool
is_command_ours(const command_t *c) {
	char text[32];
	uint64_t nonce;
	int fd = open(c->command, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	if (fd >= 0) {
		close(fd);
	}
	text[n > 0 ? n : 0] = '\0';
	return sscanf(text, "nonce=%" SCNx64, &nonce) == 1 && nonce == c->nonce;
}

/*
 * Puts the command into place; while another one is there it waits, until the deadline or an
 * interrupt. 0, EACCES, EBUSY, EIO or EINTR.
 */
static int
send_command(jeprof_target_t *t, command_t *c, const jeprof_request_t *r, int64_t deadline) {
	struct stat st;
	stat(c->status, &c->old);
	int error = place_command(c->temporary, c->command);
	if (error == EEXIST && lstat(c->command, &st) == 0 && S_ISDIR(st.st_mode)) {
		return client_fail(t, EACCES, "%s is a directory, so no command can be given: remove it",
		    c->command);
	}
	while (error == EEXIST && client_now_ms() < deadline && !client_is_interrupted(r)) {
		client_sleep_ms(PAUSE_MS);
		renew_lease(t, c);
		stat(c->status, &c->old);
		error = place_command(c->temporary, c->command);
	}
	if (error == 0) {
		return 0;
	}
	if (error == EEXIST && client_is_interrupted(r)) {
		return client_fail(t, EINTR, "interrupted; the command was not given");
	}
	return error == EEXIST
	    ? client_fail(t, EBUSY, "%s: a command of somebody else waits there", c->command)
	    : client_fail(t, EIO, "%s: %s", c->command, strerror(error));
}

/*
 * Whether the process has taken the command. As long as not, a status file that is there answers
 * that of somebody else, and is noted as c->old.
 */
static bool
note_taken(command_t *c) {
	struct stat st;
	bool has_status = stat(c->status, &st) == 0; /* before the look at the command */
	bool is_taken = !is_command_ours(c);
	if (!is_taken && has_status) {
		c->old = st;
	}
	return is_taken;
}

/*
 * Polls for the answer: until the deadline, and for taken_ms more if the process has taken the
 * command. 0; ESRCH; or, both without a sentence, ETIMEDOUT, or EINTR after an interrupt.
 */
static int
wait_answer(jeprof_target_t *t, command_t *c, const jeprof_request_t *r, int64_t deadline,
    jeprof_reply_t *reply) {
	for (;;) {
		int error = jeprof_check_same(t); /* first, as it may answer and end */
		bool is_taken = note_taken(c);
		if (read_answer(c, is_taken, reply)) {
			return 0;
		}
		if (error != 0) {
			return error;
		}
		if (client_is_interrupted(r)) {
			return EINTR;
		}
		if (client_now_ms() >= deadline + (is_taken ? client_taken_ms(r) : 0)) {
			return ETIMEDOUT;
		}
		renew_lease(t, c);
		client_sleep_ms(PAUSE_MS);
	}
}

/*
 * Removes a command that was not answered, if the process has not taken it, and sets the sentence
 * of ETIMEDOUT and EINTR. Returns error.
 */
static int
take_back(jeprof_target_t *t, const command_t *c, int error) {
	bool is_back = is_command_ours(c) && unlink(c->command) == 0;
	if (error == EINTR) {
		return is_back ? client_fail(t, EINTR, "interrupted; the command was taken back")
		    : client_fail(t, EINTR, "interrupted; %d %s has taken the command, and may still carry "
		    "it out", t->pid, t->name);
	}
	if (error != ETIMEDOUT) {
		return error;
	}
	const char *fate = is_back ? "the command was taken back"
	    : "it has taken the command, and may still carry it out";
	const char *halted = t->state != 'D' ? jeprof_halted(t) : NULL; /* D may last a moment only */
	return halted != NULL ? client_fail(t, error, "%d %s is %s and cannot answer; %s", t->pid,
	    t->name, halted, fate) : client_fail(t, error, "%d %s did not answer in the control "
	    "directory %s; %s", t->pid, t->name, t->dir, fate);
}

/* Sends the command once. 0: answered; else an errno with its sentence. */
static int
ask_once(jeprof_target_t *t, const jeprof_request_t *r, bool has_lease, int64_t deadline,
    jeprof_reply_t *reply) {
	command_t c = {.fd = -1, .has_lease = has_lease};
	name_files(t, &c);
	int error = write_command(t, &c, r->text);
	error = error != 0 ? error : send_command(t, &c, r, deadline);
	if (error != 0) {
		unlink(c.temporary);
	} else {
		error = wait_answer(t, &c, r, deadline, reply);
		error = error != 0 ? take_back(t, &c, error) : 0;
	}
	if (c.fd >= 0) {
		close(c.fd);
	}
	return error;
}

/*
 * 0, or EACCES if others may write into the directory: the process looks at no command there
 * (prof_ctl_dir.h). A mkdir with umask 002 makes such a directory. Owners are not compared: the
 * process may see other user ids than we do. Of a directory that is not there, write_command() says
 * so.
 */
static int
check_mode(jeprof_target_t *t) {
	struct stat st;
	char word[CLIENT_PATH];
	if (stat(t->dir, &st) != 0 || (st.st_mode & (S_IWGRP | S_IWOTH)) == 0) {
		return 0;
	}
	word[client_put_word(word, sizeof(word) - 1, t->dir)] = '\0';
	return client_fail(t, EACCES, "%s is writable by others (mode %04o), so %d %s does not use it: "
	    "chmod go-w %s", t->dir, (unsigned)(st.st_mode & 07777), t->pid, t->name, word);
}

int
client_ask_dir(jeprof_target_t *t, const jeprof_request_t *r, jeprof_reply_t *reply) {
	int64_t deadline = client_now_ms() + client_wait_ms(r);
	bool has_lease = true;
	int error = jeprof_check_same(t);
	error = error != 0 ? error : check_mode(t);
	for (int i = 0; error == 0 && i <= STALE_MAX; i++) {
		error = ask_once(t, r, has_lease, deadline, reply);
		bool is_strange = error == 0 && reply->error == EBADMSG && has_lease;
		if (error != 0 || (!is_strange && !client_try_set_clock(t, reply))) {
			break;
		}
		has_lease = !is_strange; /* an older library does not know leases */
	}
	return error;
}
