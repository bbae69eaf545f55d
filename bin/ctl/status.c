/*
 * The verbs status and watch, which send the request "status" and print its answer. A process that
 * is idle (it allocates nothing) or cannot run does not answer. Then status prints the head of its
 * mailbox, which can be read without a request: no heap figures, but the reason if it cannot run.
 * watch waits for the time of --wait (5 s if it is not given); then ask() ends the program with the
 * reason. status --outside sends nothing and reads the profiler's tables. A signal ends watch
 * between two answers with EXIT_DONE; while it waits for one, ask() exits with EXIT_FAILED. So does
 * main() if stdout cannot be written. Invariant: neither verb changes the state of the profiler. No
 * locks. Called by main.c.
 */
#include "ctl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "answer.h"
#include "client/clock.h"
#include "paths.h"
#include "talk.h"
#include "value.h"
#include "verbs.h"
#include "words.h"

/*
 * Prints a line for a person: numbers with the keys of sizes[] also with a unit, times as a clock
 * shows them (UTC). session: the number of the session that runs, or, if none does (`runs` is
 * false), of the last one; 0: there was none.
 */
static void
put_status_value(const char *key, const char *value, uint64_t session, bool runs) {
	static const char *const sizes[] = {"sample_interval", "sample_interval_set",
	    "threshold_alloc", "threshold_large", "threshold_highwater", "threshold_highwater_step",
	    "allocated", "active", "resident", "retained", "mapped", "metadata", "rss", "blackbox_size",
	    "blackbox_used", NULL};
	char buf[40];
	uint64_t number = is_number(value) ? strtoull(value, NULL, 10) : 0;
	bool is_start = strcmp(key, "start_time_ns") == 0;
	if (is_start || strcmp(key, "told_time_ns") == 0) {
		printf("%-27s %s\n", is_start ? "since" : "figures of", number != 0
		    ? time_text(number, buf) : "-");
		return;
	}
	printf("%-27s ", key);
	char state[64], failure[TEXT_BYTES];
	value = strcmp(key, "state") == 0 ? state_text(value, session, state)
	    : strcmp(key, "last_error") == 0 ? failure_text(value, failure, sizeof(failure)) : value;
	put_plain(value[0] != '\0' ? value : "-");
	for (int i = 0; sizes[i] != NULL; i++) {
		if (strcmp(sizes[i], key) == 0 && number >= 1024) {
			printf(" (%s)", size_text(number, buf));
		}
		if (strcmp(sizes[i], key) == 0 && number == 0 && strncmp(key, "threshold", 9) == 0) {
			printf("%s", strcmp(key, "threshold_highwater_step") == 0
			    ? " (an eighth of threshold_highwater)" : " (off)");
		}
	}
	if (!runs && number != 0 && strcmp(key, "session") == 0) {
		printf(" (the last one)");
	}
	putchar('\n');
}

/*
 * Prints the lines key=value of an answer, which it cuts up, as members of a JSON object or as a
 * table; not the line pid=, which put_process() has printed. The paths of the last dump and of the
 * box are translated for this shell.
 */
static void
put_status(jeprof_target_t *p, char *text) {
	char path[TEXT_BYTES], number[32], word[32];
	const char *session = jeprof_value(text, "session", number, sizeof(number));
	uint64_t id = session != NULL ? strtoull(session, NULL, 10) : 0;
	const char *state = jeprof_value(text, "state", word, sizeof(word));
	bool runs = state != NULL && is_session(state);
	for (char *line = text, *next; line != NULL && *line != '\0'; line = next) {
		next = strchr(line, '\n');
		if (next != NULL) {
			*next++ = '\0';
		}
		char *value = strchr(line, '=');
		if (value == NULL || strncmp(line, "pid=", 4) == 0) {
			continue;
		}
		*value++ = '\0';
		bool is_box = strcmp(line, "blackbox") == 0 && value[0] == '/';
		if (is_box || strcmp(line, "last_dump") == 0) {
			path_here(p, value, path, sizeof(path));
			value = path;
		}
		if (!is_on(o_json)) {
			put_status_value(line, value, id, runs);
			continue;
		}
		putchar(',');
		put_json_string(line);
		putchar(':');
		if (is_number(value) || strcmp(value, "true") == 0 || strcmp(value, "false") == 0) {
			fputs(value, stdout);
		} else {
			put_json_string(value);
		}
	}
}

/* Words for a jeprof_way_t; the two ways through the memory have the same. */
static const char *const ways[] = {"none", "mailbox", "mailbox", "mailbox (memfd)",
    "control directory"};

/* Prints the whole status: the process and the way to it, then the lines of `text`. */
static void
put_process(jeprof_target_t *p, char *text) {
	if (is_on(o_json)) {
		printf("{\"pid\":%d,\"own_pid\":%u,\"name\":", p->pid, p->own_pid);
		put_json_string(p->name);
		printf(",\"way\":\"%s\"", ways[p->way]);
		put_status(p, text);
		puts("}");
		return;
	}
	printf("%-27s %d ", "process", p->pid);
	put_plain(p->name);
	printf("\n%-27s %s\n", "way", ways[p->way]);
	put_status(p, text);
}

/*
 * Prints the state of a process that gave no answer, from the head of its mailbox, and returns the
 * exit code. With --wait the missing answer is an error, unless a start or set is pending.
 */
