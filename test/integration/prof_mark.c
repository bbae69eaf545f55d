/*
 * The mark: prof.dump_delta after prof.mark is the difference of two dumps, by site, exactly with
 * lg_prof_sample:0; when there is no mark; threads that run meanwhile; forked children.
 */
#include "dumps.h"

#include <pthread.h>
#include <sys/wait.h>

enum { SITES_MAX = 64, ADDRESSES_MAX = 600 };

/* What a profile says of one stack; of a "# shrunk" line with a minus. */
struct row {
	char addresses[ADDRESSES_MAX];
	long objects, bytes;
};

struct rows {
	unsigned n;
	long objects, bytes; /* of the first line of sums */
	char first[32];
	struct row v[SITES_MAX];
};

static struct rows before, after, delta;

/* The number of the row with these addresses, which may be a new one. */
static unsigned
row_of(struct rows *r, const char *addresses) {
	for (unsigned i = 0; i < r->n; i++)
		if (strcmp(r->v[i].addresses, addresses) == 0)
			return i;
	if (r->n == SITES_MAX || strlen(addresses) >= ADDRESSES_MAX)
		bail_out("more stacks, or longer ones, than the test has room for");
	strcpy(r->v[r->n].addresses, addresses);
	r->v[r->n].objects = r->v[r->n].bytes = 0;
	return r->n++;
}

/* Reads without malloc, so that the profiler sees nothing of it. */
static void
rows_read(struct rows *r, const char *path) {
	static char text[1 << 20];
	int fd = open(path, O_RDONLY | O_CLOEXEC), at = -1;
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	long objects, bytes;

	memset(r, 0, sizeof(*r));
	text[n < 0 ? 0 : n] = '\0';
	close(fd);
	for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
		char *stack = strchr(line, '@');

		if (r->first[0] == '\0')
			snprintf(r->first, sizeof(r->first), "%.31s", line);
		if (line[0] == '@') {
			at = (int)row_of(r, line);
		} else if (sscanf(line, "# shrunk %ld %ld @", &objects, &bytes) == 2) {
			at = (int)row_of(r, stack);
			r->v[at].objects = -objects;
			r->v[at].bytes = -bytes;
		} else if (sscanf(line, "  t*: %ld: %ld [", &objects, &bytes) == 2 && at >= 0) {
			r->v[at].objects = objects;
			r->v[at].bytes = bytes;
		} else if (sscanf(line, "  t*: %ld: %ld [", &objects, &bytes) == 2) {
			r->objects = objects;
			r->bytes = bytes;
		}
	}
}

static int
dump_to(const char *node, const char *path) {
	return ctl_write(node, path);
}

/* Whether `delta` is `after` less `before`, and has the sum of what grew. */
static void
check_difference(const char *what) {
	long grown = 0, objects = 0;
	unsigned wrong = 0, shrunk = 0;

	for (unsigned i = 0; i < before.n; i++) {
		unsigned at = row_of(&after, before.v[i].addresses);

		after.v[at].objects -= before.v[i].objects;
		after.v[at].bytes -= before.v[i].bytes;
	}
	for (unsigned i = 0; i < after.n; i++) {
		const struct row *a = &after.v[i], *d = &delta.v[row_of(&delta, a->addresses)];

		wrong += a->objects != d->objects || a->bytes != d->bytes;
		grown += a->bytes > 0 ? a->bytes : 0;
		objects += a->bytes > 0 ? a->objects : 0;
		shrunk += a->bytes < 0;
	}
	is_uint(wrong, 0, "%s: each stack is the difference of the two dumps", what);
	is_uint(delta.n, after.n, "%s: and there are no others", what);
	ok(delta.bytes == grown && delta.objects == objects, "%s: the sums are those of what grew",
	    what);
	ok(grown > 0 && shrunk > 0, "%s: something grew, something shrunk", what);
	is_str(delta.first, "heap_v2/1", "%s: the counts are estimates", what);
}

