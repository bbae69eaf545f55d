/*
 * Parses the command line of jeprofctl into `words` (words.h). Holds the table of options, with the
 * verbs that take each, and the table of verbs. --help is made of the table of verbs and of text
 * here; the table of options is not printed. Invariant: a word that is wrong by these tables ends
 * the program with EXIT_USAGE before any process is opened. The keys and values of key:value words,
 * and texts such as that of --metric, are judged by the process. An option given twice has its last
 * value in words.values; with a key, both pairs are sent. No locks. read_words() is called by
 * main.c, is_on() by main.c, answer.c and the verbs.
 */
#include "ctl.h"

#include "words.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "talk.h"
#include "value.h"

#ifndef JEPROFCTL_VERSION
#define JEPROFCTL_VERSION "unknown"
#endif

/* Sets of verbs, one bit each: ANY has all; ONE those that concern one process, so all but LIST. */
enum { ONE = 511 - LIST, ANY = 511 };

/*
 * Kinds of values. kind_flag: the option takes none; kind_size: bytes; kind_share: bytes or percent
 * ("90%"); kind_ms: a time, stored in ms; kind_seconds: a time, stored in seconds (rounded up).
 */
typedef enum { kind_flag, kind_size, kind_share, kind_ms, kind_seconds, kind_number,
    kind_text } kind_t;

typedef struct option_s {
	const char *name;   /* --name */
	char letter;        /* -x, or 0 */
	kind_t kind;        /* of its value */
	int verbs;          /* bits of the verbs that take it */
	const char *key;    /* in the request to the process; NULL: for jeprofctl only */
	/* index in words.values; o_free: an index that options share, as only their pairs are used */
	int place;
	const char *least, *most; /* limits of a number, a size or a time, as they are typed and told */
} option_t;

/*
 * Options with a key become pairs of the request, in the order of the command line. The process has
 * the limits of those in src/prof/control/prof_session.c. The longest start -d leaves room for 60 s
 * more in 32 bits of seconds.
 */
#define NO_LIMITS NULL, NULL
#define ANY_NUMBER "0", "18446744073709551615"
#define ANY_TIME "0", "53375995583d" /* 62 bits of ms: sums of two do not overflow */
static const option_t options[] = {
    {"pid", 'p', kind_number, ONE, NULL, o_pid, ANY_NUMBER},
    {"json", 0, kind_flag, ANY, NULL, o_json, NO_LIMITS},
    {"idempotent", 0, kind_flag, ANY, NULL, o_idempotent, NO_LIMITS},
    {"quiet", 'q', kind_flag, ANY, NULL, o_quiet, NO_LIMITS},
    {"wait", 0, kind_ms, ANY, NULL, o_wait, ANY_TIME},
    {"ctl-dir", 0, kind_text, ONE, NULL, o_dir, NO_LIMITS},
    {"session", 0, kind_number, STOP, NULL, o_session, ANY_NUMBER},
    {"duration", 'd', kind_ms, START, NULL, o_duration, "0", "49710d"},
    {"output", 'o', kind_text, DUMP, NULL, o_output, NO_LIMITS},
    {"outside", 0, kind_flag, DUMP | STATUS, NULL, o_outside, NO_LIMITS},
    {"core", 0, kind_text, DUMP, NULL, o_core, NO_LIMITS},
    {"since-mark", 0, kind_flag, DUMP, NULL, o_since_mark, NO_LIMITS},
    {"interval", 'n', kind_ms, WATCH, NULL, o_tick, "10ms", "53375995583d"},
    {"count", 'c', kind_number, WATCH, NULL, o_count, ANY_NUMBER},
    {"prefix", 0, kind_text, START, "prefix", o_prefix, NO_LIMITS},
    {"reset", 0, kind_text, START, "reset", o_free, NO_LIMITS},
    {"accum", 0, kind_text, START, "accum", o_free, NO_LIMITS},
    {"max", 0, kind_seconds, START, "max_seconds", o_max, "0", "4294967296s"},
    {"blackbox", 0, kind_flag, START, "blackbox", o_free, NO_LIMITS},
    {"blackbox-size", 0, kind_size, START, "blackbox_size", o_free, "1M", "1G"},
    {"rate", 0, kind_size, START | SET, "sample_interval", o_free, "1", "9223372036854775807"},
    {"budget", 0, kind_text, START | SET, "budget", o_free, NO_LIMITS},
    {"alloc", 0, kind_size, START | SET, "alloc", o_free, ANY_NUMBER},
    {"large", 0, kind_size, START | SET, "large", o_free, ANY_NUMBER},
    {"highwater", 0, kind_share, START | SET, "highwater", o_free, ANY_NUMBER},
    {"step", 0, kind_share, START | SET, "highwater_step", o_free, ANY_NUMBER},
    {"metric", 0, kind_text, START | SET, "highwater_metric", o_free, NO_LIMITS},
    {"every", 0, kind_ms, START | SET, "time_ms", o_free, ANY_TIME},
};

