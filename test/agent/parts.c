/*
 * Parts of jeprofd without a process: what it takes of /proc/PID/cgroup and of /etc/passwd, and
 * what it does without memory for the list of processes or for the record of one that has ended.
 * Prints what is wrong; 1 if anything is. Built by parts.t.
 */
#include <stdbool.h>
#include <stdlib.h>

static bool is_without;
#define malloc(n) (is_without ? NULL : (malloc)(n))
#include "dead_store.c"
#undef malloc
#include "labels.c"
#include "metrics.c"
#include "targets.c"

options_t options;
counts_t counts;
const char *const end_words[end_count] = {"exit", "signal", "oom", "unknown"};

void
table_lock(void) {}

void
table_unlock(void) {}

/* As without memory. */
proc_t **
table_sorted(void) {
	return NULL;
}

proc_t *
table_find(int pid) {
	(void)pid;
	return NULL;
}

size_t
proc_labels(const proc_t *p, label_t *labels) {
	(void)p;
	(void)labels;
	return 0;
}

bool
proc_has(const proc_t *p, fig_t figure) {
	(void)p;
	(void)figure;
	return false;
}

const char *
state_word(uint32_t state) {
	(void)state;
	return "";
}

bool
dead_holds(int pid, uint64_t start) {
	(void)pid;
	(void)start;
	return false;
}

unsigned
dead_held(void) {
	return 0;
}

kills_t
end_kills(const char *cgroup) {
	(void)cgroup;
	return (kills_t){0};
}

void
push_read(push_figures_t *f) {
	memset(f, 0, sizeof(*f));
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
	fputs("root:x:0:0::/root:/bin/sh\n# remark\n+::::::\nlong:x:7:7:", out);
	for (int i = 0; i < 100000; i++) {
		fputc('n', out);
	}
	fputs(":/:/bin/sh\nnone::8:8::/:\nlast:x:70:70::/:", out);
	fclose(out);
	check_user(0, "root");
	check_user(7, "long");
	check_user(8, "none");
	check_user(70, "last");
	check_user(9, "9");
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

int
main(void) {
	text_t targets = {0}, metrics = {0};
	check_cgroup("8:pids:/\n4:memory:/a\n0::/b\n", "/a");
	check_cgroup("0::/b\n", "/b");
	check_cgroup("1:name=systemd:/c\n0::/b", "/b");
	check_cgroup("0::/x:memory:/etc\n", "/x:memory:/etc");
	check_cgroup("9:pids:/:memory:/x\n4:memory:/a\n0::/b\n", "/a");
	check_cgroup("9:pids:/0::/x\n0::/b\n", "/b");
	check_cgroup("9:pids:/\n\nmemory\n", "");
	check_cgroup("", "");
	check_users();
	check_dead();
	tell_targets(&targets, "host");
	check("/targets without memory", targets.is_cut ? "cut" : "whole", "cut");
	tell_metrics(&metrics, true);
	check("/metrics without memory", metrics.is_cut ? "cut" : "whole", "cut");
	free(targets.at);
	free(metrics.at);
	return faults != 0;
}
