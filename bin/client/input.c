/*
 * Opens inputs that may never come (input.h has the contract). Invariant: open() does not wait, as
 * it gets O_NONBLOCK; poll() does, with a limit. No state and no locks. Callers: bin/ctl/dump.c
 * and bin/agent/server.c.
 */
#include "client/target.h"

#include "client/input.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

/* /dev/fd/63 has a writer, a terminal has a user: they are waited for without a limit. */
static bool
is_waited_for(const char *path) {
	static const char *const begins[] = {"/dev/fd/", "/proc/self/fd/", "/dev/stdin", "/dev/tty"};

	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
		if (strncmp(path, begins[i], strlen(begins[i])) == 0) {
			return true;
		}
	}
	return false;
}

int
client_open_input(const char *path, int wait_ms, const char **why) {
	struct pollfd p = {.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY),
	    .events = POLLIN};
	int n = -1;
	while (p.fd >= 0 && (n = poll(&p, 1, is_waited_for(path) ? -1 : wait_ms)) < 0
	    && errno == EINTR) {
	}
	if (n > 0) {
		fcntl(p.fd, F_SETFL, O_RDONLY); /* without O_NONBLOCK: a slow writer is waited for */
		return p.fd;
	}
	*why = n == 0 ? "nothing came out of it, so nobody may be writing it"
	    : errno == ENXIO ? "a socket, or a device that is not there" : strerror(errno);
	if (p.fd >= 0) {
		close(p.fd);
	}
	return -1;
}
