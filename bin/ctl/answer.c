/*
 * Builds requests from the options, sends them, and turns answers and errors into text and an exit
 * code (answer.h). Invariant: the errno of a request becomes an exit code only here: those of
 * bin/client/ in leave_failed(), those in answers of the process in fail(). No locks: jeprofctl has
 * one thread. Called by main.c and the verbs.
 */
#include "ctl.h"

#include "answer.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/removed.h"
#include "paths.h"
#include "talk.h"
#include "value.h"
#include "words.h"

void
leave_failed(const jeprof_target_t *p, int error) {
	switch (error) {
	case ESRCH:
	case ENXIO:
	case EPROTO:
	case EACCES:
		leave(EXIT_NO_WAY, "%s", p->why);
	case ETIMEDOUT:
	case EBUSY:
		leave(EXIT_NO_ANSWER, "%s", p->why);
	case E2BIG:
		leave(EXIT_USAGE, "%s", p->why);
	default:
		leave(EXIT_FAILED, "%s", p->why);
	}
}

void
need(const jeprof_target_t *p, int error) {
	if (error != 0) {
		leave_failed(p, error);
	}
}

jeprof_request_t
request_of(const char *text, jeprof_manner_t manner) {
	uint64_t wait_ms = words.values[o_wait].number < UINT_MAX ? words.values[o_wait].number
	    : UINT_MAX;
	wait_ms = wait_ms > 0 ? wait_ms : 1;
	return (jeprof_request_t){.text = text, .manner = manner, .wait_ms = (unsigned)wait_ms,
	    .idle_ms = is_on(o_wait) ? (unsigned)wait_ms : 0, .interrupts = &interrupted, .patience =
	    patience};
}

bool
ask(jeprof_target_t *p, const char *text, jeprof_manner_t manner, jeprof_reply_t *reply) {
	jeprof_request_t request = request_of(text, manner);
	int error = jeprof_ask(p, &request, reply);
	if (error != 0 && error != EAGAIN) {
		leave_failed(p, error);
	}
	return error == 0;
}

/* Reads the head again. Returns buf: " since 09:15:31Z, session 3", or "" if not known. */
static const char *
session_text(jeprof_target_t *p, char buf[96]) {
	char at[40];
	buf[0] = '\0';
	if (jeprof_look(p) == 0 && p->head.session_id != 0) {
		snprintf(buf, 96, " since %s, session %" PRIu64, time_text(p->head.session_start_ns, at),
		    p->head.session_id);
	}
	return buf;
}

const char *
process_words(const jeprof_target_t *p) {
	static char text[4 * TEXT_BYTES + 32];
	char word[4 * TEXT_BYTES + 8];
	snprintf(text, sizeof(text), "%d%s%s", p->pid, is_on(o_dir) ? " --ctl-dir " : "", is_on(o_dir)
	    ? shell_word(words.values[o_dir].text, word, sizeof(word)) : "");
	return text;
}

int
leave_unchanged(const jeprof_target_t *p, uint64_t session) {
	if (!is_on(o_idempotent)) {
		return EXIT_ALREADY;
	}
	if (is_on(o_json)) {
		printf("{\"pid\":%d,\"changed\":false", p->pid);
		if (session != 0) {
			printf(",\"session\":%" PRIu64, session);
		}
		puts("}");
	}
	return EXIT_DONE;
}

/* Whether the text is "ERRNO PATH BYTES", or these stand behind a colon in it. */
static bool
is_dump_failure(const char *text) {
	const char *colon = strstr(text, ": E"), *errno_name = colon != NULL ? colon + 2 : text;
	size_t length = strspn(errno_name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
	const char *bytes = strrchr(text, ' ');
	return errno_name[0] == 'E' && errno_name[length] == ' ' && bytes > errno_name + length
	    && is_number(bytes + 1);
}

const char *
failure_text(const char *text, char *buf, size_t size) {
	if (!is_dump_failure(text)) {
		return text;
	}
	const char *bytes = strrchr(text, ' ');
	print_to(buf, size, "%.*s, after %s bytes", (int)(bytes - text), text, bytes + 1);
	return buf;
}

/* Whether a list "there are ONE, TWO" has the word of this length. */
static bool
is_listed(const char *list, const char *word, size_t length) {
	for (const char *at = list; (at = strchr(at, ' ')) != NULL;) {
		at++;
		if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == '\0')) {
			return true;
		}
	}
	return false;
}

