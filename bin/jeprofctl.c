/*
 * jeprofctl: starts, stops, dumps and watches the heap profiler of a running process from outside.
 *
 * The way of every run: words -> options -> process -> way in -> request -> answer -> words.
 * The way in is the mailbox of src/prof_mailbox.h, a block in the process's memory that is found by an ELF note read from
 * that memory (no file, no symbol: also in a stripped, static or deleted program, and in other namespaces). It is reached
 * through /proc/PID/mem, else process_vm_readv, else the memfd of prof_ctl_fd:true. Else the control directory is asked.
 * Invariant: the descriptor is opened before the start time of the process is checked, and belongs to that process for good;
 * nothing is written into a block whose magic, protocol version and place (a writable mapping) were not checked.
 * stdout carries results, stderr talk. Needs nothing but libc.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include <ctype.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "prof_mailbox.h"

enum {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_ALREADY = 4, /* --idempotent makes it 0 */
	EXIT_NO_WAY = 5,
	EXIT_REFUSED = 6,
	EXIT_NO_ANSWER = 7,
};

enum {
	TEXT_BYTES = 2 * PATH_MAX,
	CANDIDATES = 16,      /* blocks looked at in one process */
	PHDRS_MAX = 128,
	NOTES_MAX = 65536,
	TAKEN_WAIT_MS = 60000, /* a request that was taken may write a large profile */
	ABANDONED_MS = 300,
	TICK_MIN_MS = 10,
	TORN_MAX = 8,
};

static char *unfinished; /* a file that is not complete: removed when we leave */
static volatile sig_atomic_t interrupted;
static int patience = 1; /* this many signals end a wait for an answer */

/* ---- talk ---- */

static void
vtalk(const char *format, va_list args) {
	char text[TEXT_BYTES];
	vsnprintf(text, sizeof(text), format, args);
	for (char *c = text; *c != '\0'; c++) {
		if ((unsigned char)*c < ' ' || *c == 127) {
			*c = '?'; /* names and answers come from another process: nothing for the terminal in them */
		}
	}
	fprintf(stderr, "jeprofctl: %s\n", text);
}

__attribute__((format(printf, 1, 2))) static void
talk(const char *format, ...) {
	va_list args;
	va_start(args, format);
	vtalk(format, args);
	va_end(args);
}

__attribute__((format(printf, 2, 3), noreturn)) static void
leave(int code, const char *format, ...) {
	va_list args;
	va_start(args, format);
	vtalk(format, args);
	va_end(args);
	exit(code);
}

static void
remove_unfinished(void) {
	if (unfinished != NULL) {
		unlink(unfinished);
	}
}

static void
on_signal(int number) {
	(void)number;
	interrupted = interrupted + 1;
}

/* Puts the text into buf; too long a text is an error of the caller's words, not a shorter text. */
__attribute__((format(printf, 3, 4))) static void
print_to(char *buf, size_t size, const char *format, ...) {
	va_list args;
	va_start(args, format);
	int n = vsnprintf(buf, size, format, args);
	va_end(args);
	if (n < 0 || (size_t)n >= size) {
		leave(EXIT_USAGE, "too long: %.80s...", buf);
	}
}

/* A result that comes from outside, without what would steer a terminal. */
static void
put_plain(const char *text) {
	for (; *text != '\0'; text++) {
		putchar((unsigned char)*text < ' ' || *text == 127 ? '?' : *text);
	}
}

static void
put_json_string(const char *text) {
	putchar('"');
	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;
		if (c == '"' || c == '\\') {
			printf("\\%c", c);
		} else if (c < ' ' || c == 127) {
			printf("\\u%04x", c);
		} else {
			putchar(c);
		}
	}
	putchar('"');
}

/* ---- values ---- */

typedef struct unit_s {
	const char *suffix;
	double factor;
} unit_t;

static const unit_t size_units[] = {{"", 1}, {"B", 1}, {"K", 1024.0}, {"M", 1048576.0}, {"G", 1073741824.0},
    {"T", 1099511627776.0}, {NULL, 0}};
static const unit_t ms_units[] = {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}, {NULL, 0}};

/* "1.5G", "30s": a decimal number and a unit; false if it is none or does not fit. */
static bool
is_value(const char *text, const unit_t *units, uint64_t *value) {
	char number[32];
	size_t digits = strspn(text, "0123456789");
	size_t length = digits;
	if (text[length] == '.') {
		length += 1 + strspn(text + length + 1, "0123456789");
	}
	if (digits == 0 || text[length - 1] == '.' || length >= sizeof(number)) {
		return false;
	}
	memcpy(number, text, length);
	number[length] = '\0';
	char suffix[8];
	snprintf(suffix, sizeof(suffix), "%s", text + length);
	size_t end = strlen(suffix);
	if (units == size_units && end == 3 && strcmp(suffix + 1, "iB") == 0) {
		suffix[1] = '\0';
	}
	for (const unit_t *u = units; u->suffix != NULL; u++) {
		if (strcasecmp(suffix, u->suffix) != 0) {
			continue;
		}
		errno = 0;
		if (u->factor == 1) {
			*value = strtoull(number, NULL, 10);
			return errno == 0 && length == digits;
		}
		double product = strtod(number, NULL) * u->factor;
		*value = product < 18446744073709549568.0 ? (uint64_t)(product + 0.5) : 0;
		return product < 18446744073709549568.0;
	}
	return false;
}

static const char *
size_text(uint64_t bytes, char buf[24]) {
	static const char letters[] = " KMGTPE";
	double value = (double)bytes;
	int i = 0;
	for (; value >= 1024 && i < 6; i++) {
		value /= 1024;
	}
	snprintf(buf, 24, i == 0 ? "%.0f" : "%.4g%c", value, letters[i]);
	return buf;
}

/* 09:15:31Z, with the day before it unless it is today. */
static const char *
time_text(uint64_t ns, char buf[40]) {
	time_t at = (time_t)(ns / 1000000000), now = time(NULL);
	struct tm t, today;
	gmtime_r(&at, &t);
	gmtime_r(&now, &today);
	bool is_today = t.tm_year == today.tm_year && t.tm_yday == today.tm_yday;
	strftime(buf, 40, is_today ? "%H:%M:%SZ" : "%Y-%m-%d %H:%M:%SZ", &t);
	return buf;
}

static int64_t
now_ms(void) {
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000) + ts.tv_nsec / 1000000;
}

static void
sleep_ms(int64_t ms) {
	struct timespec ts = {ms / 1000, ms % 1000 * 1000000};
	nanosleep(&ts, NULL); /* ends early at a signal, which is wanted */
}

static uint64_t
random_word(void) {
	uint64_t word = 0;
	if (getrandom(&word, sizeof(word), 0) != (ssize_t)sizeof(word)) {
		struct timespec ts;
		clock_gettime(CLOCK_REALTIME, &ts);
		word = (uint64_t)ts.tv_nsec * UINT64_C(0x9e3779b97f4a7c15) ^ ((uint64_t)ts.tv_sec << 20) ^ (uint64_t)getpid();
	}
	return word != 0 ? word : 1;
}

/* ---- words of the command line ---- */

enum { START = 1, STOP = 2, DUMP = 4, STATUS = 8, SET = 16, WATCH = 32, LIST = 64, REARM = 128 };
enum { ONE = 255 - LIST, ANY = 255 };

typedef enum { kind_flag, kind_size, kind_ms, kind_seconds, kind_number, kind_text } kind_t;

enum { o_pid, o_json, o_idempotent, o_wait, o_dir, o_session, o_duration, o_output, o_tick, o_count, o_quiet, o_max, o_prefix, o_free };

typedef struct option_s {
	const char *name;   /* --name */
	char letter;
	kind_t kind;
	int verbs;
	const char *key;    /* of the request, or NULL */
	int place;          /* in the array of values */
} option_t;

/* Those with a key go into the request in the order given. */
static const option_t options[] = {
    {"pid", 'p', kind_number, ONE, NULL, o_pid},
    {"json", 0, kind_flag, ANY, NULL, o_json},
    {"idempotent", 0, kind_flag, ANY, NULL, o_idempotent},
    {"quiet", 'q', kind_flag, ANY, NULL, o_quiet},
    {"wait", 0, kind_ms, ANY, NULL, o_wait},
    {"ctl-dir", 0, kind_text, ONE, NULL, o_dir},
    {"session", 0, kind_number, STOP, NULL, o_session},
    {"duration", 'd', kind_ms, START, NULL, o_duration},
    {"output", 'o', kind_text, DUMP, NULL, o_output},
    {"interval", 'n', kind_ms, WATCH, NULL, o_tick},
    {"count", 'c', kind_number, WATCH, NULL, o_count},
    {"prefix", 0, kind_text, START, "prefix", o_prefix},
    {"reset", 0, kind_text, START, "reset", o_free},
    {"max", 0, kind_seconds, START, "max_seconds", o_max},
    {"rate", 0, kind_size, START | SET, "sample_interval", o_free},
    {"alloc", 0, kind_size, START | SET, "alloc", o_free},
    {"large", 0, kind_size, START | SET, "large", o_free},
    {"highwater", 0, kind_size, START | SET, "highwater", o_free},
    {"step", 0, kind_size, START | SET, "highwater_step", o_free},
    {"metric", 0, kind_text, START | SET, "highwater_metric", o_free},
    {"every", 0, kind_ms, START | SET, "time_ms", o_free},
};

typedef struct value_s {
	bool is_given;
	uint64_t number;
	const char *text;
} value_t;

