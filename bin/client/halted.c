/*
 * Tells from /proc and /sys/fs/cgroup why a process cannot run at all (jeprof_halted). It is a look
 * at one instant: a process that uses a disk waits in the kernel now and then. t->state is that of
 * the last jeprof_find() or jeprof_check_same(); the cgroup is read anew. The result is a constant
 * to be put behind "is"; NULL: nothing is seen that keeps it from running. No locks, no state.
 * Called by mailbox.c and directory.c, for a process that gave no answer, and by bin/ctl.
 */
#include "client/target.h"

#include <stdio.h>
#include <string.h>

#include "client/cgroup.h"

/*
 * Whether the freezer of cgroup version 2 holds the process, which /proc shows as asleep. If its
 * cgroup cannot be seen from here, the function of the kernel that its thread waits in tells; false
 * if we may not see that either.
 */
static bool
is_frozen(const jeprof_target_t *t) {
	static const char *const roots[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
	char text[8192], path[CLIENT_PATH + 64], events[256];
	if (client_read_proc(t->task, "cgroup", text, sizeof(text)) <= 0) {
		return false;
	}
	const char *group = client_cgroup_of(text, "");
	bool is_read = false;
	for (int i = 0; i < 2 && !is_read && group != NULL && group[0] == '/'; i++) {
		snprintf(path, sizeof(path), "%s%.*s/cgroup.events", roots[i], (int)strcspn(group, "\n"),
		    group);
		is_read = client_read_file(path, events, sizeof(events)) > 0;
	}
	if (is_read) {
		return strstr(events, "frozen 1") != NULL;
	}
	/* The second one has the first in it, depending on the kernel's compiler. */
	return client_read_proc(t->task, "wchan", text, sizeof(text)) > 0
	    && (strcmp(text, "do_freezer_trap") == 0 || strcmp(text, "get_signal") == 0);
}

const char *
jeprof_halted(const jeprof_target_t *t) {
	return t->state == 'T' || t->state == 't' ? "stopped (by a signal or a debugger)"
	    : t->state == 'D' ? "waiting in the kernel (frozen by its control group, or for a disk or "
	    "a server that does not answer)"
	    : is_frozen(t) ? "frozen (by its control group)" : NULL;
}