#define SITE(name) \
	__attribute__((noinline)) static void *name(size_t size) \
	{ \
		void *volatile p = malloc(size); \
		return p; \
	}
SITE(site_stays)
SITE(site_grows)
SITE(site_shrinks)
SITE(site_goes)
SITE(site_comes)

static void *kept[5][100];

static void
alloc_before(void) {
	for (int i = 0; i < 50; i++) {
		kept[0][i] = site_stays(1000);
		kept[1][i] = site_grows(2000);
		kept[2][i] = site_shrinks(3000);
		kept[3][i] = site_goes(100000);
	}
}

static void
alloc_after(void) {
	for (int i = 0; i < 50; i++) {
		free(kept[3][i]);
		kept[4][i] = site_comes(70000);
		if (i < 20) {
			kept[1][50 + i] = site_grows(2500);
			free(kept[2][i]);
		}
	}
}

static void
difference(void) {
	is_int(dump_to("prof.dump_delta", "none"), ENODATA, "no mark");
	is_int(ctl_void("prof.dump_delta"), ENODATA, "nor with a name made from the prefix");
	ok(access("none", F_OK) != 0 && dumps_read('*') == 0, "nothing is written");
	is_uint(ctl_u64("prof.dump_errors"), 0, "and that is no failed dump");
	alloc_before();
	is_int(dump_to("prof.dump", "before"), 0, "a dump");
	is_int(ctl_void("prof.mark"), 0, "the mark");
	alloc_after();
	is_int(dump_to("prof.dump", "after"), 0, "another dump");
	is_int(dump_to("prof.dump_delta", "delta"), 0, "the delta");
	rows_read(&before, "before");
	rows_read(&after, "after");
	rows_read(&delta, "delta");
	check_difference("mark");
	is_int(ctl_void("prof.dump_delta"), 0, "a name made from the prefix");
	is_uint(dumps_read('d'), 1, "which has the letter d");
	is_str(dump_text(0, "kind"), "delta", "its kind");
	ok(dump_text(0, "mark_time")[0] == '2', "the time of the mark");
	is_uint(dump_number(0, "shrunk_sites"), 2, "two sites shrunk");
	is_int(ctl_void("prof.mark"), 0, "the mark again");
	is_int(dump_to("prof.dump_delta", "delta"), 0, "delta");
	rows_read(&delta, "delta");
	ok(delta.n == 0 && delta.bytes == 0, "moves it: nothing has changed since");
	is_int(ctl_void("prof.reset"), 0, "reset");
	is_int(dump_to("prof.dump_delta", "delta"), ENODATA, "takes the mark off");
}

/* Sites that come and go by thousands: those with a mark are swept only when it is gone. */
__attribute__((noinline)) static void *
deep(unsigned bits, unsigned depth) {
	void *volatile p;

	if (depth == 0)
		return malloc(50000);
	p = bits & 1 ? deep(bits >> 1, depth - 1) : NULL;
	if (p == NULL)
		p = deep(bits >> 1, depth - 1);
	return p;
}

static void
swept(void) {
	static void *many[1024];
	const char *next = "next";

	for (unsigned i = 0; i < 1024; i++)
		many[i] = deep(i, 10);
	is_int(ctl_void("prof.mark"), 0, "the mark of 1024 sites");
	for (unsigned i = 0; i < 1024; i++)
		free(many[i]);
	for (unsigned round = 0; round < 64; round++)
		for (unsigned i = 0; i < 256; i++)
			free(deep(1024 + 256 * (round % 4) + i, 12));
	is_int(ctl_write("prof.dump_delta", next), 0, "all are freed, and others came and went");
	unsigned long long shrunk = 0;
	FILE *f = fopen(next, "r");
	char line[4096];

	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		shrunk += strncmp(line, "# shrunk ", 9) == 0;
	if (f != NULL)
		fclose(f);
	is_uint(shrunk, 1024, "each of them is among those that shrunk");
}

static bool stop;

