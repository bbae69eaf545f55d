/*
 * The heap profiles in the current directory, for tests: how many of a kind, in the order in which
 * they were written, and what their lines "# jemalloc.key=value" say. Nothing here allocates with
 * malloc, so looking does not change what is counted. Each test is a process with options and a
 * directory of its own, in which it begins: that is where profiles go.
 */
#pragma once

#include "ctl.h"
#include <sys/syscall.h>

#define DUMPS_MAX 4096

struct dump_name {
	unsigned seq;		/* the process-wide number in its name */
	char kind;
	char name[252];
};

struct dump_list {
	unsigned n;
	struct dump_name v[DUMPS_MAX];
};

static struct dump_list dumps __attribute__((unused));

/* <anything>.<seq>.<kind>[<kseq>].heap */
TEST_FN bool
dump_name_parse(const char *name, struct dump_name *d) {
	const char *end = strrchr(name, '.');
	const char *kind = end;

	if (end == NULL || strcmp(end, ".heap") != 0 || name[0] == '.'
	    || strlen(name) >= sizeof(d->name))
		return false;
	while (kind > name && kind[-1] != '.')
		kind--;
	if (kind - 1 <= name)
		return false;
	const char *seq = kind - 1;
	while (seq > name && seq[-1] >= '0' && seq[-1] <= '9')
		seq--;
	d->kind = *kind;
	d->seq = (unsigned)strtoul(seq, NULL, 10);
	strcpy(d->name, name);
	return true;
}

TEST_FN int
dumps_compare(const void *a, const void *b) {
	unsigned x = ((const struct dump_name *)a)->seq, y = ((const struct dump_name *)b)->seq;

	return x < y ? -1 : x > y;
}

/*
 * Fills `dumps` with those of a kind ('*': all) whose names hold `part` (NULL: any); returns how
 * many.
 */
TEST_FN unsigned
dumps_read_part(char kind, const char *part) {
	static char buf[32768];
	struct dump_name d;
	long got;
	int fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	dumps.n = 0;
	while (fd >= 0 && (got = syscall(SYS_getdents64, fd, buf, sizeof(buf))) > 0) {
		for (char *at = buf; at < buf + got; at += *(unsigned short *)(at + 16)) {
			if (!dump_name_parse(at + 19, &d) || (kind != '*' && d.kind != kind))
				continue;
			if ((part == NULL || strstr(d.name, part) != NULL) && dumps.n < DUMPS_MAX)
				dumps.v[dumps.n++] = d;
		}
	}
	close(fd);
	for (unsigned i = 1; i < dumps.n; i++) { /* nearly sorted, and qsort might allocate */
		struct dump_name moved = dumps.v[i];
		unsigned j = i;

		for (; j > 0 && dumps_compare(&dumps.v[j - 1], &moved) > 0; j--)
			dumps.v[j] = dumps.v[j - 1];
		dumps.v[j] = moved;
	}
	return dumps.n;
}

TEST_FN unsigned
dumps_read(char kind) {
	return dumps_read_part(kind, NULL);
}

/* The value of a line "# jemalloc.key=value" of the i-th of `dumps`; "" if there is none. */
TEST_FN const char *
dump_text(unsigned i, const char *key) {
	static char text[1 << 16], value[512]; /* the lines stand in front */
	char line[80];
	const char *at;
	int fd = i < dumps.n ? open(dumps.v[i].name, O_RDONLY | O_CLOEXEC) : -1;
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	value[0] = '\0';
	text[n < 0 ? 0 : n] = '\0';
	if (fd >= 0)
		close(fd);
	snprintf(line, sizeof(line), "\n# jemalloc.%s=", key);
	at = strstr(text, line);
	if (at != NULL)
		snprintf(value, sizeof(value), "%.*s", (int)strcspn(at + strlen(line), "\n"),
		    at + strlen(line));
	return value;
}

TEST_FN unsigned long long
dump_number(unsigned i, const char *key) {
	return strtoull(dump_text(i, key), NULL, 10);
}

/* Waits until there are n of a kind, at most some minutes; how many there are then. */
TEST_FN unsigned
dumps_await(char kind, unsigned n) {
	for (unsigned i = 0; i < 20000 && dumps_read(kind) < n; i++)
		usleep(10000);
	return dumps_read(kind);
}

/* --------------------------------------------------------------- a process and a directory each */

struct dumps_test {
	const char *name;
	void (*fn)(void);
	const char *conf;
};

TEST_FN void
dumps_run_child(const struct dumps_test *t) {
	static struct test_result r;
	char dir[] = "/tmp/dumps.XXXXXX", command[100];

	if (mkdtemp(dir) == NULL || chdir(dir) != 0)
		bail_out("no directory");
	run_child_conf(&r, t->name, t->conf);
	child_exits(&r, 0, "%s", t->name);
	snprintf(command, sizeof(command), "chmod -R u+rwx %s; rm -rf %s", dir, dir);
	if (chdir("/") != 0 || system(command) != 0)
		diag("%s is left", dir);
}

/* The value for main() to return. */
TEST_FN int
dumps_run_all(int argc, char **argv, const struct dumps_test *tests, size_t n) {
	const char *child = argc > 1 && strncmp(argv[1], "--child=", 8) == 0 ? argv[1] + 8 : NULL;

	if (!ctl_bool("config.prof"))
		plan_skip_all("built without the profiler");
	for (size_t i = 0; i < n; i++) {
		if (child == NULL) {
			dumps_run_child(&tests[i]);
		} else if (strcmp(child, tests[i].name) == 0) {
			tests[i].fn();
			exit(done_testing());
		}
	}
	return done_testing();
}
