/*
 * The verbs that change the profiler of a process: start, stop, set, rearm and mark. Requests lie
 * in the slots of its mailbox, in its memory. It reads them when it allocates, and in the
 * profiler's thread if it has one. A process that allocates nothing and has no such thread (is
 * idle) does not answer: a "start" with neither --wait nor -d, and a "set" without --wait, then
 * leave their request in its slot (pending), and "stop" without --session removes the pending ones
 * of all clients. Invariant: no start is left beside another client's, and one slot of the mailbox
 * stays free for others. Functions that return an int return the exit code. No locks. Called by
 * main.c.
 */
#include "ctl.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "client/clock.h"
#include "paths.h"
#include "talk.h"
#include "verbs.h"
#include "words.h"

/*
 * After a stop that an idle process did not answer. If the stop is for whatever runs, and not for
 * one session (is_any), removes the starts and sets of others that the process has not read. Then:
 * - some were removed and no session runs: EXIT_DONE;
 * - there was no start, no session runs and --wait is not given: says that no session runs;
 * - else (a session runs, --wait, or the process is just taking a start): exits with the reason for
 *   the silence.
 */
static int
stop_idle(jeprof_target_t *p, bool is_any) {
	static char text[JEPROF_TEXT];
	char what[80];
	bool has_start = is_any && jeprof_find_pending(p, "start", text);
	jeprof_withdrawn_t w = {0, 0};
	need(p, is_any ? jeprof_withdraw_pending(p, &w) : jeprof_look(p));
	bool runs = jeprof_has_session(p);
	bool is_done = w.starts + w.sets > 0;
	jeprof_withdrawn_text(&w, what);
	if (is_done && runs) {
		talk("%d %s: %s; the session still runs", p->pid, p->name, what);
	} else if (is_done && is_on(o_json)) {
		printf("{\"pid\":%d,\"withdrawn\":%u}\n", p->pid, w.starts + w.sets);
	} else if (is_done) {
		printf("withdrawn: %s\n", what);
	}
	if (is_done && !runs) {
		return EXIT_DONE;
	}
	if (!has_start && !is_on(o_wait) && !runs) {
		return fail(p, &(jeprof_reply_t){.error = EALREADY});
	}
	jeprof_request_t asked = request_of("stop", jeprof_manner_return);
	leave_failed(p, jeprof_explain_silence(p, &asked));
}

/* For a session of start -d that another client has stopped: says where its profile may be. */
static void
tell_last_dump(jeprof_target_t *p) {
	char value[PATH_MAX], path[TEXT_BYTES];
	static jeprof_reply_t r;
	jeprof_request_t asked = request_of("status", jeprof_manner_return);
	if (jeprof_ask(p, &asked, &r) == 0 && r.error == 0 && jeprof_value(r.text, "last_dump", value,
	    sizeof(value)) != NULL && value[0] != '\0') {
		path_here(p, value, path, sizeof(path));
		talk("%d %s: the last profile that it wrote: %s", p->pid, p->name, path);
	}
}

/* Stops the running session; with has_number only that one. Prints the path of its profile. */
static int
stop_session(jeprof_target_t *p, bool has_number, uint64_t number) {
	char text[64];
	static jeprof_reply_t r;
	snprintf(text, sizeof(text), has_number ? "stop %" PRIu64 : "stop", number);
	if (!ask(p, text, jeprof_manner_return, &r)) {
		return stop_idle(p, !has_number);
	}
	int code = r.error != 0 ? fail(p, &r) : print_path(p, r.text, "path");
	if (is_on(o_duration) && (r.error == EALREADY || r.error == EPERM)) {
		tell_last_dump(p);
	}
	/* After EBADMSG and ESTALE nothing was carried out (TORN_MAX in mailbox.c). */
	bool is_over = code == EXIT_FAILED && r.error != EBADMSG && r.error != ESTALE;
	if (is_over && p->way != jeprof_way_dir) {
		hint("the session is over, but what it sampled is still there: jeprofctl dump %d -o FILE\n",
		    p->pid);
	}
	return code;
}

int
verb_stop(jeprof_target_t *p) {
	return stop_session(p, is_on(o_session), words.values[o_session].number);
}

/*
 * start -d: waits for the duration, or until a signal (Ctrl-C), then stops this session, or if its
 * number is not known (0) any.
 */
static int
wait_and_stop(jeprof_target_t *p, uint64_t session) {
	int64_t end = client_now_ms() + (int64_t)words.values[o_duration].number;
	hint("session %" PRIu64 " runs for %s; Ctrl-C ends it early\n", session,
	    words.values[o_duration].text);
	for (int64_t left = end - client_now_ms(); left > 0 && !interrupted;
	    left = end - client_now_ms()) {
		client_sleep_ms(left < 500 ? left : 500);
		need(p, jeprof_check_same(p));
	}
	words.verb = STOP;
	return stop_session(p, session != 0, session);
}

/*
 * Has the request that was just sent stay in its slot of the mailbox; the process reads it when it
 * allocates again. It is taken back instead, at exit (main.c), if the program has a malloc of its
 * own, if it is a start and another client's lies there, left or waited for, or if others have
 * JEPROF_SLOTS - 1 starts and sets there.
 */
