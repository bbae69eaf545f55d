/*
 * Parses the path and the arguments of a request (route.h). The path is looked up in the table
 * `places`; each argument is checked against the table `arguments`, and combinations by
 * route_finish(). Invariant: a route without a fault has a place, and all its numbers are within
 * their limits. No locks, no state. Called by server.c, options.c and the fuzz target.
 */
#include "route.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What arguments may be at most; the messages in `arguments` say it too. */
enum {
	SECONDS_MAX = 600,   /* ?seconds= of a profile */
	SESSION_MAX = 86400, /* ?seconds= of a start */
	DIGITS_MAX = 15,     /* of any number in a request */
};
#define RATE_MAX (UINT64_C(1) << 40) /* bytes of ?rate= */

/*
 * The paths: requests and --help read this table. PROCESS stands in front of those of a process,
 * DEAD in front of those of one that has ended. kind and is_otlp are copied to the order; they are
 * read for place_job only, whatever the other rows have.
 */
#define PROCESS "/p/PID"
#define DEAD "/dead/KEY"

static const struct {
	const char *path;
	route_place_t place;
	bool is_post;
	job_kind_t kind;
	bool is_otlp;
	const char *help;
} places[] = {
	{"/", place_index, false, job_heap, false, "all processes, as a page"},
	{"/targets", place_targets, false, job_heap, false, "service discovery for Prometheus"},
	{"/metrics", place_metrics, false, job_heap, false, "figures of all processes"},
	{PROCESS "/", place_page, false, job_heap, false, "one process, as a page"},
	{PROCESS "/metrics", place_process_metrics, false, job_heap, false, "its figures"},
	{PROCESS "/debug/pprof/heap", place_job, false, job_heap, false,
	    "its profile: what is in use"},
	{PROCESS "/debug/pprof/allocs", place_job, false, job_allocs, false,
	    "the same with all that was allocated"},
	{PROCESS "/otlp", place_job, false, job_heap, true, "the profile for OTLP"},
	{PROCESS "/start", place_job, true, job_start, false, "starts a session"},
	{PROCESS "/stop", place_job, true, job_stop, false, "ends it"},
	{PROCESS "/mark", place_job, true, job_mark, false, "sets the mark of ?since=mark"},
	{"/dead/", place_dead_list, false, job_heap, false, "processes that ended, as a page"},
	{DEAD "/", place_dead, false, job_dead, false, "one of them, as a page"},
	{DEAD "/debug/pprof/heap", place_job, false, job_dead, false, "its last profile"},
};
enum { PLACES = sizeof(places) / sizeof(places[0]) };

/* Sets fault (an HTTP status) and why, unless there is a fault: the client gets the first. */
static void
set_fault(route_t *r, unsigned fault, const char *why) {
	if (r->fault == 0) {
		r->fault = fault;
		r->why = why;
	}
}

/*
 * Parses decimal digits. A size may end in K, M or G, upper or lower case: 1024, 1024^2 or 1024^3
 * bytes. False if the text is no such number, or the number is not from `least` to `most`; then
 * *out does not matter.
 */
static bool
read_number(const char *text, bool is_size, uint64_t least, uint64_t most, uint64_t *out) {
	static const char units[] = "KMG";
	size_t digits = strspn(text, "0123456789");
	if (digits == 0 || digits > DIGITS_MAX) {
		return false;
	}
	uint64_t n = strtoull(text, NULL, 10);
	char end = text[digits];
	const char *unit = is_size && end != '\0' && text[digits + 1] == '\0'
	    ? strchr(units, toupper((unsigned char)end)) : NULL;
	if (end != '\0' && unit == NULL) {
		return false;
	}
	unsigned shift = unit != NULL ? 10 * (unsigned)(unit - units + 1) : 0;
	if (n > most >> shift) {
		return false;
	}
	*out = n << shift;
	return *out >= least;
}

/* What stands in front of a path in the table: PROCESS, DEAD or "". */
static const char *
front_of(const char *path) {
	return strncmp(path, PROCESS, strlen(PROCESS)) == 0 ? PROCESS
	    : strncmp(path, DEAD, strlen(DEAD)) == 0 ? DEAD : "";
}

