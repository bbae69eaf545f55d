/*
 * jeprofctl: starts, stops, dumps and watches the heap profiler of a running process from outside.
 *
 * The steps of a run: parse the words (words.c), find the process (search.c), open it, send a
 * request, print the answer (the verbs, answer.c). The verb list and dump --core have no process to
 * find. Opening, asking and fetching are done by bin/client/ (jeprof_client.h), which jeprofd uses
 * too. Results go to stdout, messages to stderr.
 * Invariant: an unanswered request is removed from the mailbox at exit, also after SIGINT, SIGTERM
 * or SIGHUP, unless the verb leaves it there; if jeprofctl is killed, its lease ends soon. One
 * thread, so no locks.
 */
#include "ctl.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "client/standard.h"
#include "talk.h"
#include "verbs.h"
#include "words.h"

/* A signal handler: removes what is half written and ends the program by the signal. */
static void
end_by_signal(int number) {
	remove_unfinished();
	raise(number);
}

/*
 * Makes signals end the wait for an answer instead of the program, which can then remove its
 * request and exit. Reading an image of a process (--outside) goes on in spite of them. A signal
 * that was ignored (nohup) stays ignored. The verb list and dump --core send no request: signals
 * end them at once.
 */
static void
catch_signals(void) {
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction action = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN}, old;
	if (is_on(o_core)) {
		action = (struct sigaction){.sa_handler = end_by_signal, .sa_flags = (int)SA_RESETHAND};
	}
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && words.verb != LIST; i++) {
		if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) {
			sigaction(numbers[i], &action, NULL);
		}
	}
	sigaction(SIGPIPE, &ignore, NULL); /* a write then fails with EPIPE, or EFBIG */
	sigaction(SIGXFSZ, &ignore, NULL);
}

/* The process. Its unanswered request is taken back by an atexit() handler. */
static jeprof_target_t target;

static void
take_back(void) {
	jeprof_take_back(&target);
}

/*
 * Opens the process, by the control directory of --ctl-dir if given; or exits with the reason. One
 * that is younger than --wait gets that time to open its mailbox (jeprof_open()).
 */
static void
open_target(jeprof_target_t *p) {
	jeprof_request_t wait = request_of("", jeprof_manner_wait);
	need(p, is_on(o_dir) ? jeprof_open_dir(p, words.values[o_dir].text) : jeprof_open(p, &wait));
}

int
main(int argc, char **argv) {
	jeprof_target_t *p = &target;
	int code;
	client_hold_standard();
	atexit(remove_unfinished);
	atexit(take_back);
	read_words(argc, argv);
	catch_signals();
	if (words.verb == LIST) {
		code = verb_list();
	} else if (is_on(o_core)) {
		code = verb_dump_core();
	} else {
		find_process(p);
		open_target(p);
		code = words.verb == START ? verb_start(p) : words.verb == STOP ? verb_stop(p)
		    : words.verb == DUMP ? verb_dump(p) : words.verb == STATUS ? verb_status(p)
		    : words.verb == WATCH ? verb_watch(p) : verb_set(p);
	}
	need_written();
	return code;
}