static int
status_idle(jeprof_target_t *p) {
	static char request[JEPROF_TEXT], text[2 * JEPROF_TEXT];
	bool is_pending = jeprof_find_pending(p, "start", request) || jeprof_find_pending(p, "set",
	    request);
	if (!is_pending && is_on(o_wait)) {
		jeprof_request_t asked = request_of("status", jeprof_manner_return);
		leave_failed(p, jeprof_explain_silence(p, &asked));
	}
	need(p, jeprof_look(p));
	/* A number above the last that we know is a state of a newer library. */
	bool is_idle = p->head.state == jeprof_state_idle || p->head.state > jeprof_state_switched_on;
	bool is_start = is_pending && strncmp(request, "start", 5) == 0;
	const char *halted = jeprof_halted(p);
	snprintf(text, sizeof(text), "state=%s\nsession=%" PRIu64 "\nstart_time_ns=%" PRIu64
	    "\n%s%s%s%s%s%sversion=%.63s\n", is_start && is_idle ? "pending"
	    : jeprof_state_word(p->head.state), p->head.session_id, p->head.session_start_ns,
	    is_pending ? "pending=" : "", is_pending ? request : "", is_pending ? "\n" : "",
	    halted != NULL ? "halted=" : "", halted != NULL ? halted : "", halted != NULL ? "\n" : "",
	    p->head.library_version);
	put_process(p, text);
	if (halted == NULL && jeprof_check_allocator(p) != 0) {
		talk("%s", p->why);
	} else {
		hint("%d %s %s: its heap figures are not known\n", p->pid, p->name,
		    halted != NULL ? "cannot run" : "allocates nothing just now");
	}
	bool has_tables = !is_idle || p->head.session_id != 0;
	if (has_tables && (p->way == jeprof_way_memory || p->way == jeprof_way_calls)) {
		hint("next: jeprofctl status %d --outside\n", p->pid);
	}
	return EXIT_DONE;
}

/* status --outside: prints the mailbox's head, and the last figures in the profiler's tables. */
static int
status_outside(jeprof_target_t *p) {
	static char text[2 * JEPROF_TEXT];
	jeprof_image_t *image;
	need(p, jeprof_image_of_process(&image, p));
	jeprof_image_facts_t f = jeprof_image_facts(image);
	jeprof_image_close(image);
	need(p, jeprof_look(p));
	snprintf(text, sizeof(text), "state=%s\nsession=%" PRIu64 "\nstart_time_ns=%" PRIu64
	    "\nsample_interval=%" PRIu64 "\ntold_time_ns=%" PRIu64 "\nallocated=%" PRIu64
	    "\nactive=%" PRIu64 "\nresident=%" PRIu64 "\nretained=%" PRIu64 "\nsamples=%" PRIu64
	    "\nsites=%" PRIu64 "\ntorn=%" PRIu64 "\nversion=%.63s\n", jeprof_state_word(p->head.state),
	    p->head.session_id, p->head.session_start_ns, f.rate, f.time_ns, f.allocated, f.active,
	    f.resident, f.retained, f.samples, f.sites, f.torn, p->head.library_version);
	put_process(p, text);
	hint("next: jeprofctl dump %d --outside\n", p->pid);
	return EXIT_DONE;
}

int
verb_status(jeprof_target_t *p) {
	static jeprof_reply_t r;
	if (is_on(o_outside)) {
		return status_outside(p);
	}
	if (!ask(p, "status", jeprof_manner_return, &r)) {
		return status_idle(p);
	}
	if (r.error != 0) {
		return fail(p, &r);
	}
	char state[32];
	bool is_idle = jeprof_value(r.text, "state", state, sizeof(state)) != NULL
	    && strcmp(state, "idle") == 0;
	put_process(p, r.text);
	hint("next: jeprofctl %s %s\n", is_idle ? "start" : "dump", process_words(p));
	return EXIT_DONE;
}

/*
 * Prints one line of watch. *before: live bytes at the previous line, not used if is_first; sets it
 * to those in this answer.
 */
static void
put_tick(const jeprof_reply_t *r, uint64_t *before, bool is_first) {
	char buf[256], live[24], change[24], at[40];
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	const char *value = jeprof_value(r->text, "allocated", buf, sizeof(buf));
	uint64_t bytes = value != NULL ? strtoull(value, NULL, 10) : 0;
	uint64_t growth = bytes >= *before ? bytes - *before : *before - bytes;
	bool is_less = bytes < *before;
	growth = is_first ? 0 : growth;
	*before = bytes;
	value = jeprof_value(r->text, "dumps", buf, sizeof(buf));
	uint64_t dumps = value != NULL ? strtoull(value, NULL, 10) : 0;
	const char *sign = is_less && !is_first ? "-" : "";
	time_text((uint64_t)now.tv_sec * 1000000000, at);
	if (is_on(o_json)) {
		printf("{\"time\":\"%s\",\"live\":%" PRIu64 ",\"growth\":%s%" PRIu64 ",\"dumps\":%" PRIu64
		    "}\n", at, bytes, sign, growth, dumps);
	} else {
		printf("%s  live %9s  growth %s%9s  dumps %" PRIu64 "\n", at, size_text(bytes, live),
		    *sign != '\0' ? sign : "+", size_text(growth, change), dumps);
	}
	fflush(stdout);
}

int
verb_watch(jeprof_target_t *p) {
	static jeprof_reply_t r;
	uint64_t before = 0, tick = is_on(o_tick) ? words.values[o_tick].number : 5000;
	uint64_t count = is_on(o_count) ? words.values[o_count].number : UINT64_MAX;
	for (uint64_t i = 0; i < count && !ferror(stdout); i++) {
		if (i > 0) {
			client_sleep_ms((int64_t)tick);
		}
		if (interrupted) {
			break;
		}
		ask(p, "status", jeprof_manner_wait, &r); /* exits if there is no answer */
		if (r.error != 0) {
			return fail(p, &r);
		}
		put_tick(&r, &before, i == 0);
	}
	return EXIT_DONE;
}