/*
 * Looks up `path`, what follows `front` (PROCESS, DEAD or "") in the path of the request, among the
 * places that begin with `front`. If it is not there sets a fault; "" is the page without its
 * slash.
 */
static void
route_place(const char *path, const char *front, route_t *r) {
	for (int i = 0; i < PLACES; i++) {
		if (strcmp(front_of(places[i].path), front) == 0
		    && strcmp(path, places[i].path + strlen(front)) == 0) {
			r->place = places[i].place;
			r->is_post = places[i].is_post;
			r->order.kind = places[i].kind;
			r->order.is_otlp = places[i].is_otlp;
			return;
		}
	}
	if (path[0] == '\0' && front[0] != '\0') {
		set_fault(r, 301, "the page has a slash at its end");
	}
	set_fault(r, 404, strcmp(front, PROCESS) == 0 ? "there is no such path below /p/PID"
	    : strcmp(front, DEAD) == 0 ? "there is no such path below /dead/KEY"
	    : "there is no such path; there are /, /targets, /metrics, /dead/, "
	    "/p/PID/debug/pprof/heap and more: jeprofd(1)");
}

/* Parses the path behind "/p/": a pid, then what route_place() looks up. */
static void
route_process(const char *path, route_t *r) {
	char number[12];
	size_t digits = strcspn(path, "/");
	uint64_t pid;
	if (digits >= sizeof(number)) {
		set_fault(r, 400, "the number of a process is expected after /p/");
		return;
	}
	memcpy(number, path, digits);
	number[digits] = '\0';
	if (number[0] == '0' || !read_number(number, false, 1, INT_MAX, &pid)) {
		set_fault(r, 400, "the number of a process is expected after /p/");
		return;
	}
	r->order.pid = (int)pid;
	route_place(path + digits, PROCESS, r);
}

/* Parses the path behind "/dead/": a key of DEAD_KEY_CHARS, then what route_place() looks up. */
static void
route_dead(const char *path, route_t *r) {
	size_t length = strspn(path, DEAD_KEY_CHARS);
	if (length == 0 || length >= sizeof(r->order.key)) {
		set_fault(r, 404, "there is no such path below /dead/KEY");
		return;
	}
	memcpy(r->order.key, path, length);
	route_place(path + length, DEAD, r);
}

void
route_path(const char *path, route_t *r) {
	memset(r, 0, sizeof(*r));
	if (strncmp(path, "/p/", 3) == 0) {
		route_process(path + 3, r);
	} else if (strncmp(path, "/dead/", 6) == 0 && path[6] != '\0') {
		route_dead(path + 6, r);
	} else {
		route_place(path, "", r);
	}
}

/* ---- arguments ---- */

typedef enum {
	arg_seconds,
	arg_rate,
	arg_since,
	arg_raw,
	arg_debug,
	arg_gc,
	arg_ages,
	arg_count
} arg_t;

/*
 * The arguments: whether profiles of living processes, starts, and profiles of the dead (processes
 * that ended) take it, the message for a wrong value, and a value for --help.
 */
static const struct {
	const char *key;
	bool is_of_profile;
	bool is_of_start;
	bool is_of_dead;
	const char *why;
	const char *value;
} arguments[arg_count] = {
	[arg_seconds] = {"seconds", true, true, false, "seconds is a number from 1 to 600, of a start "
	    "from 1 to 86400", "N"},
	[arg_rate] = {"rate", false, true, false, "rate is a number of bytes from 1 to 1024G, with K, "
	    "M or G behind if you like", "64K"},
	[arg_since] = {"since", true, false, false, "since can be: mark", "mark"},
	[arg_raw] = {"raw", true, false, true, "raw can be: 0, 1, false, true", "1"},
	[arg_debug] = {"debug", true, false, true, "debug can be: 0, or 1 for text, which is what raw "
	    "gives", "1"},
	[arg_gc] = {"gc", true, false, true, "gc can be: 0, 1; there is nothing to collect", "1"},
	[arg_ages] = {"ages", true, false, true, "ages can be: 0, 1", "1"},
};