words_t words;

bool
is_on(int place) {
	return words.values[place].is_given;
}

/* The verbs, in the order of --help; "\n" breaks the line of a text. */
static const struct {
	const char *name;
	int verb;
	const char *takes, *help;
} verbs[] = {
	{"list", LIST, "", "processes that run the library, and whether they are profiling"},
	{"status", STATUS, "PID",
	    "state, rate, thresholds, heap statistics, dumps, last error"},
	{"start", START, "PID",
	    "starts a session: --rate 512K --prefix P --reset true|false --accum true|false --max 10m "
	    "-d 60s\n"
	    "--budget 0.5: percent of processor time that samples may cost\n"
	    "--blackbox: the tables lie in a file that outlives it (--blackbox-size 16M)\n"
	    "and thresholds: --highwater 1G --step 128M --metric rss --alloc 4G --large 64M --every "
	    "5m"},
	{"stop", STOP, "PID", "ends the session and prints the path of its profile: --session N"},
	{"dump", DUMP, "PID [FILE]",
	    "prints the path of the profile; -o FILE|-: written here by jeprofctl, not by the "
	    "process;\n"
	    "--outside: read from its memory, so it may be stopped or hang;\n"
	    "--core FILE|- instead of PID: the same from a core file, or from a pipe;\n"
	    "--since-mark: what was added since the mark"},
	{"mark", MARK, "PID", "sets the mark, from which dump --since-mark counts"},
	{"set", SET, "PID",
	    "--rate, --budget and the thresholds of start, or key:value words, while it runs"},
	{"rearm", REARM, "PID", "resets the high-water mark"},
	{"watch", WATCH, "PID", "prints a line in each interval: -n 5s, -c COUNT"},
};
enum { VERBS = sizeof(verbs) / sizeof(verbs[0]) };

static void
put_help(FILE *out) {
	fputs("Usage: jeprofctl VERB [PID|PROGRAM] [OPTIONS]\n"
	    "Controls the heap profiler inside a running process.\n", out);
	for (int i = 0; i < VERBS; i++) {
		int width = fprintf(out, "  %s %s", verbs[i].name, verbs[i].takes);
		fprintf(out, "%*s", 25 - width, "");
		for (const char *c = verbs[i].help; *c != '\0'; c++) {
			fputc(*c, out);
			fprintf(out, "%*s", *c == '\n' ? 25 : 0, "");
		}
		fputc('\n', out);
	}
	fputs("Options: -p PID  --json  --idempotent (exit 0 instead of 4)  --wait 5s  --ctl-dir DIR  "
	    "-q (no suggestions)  --version\n"
	    "Sizes 64M 1.5G, times 500ms 30s 5m 2h.\n"
	    "Exit: 0 done, 1 failed, 2 usage or bad options, 4 already in that state, 5 no such "
	    "process or no way in,\n"
	    "      6 refused, 7 no answer or busy\n", out);
}