typedef struct pair_s {
	const char *key;
	char value[PATH_MAX];
} pair_t;

typedef struct words_s {
	int verb;
	const char *who;     /* pid or name of a program */
	const char *file;    /* of dump */
	value_t values[o_free + 1];
	pair_t pairs[32];
	int npairs;
	const char *raw[32]; /* key:value words, given on as they are */
	int nraw;
} words_t;

static words_t words;

static bool
is_on(int place) {
	return words.values[place].is_given;
}

static const char usage_text[] =
    "Usage: jeprofctl VERB [PID|PROGRAM] [OPTIONS]\n"
    "Asks the heap profiler inside a running process for something.\n"
    "  list                   processes that run the library, and whether they are profiling\n"
    "  status PID             state, rate, thresholds, heap figures, dumps, last error\n"
    "  start PID              starts a session: --rate 512K --prefix P --reset true|false --max 10m -d 60s\n"
    "                         and thresholds: --highwater 1G --step 128M --metric rss --alloc 4G --large 64M --every 5m\n"
    "  stop PID               ends it and prints the path of its profile: --session N\n"
    "  dump PID [FILE]        prints the path of the profile; -o FILE|-: the profile comes through the mailbox to here\n"
    "  set PID                --rate and the thresholds of start, or key:value words, while it runs\n"
    "  rearm PID              the high-water mark begins anew\n"
    "  watch PID              a line each tick: -n 5s, -c COUNT\n"
    "Options: -p PID  --json  --idempotent (already so: exit 0)  --wait 5s  --ctl-dir DIR  -q (no hints)  --version\n"
    "Sizes 64M 1.5G, times 500ms 30s 5m 2h.\n"
    "Exit: 0 done, 1 failed, 2 usage or bad options, 4 already in that state, 5 no such process or no way in,\n"
    "      6 refused, 7 no answer or busy\n";

static const struct {
	const char *name;
	int verb;
} verbs[] = {{"start", START}, {"stop", STOP}, {"dump", DUMP}, {"status", STATUS}, {"set", SET}, {"watch", WATCH},
    {"list", LIST}, {"rearm", REARM}};

static void
take_option(const option_t *o, const char *text) {
	value_t *v = &words.values[o->place];
	bool is_good = true;
	v->is_given = true;
	v->text = text;
	if (o->kind == kind_size) {
		is_good = is_value(text, size_units, &v->number);
	} else if (o->kind == kind_ms || o->kind == kind_seconds) {
		is_good = is_value(text, ms_units, &v->number);
		v->number = o->kind == kind_seconds ? (v->number + 999) / 1000 : v->number;
		is_good = is_good && v->number <= INT64_MAX / 2;
	} else if (o->kind == kind_number) {
		is_good = isdigit((unsigned char)text[0]) && is_value(text, (const unit_t[]){{"", 1}, {NULL, 0}}, &v->number);
	} else if (o->kind == kind_text) {
		is_good = text[0] != '\0' && strchr(text, '\n') == NULL && (o->key == NULL || strchr(text, ',') == NULL);
	}
	if (!is_good) {
		leave(EXIT_USAGE, "--%s: \"%s\" is no %s", o->name, text, o->kind == kind_size ? "size (64M, 1.5G)"
		    : o->kind == kind_ms || o->kind == kind_seconds ? "time (30s, 5m)" : o->kind == kind_number ? "number"
		    : "text that can be used here");
	}
	if (o->key == NULL) {
		return;
	}
	if (words.npairs == (int)(sizeof(words.pairs) / sizeof(words.pairs[0]))) {
		leave(EXIT_USAGE, "too many options");
	}
	pair_t *pair = &words.pairs[words.npairs++];
	pair->key = o->key;
	if (o->kind == kind_text) {
		print_to(pair->value, sizeof(pair->value), "%s", text);
	} else {
		print_to(pair->value, sizeof(pair->value), "%" PRIu64, v->number);
	}
}

/* The option that the word names; *text is set to the value that the word carries itself, or NULL. */
static const option_t *
find_option(const char *word, const char **text) {
	size_t length = strcspn(word + 2, "=");
	*text = NULL;
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		const option_t *o = &options[i];
		if (word[1] != '-' && o->letter != 0 && word[1] == o->letter) {
			*text = word[2] != '\0' ? word + 2 : NULL;
			return o;
		}
		if (word[1] == '-' && strlen(o->name) == length && strncmp(word + 2, o->name, length) == 0) {
			*text = word[2 + length] == '=' ? word + 3 + length : NULL;
			return o;
		}
	}
	leave(EXIT_USAGE, "no such option: %s; try jeprofctl --help", word);
}

__attribute__((noreturn)) static void
put_usage(void) {
	fputs(usage_text, stdout);
	exit(fflush(stdout) == 0 ? EXIT_DONE : EXIT_FAILED);
}

static void
take_positional(char *word) {
	if (words.verb == 0 && strcmp(word, "help") == 0) {
		put_usage();
	}
	if (words.verb == 0) {
		for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
			words.verb = strcmp(word, verbs[i].name) == 0 ? verbs[i].verb : words.verb;
		}
		if (words.verb == 0) {
			leave(EXIT_USAGE, "no such verb: %s; try jeprofctl --help", word);
		}
	} else if (words.who == NULL && !is_on(o_pid) && words.verb != LIST) {
		words.who = word;
	} else if (words.verb == DUMP && words.file == NULL) {
		if (word[0] == '\0' || strchr(word, '\n') != NULL) {
			leave(EXIT_USAGE, "dump: the name of the file is %s", word[0] == '\0' ? "empty" : "of several lines");
		}
		words.file = word;
	} else if ((words.verb & (SET | START)) && strspn(word, "abcdefghijklmnopqrstuvwxyz_") > 0 && strpbrk(word, ",\n ") == NULL
	    && word[strspn(word, "abcdefghijklmnopqrstuvwxyz_")] == ':' && words.nraw < 32) {
		words.raw[words.nraw++] = word;
	} else {
		leave(EXIT_USAGE, "too many words: %s", word);
	}
}

static void
check_words(void) {
	if (words.verb == 0) {
		fputs(usage_text, stderr);
		exit(EXIT_USAGE);
	}
	if (words.verb != LIST && words.who == NULL && !is_on(o_pid)) {
		leave(EXIT_USAGE, "which process? Give a pid or a program's name; jeprofctl list shows them");
	}
	if (is_on(o_output) && words.file != NULL) {
		leave(EXIT_USAGE, "a FILE that the process writes and -o exclude each other");
	}
	if (is_on(o_output) && is_on(o_dir)) {
		leave(EXIT_USAGE, "a profile cannot be streamed through a control directory");
	}
	if (is_on(o_tick) && words.values[o_tick].number < TICK_MIN_MS) {
		leave(EXIT_USAGE, "--interval: \"%s\" is too short; %dms is the shortest", words.values[o_tick].text, TICK_MIN_MS);
	}
	if (words.verb == SET && words.npairs + words.nraw == 0) {
		leave(EXIT_USAGE, "set what? For example --rate 256K");
	}
	if (!is_on(o_wait)) {
		words.values[o_wait].number = 5000;
	}
}

static void
read_words(int argc, char **argv) {
	const option_t *used[256];
	int nused = 0;
	bool are_options = true;
	for (int i = 1; i < argc; i++) {
		const char *text;
		if (!are_options || argv[i][0] != '-' || argv[i][1] == '\0') {
			take_positional(argv[i]);
			continue;
		}
		if (strcmp(argv[i], "--") == 0) {
			are_options = false;
			continue;
		}
		if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0) {
			put_usage();
		}
		if (strcmp(argv[i], "--version") == 0) {
			printf("jeprofctl, mailbox protocol %u\n", PROF_MAILBOX_VERSION);
			exit(fflush(stdout) == 0 ? EXIT_DONE : EXIT_FAILED);
		}
		const option_t *o = find_option(argv[i], &text);
		if (o->kind == kind_flag ? text != NULL : text == NULL && i + 1 == argc) {
			leave(EXIT_USAGE, "--%s takes %s", o->name, o->kind == kind_flag ? "no value" : "a value");
		}
		take_option(o, o->kind == kind_flag ? "" : text != NULL ? text : argv[++i]);
		used[nused < 255 ? nused++ : 255] = o;
	}
	check_words();
	for (int i = 0; i < nused; i++) {
		if (!(used[i]->verbs & words.verb)) {
			leave(EXIT_USAGE, "--%s does not go with this verb; try jeprofctl --help", used[i]->name);
		}
	}
}

/* ---- the process, as /proc tells ---- */

typedef enum { way_mem, way_vm, way_fd, way_dir } way_t;

typedef struct process_s {
	int pid;             /* here */
	unsigned own_pid;    /* as the process sees itself */
	uint64_t start;      /* with the pid it is the process's identity */
	char state;          /* of /proc/PID/stat */
	unsigned uids[3];    /* real, effective, saved */
	uint64_t caps;       /* permitted */
	char name[64];
	way_t way;
	int fd;
	uint64_t block;      /* address (or offset in the memfd) of the mailbox */
	char dir[PATH_MAX];  /* the control directory */
	prof_mailbox_t head; /* the part before the slots, as last read */
} process_t;

/* Reads /proc/PID/NAME, ends it with NUL; -1 and errno. */
static ssize_t
read_proc(int pid, const char *name, char *buf, size_t size) {
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return -1;
	}
	size_t length = 0;
	ssize_t n = 0;
	while (length < size - 1 && (n = read(fd, buf + length, size - 1 - length)) > 0) {
		length += (size_t)n;
	}
	int error = errno;
	close(fd);
	errno = error;
	buf[length] = '\0';
	return n < 0 && length == 0 ? -1 : (ssize_t)length;
}

