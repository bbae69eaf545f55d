/*
 * Parses the command line of jeprofd by a table of options, and prints the messages of jeprofd on
 * stderr (agent.h has the contracts). Invariant: main() sets `options` before it starts threads
 * that read it, and nothing changes it afterwards, so they need no lock. main.c calls
 * read_options(); main.c, dead_store.c, dead_watch.c, listen.c, push.c, rights.c, server.c and
 * watch.c call talk() or leave().
 */
#include "agent.h"

#include "listen.h"
#include "route.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

options_t options = {
	.rate = 512 << 10,
	.interval_ms = 15000,
	.look_ms = 15000,
	.push_ms = 60000,
	.scrapes_max = 16,
	.connections_max = 256,
	.processes_max = 1024,
	.profile_max = 64 << 20,
	.box_bytes = 4 << 20,
};

volatile sig_atomic_t ending;

void
talk(const char *format, ...) {
	char text[2048];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	for (char *c = text; *c != '\0'; c++) {
		if ((unsigned char)*c < ' ' || *c == 127) {
			*c = '?';
		}
	}
	fprintf(stderr, "jeprofd: %s\n", text);
}

void
leave(int code, const char *format, ...) {
	char text[2048];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	talk("%s", text);
	exit(code);
}

/* ---- values ---- */

typedef enum { kind_flag, kind_text, kind_url, kind_header, kind_select, kind_file, kind_label,
    kind_number, kind_size, kind_size_or_off, kind_time } kind_t;

/* The name of the value of each kind (kind_t) in a message. */
static const char *const kind_words[] = {[kind_flag] = "flag", [kind_text] = "text",
    [kind_url] = "URL (http://HOST:PORT) of at most 1023 bytes",
    [kind_header] = "header (Name: value)",
    [kind_select] = "selection (comm=, exe=, unit=, user= or service_name=)",
    [kind_file] = "file", [kind_label] = "label (KEY=VALUE)", [kind_number] = "number",
    [kind_size] = "size (64M)", [kind_size_or_off] = "size (4M) or off",
    [kind_time] = "time (30s)"};

/* A unit of a number. A list of units ends with the suffix NULL; "": a number without a unit. */
typedef struct unit_s {
	const char *suffix;
	uint64_t factor; /* bytes, milliseconds or 1 */
} unit_t;