/*
 * Tells that the process refuses what was asked for, which it calls `what`: "KEY: the reason", so
 * the value of that key is told too, and the option that it came from; or "unknown option; there
 * are KEY, KEY", so the word is told whose key is not among them.
 */
static void
talk_refused(const jeprof_target_t *p, const char *what) {
	char key[32];
	snprintf(key, sizeof(key), "%.*s", (int)strcspn(what, ":"), what);
	const char *value = asked_value(key), *option = asked_as(key);
	if (value == NULL) {
		const char *word = NULL;
		for (int i = 0; i < words.nraw && strncmp(what, "unknown option", 14) == 0; i++) {
			bool is_known = is_listed(what, words.raw[i], strcspn(words.raw[i], ":"));
			word = is_known ? word : words.raw[i];
		}
		talk("%d %s: %.80s%s%s", p->pid, p->name, word != NULL ? word : "",
		    word != NULL ? ": " : "", what);
		return;
	}
	talk("%d %s: %s, not \"%.80s%s\"%s%s", p->pid, p->name, what, value, strlen(value) > 80 ? "..."
	    : "", option != NULL ? " of --" : "", option != NULL ? option : "");
}

int
fail(jeprof_target_t *p, const jeprof_reply_t *r) {
	char since[96], failure[TEXT_BYTES];
	uint64_t session = 0;
	const char *what = r->text[0] != '\0' ? r->text : strerror(r->error);
	switch (r->error) {
	case EALREADY:
		if (words.verb == START) {
			talk("%d %s is already profiling%s; nothing changed", p->pid, p->name,
			    session_text(p, since));
			session = since[0] != '\0' ? p->head.session_id : 0;
		} else {
			int state = jeprof_look(p) == 0 ? (int)p->head.state : -1;
			talk("%d %s %s; nothing changed", p->pid, p->name, state == jeprof_state_sampling
			    ? "has no session: it samples by MALLOC_CONF" : state == jeprof_state_switched_on
			    ? "has no session: the program has switched sampling on" : "is not profiling");
		}
		return leave_unchanged(p, session);
	case EINVAL:
		talk_refused(p, what);
		return EXIT_USAGE;
	case EPERM:
		if (words.verb == STOP) {
			talk("%d %s: another session runs%s; nothing changed", p->pid, p->name,
			    session_text(p, since));
		} else {
			talk("%d %s refuses: %s; nothing changed", p->pid, p->name, what);
		}
		return EXIT_REFUSED;
	case EBUSY:
		talk("%d %s is busy: %s", p->pid, p->name, what);
		return EXIT_NO_ANSWER;
	case ENODATA:
		talk("%d %s: %s; jeprofctl mark %s sets one", p->pid, p->name, what, process_words(p));
		return EXIT_FAILED;
	case ENOENT: /* nothing has started the profiler */
		talk("%d %s: %s", p->pid, p->name, what);
		hint("next: jeprofctl start %s\n", process_words(p));
		return EXIT_FAILED;
	default:
		if (r->error == EFAULT || is_dump_failure(what)) { /* the text names the errno */
			talk("%d %s: %s", p->pid, p->name, failure_text(what, failure, sizeof(failure)));
			return EXIT_FAILED;
		}
		talk("%d %s: %s (%s)", p->pid, p->name, what, strerror(r->error));
		return EXIT_FAILED;
	}
}

size_t
begin_pair(char *request, size_t size) {
	size_t length = strlen(request);
	print_to(request + length, size - length, "%c", strchr(request, ' ') == NULL ? ' ' : ',');
	return length + 1;
}

