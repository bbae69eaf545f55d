/*
 * Drops privileges by direct system calls, without libcap (agent.h has the contract). Invariant:
 * afterwards the process and its threads hold no capability but CAP_SYS_PTRACE, if they had it, and
 * cannot gain one by running a set-user-id program. The process is not dumpable: it leaves no core
 * file, and other processes of its user cannot read the token in its memory. No locks: called by
 * main() once, before it starts a thread.
 */
#include "agent.h"

#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CAPABILITIES = 64 }; /* capabilities have the numbers 0 to 63: bits of two 32-bit words */

void
drop_rights(void) {
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];
	if (syscall(SYS_capget, &head, data) != 0) {
		leave(1, "capget: %s", strerror(errno));
	}
	for (int i = 0; i < CAPABILITIES; i++) {
		if (i != CAP_SYS_PTRACE) {
			/*
			 * A program that we start shall get none either. Without CAP_SETPCAP this call fails.
			 * That does no harm, because no_new_privs has the same effect at execve().
			 */
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