/* The argument with this key, or arg_count if the path of the route takes none of that name. */
static arg_t
find_argument(const char *key, const route_t *r) {
	bool is_dead = r->place == place_job && r->order.kind == job_dead;
	bool is_living = r->place == place_job && !r->is_post && !is_dead;
	bool is_start = r->place == place_job && r->order.kind == job_start;
	arg_t i = 0;
	while (i < arg_count && (strcmp(key, arguments[i].key) != 0
	    || !((is_living && arguments[i].is_of_profile)
	    || (is_start && arguments[i].is_of_start)
	    || (is_dead && arguments[i].is_of_dead)))) {
		i++;
	}
	return i;
}

/* Sets *out from 0 or 1, with has_words also false or true; returns false for another value. */
static bool
read_flag(const char *value, bool has_words, bool *out) {
	*out = strcmp(value, "1") == 0 || (has_words && strcmp(value, "true") == 0);
	return *out || strcmp(value, "0") == 0 || (has_words && strcmp(value, "false") == 0);
}

/* Parses the value of an argument into the order; false if the value is not allowed. */
static bool
read_argument(arg_t argument, const char *value, order_t *o) {
	uint64_t n = 0;
	bool is_good = true, is_on = false;
	switch (argument) {
	case arg_seconds:
		is_good = read_number(value, false, 1, o->kind == job_start ? SESSION_MAX : SECONDS_MAX,
		    &n);
		o->seconds = (unsigned)n;
		break;
	case arg_rate:
		is_good = read_number(value, true, 1, RATE_MAX, &n);
		o->rate = n;
		break;
	case arg_since:
		is_good = o->is_since_mark = strcmp(value, "mark") == 0;
		break;
	case arg_ages:
		is_good = read_flag(value, false, &o->has_ages);
		break;
	default: /* arg_raw, arg_debug, arg_gc */
		is_good = read_flag(value, argument == arg_raw, &is_on);
		o->is_raw = o->is_raw || (is_on && argument != arg_gc);
	}
	return is_good;
}

void
route_argument(const char *key, const char *value, route_t *r) {
	if (r->fault != 0 || (key[0] == '\0' && value == NULL)) {
		return;
	}
	arg_t argument = find_argument(key, r);
	if (argument == arg_count) {
		set_fault(r, 400, "this path takes no such argument: profiles take seconds, since, raw, "
		    "debug, gc, ages (of the dead only the last four), and start takes seconds, rate");
	} else if ((r->given >> argument & 1) != 0) {
		set_fault(r, 400, "an argument stands there twice");
	} else if (!read_argument(argument, value != NULL ? value : "", &r->order)) {
		set_fault(r, 400, arguments[argument].why);
	}
	r->given |= argument < arg_count ? 1U << argument : 0;
}

void
route_finish(route_t *r) {
	/* The dead are in it too, but take neither seconds nor since. */
	bool is_profile = r->place == place_job && !r->is_post;
	/*
	 * Whether jeprofd surely makes the answer from two profiles, so that there is no raw one. Not
	 * for heap?since=mark: there the process can make the difference itself, as one profile. If it
	 * does not, the job refuses raw (scrape.c).
	 */
	bool takes_two = r->order.seconds > 0
	    || (r->order.is_since_mark && (r->order.kind != job_heap || r->order.is_otlp));
	if (is_profile && r->order.is_raw && takes_two) {
		set_fault(r, 400, "raw is one profile as it is, no difference: it goes with neither "
		    "seconds nor, but for the heap, since");
	}
	if (is_profile && r->order.seconds > 0 && r->order.is_since_mark) {
		set_fault(r, 400, "seconds and since exclude each other");
	}
}

/* Prints one line of --help: the arguments of paths with this kind of job. */
static void
put_arguments(const char *of, job_kind_t kind) {
	const route_t r = {.place = place_job, .is_post = kind == job_start, .order.kind = kind};
	printf("  of %s:", of);
	for (int i = 0; i < arg_count; i++) {
		if (find_argument(arguments[i].key, &r) != arg_count) {
			printf(" ?%s=%s", arguments[i].key, arguments[i].value);
		}
	}
	putchar('\n');
}

void
route_put_help(void) {
	puts("Paths:");
	for (int i = 0; i < PLACES; i++) {
		printf("  %-27s %s%s\n", places[i].path, places[i].is_post ? "POST: " : "",
		    places[i].help);
	}
	puts("Arguments:");
	put_arguments("profiles", job_heap);
	put_arguments("start", job_start);
	put_arguments("the dead", job_dead);
}