/* State and start time; false if the process is gone. */
static bool
read_stat(int pid, char *state, uint64_t *start) {
	char text[1024];
	if (read_proc(pid, "stat", text, sizeof(text)) <= 0) {
		return false;
	}
	char *at = strrchr(text, ')'); /* the name before it may hold anything */
	if (at == NULL || at[1] == '\0') {
		return false;
	}
	*state = at[2];
	at += 2;
	for (int field = 3; field < 22 && at != NULL; field++) {
		at = strchr(at + 1, ' ');
	}
	*start = at != NULL ? strtoull(at + 1, NULL, 10) : 0;
	return at != NULL;
}

static const char *
status_line(const char *text, const char *key) {
	const char *at = strstr(text, key);
	return at != NULL ? at + strlen(key) : "";
}

/* Fills in who the process is; false if there is none (a zombie is none: state says so). */
static bool
read_process(process_t *p, int pid) {
	static char text[65536];
	memset(p, 0, sizeof(*p));
	p->pid = pid;
	p->fd = -1;
	if (!read_stat(pid, &p->state, &p->start) || read_proc(pid, "status", text, sizeof(text)) <= 0) {
		return false;
	}
	int tgid = atoi(status_line(text, "\nTgid:"));
	if (tgid > 0 && tgid != pid) {
		return read_process(p, tgid); /* a thread was named */
	}
	sscanf(status_line(text, "\nUid:"), "%u %u %u", &p->uids[0], &p->uids[1], &p->uids[2]);
	p->caps = strtoull(status_line(text, "\nCapPrm:"), NULL, 16);
	p->own_pid = (unsigned)pid;
	char *end;
	const char *at = status_line(text, "\nNSpid:");
	for (unsigned long n = strtoul(at, &end, 10); end != at; n = strtoul(at, &end, 10)) {
		p->own_pid = (unsigned)n;
		at = end;
	}
	if (read_proc(pid, "comm", p->name, sizeof(p->name)) > 0) {
		p->name[strcspn(p->name, "\n")] = '\0';
	}
	return p->state != 'Z' && p->state != 'X';
}

/* The process must still be the one that was looked at first. */
static void
check_same(process_t *p) {
	char state;
	uint64_t start;
	if (!read_stat(p->pid, &state, &start) || state == 'Z' || state == 'X') {
		leave(EXIT_NO_WAY, "%d %s has ended", p->pid, p->name);
	}
	if (start != p->start) {
		leave(EXIT_NO_WAY, "%d %s has ended, and its pid belongs to another process now", p->pid, p->name);
	}
	p->state = state;
}

static bool
is_named(const process_t *p, const char *name) {
	char text[PATH_MAX + 1], link[64];
	if (strcmp(p->name, name) == 0) {
		return true;
	}
	snprintf(link, sizeof(link), "/proc/%d/exe", p->pid);
	ssize_t n = readlink(link, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	char *deleted = strstr(text, " (deleted)");
	if (deleted != NULL) {
		*deleted = '\0';
	}
	const char *base = strrchr(text, '/');
	if (base != NULL && strcmp(base + 1, name) == 0) {
		return true;
	}
	if (read_proc(p->pid, "cmdline", text, sizeof(text)) <= 0) {
		return false;
	}
	base = strrchr(text, '/');
	return strcmp(base != NULL ? base + 1 : text, name) == 0;
}

/* Calls f for each process, this one excepted. */
static void
each_process(void (*f)(process_t *p, void *arg), void *arg) {
	DIR *dir = opendir("/proc");
	if (dir == NULL) {
		leave(EXIT_NO_WAY, "/proc: %s", strerror(errno));
	}
	for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
		static process_t p;
		int pid = isdigit((unsigned char)e->d_name[0]) ? atoi(e->d_name) : 0;
		if (pid > 0 && pid != getpid() && read_process(&p, pid)) {
			f(&p, arg);
		}
	}
	closedir(dir);
}

/* ---- the process's memory ---- */

static bool
read_memory(const process_t *p, uint64_t at, void *buf, size_t size) {
	if (p->way == way_vm) {
		struct iovec here = {buf, size}, there = {(void *)(uintptr_t)at, size};
		return process_vm_readv(p->pid, &here, 1, &there, 1, 0) == (ssize_t)size;
	}
	return pread(p->fd, buf, size, (off_t)at) == (ssize_t)size;
}

static bool
write_memory(const process_t *p, uint64_t at, const void *buf, size_t size) {
	if (p->way == way_vm) {
		struct iovec here = {(void *)(uintptr_t)buf, size}, there = {(void *)(uintptr_t)at, size};
		return process_vm_writev(p->pid, &here, 1, &there, 1, 0) == (ssize_t)size;
	}
	return pwrite(p->fd, buf, size, (off_t)at) == (ssize_t)size;
}

typedef struct range_s {
	uint64_t start;
	uint64_t end;
	bool is_writable;
	bool may_be_object;
} range_t;

typedef struct finding_s {
	range_t *ranges;
	size_t count;
	uint64_t block;        /* 0: none that is open */
	uint64_t heartbeats;
	uint32_t other_version;
	bool is_without;       /* a library that was built without the profiler */
	int closed;
	int looked_at;
} finding_t;

/* False if the maps may not be read. */
static bool
read_maps(const process_t *p, finding_t *f) {
	char path[64], *line = NULL;
	size_t size = 0, room = 0;
	snprintf(path, sizeof(path), "/proc/%d/maps", p->pid);
	FILE *maps = fopen(path, "re");
	if (maps == NULL) {
		return false;
	}
	while (getline(&line, &size, maps) > 0) {
		uint64_t start, end, offset;
		char perms[8];
		int named = 0;
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s %n", &start, &end, perms, &offset, &named) < 4) {
			continue;
		}
		if (f->count == room) {
			room = room * 2 + 64;
			f->ranges = realloc(f->ranges, room * sizeof(range_t));
			if (f->ranges == NULL) {
				leave(EXIT_FAILED, "%s", strerror(ENOMEM));
			}
		}
		bool has_file = named > 0 && line[named] == '/';
		bool may_be = perms[0] == 'r' && offset == 0 && (has_file || perms[1] != 'w');
		f->ranges[f->count++] = (range_t){start, end, perms[0] == 'r' && perms[1] == 'w', may_be};
	}
	bool is_read = !ferror(maps);
	free(line);
	fclose(maps);
	return is_read;
}

static void
look_at_block(const process_t *p, finding_t *f, const prof_note_t *note, uint64_t block) {
	prof_mailbox_t m;
	if (note->version != PROF_MAILBOX_VERSION) {
		f->other_version = note->version;
		return;
	}
	if (note->bytes == 0) {
		f->is_without = true;
		return;
	}
	bool is_inside = false;
	for (size_t i = 0; i < f->count && !is_inside; i++) {
		const range_t *r = &f->ranges[i];
		is_inside = r->is_writable && block >= r->start && block < r->end;
	}
	if (!is_inside || block % 8 != 0 || note->bytes < sizeof(m) || ++f->looked_at > CANDIDATES) {
		return; /* the object lies there as a file that somebody reads */
	}
	if (!read_memory(p, block, &m, sizeof(m)) || m.magic != PROF_MAILBOX_MAGIC) {
		f->closed++;
		return;
	}
	if (m.version != PROF_MAILBOX_VERSION || m.bytes < sizeof(m)) {
		f->other_version = m.version;
		return;
	}
	if (f->block == 0 || m.heartbeats > f->heartbeats) { /* two copies of the library: the one that is used */
		f->block = block;
		f->heartbeats = m.heartbeats;
	}
}

static void
look_at_notes(const process_t *p, finding_t *f, uint64_t address, uint64_t bytes, uint64_t align) {
	static char text[NOTES_MAX];
	if (bytes > sizeof(text) || !read_memory(p, address, text, bytes)) {
		return;
	}
	uint64_t mask = align == 8 ? 7 : 3;
	for (uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= bytes;) {
		Elf64_Nhdr h; /* the same in both classes */
		memcpy(&h, text + at, sizeof(h));
		uint64_t name = at + sizeof(h), body = (name + h.n_namesz + mask) & ~mask;
		at = (body + h.n_descsz + mask) & ~mask;
		if (body + h.n_descsz > bytes) {
			return;
		}
		if (h.n_type == PROF_NOTE_TYPE && h.n_namesz == sizeof(PROF_NOTE_OWNER) && h.n_descsz >= sizeof(prof_note_t)
		    && memcmp(text + name, PROF_NOTE_OWNER, sizeof(PROF_NOTE_OWNER)) == 0) {
			prof_note_t note;
			memcpy(&note, text + body, sizeof(note));
			uint64_t field = address + body + offsetof(prof_note_t, distance);
			look_at_block(p, f, &note, field + (uint64_t)note.distance);
		}
	}
}

/* Segment i of the table at `table`, in the 64-bit form. */
static bool
read_segment(const process_t *p, bool is_64, uint64_t table, Elf64_Phdr *h) {
	if (is_64) {
		return read_memory(p, table, h, sizeof(*h));
	}
	Elf32_Phdr small;
	if (!read_memory(p, table, &small, sizeof(small))) {
		return false;
	}
	*h = (Elf64_Phdr){.p_type = small.p_type, .p_offset = small.p_offset, .p_vaddr = small.p_vaddr,
	    .p_filesz = small.p_filesz, .p_align = small.p_align};
	return true;
}