static const unit_t sizes[] = {{"", 1}, {"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {NULL, 0}};
static const unit_t times[] = {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000},
    {NULL, 0}};
static const unit_t plain[] = {{"", 1}, {NULL, 0}};

/* The units of the numbers of a kind; NULL: its values are no numbers. */
static const unit_t *
units_of(kind_t kind) {
	return kind == kind_time ? times : kind == kind_number ? plain
	    : kind == kind_size || kind == kind_size_or_off ? sizes : NULL;
}

/* Prints a number as an option of this kind is typed, in the largest unit that it is whole in. */
static void
number_text(kind_t kind, uint64_t number, char buf[24]) {
	const unit_t *best = units_of(kind);
	for (const unit_t *u = best; u->suffix != NULL; u++) {
		best = number % u->factor == 0 && (u->factor >= best->factor || number % best->factor != 0)
		    ? u : best;
	}
	snprintf(buf, 24, "%" PRIu64 "%s", number / best->factor, best->suffix);
}

/*
 * Parses a whole number with one of the units behind it, in upper or lower case. *out is the number
 * times the factor of the unit. False, without a change, if it is malformed or not from `least` to
 * `most`.
 */
static bool
parse_number(const char *text, const unit_t *units, uint64_t least, uint64_t most, uint64_t *out) {
	char *end;
	errno = 0;
	uint64_t n = isdigit((unsigned char)text[0]) ? strtoull(text, &end, 10) : 0;
	if (!isdigit((unsigned char)text[0]) || errno != 0) {
		return false;
	}
	for (const unit_t *u = units; u->suffix != NULL; u++) {
		if (strcasecmp(end, u->suffix) == 0 && n <= most / u->factor && n * u->factor >= least) {
			*out = n * u->factor;
			return true;
		}
	}
	return false;
}

/* The options: parser and --help read this table. */
static const struct {
	const char *name;
	kind_t kind;
	void *where;    /* in `options`: bool, const char * or uint64_t, by the kind; NULL: a label */
	uint64_t least; /* least and most allowed value of a number: bytes, ms, or a count; else 0 */
	uint64_t most;
	const char *value; /* for --help: a placeholder or the default; "" for a flag */
	const char *help;
} rows[] = {
	{"listen", kind_text, &options.listen, 0, 0, "ADDR:PORT",
	    "default 127.0.0.1:7071; port 0: any; [::]:7071 for all addresses (use a token then)"},
	{"unix", kind_text, &options.unix_path, 0, 0, "PATH",
	    "a Unix socket instead, for the user and group of jeprofd"},
	{"token-file", kind_text, &options.token_file, 0, 0, "FILE",
	    "requests must bear its first line: Authorization: Bearer TOKEN, or have it as the "
	    "password of any user (a browser asks for it)"},
	{"rate", kind_size, &options.rate, 1, UINT64_C(1) << 40, "512K",
	    "bytes between two samples of a session that a scrape starts"},
	{"interval", kind_time, &options.interval_ms, 100, 86400000, "15s",
	    "between two scrapes; profiling ends by itself three of them after the last scrape"},
	{"passive", kind_flag, &options.is_passive, 0, 0, "", "a scrape never starts profiling"},
	{"blackbox", kind_size_or_off, &options.box_bytes, 1 << 20, JEPROF_BOX_MAX, "4M",
	    "the tables of such a session lie in a memory file of that size, which is read when the "
	    "process has ended: /dead/; off: no such files"},
	{"allow-control", kind_flag, &options.may_control, 0, 0, "", "serves the paths with POST"},
	{"cache", kind_text, &options.cache_dir, 0, 0, "DIR",
	    "keeps tables of symbols there, by build-id"},
	{"cache-max", kind_size, &options.cache_max, 1 << 20, UINT64_C(1) << 40, "256M",
	    "the size of all tables of symbols"},
	{"debuginfod", kind_flag, &options.use_debuginfod, 0, 0, "",
	    "asks the servers in DEBUGINFOD_URLS for debug files that are not here"},
	{"push", kind_url, &options.push_url, 0, 0, "URL",
	    "posts the profiles as OTLP to URL/v1development/profiles"},
	{"push-interval", kind_time, &options.push_ms, 1000, 86400000, "60s",
	    "between two pushes of a process; profiling ends by itself three of them after the last"},
	{"push-header", kind_header, &options.push_header, 0, 0, "\"Name: value\"",
	    "one more header of each push"},
	{"push-ca", kind_file, &options.push_ca, 0, 0, "FILE",
	    "the authorities that a receiver by https may have its certificate from"},
	{"push-select", kind_select, &options.push_select, 0, 0, "comm=NAME",
	    "only these processes (or exe, unit, user, service_name)"},
	{"label", kind_label, NULL, 0, 0, "KEY=VALUE",
	    "an attribute of all that OTLP tells; may be repeated"},
	{"look", kind_time, &options.look_ms, 100, 3600000, "15s",
	    "between two looks at the processes"},
	{"max-scrapes", kind_number, &options.scrapes_max, 1, 256, "16", "at the same time"},
	{"max-connections", kind_number, &options.connections_max, 4, 10000, "256",
	    "at the same time"},
	{"max-processes", kind_number, &options.processes_max, 1, 100000, "1024",
	    "that are kept in mind"},
	{"max-profile", kind_size, &options.profile_max, 4096, UINT64_C(1) << 30, "64M",
	    "the largest profile that is fetched; above 64M with raw=1 only"},
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

/* Whether the text begins with one of the words, and has something behind it. */
static bool
has_front(const char *text, const char *const *words) {
	for (; *words != NULL; words++) {
		size_t length = strlen(*words);
		if (strncmp(text, *words, length) == 0 && text[length] != '\0') {
			return true;
		}
	}
	return false;
}

/* Whether a URL, which has "://", names a host and, behind a colon, a port of 1 to 65535. */
static bool
has_good_authority(const char *url) {
	const char *host = strstr(url, "://") + 3;
	const char *end = host + strcspn(host, "/?#");
	const char *user = memchr(host, '@', (size_t)(end - host));
	address_t a;
	host = user != NULL ? user + 1 : host;
	return try_split_address(host, (size_t)(end - host), &a) && a.port != 0;
}

/* Whether a text may be the value of an option of this kind. */
static bool
is_good_text(kind_t kind, const char *text) {
	static const char *const urls[] = {"http://", "https://", NULL};
	static const char *const keys[] = {"comm=", "exe=", "unit=", "user=", "service_name=", NULL};
	struct stat st;
	switch (kind) {
	case kind_url:
		return has_front(text, urls) && has_good_authority(text) && strlen(text) < 1024;
	case kind_header:
		return strcspn(text, ":") > 0 && strchr(text, ':') != NULL
		    && strpbrk(text, "\r\n") == NULL;
	case kind_select:
		return has_front(text, keys);
	case kind_file: /* not one of /proc, which may wait: these have the size 0 */
		return access(text, R_OK) == 0 && stat(text, &st) == 0 && S_ISREG(st.st_mode)
		    && st.st_size > 0;
	default:
		return text[0] != '\0';
	}
}

/* Adds KEY=VALUE to options.labels; false: malformed, LABELS_MAX are there, or no memory. */
static bool
try_add_label(const char *text) {
	size_t length = strcspn(text, "=");
	char *key = length > 0 && text[length] == '=' ? strndup(text, length) : NULL;
	if (key == NULL || options.nlabels == LABELS_MAX) {
		free(key);
		return false;
	}
	options.labels[options.nlabels++] = (label_t){key, text + length + 1};
	return true;
}

/* Stores the value of the option rows[row] in `options`; exits if it is not allowed. */
static void
take_value(int row, const char *text) {
	bool is_good = true;
	switch (rows[row].kind) {
	case kind_flag:
		*(bool *)rows[row].where = true;
		break;
	case kind_text:
	case kind_url:
	case kind_header:
	case kind_select:
	case kind_file:
		is_good = is_good_text(rows[row].kind, text);
		*(const char **)rows[row].where = text;
		break;
	case kind_label:
		is_good = try_add_label(text);
		break;
	default:
		is_good = parse_number(text, units_of(rows[row].kind), rows[row].least, rows[row].most,
		    rows[row].where);
	}
	if (rows[row].kind == kind_size_or_off && strcmp(text, "off") == 0) {
		*(uint64_t *)rows[row].where = 0;
		is_good = true;
	}
	if (!is_good && units_of(rows[row].kind) != NULL) {
		char least[24], most[24];
		number_text(rows[row].kind, rows[row].least, least);
		number_text(rows[row].kind, rows[row].most, most);
		leave(2, "--%s: \"%.80s%s\" is no %s, which may be from %s to %s", rows[row].name, text,
		    strlen(text) > 80 ? "..." : "", kind_words[rows[row].kind], least, most);
	}
	if (!is_good) {
		leave(2, "--%s: \"%.200s%s\" is no %s that can be used here", rows[row].name, text,
		    strlen(text) > 200 ? "..." : "", kind_words[rows[row].kind]);
	}
}

/*
 * The index in `rows` of an option, given as --NAME or --NAME=VALUE; sets *text to that value, or
 * to NULL. Exits if no row has this name.
 */
static int
find_row(const char *word, const char **text) {
	size_t length = strcspn(word, "=");
	*text = word[length] == '=' ? word + length + 1 : NULL;
	for (int i = 0; i < ROWS && strncmp(word, "--", 2) == 0; i++) {
		if (strlen(rows[i].name) == length - 2 && strncmp(word + 2, rows[i].name,
		    length - 2) == 0) {
			return i;
		}
	}
	leave(2, "no such option: %s; try jeprofd --help", word);
}

static void
put_help(void) {
	puts("Usage: jeprofd [OPTIONS]\n"
	    "Serves the heap profiles of all processes of this machine that run the library, over "
	    "HTTP, by name and unprepared.");
	for (int i = 0; i < ROWS; i++) {
		int width = printf("  --%s %s", rows[i].name, rows[i].value);
		printf("%*s %s\n", width < 26 ? 26 - width : 1, "", rows[i].help);
	}
	puts("  -h, --help, --version");
	route_put_help();
	puts("Exit: 0 ended by SIGTERM, SIGINT or SIGHUP, 1 failed, 2 usage.");
}

/* Ends jeprofd after the answer to --help or --version. */
__attribute__((noreturn)) static void
end_told(void) {
	if (fflush(stdout) != 0 || ferror(stdout)) {
		leave(1, "cannot write: %s", strerror(errno));
	}
	exit(0);
}

void
read_options(int argc, char **argv) {
	for (int i = 1; i < argc; i++) {
		const char *text;
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			put_help();
			end_told();
		}
		if (strcmp(argv[i], "--version") == 0) {
			printf("jeprofd %s, mailbox protocol %u\n", JEPROFD_VERSION, JEPROF_CLIENT_PROTOCOL);
			end_told();
		}
		int row = find_row(argv[i], &text);
		bool is_flag = rows[row].kind == kind_flag;
		if (is_flag ? text != NULL : text == NULL && i + 1 == argc) {
			leave(2, "--%s takes %s", rows[row].name, is_flag ? "no value" : "a value");
		}
		take_value(row, is_flag || text != NULL ? text : argv[++i]);
	}
	if (options.listen != NULL && options.unix_path != NULL) {
		leave(2, "--listen and --unix exclude each other");
	}
	if (options.push_url == NULL && (options.push_header != NULL || options.push_ca != NULL
	    || options.push_select != NULL)) {
		leave(2, "--push-header, --push-ca and --push-select are of --push, which is not given");
	}
	if (!HAVE_CURL && options.push_url != NULL) {
		leave(2, "--push needs libcurl, which this jeprofd was built without");
	}
}
