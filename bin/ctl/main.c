/*
 * jeprofctl: starts, stops, dumps and watches the heap profiler of a running process from outside.
 *
 * The way of every run: words -> options -> process -> way in -> request -> answer -> words.
 * The way in is the mailbox of prof_mailbox.h, a block in the process's memory that is found by an ELF note read from
 * that memory (no file, no symbol: also in a stripped, static or deleted program, and in other namespaces). It is reached
 * through /proc/PID/mem, else process_vm_readv, else the memfd of prof_ctl_fd:true. Else the control directory is asked.
 * Invariant: the descriptor is opened before the start time of the process is checked, and belongs to that process for good;
 * nothing is written into a block whose magic, protocol version and place (a writable mapping) were not checked.
 * stdout carries results, stderr talk. Needs nothing but libc.
 */
#include "ctl.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"
#include "talk.h"
#include "verbs.h"
#include "way.h"
#include "words.h"

/* What ends us lets us take back the request first; what was ignored (nohup) stays so. */
static void
catch_signals(void) {
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction action = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN}, old;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && words.verb != LIST; i++) {
		if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) {
			sigaction(numbers[i], &action, NULL);
		}
	}
	sigaction(SIGPIPE, &ignore, NULL); /* the write fails */
}

int
main(int argc, char **argv) {
	static process_t p;
	int code;
	atexit(remove_unfinished);
	atexit(take_back);
	read_words(argc, argv);
	catch_signals();
	if (words.verb == LIST) {
		code = verb_list();
	} else {
		find_process(&p);
		open_process(&p);
		code = words.verb == START ? verb_start(&p) : words.verb == STOP ? verb_stop(&p) : words.verb == DUMP ? verb_dump(&p)
		    : words.verb == STATUS ? verb_status(&p) : words.verb == WATCH ? verb_watch(&p) : verb_set(&p);
	}
	if (fflush(stdout) != 0 || ferror(stdout)) {
		leave(EXIT_FAILED, "cannot write: %s", strerror(errno));
	}
	return code;
}