/* An ELF object whose first byte is at `start`. */
static void
look_at_object(const process_t *p, finding_t *f, uint64_t start) {
	static const uint16_t order = 1;
	union {
		unsigned char ident[EI_NIDENT];
		Elf64_Ehdr large;
		Elf32_Ehdr small;
	} e;
	if (!read_memory(p, start, &e, sizeof(e)) || memcmp(e.ident, ELFMAG, SELFMAG) != 0
	    || e.ident[EI_DATA] != (*(const char *)&order == 1 ? ELFDATA2LSB : ELFDATA2MSB)) {
		return;
	}
	bool is_64 = e.ident[EI_CLASS] == ELFCLASS64, has_bias = false;
	uint64_t table = start + (is_64 ? e.large.e_phoff : e.small.e_phoff), bias = 0;
	unsigned size = is_64 ? e.large.e_phentsize : e.small.e_phentsize;
	unsigned count = is_64 ? e.large.e_phnum : e.small.e_phnum;
	if (size < (is_64 ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr)) || count > PHDRS_MAX) {
		return;
	}
	Elf64_Phdr h;
	for (unsigned i = 0; i < count && read_segment(p, is_64, table + i * size, &h) && !has_bias; i++) {
		has_bias = h.p_type == PT_LOAD;
		bias = start + h.p_offset - h.p_vaddr;
	}
	for (unsigned i = 0; i < count && has_bias && read_segment(p, is_64, table + i * size, &h); i++) {
		if (h.p_type == PT_NOTE) {
			look_at_notes(p, f, bias + h.p_vaddr, h.p_filesz, h.p_align);
		}
	}
}

/* Finds the mailbox in the memory; false if the maps may not be read. */
static bool
find_block(process_t *p, finding_t *f) {
	memset(f, 0, sizeof(*f));
	if (!read_maps(p, f)) {
		return false;
	}
	for (size_t i = 0; i < f->count; i++) {
		if (f->ranges[i].may_be_object) {
			look_at_object(p, f, f->ranges[i].start);
		}
	}
	free(f->ranges);
	f->ranges = NULL;
	p->block = f->block;
	return true;
}

static bool
read_head(process_t *p) {
	return p->way != way_dir && read_memory(p, p->block, &p->head, offsetof(prof_mailbox_t, slots))
	    && p->head.magic == PROF_MAILBOX_MAGIC && p->head.version == PROF_MAILBOX_VERSION;
}

/* ---- ways in ---- */

/* 0, or the errno of the kernel's refusal. */
static int
open_memory(process_t *p, bool is_reader) {
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/mem", p->pid);
	p->way = way_mem;
	p->fd = open(path, (is_reader ? O_RDONLY : O_RDWR) | O_CLOEXEC);
	if (p->fd < 0 && errno == EROFS) {
		char byte;
		p->way = way_vm; /* a /proc mounted read-only */
		return !read_memory(p, 0, &byte, 1) && errno == EPERM ? EPERM : 0;
	}
	return p->fd < 0 ? errno : 0;
}

/* The memfd that prof_ctl_fd:true keeps open: the right to read the process suffices. */
static bool
open_memfd(process_t *p) {
	char path[320], link[128];
	snprintf(path, sizeof(path), "/proc/%d/fd", p->pid);
	DIR *dir = opendir(path);
	if (dir == NULL) {
		return false;
	}
	p->fd = -1;
	p->way = way_fd;
	p->block = 0;
	static const char want[] = "/memfd:" PROF_MAILBOX_FD_NAME;
	for (struct dirent *e = readdir(dir); e != NULL && p->fd < 0; e = readdir(dir)) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%s", p->pid, e->d_name);
		ssize_t n = readlink(path, link, sizeof(link) - 1);
		link[n > 0 ? n : 0] = '\0';
		if (strncmp(link, want, sizeof(want) - 1) != 0 || (link[sizeof(want) - 1] != ' ' && link[sizeof(want) - 1] != '\0')) {
			continue;
		}
		p->fd = open(path, O_RDWR | O_CLOEXEC);
		if (p->fd >= 0 && (!read_head(p) || p->head.pid != p->own_pid)) {
			close(p->fd); /* of a parent, kept over fork */
			p->fd = -1;
		}
	}
	closedir(dir);
	return p->fd >= 0;
}

/* The control directory that the process's own MALLOC_CONF names. */
static bool
find_dir(process_t *p) {
	static char text[262144];
	static const char key[] = "prof_ctl_dir:";
	ssize_t length = read_proc(p->pid, "environ", text, sizeof(text));
	for (char *at = text; length > 0 && at < text + length; at += strlen(at) + 1) {
		char *value = strncmp(at, "MALLOC_CONF=", 12) == 0 ? strstr(at, key) : NULL;
		if (value == NULL || (value[-1] != '=' && value[-1] != ',')) {
			continue;
		}
		value += sizeof(key) - 1;
		int end = (int)strcspn(value, ",");
		const char *from = value[0] == '/' ? "root" : "cwd/";
		struct stat st;
		int n = snprintf(p->dir, sizeof(p->dir), "/proc/%d/%s%.*s", p->pid, from, end, value);
		if (n > 0 && n < (int)sizeof(p->dir) && stat(p->dir, &st) == 0) {
			return true;
		}
		n = snprintf(p->dir, sizeof(p->dir), "%.*s", end, value);
		return value[0] == '/' && n < (int)sizeof(p->dir) && stat(p->dir, &st) == 0;
	}
	return false;
}

/* What decides a refusal. */
typedef struct denial_s {
	unsigned our_uid;
	unsigned uid;
	bool is_other_user;
	bool is_dumpable;
	bool may_trace;     /* we hold CAP_SYS_PTRACE */
	bool has_more_caps; /* it holds capabilities that we do not */
	int yama;           /* ptrace_scope, 0 if there is no Yama */
} denial_t;

/* The reason and the remedy; NULL if there is none that we know. */
static const char *
denial_reason(const denial_t *d, char *buf, size_t size) {
	if (d->yama >= 3) {
		return "Yama's ptrace_scope is 3: nobody may attach until the next boot; start it with MALLOC_CONF=prof_ctl_fd:true "
		    "or prof_ctl_dir:DIR";
	}
	if (d->our_uid == 0 && !d->may_trace) {
		return "root without CAP_SYS_PTRACE, as in a container: add it (docker run --cap-add SYS_PTRACE), or start it with "
		    "MALLOC_CONF=prof_ctl_dir:DIR";
	}
	if (d->may_trace) {
		return "we may attach, but a security module or a user namespace forbids it: ask from the machine itself, or start it "
		    "with MALLOC_CONF=prof_ctl_dir:DIR";
	}
	if (d->is_other_user) {
		snprintf(buf, size, "it belongs to uid %u, we are uid %u: use sudo, or start it with MALLOC_CONF=prof_ctl_dir:DIR", d->uid,
		    d->our_uid);
		return buf;
	}
	if (!d->is_dumpable || d->has_more_caps) {
		return "it is not dumpable (set-user-id or with capabilities, or it called prctl(PR_SET_DUMPABLE, 0)): use sudo, or start "
		    "it with MALLOC_CONF=prof_ctl_dir:DIR";
	}
	if (d->yama > 0) {
		snprintf(buf, size, "Yama's ptrace_scope is %d: use sudo, or start it with MALLOC_CONF=prof_ctl_fd:true, or once: "
		    "sysctl kernel.yama.ptrace_scope=0", d->yama);
		return buf;
	}
	return NULL;
}

__attribute__((noreturn)) static void
leave_denied(const process_t *p, int error) {
	enum { ptrace_bit = 19 };
	char text[4096], buf[512], path[64];
	denial_t d = {.our_uid = geteuid(), .uid = p->uids[1], .is_dumpable = true};
	for (int i = 0; i < 3; i++) {
		d.is_other_user = d.is_other_user || p->uids[i] != d.our_uid;
	}
	struct stat st;
	snprintf(path, sizeof(path), "/proc/%d/maps", p->pid); /* the directory itself always belongs to the user */
	if (stat(path, &st) == 0) {
		d.is_dumpable = st.st_uid == p->uids[1];
	}
	uint64_t caps = read_proc(getpid(), "status", text, sizeof(text)) > 0
	    ? strtoull(status_line(text, "\nCapEff:"), NULL, 16) : 0;
	d.may_trace = (caps >> ptrace_bit) & 1;
	d.has_more_caps = (p->caps & ~caps) != 0;
	FILE *yama = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
	if (yama != NULL) {
		d.yama = fgets(text, sizeof(text), yama) != NULL ? atoi(text) : 0;
		fclose(yama);
	}
	const char *reason = denial_reason(&d, buf, sizeof(buf));
	leave(EXIT_NO_WAY, "%d %s: no way in (%s): %s", p->pid, p->name, strerror(error),
	    reason != NULL ? reason : "the kernel does not say why; use sudo, or start it with MALLOC_CONF=prof_ctl_dir:DIR");
}

/* 0, or why its memory may not be looked at. */
static int
look_inside(process_t *p, finding_t *f) {
	int error = open_memory(p, false);
	check_same(p); /* after the open: from here on the descriptor holds on to this process */
	if (error == 0) {
		errno = 0;
		bool is_readable = find_block(p, f);
		error = is_readable ? 0 : errno != 0 ? errno : EACCES;
	}
	return error;
}

/*
 * Begun no longer ago than we would wait for an answer: it may not have come to its exec or to its first allocation, as in
 * "prog & jeprofctl start $!".
 */