/* Whether it has a character that no request may have, as it is one line of text. */
static bool
has_control(const char *text) {
	while (*text != '\0' && !is_control(*text)) {
		text++;
	}
	return *text != '\0';
}

/* The units of the numbers of a kind; NULL: its values are no numbers. */
static const unit_t *
units_of(kind_t kind) {
	return kind == kind_size || kind == kind_share ? size_units
	    : kind == kind_ms || kind == kind_seconds ? ms_units
	    : kind == kind_number ? count_units : NULL;
}

/* Ends the program if a text is longer than a path may be; `name` is that of the option. */
static void
need_short(const char *name, const char *text) {
	if (strlen(text) >= PATH_MAX) {
		leave(EXIT_USAGE, "%s: \"%.80s...\" has %zu bytes, and at most %d can be used", name, text,
		    strlen(text), PATH_MAX - 1);
	}
}

/* Ends the program: the text is no value of the option. */
__attribute__((noreturn)) static void
leave_bad(const option_t *o, const char *text) {
	if (o->kind == kind_text) {
		leave(EXIT_USAGE, "--%s: \"%s\" is not a text that can be used here", o->name, text);
	}
	bool is_time = units_of(o->kind) == ms_units;
	leave(EXIT_USAGE, "--%s: \"%.80s%s\" is not a %s from %s to %s%s", o->name, text,
	    strlen(text) > 80 ? "..." : "", is_time ? "time"
	    : o->kind == kind_number ? "number" : "size", o->least, o->most,
	    is_time ? " (30s, 5m)" : o->kind == kind_size ? " (64M, 1.5G)"
	    : o->kind == kind_share ? " (64M, 1.5G) or share from 1% to 100%" : "");
}

/* Parses a value that is a number in units, between the limits of the option. */
static bool
try_number(const option_t *o, const char *text, uint64_t *number) {
	const unit_t *units = units_of(o->kind);
	uint64_t least, most;
	return value_try_parse(o->least, units, &least) && value_try_parse(o->most, units, &most)
	    && value_try_parse(text, units, number) && *number >= least && *number <= most;
}

/* Checks the value of an option, or exits, and stores it; with a key, also in words.pairs. */
static void
take_option(const option_t *o, const char *text) {
	value_t *v = &words.values[o->place];
	v->is_given = true;
	v->text = text;
	char name[32];
	snprintf(name, sizeof(name), "--%s", o->name);
	if (o->kind == kind_text) {
		need_short(name, text);
	}
	size_t digits = strspn(text, "0123456789");
	bool is_percent = o->kind == kind_share && digits > 0 && strcmp(text + digits, "%") == 0;
	bool is_good = o->kind == kind_flag;
	if (is_percent) {
		is_good = digits <= 3 && atoi(text) >= 1 && atoi(text) <= 100;
	} else if (units_of(o->kind) != NULL) {
		is_good = try_number(o, text, &v->number);
		v->number = o->kind == kind_seconds ? (v->number + 999) / 1000 : v->number;
	} else if (o->kind == kind_text) {
		is_good = text[0] != '\0' && strchr(text, '\n') == NULL
		    && (o->key == NULL || (strchr(text, ',') == NULL && !has_control(text)));
	}
	if (!is_good) {
		leave_bad(o, text);
	}
	if (o->key == NULL) {
		return;
	}
	if (words.npairs == (int)(sizeof(words.pairs) / sizeof(words.pairs[0]))) {
		leave(EXIT_USAGE, "too many options");
	}
	pair_t *pair = &words.pairs[words.npairs++];
	pair->key = o->key;
	if (o->kind == kind_flag) {
		print_to(pair->value, sizeof(pair->value), "true");
	} else if (o->kind == kind_text || is_percent) {
		print_to(pair->value, sizeof(pair->value), "%s", text);
	} else {
		print_to(pair->value, sizeof(pair->value), "%" PRIu64, v->number);
	}
}

