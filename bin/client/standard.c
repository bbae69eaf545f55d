/*
 * The standard descriptors of the tools (standard.h). Invariant: after the call 0, 1 and 2 are
 * open, if /dev/null can be opened. No state and no locks: main() of jeprofctl and of jeprofd calls
 * it first, before there are other threads.
 */
#include "client/target.h"

#include "client/standard.h"

#include <fcntl.h>
#include <unistd.h>

void
client_hold_standard(void) {
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) < 0) {
			/* The lowest one that is free, so this one; for the wrong direction: its use fails. */
			(void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
		}
	}
}