static bool
is_young(const process_t *p) {
	struct timespec now;
	long ticks = sysconf(_SC_CLK_TCK);
	if (clock_gettime(CLOCK_BOOTTIME, &now) != 0 || ticks <= 0) {
		return false;
	}
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000 < p->start * 1000 / (uint64_t)ticks + words.values[o_wait].number;
}

/* Gets in, or leaves with the reason. */
static void
open_process(process_t *p) {
	finding_t f;
	if (is_on(o_dir)) {
		p->way = way_dir;
		print_to(p->dir, sizeof(p->dir), "%s", words.values[o_dir].text);
		return;
	}
	int error = look_inside(p, &f);
	while (error == 0 && p->block == 0 && f.other_version == 0 && (!f.is_without || f.closed > 0) && is_young(p) && !interrupted) {
		if (p->fd >= 0) {
			close(p->fd);
		}
		sleep_ms(20);
		if (!read_process(p, p->pid)) { /* by its name of now */
			leave(EXIT_NO_WAY, "%d has ended", p->pid);
		}
		error = look_inside(p, &f);
	}
	if (error != 0) {
		if (open_memfd(p)) {
			return;
		}
		if (find_dir(p)) {
			p->way = way_dir;
			return;
		}
		leave_denied(p, error);
	}
	if (p->block == 0 && f.other_version != 0) {
		leave(EXIT_NO_WAY, "%d %s: its library speaks mailbox protocol %u, this jeprofctl %u; use the jeprofctl of that library",
		    p->pid, p->name, f.other_version, PROF_MAILBOX_VERSION);
	}
	if (p->block == 0 && f.is_without && f.closed == 0) {
		leave(EXIT_NO_WAY, "%d %s: its library was built without the profiler (--disable-prof)", p->pid, p->name);
	}
	if (p->block == 0 && f.closed > 0) {
		leave(EXIT_NO_WAY, "%d %s: its library keeps the mailbox closed: a set-user-id program, or nothing was allocated yet",
		    p->pid, p->name);
	}
	if (p->block == 0 || !read_head(p)) {
		leave(EXIT_NO_WAY, "%d %s does not run the library; jeprofctl list shows who does", p->pid, p->name);
	}
}

/* ---- asking ---- */

typedef struct reply_s {
	int error;
	char text[TEXT_BYTES];
} reply_t;

typedef struct stream_s {
	FILE *to;
	uint64_t bytes;
	bool is_complete;
} stream_t;

typedef enum { asked_done, asked_lost, asked_late } asked_t;

/* The request in the mailbox that is not answered: taken back when we leave, however that happens. */
static struct {
	process_t *process;
	unsigned slot;
	uint64_t sequence;
} pending;

static uint64_t
slot_at(const process_t *p, unsigned i) {
	return p->block + offsetof(prof_mailbox_t, slots) + i * sizeof(prof_slot_t);
}

static void
memory_gone(process_t *p) {
	check_same(p);
	leave(EXIT_NO_WAY, "%d %s: its memory is gone: it runs another program now, or is ending", p->pid, p->name);
}

static void
write_word(process_t *p, uint64_t at, const void *word, size_t size) {
	if (!write_memory(p, at, word, size)) {
		memory_gone(p);
	}
}

/* Takes what the stream holds. Returns whether anything came. */
static bool
pull_stream(process_t *p, stream_t *stream, uint64_t nonce) {
	static prof_stream_t s;
	uint64_t at = p->block + offsetof(prof_mailbox_t, stream);
	if (!read_memory(p, at, &s, offsetof(prof_stream_t, data))) {
		memory_gone(p);
	}
	if (s.nonce != nonce || stream->is_complete) {
		return false;
	}
	uint64_t filled = s.filled - stream->bytes;
	if (filled > PROF_MAILBOX_STREAM) {
		leave(EXIT_FAILED, "%d %s: the stream was disturbed", p->pid, p->name);
	}
	if (filled > 0) {
		if (!read_memory(p, at, &s, sizeof(s))) {
			memory_gone(p);
		}
		uint64_t from = stream->bytes % PROF_MAILBOX_STREAM;
		uint64_t first = from + filled > PROF_MAILBOX_STREAM ? PROF_MAILBOX_STREAM - from : filled;
		if (fwrite(s.data + from, 1, first, stream->to) != first
		    || fwrite(s.data, 1, filled - first, stream->to) != filled - first) {
			leave(EXIT_FAILED, "cannot write the profile: %s", strerror(errno));
		}
		stream->bytes += filled;
		write_word(p, at + offsetof(prof_stream_t, taken), &stream->bytes, sizeof(stream->bytes));
	}
	stream->is_complete = s.is_complete != 0 && s.filled == stream->bytes;
	return filled > 0 || stream->is_complete;
}

/* A free slot, else one whose answer nobody has fetched for a while; -1 if all are in use. */
static int
free_slot(process_t *p) {
	static uint64_t seen[PROF_MAILBOX_SLOTS];
	static int64_t seen_at[PROF_MAILBOX_SLOTS];
	int abandoned = -1;
	unsigned first = (unsigned)(random_word() % PROF_MAILBOX_SLOTS); /* whom we collided with goes elsewhere */
	for (unsigned k = 0; k < PROF_MAILBOX_SLOTS; k++) {
		unsigned i = (first + k) % PROF_MAILBOX_SLOTS;
		prof_slot_t s;
		if (!read_memory(p, slot_at(p, i), &s, sizeof(s))) {
			memory_gone(p);
		}
		if (s.sequence == 0) {
			return (int)i;
		}
		if (s.answered != s.sequence || seen[i] != s.sequence) {
			seen[i] = s.answered == s.sequence ? s.sequence : 0;
			seen_at[i] = now_ms();
		} else if (now_ms() - seen_at[i] >= ABANDONED_MS) {
			abandoned = (int)i;
		}
	}
	return abandoned;
}

static void
put_request(process_t *p, unsigned i, prof_slot_t *s, const char *text) {
	uint64_t at = slot_at(p, i), sequence = s->sequence, none = 0;
	uint32_t ring = 1;
	s->sequence = 0;
	s->length = (uint32_t)strlen(text);
	memcpy(s->text, text, s->length);
	s->checksum = prof_mailbox_sum(sequence, s->nonce, s->text, s->length);
	write_word(p, at + offsetof(prof_slot_t, answer_nonce), &none, sizeof(none)); /* what lies there is no sign for us */
	write_word(p, at, s, offsetof(prof_slot_t, text) + s->length);
	pending.process = p;
	pending.slot = i;
	pending.sequence = sequence;
	write_word(p, at, &sequence, sizeof(sequence));
	write_word(p, p->block + offsetof(prof_mailbox_t, doorbell), &ring, sizeof(ring));
	s->sequence = sequence;
}

/* Frees the slot, unless somebody else has taken it. */
static void
take_back(void) {
	uint64_t sequence, none = 0;
	const process_t *p = pending.process;
	if (p != NULL && read_memory(p, slot_at(p, pending.slot), &sequence, sizeof(sequence)) && sequence == pending.sequence) {
		write_memory(p, slot_at(p, pending.slot), &none, sizeof(none));
	}
	pending.process = NULL;
}

static asked_t
take_answer(process_t *p, unsigned i, uint64_t nonce, reply_t *reply) {
	static prof_slot_t slot, *s = &slot;
	if (!read_memory(p, slot_at(p, i), s, sizeof(*s))) { /* anew: all of it was there before `answered` */
		memory_gone(p);
	}
	if (s->answer_nonce != nonce) {
		pending.process = NULL; /* another one's answer: his slot */
		return asked_lost;
	}
	uint32_t length = s->answer_length < PROF_MAILBOX_TEXT ? s->answer_length : PROF_MAILBOX_TEXT;
	memcpy(reply->text, s->answer, length);
	reply->text[length] = '\0';
	reply->error = s->error;
	take_back();
	return s->error == EBADMSG ? asked_lost : asked_done;
}

/* Waits for the answer to the request in slot i. */
static asked_t
wait_answer(process_t *p, unsigned i, const prof_slot_t *mine, int64_t deadline, stream_t *stream, reply_t *reply) {
	int64_t pause = 1, taken_deadline = deadline + TAKEN_WAIT_MS;
	asked_t verdict = asked_done; /* asked_done: none yet */
	for (unsigned turn = 1;; turn++) {
		prof_slot_t s;
		uint32_t ring = 1;
		bool has_moved = stream != NULL && pull_stream(p, stream, mine->nonce);
		if (!read_memory(p, slot_at(p, i), &s, sizeof(s))) {
			memory_gone(p);
		}
		if (s.answered == mine->sequence && (stream == NULL || stream->is_complete || s.error != 0)) {
			return take_answer(p, i, mine->nonce, reply);
		}
		bool is_taken = s.answer_nonce == mine->nonce;
		if (has_moved) {
			taken_deadline = now_ms() + TAKEN_WAIT_MS;
			pause = 1;
			continue;
		}
		if (verdict != asked_done && !is_taken) {
			return verdict;
		}
		if (!is_taken && (s.nonce != mine->nonce || s.sequence != mine->sequence)) {
			verdict = asked_lost;
			pause = 50; /* it may just be reading ours */
		} else if (now_ms() >= (is_taken ? taken_deadline : deadline) || interrupted >= patience) {
			take_back();
			verdict = asked_late;
			if (is_taken) {
				return verdict;
			}
			pause = 50;
		} else if (turn % 16 == 0) {
			check_same(p);
			write_word(p, p->block + offsetof(prof_mailbox_t, doorbell), &ring, sizeof(ring));
		}
		sleep_ms(pause);
		pause = pause < 20 ? pause * 2 : pause;
	}
}