/*
 * The option that the word names; if there is none of that name, the program ends. *text is the
 * value in the same word (--name=VALUE, -xVALUE), or NULL.
 */
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
		if (word[1] == '-' && strlen(o->name) == length && strncmp(word + 2, o->name,
		    length) == 0) {
			*text = word[2 + length] == '=' ? word + 3 + length : NULL;
			return o;
		}
	}
	leave(EXIT_USAGE, "no such option: %s; try jeprofctl --help", word);
}

__attribute__((noreturn)) static void
put_usage(void) {
	put_help(stdout);
	need_written();
	exit(EXIT_DONE);
}

/* Stores a word KEY:VALUE of set or start. */
static void
take_raw(char *word) {
	size_t key = strspn(word, "abcdefghijklmnopqrstuvwxyz_");
	need_short(words.verb == SET ? "set" : "start", word);
	bool is_pair = key > 0 && word[key] == ':' && !has_control(word);
	if (!is_pair || strpbrk(word, ", ") != NULL) {
		leave(EXIT_USAGE, "%s: \"%s\" is not KEY:VALUE%s", words.verb == SET ? "set" : "start",
		    word, is_pair ? "; each pair is a word of its own" : "");
	}
	if (words.nraw == 32) {
		leave(EXIT_USAGE, "too many words: %s", word);
	}
	words.raw[words.nraw++] = word;
}

/*
 * Stores a word that is no option. The first one is the verb. The next one is the process, except
 * for list, or if -p is given. Then dump takes the name of a file; set and start take
 * words KEY:VALUE.
 */
static void
take_positional(char *word) {
	if (words.verb == 0 && strcmp(word, "help") == 0) {
		put_usage();
	}
	if (words.verb == 0) {
		for (int i = 0; i < VERBS; i++) {
			words.verb = strcmp(word, verbs[i].name) == 0 ? verbs[i].verb : words.verb;
		}
		if (words.verb == 0) {
			leave(EXIT_USAGE, "no such verb: %s; try jeprofctl --help", word);
		}
	} else if (words.who == NULL && !is_on(o_pid) && words.verb != LIST) {
		words.who = word;
	} else if (words.verb == DUMP && words.file == NULL) {
		if (word[0] == '\0' || has_control(word)) {
			leave(EXIT_USAGE, "dump: the name of the file %s", word[0] == '\0' ? "is empty"
			    : "has control characters");
		}
		need_short("dump", word);
		words.file = word;
	} else if (words.verb & (SET | START)) {
		take_raw(word);
	} else {
		leave(EXIT_USAGE, "too many words: %s", word);
	}
}

bool
try_size(const char *text, uint64_t *bytes) {
	return value_try_parse(text, size_units, bytes);
}

/* What an option has put into the request as this key, the last one; NULL: none has. */
static const char *
pair_value(const char *key) {
	const char *value = NULL;
	for (int i = 0; i < words.npairs; i++) {
		value = strcmp(words.pairs[i].key, key) == 0 ? words.pairs[i].value : value;
	}
	return value;
}

/* What follows KEY: in the last of words.raw that begins with that; NULL: none does. */
static const char *
raw_value(const char *key) {
	const char *value = NULL;
	size_t length = strlen(key);
	for (int i = 0; i < words.nraw; i++) {
		if (strncmp(words.raw[i], key, length) == 0 && words.raw[i][length] == ':') {
			value = words.raw[i] + length + 1;
		}
	}
	return value;
}

const char *
asked_value(const char *key) {
	const char *value = raw_value(key);
	return value != NULL ? value : pair_value(key);
}

const char *
asked_as(const char *key) {
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]) && raw_value(key) == NULL; i++) {
		if (options[i].key != NULL && strcmp(options[i].key, key) == 0) {
			return options[i].name;
		}
	}
	return NULL;
}