static void *
busy(void *arg) {
	void *own[64] = {NULL};

	for (unsigned i = (unsigned)(uintptr_t)arg; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++) {
		free(own[i % 64]);
		own[i % 64] = i % 2 ? site_grows(1000 + i % 7 * 1000) : site_shrinks(500 + i % 5 * 900);
	}
	for (unsigned i = 0; i < 64; i++)
		free(own[i]);
	return NULL;
}

static void *
marks(void *arg) {
	unsigned bad = 0;

	for (unsigned i = 0; i < 60; i++)
		bad += ctl_void("prof.mark") != 0;
	(void)arg;
	return (void *)(uintptr_t)bad;
}

static void
threads(void) {
	pthread_t t[3], m;
	void *bad;
	unsigned written = 0, refused = 0, other = 0;

	for (unsigned i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, busy, (void *)(uintptr_t)(i * 17));
	pthread_create(&m, NULL, marks, NULL);
	for (unsigned i = 0; i < 60; i++) {
		int err = dump_to("prof.dump_delta", "delta");

		written += err == 0;
		refused += err == ENODATA;
		other += err != 0 && err != ENODATA;
		if (i % 8 == 7)
			ctl_void("prof.reset");
		if (err == 0) {
			rows_read(&delta, "delta");
			long sum = 0;

			for (unsigned k = 0; k < delta.n; k++)
				sum += delta.v[k].bytes > 0 ? delta.v[k].bytes : 0;
			other += sum != delta.bytes;
		}
	}
	pthread_join(m, &bad);
	is_int(ctl_void("prof.mark"), 0, "one more mark");
	is_int(dump_to("prof.dump_delta", "delta"), 0, "and a delta");
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	is_uint((uintptr_t)bad, 0, "60 marks beside deltas, resets and threads that allocate");
	is_uint(other, 0, "each delta adds up, or had no mark (%u written, %u not)", written, refused);
}

static void
sessions(void) {
	const char *options = "sample_interval:1,reset:false";

	alloc_before();
	is_int(ctl_write("prof.session.start", options), 0, "a session that keeps what was sampled");
	is_int(dump_to("prof.dump_delta", "delta"), ENODATA, "starts without a mark");
	is_int(ctl_void("prof.mark"), 0, "mark");
	is_int(ctl_void("prof.session.stop"), 0, "its end");
	is_int(dump_to("prof.dump_delta", "delta"), 0, "leaves the mark");
	is_int(ctl_write("prof.session.start", options), 0, "the next");
	is_int(dump_to("prof.dump_delta", "delta"), ENODATA, "takes it off");
	is_int(ctl_void("prof.session.stop"), 0, "stop");
}

static void
forked(void) {
	int status = -1;

	alloc_before();
	ctl_void("prof.mark");
	pid_t child = fork();
	if (child == 0) {
		alloc_after();
		_exit(dump_to("prof.dump_delta", "child"));
	}
	waitpid(child, &status, 0);
	is_int(status, 0, "a child has the mark of its parent");
	is_int(dump_to("prof.dump_delta", "delta"), 0, "so does the parent");
	rows_read(&delta, "delta");
	is_uint(delta.n, 0, "which has changed nothing");
	rows_read(&delta, "child");
	is_uint((unsigned long)delta.bytes / 1000, (50 * 81920 + 20 * 2560) / 1000, "the child has");
}

static void
unbooted(void) {
	is_int(ctl_void("prof.mark"), ENOENT, "nothing has started the profiler: mark");
	is_int(ctl_void("prof.dump_delta"), ENOENT, "delta");
}

int
main(int argc, char **argv) {
	static const char exact[] = "prof:true,lg_prof_sample:0,prof_prefix:p";
	static const struct dumps_test tests[] = {
		{"difference", difference, exact},
		{"swept", swept, exact},
		{"threads", threads, exact},
		{"sessions", sessions, exact},
		{"forked", forked, exact},
		{"unbooted", unbooted, "prof_prefix:p"},
	};

	return dumps_run_all(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