__attribute__((noreturn)) static void
leave_unanswered(process_t *p, bool was_busy) {
	uint64_t before = p->head.heartbeats;
	double seconds = (double)words.values[o_wait].number / 1000;
	if (interrupted >= patience) {
		leave(EXIT_FAILED, "interrupted; the request was taken back");
	}
	check_same(p);
	if (!read_head(p)) {
		memory_gone(p);
	}
	if (p->state == 'T' || p->state == 't') {
		leave(EXIT_NO_ANSWER, "%d %s is stopped (by a signal or a debugger) and cannot answer; the request was taken back", p->pid,
		    p->name);
	}
	if (was_busy) {
		leave(EXIT_NO_ANSWER, "%d %s is busy: the requests of others fill its mailbox, or ours takes too long", p->pid, p->name);
	}
	if (p->head.heartbeats == before) {
		leave(EXIT_NO_ANSWER, "%d %s is idle: it allocated too little in %g s to look at its mailbox, and runs no profiler thread; "
		    "the request was taken back. Try a longer --wait, or start it with MALLOC_CONF=prof_thread:true", p->pid, p->name,
		    seconds);
	}
	leave(EXIT_NO_ANSWER, "%d %s is running but did not answer in %g s; the request was taken back", p->pid, p->name, seconds);
}

static void
ask_mailbox(process_t *p, const char *text, stream_t *stream, reply_t *reply) {
	int64_t deadline = now_ms() + (int64_t)words.values[o_wait].number;
	int torn = 0;
	uint64_t nonce = random_word(); /* the same each time: it is carried out once */
	check_same(p);
	if (!read_head(p)) {
		memory_gone(p);
	}
	for (;;) {
		prof_slot_t s = {.sequence = random_word(), .nonce = nonce};
		int i = free_slot(p);
		if (i < 0) {
			if (now_ms() >= deadline || interrupted >= patience) {
				leave_unanswered(p, true);
			}
			sleep_ms(1 + (int64_t)(random_word() % 16));
			continue;
		}
		put_request(p, (unsigned)i, &s, text);
		asked_t asked = wait_answer(p, (unsigned)i, &s, deadline, stream, reply);
		if (asked == asked_done) {
			return;
		}
		if (asked == asked_late) {
			prof_slot_t now;
			leave_unanswered(p, read_memory(p, slot_at(p, (unsigned)i), &now, sizeof(now)) && now.answer_nonce == s.nonce);
		}
		if (reply->error != 0 && ++torn > TORN_MAX) {
			return; /* not torn, but not understood */
		}
		if (now_ms() >= deadline) {
			leave(EXIT_NO_ANSWER, "%d %s: others overwrite our request again and again", p->pid, p->name);
		}
		sleep_ms((int64_t)(random_word() % 16));
	}
}

/* ---- asking through the control directory ---- */

/* Puts the command into place unless another one waits there. */
static int
place_command(const char *from, const char *to) {
#ifdef SYS_renameat2
	if (syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 1u /* RENAME_NOREPLACE */) == 0) {
		return 0;
	}
	if (errno != EINVAL && errno != ENOSYS) {
		return errno;
	}
#endif
	if (access(to, F_OK) == 0) {
		return EEXIST;
	}
	return rename(from, to) == 0 ? 0 : errno;
}

/* Reads PID.status if it answers the request with this nonce, or, unless it is the old one, refuses a command unread. */
static bool
read_dir_answer(const char *path, uint64_t nonce, const struct stat *old, reply_t *reply) {
	char text[TEXT_BYTES];
	uint64_t its;
	int start = 0;
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	struct stat st;
	bool is_old = fd < 0 || fstat(fd, &st) != 0 || (st.st_ino == old->st_ino && st.st_mtim.tv_sec == old->st_mtim.tv_sec
	    && st.st_mtim.tv_nsec == old->st_mtim.tv_nsec);
	if (fd >= 0) {
		close(fd);
	}
	text[n > 0 ? n : 0] = '\0';
	if (sscanf(text, "nonce=%" SCNx64 " error=%d%n", &its, &reply->error, &start) != 2
	    || (its != nonce && (its != 0 || reply->error == 0 || is_old))) {
		return false;
	}
	start += text[start] == '\n';
	snprintf(reply->text, sizeof(reply->text), "%s", text + start);
	size_t length = strlen(reply->text);
	if (length > 0 && reply->text[length - 1] == '\n') {
		reply->text[length - 1] = '\0';
	}
	return true;
}

static void
ask_dir(process_t *p, const char *text, reply_t *reply) {
	char temporary[PATH_MAX + 64], command[PATH_MAX + 64], status[PATH_MAX + 64];
	int64_t deadline = now_ms() + (int64_t)words.values[o_wait].number;
	uint64_t nonce = random_word();
	snprintf(temporary, sizeof(temporary), "%s/.%u.%016" PRIx64, p->dir, p->own_pid, nonce);
	snprintf(command, sizeof(command), "%s/%u.cmd", p->dir, p->own_pid);
	snprintf(status, sizeof(status), "%s/%u.status", p->dir, p->own_pid);
	check_same(p);
	int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0) {
		leave(EXIT_NO_WAY, "%s: %s; the control directory is written by root or the process's own user", p->dir, strerror(errno));
	}
	unfinished = temporary;
	bool is_written = dprintf(fd, "nonce=%016" PRIx64 " %s\n", nonce, text) > 0;
	close(fd);
	struct stat old = {0};
	stat(status, &old);
	int error = is_written ? place_command(temporary, command) : EIO;
	while (error == EEXIST && now_ms() < deadline) {
		sleep_ms(20);
		stat(status, &old);
		error = place_command(temporary, command);
	}
	if (error != 0) {
		leave(error == EEXIST ? EXIT_NO_ANSWER : EXIT_FAILED, "%s: %s", command,
		    error == EEXIST ? "a command of somebody else waits there" : strerror(error));
	}
	unfinished = command;
	while (!read_dir_answer(status, nonce, &old, reply)) {
		check_same(p);
		if (access(command, F_OK) != 0) {
			unfinished = NULL; /* taken */
		}
		if (now_ms() >= deadline + (unfinished == NULL ? TAKEN_WAIT_MS : 0) || interrupted >= patience) {
			leave(EXIT_NO_ANSWER, "%d %s did not answer in the control directory %s; the command was taken back", p->pid, p->name,
			    p->dir);
		}
		sleep_ms(20);
	}
	unfinished = NULL;
}

static void
ask(process_t *p, const char *text, stream_t *stream, reply_t *reply) {
	memset(reply, 0, sizeof(*reply));
	if (strlen(text) >= PROF_MAILBOX_TEXT) {
		leave(EXIT_USAGE, "the request is longer than %u bytes", PROF_MAILBOX_TEXT - 1);
	}
	if (p->way == way_dir) {
		ask_dir(p, text, reply);
	} else {
		ask_mailbox(p, text, stream, reply);
	}
}

/* ---- what the answers mean ---- */

__attribute__((format(printf, 1, 2))) static void
hint(const char *format, ...) {
	va_list args;
	if (is_on(o_quiet) || is_on(o_json)) {
		return;
	}
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
}

/* "since 09:15:31Z, session 3", as far as it is known. */
static const char *
session_text(process_t *p, char buf[96]) {
	char at[40];
	buf[0] = '\0';
	if (read_head(p) && p->head.session_id != 0) {
		snprintf(buf, 96, " since %s, session %" PRIu64, time_text(p->head.session_start_ns, at), p->head.session_id);
	}
	return buf;
}

/* Exit code of an error, after saying what it is. */
static int
fail(process_t *p, const reply_t *r) {
	char since[96];
	const char *what = r->text[0] != '\0' ? r->text : strerror(r->error);
	switch (r->error) {
	case EALREADY:
		if (words.verb == START) {
			talk("%d %s is already profiling%s; nothing changed", p->pid, p->name, session_text(p, since));
		} else {
			talk("%d %s is not profiling; nothing changed", p->pid, p->name);
		}
		return is_on(o_idempotent) ? EXIT_DONE : EXIT_ALREADY;
	case EINVAL:
		talk("%d %s: %s", p->pid, p->name, what);
		return EXIT_USAGE;
	case EPERM:
		if (words.verb == STOP) {
			talk("%d %s: another session runs%s; nothing changed", p->pid, p->name, session_text(p, since));
		} else {
			talk("%d %s refuses: %s; nothing changed", p->pid, p->name, what);
		}
		return EXIT_REFUSED;
	case EBUSY:
		talk("%d %s is busy: %s", p->pid, p->name, what);
		return EXIT_NO_ANSWER;
	case EFAULT: /* stands for the errno that the text names */
		talk("%d %s: %s", p->pid, p->name, what);
		return EXIT_FAILED;
	default:
		talk("%d %s: %s (%s)", p->pid, p->name, what, strerror(r->error));
		return EXIT_FAILED;
	}
}

/* Is this file the one that the process means by `path`? */
static bool
is_same_file(const char *here, const struct stat *theirs) {
	struct stat st;
	return stat(here, &st) == 0 && st.st_dev == theirs->st_dev && st.st_ino == theirs->st_ino;
}