static int
leave_pending(jeprof_target_t *p, const char *verb) {
	need(p, jeprof_check_allocator(p));
	if (strcmp(verb, "start") == 0 && jeprof_comes_second(p, verb)) {
		talk("%d %s: a start is pending already; nothing changed", p->pid, p->name);
		return leave_unchanged(p, 0);
	}
	if (jeprof_count_pending(p) >= JEPROF_SLOTS - 1) {
		leave(EXIT_NO_ANSWER, "%d %s is idle, and pending requests fill its mailbox; ours was "
		    "taken back", p->pid, p->name);
	}
	jeprof_let_stay(p, 0);
	if (is_on(o_json)) {
		printf("{\"pid\":%d,\"pending\":true}\n", p->pid);
	} else {
		const char *why = jeprof_halted(p);
		printf("pending: %s at its next allocation%s%s\n", strcmp(verb, "start") == 0 ? "begins"
		    : "is set", why != NULL ? ", once it is no longer " : "", why != NULL ? why : "");
	}
	hint("next: jeprofctl status %d; jeprofctl stop %d takes it back\n", p->pid, p->pid);
	return EXIT_DONE;
}

/*
 * Prints the warning in the answer to start, if one follows the line with the session's number, and
 * another one if the profiler can have no thread in that process.
 */
static void
start_warnings(jeprof_target_t *p, const char *answer) {
	const char *line = strchr(answer, '\n');
	if (line != NULL && line[1] != '\0') {
		talk("%d %s: %s: stop would fail; give --prefix, or fetch it with jeprofctl dump %d -o "
		    "FILE", p->pid, p->name, line + 1, p->pid);
	}
	if (jeprof_look(p) == 0 && p->head.is_barred) {
		talk("%d %s: system calls are filtered (seccomp), so the profiler has no thread: it "
		    "answers at the program's allocations", p->pid, p->name);
	}
}

/*
 * Before the process is asked: if the user wants a box that the process cannot have, exits with the
 * reason. If the user says nothing of a box and the process cannot have one, adds blackbox:false to
 * the request, as MALLOC_CONF of the process may want one (prof_blackbox). If the user wants a box
 * and names no size, adds the size that was checked: the process would take its
 * prof_blackbox_size, which is not known here.
 */
static void
settle_box(jeprof_target_t *p, char text[JEPROF_TEXT]) {
	const char *box = asked_value("blackbox"), *size = asked_value("blackbox_size");
	size_t at;
	bool is_wanted = box != NULL && strcmp(box, "false") != 0;
	uint64_t bytes = JEPROF_BOX_BYTES;
	if (size != NULL && (!try_size(size, &bytes) || bytes > JEPROF_BOX_MAX)) {
		return; /* the process refuses what is no size of a box, whatever else is asked for */
	}
	bool is_possible = jeprof_check_box(p, bytes) == 0;
	if (is_wanted && !is_possible) {
		leave(EXIT_REFUSED, "%s; start without --blackbox", p->why);
	} else if (is_wanted && size == NULL) {
		at = begin_pair(text, JEPROF_TEXT);
		print_to(text + at, JEPROF_TEXT - at, "blackbox_size:%d", JEPROF_BOX_BYTES);
	} else if (box == NULL && !is_possible) {
		at = begin_pair(text, JEPROF_TEXT);
		print_to(text + at, JEPROF_TEXT - at, "blackbox:false");
	}
}

int
verb_start(jeprof_target_t *p) {
	char text[JEPROF_TEXT];
	static jeprof_reply_t r;
	build_request(p, "start", text, sizeof(text));
	settle_box(p, text);
	/* With -d the first Ctrl-C ends the session, the second one jeprofctl. */
	patience = is_on(o_duration) ? 2 : 1;
	if (is_on(o_duration) && !is_on(o_wait) && words.values[o_duration].number
	    > words.values[o_wait].number) {
		/* -d implies waiting: the answer comes at the next allocation, which may be late */
		words.values[o_wait].number = words.values[o_duration].number;
	}
	if (!ask(p, text, is_on(o_wait) || is_on(o_duration) ? jeprof_manner_wait : jeprof_manner_stay,
	    &r)) {
		return leave_pending(p, "start");
	}
	if (r.error != 0) {
		return fail(p, &r);
	}
	uint64_t session = strtoull(r.text, NULL, 10);
	start_warnings(p, r.text);
	if (session == 0 && jeprof_look(p) == 0) {
		session = p->head.session_id;
	}
	if (is_on(o_duration)) {
		return wait_and_stop(p, session);
	}
	if (is_on(o_json)) {
		printf("{\"pid\":%d,\"session\":%" PRIu64 "}\n", p->pid, session);
	} else {
		printf("session %" PRIu64 "\n", session);
	}
	const char *who = process_words(p);
	hint("next: jeprofctl dump %s, jeprofctl stop %s --session %" PRIu64 "\n", who, who, session);
	return EXIT_DONE;
}

/* set, rearm and mark; only a set without --wait may be left pending. */
int
verb_set(jeprof_target_t *p) {
	char text[JEPROF_TEXT];
	static jeprof_reply_t r;
	build_request(p, words.verb == SET ? "set" : words.verb == MARK ? "mark" : "rearm", text,
	    sizeof(text));
	bool is_set = words.verb == SET;
	if (!ask(p, text, is_set && !is_on(o_wait) ? jeprof_manner_stay : jeprof_manner_wait, &r)) {
		return leave_pending(p, "set");
	}
	if (r.error != 0) {
		return fail(p, &r);
	}
	if (is_on(o_json)) {
		printf("{\"pid\":%d,\"done\":", p->pid);
		put_json_string(text);
		puts("}");
	} else if (r.text[0] != '\0') {
		put_plain(r.text);
		putchar('\n');
	}
	bool is_off = is_set && jeprof_look(p) == 0 && p->head.state == jeprof_state_idle;
	if (is_off) {
		talk("%d %s is not profiling: no threshold writes a profile before a session runs", p->pid,
		    p->name);
	}
	hint(words.verb == MARK ? "next: jeprofctl dump %s --since-mark\n"
	    : is_off ? "next: jeprofctl start %s\n" : "next: jeprofctl status %s\n",
	    process_words(p));
	return EXIT_DONE;
}