/* Seconds after which the session ends by itself: of --max or max_seconds:N; 0: it does not. */
static uint64_t
max_seconds(void) {
	const char *raw = raw_value("max_seconds");
	return raw != NULL ? strtoull(raw, NULL, 10) : is_on(o_max) ? words.values[o_max].number : 0;
}

/* Checks start -d, which stops the session that it has begun. */
static void
check_duration(void) {
	const value_t *d = &words.values[o_duration];
	uint64_t most = max_seconds();
	if (d->is_given && most != 0 && most <= d->number / 1000) {
		leave(EXIT_USAGE, "-d %s: --max or max_seconds ends the session before; give one of them",
		    d->text);
	}
}

/* Checks the words together, and sets the default of --wait. */
static void
words_complete(void) {
	if (words.verb == 0) {
		put_help(stderr);
		exit(EXIT_USAGE);
	}
	if (is_on(o_core) && (words.who != NULL || is_on(o_pid) || is_on(o_outside) || is_on(o_dir))) {
		leave(EXIT_USAGE, "--core stands for the process; another one makes no sense");
	}
	if (is_on(o_since_mark) && (is_on(o_outside) || is_on(o_core))) {
		leave(EXIT_USAGE, "--since-mark asks the process; it does not go with --outside or --core");
	}
	if (is_on(o_outside) && is_on(o_dir)) {
		leave(EXIT_USAGE, "--outside reads memory, and a control directory gives no access to it");
	}
	if (words.verb != LIST && words.who == NULL && !is_on(o_pid) && !is_on(o_core)) {
		leave(EXIT_USAGE, "which process? Give a pid or a program's name; jeprofctl list shows "
		    "them");
	}
	if (pair_value("blackbox_size") != NULL && asked_value("blackbox") == NULL) {
		leave(EXIT_USAGE, "--blackbox-size is the size of --blackbox, which is not given");
	}
	if (is_on(o_output) && words.file != NULL) {
		leave(EXIT_USAGE, "a FILE that the process writes and -o exclude each other");
	}
	if (is_on(o_output) && is_on(o_dir)) {
		leave(EXIT_USAGE, "a profile cannot be streamed through a control directory");
	}
	check_duration();
	if (words.verb == SET && words.npairs + words.nraw == 0) {
		leave(EXIT_USAGE, "set what? For example --rate 256K");
	}
	if (!is_on(o_wait)) {
		words.values[o_wait].number = 5000; /* ms; the usage text shows it as --wait 5s */
	}
}

void
read_words(int argc, char **argv) {
	bool is_used[sizeof(options) / sizeof(options[0])] = {false};
	bool are_options = true;
	int nplain = 0; /* words that are no options: argv[1] and on, as far as they are read */
	for (int i = 1; i < argc; i++) {
		const char *text;
		if (!are_options || argv[i][0] != '-' || argv[i][1] == '\0') {
			argv[++nplain] = argv[i];
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
			printf("jeprofctl %s, mailbox protocol %u\n", JEPROFCTL_VERSION,
			    JEPROF_CLIENT_PROTOCOL);
			need_written();
			exit(EXIT_DONE);
		}
		const option_t *o = find_option(argv[i], &text);
		if (o->kind == kind_flag ? text != NULL : text == NULL && i + 1 == argc) {
			leave(EXIT_USAGE, "--%s takes %s", o->name, o->kind == kind_flag ? "no value"
			    : "a value");
		}
		take_option(o, o->kind == kind_flag ? "" : text != NULL ? text : argv[++i]);
		is_used[o - options] = true;
	}
	for (int i = 1; i <= nplain; i++) {
		take_positional(argv[i]); /* only now, as a -p says that none of them is the process */
	}
	words_complete();
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		if (is_used[i] && !(options[i].verbs & words.verb)) {
			leave(EXIT_USAGE, "--%s does not go with this verb; try jeprofctl --help",
			    options[i].name);
		}
	}
	talk_is_quiet = is_on(o_quiet) || is_on(o_json);
}