/* A path of the process as this shell can open it. */
static void
path_here(const process_t *p, const char *path, char *buf, size_t size) {
	char root[64], jail[PATH_MAX], inside[TEXT_BYTES];
	struct stat st;
	snprintf(root, sizeof(root), "/proc/%d/root", p->pid);
	print_to(inside, sizeof(inside), "%s%s", root, path);
	ssize_t n = readlink(root, jail, sizeof(jail) - 1);
	jail[n > 0 ? n : 0] = '\0';
	snprintf(buf, size, "%s", path);
	if (path[0] != '/' || stat(inside, &st) != 0 || is_same_file(path, &st)) {
		return;
	}
	snprintf(buf, size, "%s%s", strcmp(jail, "/") != 0 ? jail : "", path);
	if (!is_same_file(buf, &st)) {
		snprintf(buf, size, "%s", inside);
	}
}

/* A path of this shell as the process understands it: relative ones are of our directory if it sees the same files. */
static void
path_there(const process_t *p, const char *path, char *buf, size_t size) {
	char root[64], here[PATH_MAX];
	struct stat ours;
	snprintf(root, sizeof(root), "/proc/%d/root", p->pid);
	if (path[0] == '/' || getcwd(here, sizeof(here)) == NULL) {
		print_to(buf, size, "%s", path);
		return;
	}
	char seen[PATH_MAX + 64];
	snprintf(seen, sizeof(seen), "%s%s", root, here);
	if (stat(seen, &ours) == 0 ? !is_same_file(here, &ours) : errno == ENOENT) {
		leave(EXIT_USAGE, "%d %s sees other files than this shell: give an absolute path, as it sees it", p->pid, p->name);
	}
	print_to(buf, size, "%s%s%s", here, strcmp(here, "/") != 0 ? "/" : "", path);
}

/* A session whose profile cannot be written at its end is better not begun. What we may not see is not judged. */
static void
check_directory(const process_t *p, const char *path) {
	char there[TEXT_BYTES];
	struct stat st;
	print_to(there, sizeof(there), "/proc/%d/root", p->pid);
	if (stat(there, &st) != 0) {
		return;
	}
	print_to(there, sizeof(there), "/proc/%d/root%.*s", p->pid, (int)(strrchr(path, '/') - path + 1), path);
	if (stat(there, &st) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
		leave(EXIT_USAGE, "--prefix: %d %s sees no directory %.*s", p->pid, p->name, (int)(strrchr(path, '/') - path + 1), path);
	}
}

/* "verb k:v,k:v" of all options that go into the request. */
static void
build_request(const process_t *p, const char *verb, char *buf, size_t size) {
	size_t length;
	char path[TEXT_BYTES];
	char separator = ' ';
	print_to(buf, size, "%s", verb);
	for (int i = 0; i < words.npairs; i++, separator = ',') {
		const char *value = words.pairs[i].value;
		if (strcmp(words.pairs[i].key, "prefix") == 0) {
			path_there(p, value, path, sizeof(path));
			check_directory(p, path);
			value = path;
		}
		length = strlen(buf);
		print_to(buf + length, size - length, "%c%s:%s", separator, words.pairs[i].key, value);
	}
	for (int i = 0; i < words.nraw; i++, separator = ',') {
		length = strlen(buf);
		print_to(buf + length, size - length, "%c%s", separator, words.raw[i]);
	}
	if (is_on(o_duration) && !is_on(o_max)) {
		length = strlen(buf); /* should we die, it ends by itself */
		print_to(buf + length, size - length, "%cmax_seconds:%" PRIu64, separator, words.values[o_duration].number / 1000 + 60);
	}
}

/* ---- verbs ---- */

/* A device has taken the profile: there is nothing to read. */
static void
hint_top(const char *path) {
	struct stat st;
	if (stat(path, &st) != 0 || S_ISREG(st.st_mode)) {
		hint("next: jeprof top %s\n", path);
	}
}

static int
print_path(process_t *p, const char *answer, const char *key) {
	char path[TEXT_BYTES];
	path_here(p, answer, path, sizeof(path));
	if (is_on(o_json)) {
		printf("{\"pid\":%d,\"%s\":", p->pid, key);
		put_json_string(path);
		puts("}");
	} else {
		put_plain(path);
		putchar('\n');
	}
	hint_top(path);
	return EXIT_DONE;
}

static int
stop_session(process_t *p, bool has_number, uint64_t number) {
	char text[64];
	static reply_t r;
	snprintf(text, sizeof(text), has_number ? "stop %" PRIu64 : "stop", number);
	ask(p, text, NULL, &r);
	int code = r.error != 0 ? fail(p, &r) : print_path(p, r.text, "path");
	if (code == EXIT_FAILED) {
		hint("the session is over, but what it sampled is still there: jeprofctl dump %d -o FILE\n", p->pid);
	}
	return code;
}

static int
verb_stop(process_t *p) {
	return stop_session(p, is_on(o_session), words.values[o_session].number);
}

/* start -d: waits, or until Ctrl-C, then stops the session that was begun. */
static int
wait_and_stop(process_t *p, uint64_t session) {
	int64_t end = now_ms() + (int64_t)words.values[o_duration].number;
	hint("session %" PRIu64 " runs for %s; Ctrl-C ends it early\n", session, words.values[o_duration].text);
	for (int64_t left = end - now_ms(); left > 0 && !interrupted; left = end - now_ms()) {
		sleep_ms(left < 500 ? left : 500);
		check_same(p);
	}
	words.verb = STOP;
	return stop_session(p, session != 0, session);
}

static int
verb_start(process_t *p) {
	char text[PROF_MAILBOX_TEXT];
	static reply_t r;
	build_request(p, "start", text, sizeof(text));
	patience = is_on(o_duration) ? 2 : 1; /* the first one ends the session, the second one us */
	ask(p, text, NULL, &r);
	if (r.error != 0) {
		return fail(p, &r);
	}
	uint64_t session = strtoull(r.text, NULL, 10);
	if (session == 0 && read_head(p)) {
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
	hint("next: jeprofctl dump %d, jeprofctl stop %d --session %" PRIu64 "\n", p->pid, p->pid, session);
	return EXIT_DONE;
}

static FILE *
open_output(const char *name, char *temporary, size_t size) {
	struct stat st;
	bool is_special = stat(name, &st) == 0 && !S_ISREG(st.st_mode);
	if (strcmp(name, "-") == 0) {
		return stdout;
	}
	print_to(temporary, size, "%s%s", name, is_special ? "" : ".part");
	int fd = open(temporary, O_WRONLY | O_CLOEXEC | (is_special ? 0 : O_CREAT | O_EXCL | O_NOFOLLOW), 0600);
	FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
	if (file == NULL) {
		leave(EXIT_FAILED, "%s: %s", temporary, strerror(errno));
	}
	unfinished = is_special ? NULL : temporary;
	return file;
}

static int
dump_here(process_t *p, const char *name) {
	static char temporary[TEXT_BYTES];
	static reply_t r;
	if (p->way == way_dir) {
		leave(EXIT_NO_WAY, "%d %s can be reached through its control directory only: no stream; dump without -o", p->pid, p->name);
	}
	stream_t stream = {.to = open_output(name, temporary, sizeof(temporary))};
	ask(p, "dump-stream", &stream, &r);
	if (r.error != 0) {
		return fail(p, &r);
	}
	if (fflush(stream.to) != 0 || (stream.to != stdout && fclose(stream.to) != 0)) {
		leave(EXIT_FAILED, "cannot write the profile: %s", strerror(errno));
	}
	if (unfinished != NULL && rename(temporary, name) != 0) {
		leave(EXIT_FAILED, "%s: %s", name, strerror(errno));
	}
	unfinished = NULL;
	if (stream.to != stdout) {
		printf("%s\n", name);
		hint_top(name);
	}
	return EXIT_DONE;
}

static int
verb_dump(process_t *p) {
	char path[TEXT_BYTES], text[PROF_MAILBOX_TEXT];
	static reply_t r;
	if (is_on(o_output)) {
		return dump_here(p, words.values[o_output].text);
	}
	print_to(text, sizeof(text), "dump");
	if (words.file != NULL) {
		path_there(p, words.file, path, sizeof(path));
		print_to(text, sizeof(text), "dump %s", path);
	}
	ask(p, text, NULL, &r);
	return r.error != 0 ? fail(p, &r) : print_path(p, r.text, "path");
}

/* set and rearm: whatever is answered is printed. */
static int
verb_set(process_t *p) {
	char text[PROF_MAILBOX_TEXT];
	static reply_t r;
	build_request(p, words.verb == SET ? "set" : "rearm", text, sizeof(text));
	ask(p, text, NULL, &r);
	if (r.error != 0) {
		return fail(p, &r);
	}
	if (r.text[0] != '\0') {
		put_plain(r.text);
		putchar('\n');
	}
	hint("next: jeprofctl status %d\n", p->pid);
	return EXIT_DONE;
}

/* The value of a key in lines key=value, copied; NULL if it is not there. */
static const char *
answer_value(const char *text, const char *key, char *buf, size_t size) {
	size_t length = strlen(key);
	for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, length) == 0 && line[length] == '=') {
			snprintf(buf, size, "%.*s", (int)strcspn(line + length + 1, "\n"), line + length + 1);
			return buf;
		}
		if (*line == '\0') {
			break;
		}
	}
	return NULL;
}

static bool
is_number(const char *text) {
	size_t length = strspn(text, "0123456789");
	return length > 0 && text[length] == '\0' && (text[0] != '0' || length == 1);
}

