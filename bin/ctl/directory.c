/* Asking through the control directory: see ask.h. */
#include "ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ask.h"
#include "talk.h"
#include "value.h"
#include "words.h"

/* Puts the command into place unless another one waits there. */
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

/* Reads PID.status if it answers the request with this nonce, or, unless it is the old one, refuses a command unread. */
static bool
read_dir_answer(const char *path, uint64_t nonce, const struct stat *old, reply_t *reply) {
	char text[TEXT_BYTES];
	uint64_t its;
	int start = 0;
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	struct stat st;
	bool is_old = fd < 0 || fstat(fd, &st) != 0 || (st.st_ino == old->st_ino && st.st_mtim.tv_sec == old->st_mtim.tv_sec
	    && st.st_mtim.tv_nsec == old->st_mtim.tv_nsec);
	if (fd >= 0) {
		close(fd);
	}
	text[n > 0 ? n : 0] = '\0';
	if (sscanf(text, "nonce=%" SCNx64 " error=%d%n", &its, &reply->error, &start) != 2
	    || (its != nonce && (its != 0 || reply->error == 0 || is_old))) {
		return false;
	}
	start += text[start] == '\n';
	snprintf(reply->text, sizeof(reply->text), "%s", text + start);
	size_t length = strlen(reply->text);
	if (length > 0 && reply->text[length - 1] == '\n') {
		reply->text[length - 1] = '\0';
	}
	return true;
}

void
ask_dir(process_t *p, const char *text, reply_t *reply) {
	char temporary[PATH_MAX + 64], command[PATH_MAX + 64], status[PATH_MAX + 64];
	int64_t deadline = now_ms() + (int64_t)words.values[o_wait].number;
	uint64_t nonce = random_word();
	snprintf(temporary, sizeof(temporary), "%s/.%u.%016" PRIx64, p->dir, p->own_pid, nonce);
	snprintf(command, sizeof(command), "%s/%u.cmd", p->dir, p->own_pid);
	snprintf(status, sizeof(status), "%s/%u.status", p->dir, p->own_pid);
	check_same(p);
	int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0) {
		leave(EXIT_NO_WAY, "%s: %s; the control directory is written by root or the process's own user", p->dir, strerror(errno));
	}
	unfinished = temporary;
	bool is_written = dprintf(fd, "nonce=%016" PRIx64 " %s\n", nonce, text) > 0;
	close(fd);
	struct stat old = {0};
	stat(status, &old);
	int error = is_written ? place_command(temporary, command) : EIO;
	while (error == EEXIST && now_ms() < deadline) {
		sleep_ms(20);
		stat(status, &old);
		error = place_command(temporary, command);
	}
	if (error != 0) {
		leave(error == EEXIST ? EXIT_NO_ANSWER : EXIT_FAILED, "%s: %s", command,
		    error == EEXIST ? "a command of somebody else waits there" : strerror(error));
	}
	unfinished = command;
	while (!read_dir_answer(status, nonce, &old, reply)) {
		check_same(p);
		if (access(command, F_OK) != 0) {
			unfinished = NULL; /* taken */
		}
		if (now_ms() >= deadline + (unfinished == NULL ? TAKEN_WAIT_MS : 0) || interrupted >= patience) {
			leave(EXIT_NO_ANSWER, "%d %s did not answer in the control directory %s; the command was taken back", p->pid, p->name,
			    p->dir);
		}
		sleep_ms(20);
	}
	unfinished = NULL;
}