void
build_request(const jeprof_target_t *p, const char *verb, char *buf, size_t size) {
	size_t at;
	char path[TEXT_BYTES];
	print_to(buf, size, "%s", verb);
	for (int i = 0; i < words.npairs; i++) {
		const char *value = words.pairs[i].value;
		if (strcmp(words.pairs[i].key, "prefix") == 0) {
			path_there(p, value, path, sizeof(path));
			check_directory(p, path);
			value = path;
		}
		at = begin_pair(buf, size);
		print_to(buf + at, size - at, "%s:%s", words.pairs[i].key, value);
	}
	for (int i = 0; i < words.nraw; i++) {
		at = begin_pair(buf, size);
		print_to(buf + at, size - at, "%s", words.raw[i]);
	}
	if (is_on(o_duration) && asked_value("max_seconds") == NULL) {
		at = begin_pair(buf, size); /* so that the session ends even if this program is killed */
		print_to(buf + at, size - at, "max_seconds:%" PRIu64,
		    words.values[o_duration].number / 1000 + 60);
	}
}

/*
 * The name of jeprof. Packages of systems whose own jemalloc has a jeprof call ours jeprof-prof; it
 * is in the directory of this program then.
 */
static const char *
jeprof_name(void) {
	static const char renamed[] = "jeprof-prof";
	char path[PATH_MAX + sizeof(renamed)];
	client_read_link("/proc/self/exe", path, PATH_MAX);
	char *slash = strrchr(path, '/');
	if (slash == NULL) {
		return "jeprof";
	}
	memcpy(slash + 1, renamed, sizeof(renamed));
	return access(path, X_OK) == 0 ? renamed : "jeprof";
}

void
hint_top(const char *path, const jeprof_target_t *p) {
	struct stat st;
	char word[4 * TEXT_BYTES + 8], root[64], where[80] = "";
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
		return;
	}
	if (p != NULL && stat("/", &st) == 0) {
		snprintf(root, sizeof(root), "/proc/%d/root", p->task);
		if (access(root, R_OK) == 0 && !jeprof_leads_to(root, &st)) {
			snprintf(where, sizeof(where), "--sysroot=%s ", root);
		}
	}
	hint("next: %s top %s%s\n", jeprof_name(), where, shell_word(path, word, sizeof(word)));
}

void
put_path(unsigned pid, const char *key, const char *path) {
	if (is_on(o_json)) {
		printf("{\"pid\":%u,\"%s\":", pid, key);
		put_json_string(path);
		puts("}");
	} else {
		put_plain(path);
		putchar('\n');
	}
}

int
print_path(jeprof_target_t *p, const char *answer, const char *key) {
	char path[TEXT_BYTES];
	path_here(p, answer, path, sizeof(path));
	put_path((unsigned)p->pid, key, path);
	hint_top(path, NULL);
	return EXIT_DONE;
}

bool
is_number(const char *text) {
	size_t length = strspn(text, "0123456789");
	return length > 0 && text[length] == '\0' && (text[0] != '0' || length == 1);
}

/* The jeprof_state_t of a word of jeprof_state_word(); a larger number for any other word. */
static uint32_t
state_of(const char *word) {
	uint32_t state = 0;
	while (state <= jeprof_state_switched_on && strcmp(word, jeprof_state_word(state)) != 0) {
		state++;
	}
	return state;
}

bool
is_session(const char *word) {
	return jeprof_is_session(state_of(word));
}

const char *
state_text(const char *word, uint64_t session, char buf[64]) {
	uint32_t state = state_of(word);
	if (state == jeprof_state_sampling) {
		return "sampling (MALLOC_CONF)";
	}
	if (state == jeprof_state_switched_on) {
		return "sampling (switched on by the program)";
	}
	if (!jeprof_is_session(state)) {
		return word;
	}
	bool is_active = state == jeprof_state_active;
	snprintf(buf, 64, "session %" PRIu64 "%s%s", session, is_active ? "" : ", ", is_active ? ""
	    : word);
	return buf;
}
