/*
 * Parts of jeprofd without a process: what it takes of /proc/PID/cgroup and of /etc/passwd, and
 * what it does without memory for one process more or for the record of one that has ended.
 * Prints what is wrong; 1 if anything is. Built by parts.t.
 */
#include <stdbool.h>
#include <stdlib.h>

static bool is_without;
#define malloc(n) (is_without ? NULL : (malloc)(n))
#define realloc(p, n) (is_without ? NULL : (realloc)(p, n))
#include "dead_store.c"
#define lock table_mutex
#include "table.c"
#undef lock
#undef realloc
#undef malloc
static struct timespec clocks[2]; /* since 1970, since boot */
#define clock_gettime(which, at) (*(at) = clocks[(which) == CLOCK_BOOTTIME])
#include "labels.c"
#undef clock_gettime
#include "targets.c"

options_t options;
const char *const end_words[end_count] = {"exit", "signal", "oom", "unknown"};

void
talk(const char *format, ...) {
	(void)format;
}

const char *
cache_doubt(int at, char buf[80]) {
	(void)at;
	(void)buf;
	return NULL;
}

void
jeprof_close(jeprof_target_t *t) {
	(void)t;
}

static int faults;

static void
check(const char *what, const char *got, const char *want) {
	if (strcmp(got, want) != 0) {
		printf("%s: %s, not %s\n", what, got, want);
		faults++;
	}
}

static void
check_cgroup(const char *text, const char *want) {
	labels_t l = {.cgroup = ""};
	take_cgroup(text, &l);
	check(text, l.cgroup, want);
}

static void
check_user(unsigned uid, const char *want) {
	char name[64];
	read_user("passwd", uid, name, sizeof(name));
	check("user", name, want);
}

/* Users around one whose line is longer than any buffer that a stack has. */
static void
check_users(void) {
	FILE *out = fopen("passwd", "w");
	fputs("root:x:0:0::/root:/bin/sh\n# remark\n+::::::\nodd:x:9z:9::/:\nshort:x\n"
	    "spaced:x: 9:9::/:\nplus:x:+9:9::/:\nnoend:x:9\nlong:x:7:7:", out);
	for (int i = 0; i < 100000; i++) {
		fputc('n', out);
	}
	fputs(":/:/bin/sh\nnone::8:8::/:\nlast:x:70:70::/:", out);
	fclose(out);
	int before = dup(0), after;
	close(before);
	check_user(0, "root");
	check_user(7, "long");
	check_user(8, "none");
	check_user(70, "last");
	check_user(9, "9");
	after = dup(0);
	close(after);
	check("a file stays open", after == before ? "no" : "yes", "no");
}

/* When a process has started is the same at each moment at which it is asked for. */
static void
check_start(void) {
	char got[32];
	uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK);
	for (long tenth = 0; tenth < 20; tenth++) { /* booted at 1000.751; started 7.5 s after that */
		long real = 107 + tenth, boot = 99 + tenth;
		clocks[0] = (struct timespec){1000 + real / 10, real % 10 * 100000000 + 50000000};
		clocks[1] = (struct timespec){boot / 10, boot % 10 * 100000000 + 99000000};
		snprintf(got, sizeof(got), "%llu", (unsigned long long)started_at(7 * hz + hz / 2));
		check("started", got, "1008");
	}
}

/* A process that has ended: its box is kept in a memory file, or nothing of it is. */
static void
check_dead(void) {
	dead_t d = {.how = end_signal, .ended_ms = now_ms()};
	dead_counts_t c;
	FILE *box = tmpfile();
	int before = dup(0), after;
	close(before);
	is_without = true;
	check("kept without memory", dead_keep(&d, fileno(box)) ? "yes" : "no", "no");
	after = dup(0);
	close(after);
	check("a descriptor is lost", after == before ? "no" : "yes", "no");
	is_without = false;
	check("kept", dead_keep(&d, fileno(box)) ? "yes" : "no", "yes");
	dead_count(&c);
	check("both are counted", c.kept == 1 && c.ended[end_signal] == 2 ? "yes" : "no", "yes");
	fclose(box);
}

/*
 * Processes come and go: what answers lists those with the library, by pid. One that there is no
 * memory for is not in the table, and the list is as before.
 */
static void
check_table(void) {
	enum { MANY = 5000 };
	text_t targets = {0};
	char seen[32];
	int wrong = 0, pid = 2;
	check("no process, no list", table_sorted()[0] == NULL ? "yes" : "no", "yes");
	is_without = true;
	check("added without memory", table_add(1, 1) == NULL ? "no" : "yes", "no");
	check("then no list", table_sorted()[0] == NULL ? "yes" : "no", "yes");
	is_without = false;
	for (int i = MANY; i > 0; i--) {
		table_add(i, 1)->kind = i % 2 == 0 ? kind_ours : kind_foreign;
	}
	is_without = true;
	proc_t *const *p = table_sorted();
	for (; *p != NULL; p++, pid += 2) {
		wrong += (*p)->pid != pid;
	}
	is_without = false;
	check("sorted", wrong == 0 && pid == MANY + 2 ? "yes" : "no", "yes");
	for (int i = 1; i <= MANY; i++) {
		table_remove(table_find(i));
	}
	check("none left", records == 0 && table_sorted()[0] == NULL ? "yes" : "no", "yes");
	tell_targets(&targets, "host");
	snprintf(seen, sizeof(seen), "%s", targets.at);
	check("no targets", seen, "[]\n");
	free(targets.at);
}

int
main(void) {
	check_cgroup("8:pids:/\n4:memory:/a\n0::/b\n", "/a");
	check_cgroup("4:memory,hugetlb:/a\n0::/b\n", "/a");
	check_cgroup("4:cpu,memory:/a\n0::/b\n", "/a");
	check_cgroup("4:cpu,memory,hugetlb:/a\n0::/b\n", "/a");
	check_cgroup("4:memory2,xmemory,cpu:/memory:/a\n0::/b\n", "/b");
	check_cgroup("0::/b\n", "/b");
	check_cgroup("1:name=systemd:/c\n0::/b", "/b");
	check_cgroup("0::/x:memory:/etc\n", "/x:memory:/etc");
	check_cgroup("9:pids:/:memory:/x\n4:memory:/a\n0::/b\n", "/a");
	check_cgroup("9:pids:/0::/x\n0::/b\n", "/b");
	check_cgroup("9:pids:/\n\nmemory\n", "");
	check_cgroup("", "");
	check_users();
	check_dead();
	check_start();
	check_table();
	return faults != 0;
}
