/*
 * The verb list, and find_process(), which finds the process for a pid or a program's name. The
 * verb walks through all of /proc and reads the mailboxes (memory with the state of the profiler
 * and requests to it); it returns EXIT_DONE even if it lists none. The search for a name walks too,
 * and reads the mailboxes of those with that name; the search for a pid walks only if there is no
 * such process, to look for it in other pid namespaces. Invariant: all only read; no process is
 * stopped, attached to or sent a request. No locks. Called by main.c.
 */
#include "ctl.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "answer.h"
#include "talk.h"
#include "value.h"
#include "verbs.h"
#include "words.h"

enum { PIDS_TOLD = 16 }; /* most pids, of processes with one name, in a message */

/* The argument of the callbacks of each_process(); each field is used by the one that it names. */
typedef struct search_s {
	const char *name;  /* match_one: name of the program to find */
	int count;         /* match_one: processes with that name */
	char pids[PIDS_TOLD * 12]; /* match_one: the first of their pids, as text */
	int candidates;    /* match_one: those that run the library, or cannot be read */
	int pid;           /* match_one: the last of these, else the last of all; 0: none */
	int unreadable;    /* list_one: processes that cannot be read */
	int listed;        /* list_one: processes printed */
	int wanted_pid;    /* match_own_pid: the pid in another namespace to find */
	int its_pid;       /* match_own_pid: that process's pid here; 0: none */
} search_t;

/*
 * Probes the process (jeprof_probe(), which sets p->head), and closes it. Returns whether it runs
 * the library. Sets *is_pending to whether it has no session and a start waits in its mailbox, and
 * *is_denied to whether it cannot be read (EACCES).
 */
static bool
probe_library(jeprof_target_t *p, bool *is_pending, bool *is_denied) {
	char request[JEPROF_TEXT];
	int error = jeprof_probe(p);
	bool has_session = jeprof_has_session(p);
	*is_pending = error == 0 && !has_session && jeprof_find_pending(p, "start", request);
	*is_denied = error == EACCES;
	jeprof_close(p);
	return error == 0;
}

/*
 * Calls f for each process but this program. Exits if /proc cannot be opened, or, after the last
 * call, if descriptors or memory were lacking for some.
 */
static void
each_process(void (*f)(jeprof_target_t *p, void *arg), void *arg) {
	int error = jeprof_each(f, arg);
	if (error != 0) {
		leave(EXIT_NO_WAY, "/proc: %s", error == ENOENT ? "it is not mounted here"
		    : strerror(error));
	}
}

/* Prints a process if it runs the library; counts it if it cannot be read. */
static void
list_one(jeprof_target_t *p, void *arg) {
	search_t *s = arg;
	bool is_denied, is_pending;
	char since[96], session[64];
	if (!probe_library(p, &is_pending, &is_denied)) {
		s->unreadable += is_denied;
		return;
	}
	s->listed++;
	bool is_idle = p->head.state == jeprof_state_idle;
	const char *state = is_pending && is_idle ? "pending" : jeprof_state_word(p->head.state);
	if (is_on(o_json)) {
		printf("%s{\"pid\":%d,\"name\":", s->listed > 1 ? ",\n " : "[", p->pid);
		put_json_string(p->name);
		printf(",\"state\":\"%s\",\"session\":%" PRIu64 ",\"start_pending\":%s}", state,
		    p->head.session_id, is_pending ? "true" : "false");
		return;
	}
	printf("%7d  ", p->pid);
	put_plain(p->name);
	printf("%*s  %s", (int)(strlen(p->name) < 15 ? 15 - strlen(p->name) : 0), "",
	    state_text(state, p->head.session_id, session));
	if (is_pending && !is_idle) {
		printf(", start pending");
	}
	if (jeprof_has_session(p)) {
		printf(" since %s", time_text(p->head.session_start_ns, since));
	}
	putchar('\n');
}

int
verb_list(void) {
	search_t s = {0};
	each_process(list_one, &s);
	if (is_on(o_json)) {
		puts(s.listed > 0 ? "]" : "[]");
	}
	if (s.listed == 0) {
		talk("no process that we may read runs the library");
	}
	if (s.unreadable > 0) {
		talk("%d process%s may not be read%s", s.unreadable, s.unreadable > 1 ? "es" : "",
		    geteuid() != 0 ? "; sudo shows more" : "");
	}
	if (s.listed > 0) {
		hint("next: jeprofctl status PID, jeprofctl start PID\n");
	}
	return EXIT_DONE;
}

/* Counts a process if it has the wanted name, and notes its pid. */
static void
match_one(jeprof_target_t *p, void *arg) {
	search_t *s = arg;
	bool is_denied, is_pending;
	if (!jeprof_is_named(p, s->name)) {
		return;
	}
	if (s->count++ < PIDS_TOLD) {
		size_t length = strlen(s->pids);
		snprintf(s->pids + length, sizeof(s->pids) - length, " %d", p->pid);
	}
	bool has_block = probe_library(p, &is_pending, &is_denied) || is_denied;
	s->candidates += has_block;
	s->pid = has_block || s->candidates == 0 ? p->pid : s->pid;
}

/* Notes in its_pid a process that has the wanted pid in its own namespace, but another one here. */
static void
match_own_pid(jeprof_target_t *p, void *arg) {
	search_t *s = arg;
	if (p->own_pid == (unsigned)s->wanted_pid && p->pid != s->wanted_pid) {
		s->its_pid = p->pid;
	}
}

/*
 * The pid of the only process with that name, or of the only one of several that runs the library
 * or cannot be read; exits if there is not exactly one.
 */
static int
find_by_name(const char *name) {
	search_t s = {.name = name};
	each_process(match_one, &s);
	if (s.count == 0) {
		leave(EXIT_NO_WAY, "no process is called \"%.80s%s\"", name,
		    strlen(name) > 80 ? "..." : "");
	}
	if (s.count > 1 && s.candidates != 1) {
		leave(EXIT_USAGE, "%d processes are called %s:%s%s; give a pid", s.count, name, s.pids,
		    s.count > PIDS_TOLD ? " ..." : "");
	}
	return s.pid;
}

void
find_process(jeprof_target_t *p) {
	search_t s = {0};
	uint64_t number = words.values[o_pid].number;
	if (!is_on(o_pid) && !value_try_parse(words.who, count_units, &number)) {
		number = (uint64_t)find_by_name(words.who);
	}
	int pid = number <= INT_MAX ? (int)number : 0;
	int error = pid > 0 ? jeprof_find(p, pid) : ESRCH;
	if (error == 0) {
		return;
	}
	if (error != ESRCH) {
		leave_failed(p, error);
	}
	if (pid > 0 && (p->state == 'Z' || p->state == 'X')) {
		leave(EXIT_NO_WAY, "%d has ended; its parent has not yet fetched its exit status", pid);
	}
	s.wanted_pid = pid;
	each_process(match_own_pid, &s);
	if (s.its_pid != 0) {
		leave(EXIT_NO_WAY, "no process %" PRIu64 " here; %d is called so in a pid namespace of its "
		    "own", number, s.its_pid);
	}
	leave(EXIT_NO_WAY, "no process %" PRIu64, number);
}