static void
put_status_value(const char *key, const char *value, bool is_idle) {
	static const char *const sizes[] = {"sample_interval", "threshold_alloc", "threshold_large", "threshold_highwater",
	    "threshold_highwater_step", "allocated", "active", "resident", "rss", NULL};
	char buf[40];
	uint64_t number = is_number(value) ? strtoull(value, NULL, 10) : 0;
	if (strcmp(key, "start_time_ns") == 0) {
		printf("%-27s %s\n", "since", number != 0 ? time_text(number, buf) : "-");
		return;
	}
	printf("%-27s ", key);
	put_plain(value[0] != '\0' ? value : "-");
	for (int i = 0; sizes[i] != NULL; i++) {
		if (strcmp(sizes[i], key) == 0 && number >= 1024) {
			printf(" (%s)", size_text(number, buf));
		}
		if (strcmp(sizes[i], key) == 0 && number == 0 && strncmp(key, "threshold", 9) == 0) {
			printf("%s", strcmp(key, "threshold_highwater_step") == 0 ? " (an eighth of threshold_highwater)" : " (off)");
		}
	}
	if (is_idle && number != 0 && strcmp(key, "session") == 0) {
		printf(" (the last one)");
	}
	putchar('\n');
}

/* Lines key=value, as members of an object or as a table; paths as this shell sees them. */
static void
put_status(process_t *p, char *text, bool is_idle) {
	char path[TEXT_BYTES];
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
		if (strcmp(line, "last_dump") == 0 && value[0] == '/') {
			path_here(p, value, path, sizeof(path));
			value = path;
		}
		if (!is_on(o_json)) {
			put_status_value(line, value, is_idle);
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

static const char *
state_name(uint32_t state) {
	static const char *const names[] = {"idle", "active", "stopping", "paused"};
	return state < sizeof(names) / sizeof(names[0]) ? names[state] : "unknown";
}

static int
verb_status(process_t *p) {
	static reply_t r;
	static const char *const ways[] = {"mailbox", "mailbox", "mailbox (memfd)", "control directory"};
	ask(p, "status", NULL, &r);
	if (r.error != 0) {
		return fail(p, &r);
	}
	char state[32];
	bool is_idle = answer_value(r.text, "state", state, sizeof(state)) != NULL && strcmp(state, "idle") == 0;
	if (is_on(o_json)) {
		printf("{\"pid\":%d,\"own_pid\":%u,\"name\":", p->pid, p->own_pid);
		put_json_string(p->name);
		printf(",\"way\":\"%s\"", ways[p->way]);
		put_status(p, r.text, is_idle);
		puts("}");
		return EXIT_DONE;
	}
	printf("%-27s %d ", "process", p->pid);
	put_plain(p->name);
	printf("\n%-27s %s\n", "way", ways[p->way]);
	put_status(p, r.text, is_idle);
	hint("next: jeprofctl %s %d\n", is_idle ? "start" : "dump", p->pid);
	return EXIT_DONE;
}

static void
put_tick(const reply_t *r, uint64_t *before, bool is_first) {
	char buf[256], live[24], change[24], at[40];
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	const char *value = answer_value(r->text, "allocated", buf, sizeof(buf));
	uint64_t bytes = value != NULL ? strtoull(value, NULL, 10) : 0;
	uint64_t growth = bytes >= *before ? bytes - *before : *before - bytes;
	bool is_less = bytes < *before;
	growth = is_first ? 0 : growth;
	*before = bytes;
	value = answer_value(r->text, "dumps", buf, sizeof(buf));
	uint64_t dumps = value != NULL ? strtoull(value, NULL, 10) : 0;
	const char *sign = is_less && !is_first ? "-" : "";
	time_text((uint64_t)now.tv_sec * 1000000000, at);
	if (is_on(o_json)) {
		printf("{\"time\":\"%s\",\"live\":%" PRIu64 ",\"growth\":%s%" PRIu64 ",\"dumps\":%" PRIu64 "}\n", at, bytes, sign, growth, dumps);
	} else {
		printf("%s  live %9s  growth %s%9s  dumps %" PRIu64 "\n", at, size_text(bytes, live), *sign != '\0' ? sign : "+",
		    size_text(growth, change), dumps);
	}
	fflush(stdout);
}

static int
verb_watch(process_t *p) {
	static reply_t r;
	uint64_t before = 0, tick = is_on(o_tick) ? words.values[o_tick].number : 5000;
	uint64_t count = is_on(o_count) ? words.values[o_count].number : UINT64_MAX;
	for (uint64_t i = 0; i < count && !ferror(stdout); i++) {
		if (i > 0) {
			sleep_ms((int64_t)tick);
		}
		if (interrupted) {
			break;
		}
		ask(p, "status", NULL, &r);
		if (r.error != 0) {
			return fail(p, &r);
		}
		put_tick(&r, &before, i == 0);
	}
	return EXIT_DONE;
}

/* ---- many processes ---- */

typedef struct search_s {
	const char *name;  /* of the program wanted */
	int found[64];     /* that bear the name */
	bool has_block[64];
	int count;
	int unreadable;
	int listed;
	int wanted_pid;    /* in another pid namespace */
	int its_pid;
} search_t;

/* Opens for reading only; whether the library is there. */
static bool
has_library(process_t *p, bool *is_denied) {
	finding_t f;
	*is_denied = false;
	int error = open_memory(p, true);
	if (error == 0) {
		errno = 0;
		if (!find_block(p, &f)) {
			error = errno != 0 ? errno : EACCES;
		}
	}
	bool is_there = error == 0 ? p->block != 0 && read_head(p) : open_memfd(p);
	*is_denied = !is_there && (error == EACCES || error == EPERM);
	if (p->fd >= 0) {
		close(p->fd);
	}
	return is_there;
}

static void
list_one(process_t *p, void *arg) {
	search_t *s = arg;
	bool is_denied;
	if (!has_library(p, &is_denied)) {
		s->unreadable += is_denied;
		return;
	}
	s->listed++;
	if (is_on(o_json)) {
		printf("%s{\"pid\":%d,\"name\":", s->listed > 1 ? ",\n " : "[", p->pid);
		put_json_string(p->name);
		printf(",\"state\":\"%s\",\"session\":%" PRIu64 "}", state_name(p->head.state), p->head.session_id);
		return;
	}
	char since[96];
	printf("%7d  ", p->pid);
	put_plain(p->name);
	printf("%*s  %s", (int)(strlen(p->name) < 15 ? 15 - strlen(p->name) : 0), "", state_name(p->head.state));
	if (p->head.state != prof_mailbox_idle && p->head.session_id != 0) {
		printf(" since %s, session %" PRIu64, time_text(p->head.session_start_ns, since), p->head.session_id);
	}
	putchar('\n');
}

static int
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
		talk("%d process%s may not be read%s", s.unreadable, s.unreadable > 1 ? "es" : "", geteuid() != 0 ? "; sudo shows more" : "");
	}
	if (s.listed > 0) {
		hint("next: jeprofctl status PID, jeprofctl start PID\n");
	}
	return EXIT_DONE;
}

static void
match_one(process_t *p, void *arg) {
	search_t *s = arg;
	bool is_denied;
	if (s->count < 64 && is_named(p, s->name)) {
		s->has_block[s->count] = has_library(p, &is_denied) || is_denied;
		s->found[s->count++] = p->pid;
	}
}

static void
match_own_pid(process_t *p, void *arg) {
	search_t *s = arg;
	if (p->own_pid == (unsigned)s->wanted_pid && p->pid != s->wanted_pid) {
		s->its_pid = p->pid;
	}
}

/* The one process that bears the name; of several, the one that runs the library. */
static int
find_by_name(const char *name) {
	search_t s = {.name = name};
	int with = 0, pid = 0;
	each_process(match_one, &s);
	for (int i = 0; i < s.count; i++) {
		with += s.has_block[i];
		pid = s.has_block[i] || pid == 0 ? s.found[i] : pid;
	}
	if (s.count == 0) {
		leave(EXIT_NO_WAY, "no process is called %s", name);
	}
	if (s.count > 1 && with != 1) {
		char text[512] = "";
		for (int i = 0; i < s.count && i < 16; i++) {
			size_t length = strlen(text);
			snprintf(text + length, sizeof(text) - length, " %d", s.found[i]);
		}
		leave(EXIT_USAGE, "%d processes are called %s:%s; give a pid", s.count, name, text);
	}
	return pid;
}

static void
find_process(process_t *p) {
	search_t s = {0};
	uint64_t number = words.values[o_pid].number;
	if (!is_on(o_pid) && !is_value(words.who, (const unit_t[]){{"", 1}, {NULL, 0}}, &number)) {
		number = (uint64_t)find_by_name(words.who);
	}
	int pid = number <= INT_MAX ? (int)number : 0;
	if (pid > 0 && read_process(p, pid)) {
		return;
	}
	if (pid > 0 && (p->state == 'Z' || p->state == 'X')) {
		leave(EXIT_NO_WAY, "%d has ended; its parent has not yet fetched its exit status", pid);
	}
	if (pid > 0 && (kill(pid, 0) == 0 || errno == EPERM)) {
		leave(EXIT_NO_WAY, "%d exists, but /proc hides it from us (hidepid): use sudo", pid);
	}
	s.wanted_pid = pid;
	each_process(match_own_pid, &s);
	if (s.its_pid != 0) {
		leave(EXIT_NO_WAY, "no process %" PRIu64 " here; %d is called so in a pid namespace of its own", number, s.its_pid);
	}
	leave(EXIT_NO_WAY, "no process %" PRIu64, number);
}

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
