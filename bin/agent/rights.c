/*
 * Gives up rights, by system calls (no library is needed for it). Invariant: afterwards the process
 * and all its threads can gain nothing: no other capability than CAP_SYS_PTRACE, no set-user-id
 * program, no core file, no other process of the same user that reads the token in its memory.
 * Called by main before any thread is started.
 */
#include "agent.h"

#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CAPABILITIES = 64 };

void
drop_rights(void) {
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];
	if (syscall(SYS_capget, &head, data) != 0) {
		leave(1, "capget: %s", strerror(errno));
	}
	for (int i = 0; i < CAPABILITIES; i++) {
		if (i != CAP_SYS_PTRACE) {
			/* fails without CAP_SETPCAP: it has none to lose then */
			prctl(PR_CAPBSET_DROP, i, 0, 0, 0);
		}
	}
	unsigned kept = data[0].permitted & 1u << CAP_SYS_PTRACE;
	memset(data, 0, sizeof(data));
	data[0].effective = data[0].permitted = kept;
	if (syscall(SYS_capset, &head, data) != 0) {
		leave(1, "capset: %s", strerror(errno));
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) {
		leave(1, "prctl: %s", strerror(errno));
	}
}
