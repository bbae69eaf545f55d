/*
 * Names of profiles, as a program gets them: every kind in both modes of prof_dump_timestamp; a
 * forked child; containers whose processes have the same number and one directory. No two
 * profiles ever have one name, and none is written over another.
 */
#include "ctl.h"
#include "heap.h"
#include <dirent.h>
#include <regex.h>
#include <sched.h>
#include <sys/mount.h>

static char dir[] = "/tmp/jetest.XXXXXX";
static void *volatile live[4000];

/* Calls fn for each file of ours; their number. */
static int
each_file(void (*fn)(const char *name, void *arg), void *arg) {
	DIR *d = opendir(dir);
	struct dirent *e;
	int n = 0;

	while (d != NULL && (e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		n++;
		if (fn != NULL)
			fn(e->d_name, arg);
	}
	if (d != NULL)
		closedir(d);
	return n;
}

struct kinds {
	bool timestamps;
	int bad;
	unsigned seen; /* bit by letter */
	bool is_alive;
};

#define STAMP "[0-9]{8}T[0-9]{6}\\.[0-9]{3}Z"

static void
name_check(const char *name, void *arg) {
	struct kinds *k = arg;
	regmatch_t m[3];
	regex_t re;
	char text[300];

	/* Fixed parts, then the letter: f without a number, the others with one. */
	/* What is being written by a process that lives has no name yet. */
	if (name[0] == '.' && k->is_alive)
		return;
	snprintf(text, sizeof(text), "^x\\.[0-9]+\\.%s[0-9]+\\.(f|[imusalht][0-9]+)\\.heap$",
	    k->timestamps ? STAMP "(_" STAMP ")?\\." : "()");
	if (regcomp(&re, text, REG_EXTENDED) != 0)
		bail_out("regcomp");
	if (regexec(&re, name, 3, m, 0) != 0) {
		diag("name: %s", name);
		k->bad++;
	} else {
		char letter = name[m[2].rm_so];
		bool has_span = k->timestamps && m[1].rm_so >= 0;

		k->seen |= 1u << (letter - 'a');
		if (has_span != (k->timestamps && letter == 's')) {
			diag("span: %s", name);
			k->bad++;
		}
	}
	regfree(&re);
}

static void
remove_file(const char *name, void *arg) {
	char path[400];

	(void)arg;
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	unlink(path);
}

/* The bits of so many letters. */
static unsigned
bits(const char *letters) {
	unsigned all = 0;

	for (; *letters != '\0'; letters++)
		all |= 1u << (*letters - 'a');
	return all;
}

/*
 * Of those that become due while a profile is written, one is written afterwards, and the timer's
 * may be written at any time: so each threshold is passed until its kind is there.
 */
static int
child_kinds(void) {
	struct kinds k = {true, 0, 0, true};
	unsigned n_large = 0;

	/* The directory is that of the prefix. */
	snprintf(dir, sizeof(dir), "%s", ctl_str("opt.prof_prefix"));
	for (int i = 0; i < 1000; i++)
		live[i] = malloc(10000);
	mallctl("prof.dump", NULL, NULL, NULL, 0);
	mallctl("prof.session.start", NULL, NULL, NULL, 0);
	mallctl("prof.session.stop", NULL, NULL, NULL, 0);
	k.timestamps = ctl_bool("opt.prof_dump_timestamp");
	for (int i = 0; i < 12000; i++) {
		k.seen = 0;
		each_file(name_check, &k);
		if (k.seen == bits("imusalht"))
			break;
		if (n_large < 1000)
			live[1000 + n_large++] = malloc(9 << 20);
		usleep(10000);
	}
	return k.bad == 0 ? 0 : 1;
}

static void
test_kinds(bool timestamps) {
	static struct test_result r;
	struct kinds k = {timestamps, 0, 0, false};
	unsigned all = bits("fimusalht");
	char conf[600];

	snprintf(conf, sizeof(conf),
	    "prof:true,lg_prof_sample:12,lg_prof_interval:20,prof_gdump:true,prof_final:true,"
	    "prof_threshold_alloc:2M,prof_threshold_large:8M,prof_threshold_highwater:2M,"
	    "prof_threshold_time_ms:20,prof_dump_min_gap_ms:0,prof_dump_max_files:0,prof_prefix:%s/x,"
	    "prof_dump_timestamp:%s", dir, timestamps ? "true" : "false");
	run_child_conf(&r, "kinds", conf);
	child_exits(&r, 0, "a program that dumps for every reason, timestamps %s", timestamps ? "on"
	    : "off");
	int n = each_file(name_check, &k);
	is_int(k.bad, 0, "%d names are as they should be", n);
	ok(k.seen == all, "all nine kinds are there (%x of %x)", k.seen, all);
	each_file(remove_file, NULL);
}

/* ---- the end of a process whose profile is just being written ---- */

static unsigned n_live;

/* Two calls to choose from at each step: 2^depth places. */
static void
__attribute__((noinline))
walk(unsigned path, int depth) {
	if (depth == 0)
		live[n_live++] = malloc(100);
	else if ((path >> (depth - 1) & 1) != 0) {
		walk(path, depth - 1);
		__asm__ volatile("nop");
	} else
		walk(path, depth - 1);
	__asm__ volatile("" : : "r"(path), "r"(depth));
}

static int
child_ends(void) {
	struct kinds k = {true, 0, 0, true};

	snprintf(dir, sizeof(dir), "%s", ctl_str("opt.prof_prefix"));
	for (unsigned path = 0; path < 4000; path++)
		walk(path, 12);
	for (int i = 0; i < 12000; i++) {
		each_file(name_check, &k);
		if (k.seen & 1u << ('t' - 'a'))
			return 0;
		usleep(10000);
	}
	return 1;
}

/*
 * The thread of the profiler writes one profile after the other; one that is given up is nobody's
 * failure.
 */
static void
test_ends(void) {
	static struct test_result r;
	char conf[300];
	int bad = 0;

	snprintf(conf, sizeof(conf),
	    "prof:true,prof_final:true,lg_prof_sample:0,abort:true,prof_thread:true,"
	    "prof_threshold_time_ms:1,prof_dump_min_gap_ms:0,"
	    "prof_dump_max_files:0,prof_prefix:%s/x", dir);
	for (int i = 0; i < 10; i++) {
		run_child_conf(&r, "ends", conf);
		if (!exited_with(&r, 0) || r.len != 0) {
			bad++;
			diag_result(&r);
		}
		each_file(remove_file, NULL);
	}
	is_int(bad, 0, "ten processes end while a profile is written, and say nothing");
}

/* ---- the same process number twice ---- */

#define EACH 15

static int
dumps(void) {
	int bad = 0;

	for (int i = 0; i < EACH; i++)
		bad += mallctl("prof.dump", NULL, NULL, NULL, 0) != 0;
	return bad;
}

static int
child_dumps(void) {
	live[0] = malloc(100000);
	return dumps();
}

/* A process, its child and its grandchild dump at once. */
static int
dumps_with_child(int generations) {
	int status = 0;
	pid_t pid = generations == 0 ? 0 : fork();

	if (pid == 0 && generations > 0)
		_exit(dumps_with_child(generations - 1));
	int bad = dumps();
	if (pid > 0)
		waitpid(pid, &status, 0);
	return bad + (status != 0);
}

static int
child_forks(void) {
	live[0] = malloc(100000);
	return dumps_with_child(2);
}

/* Two containers at once, then a third: the program is process 1 in each. */
static pid_t
container_start(void) {
	pid_t pid = fork();
	int status = -1;

	if (pid != 0)
		return pid;
	if (unshare(CLONE_NEWPID) != 0)
		_exit(77);
	pid = fork();
	if (pid == 0) {
		execl("/proc/self/exe", "dump_names", "--child=dumps", (char *)NULL);
		_exit(99);
	}
	waitpid(pid, &status, 0);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 98);
}

static int
child_containers(void) {
	int status[3] = {-1, -1, -1};
	pid_t first = container_start(), second = container_start();

	waitpid(first, &status[0], 0);
	waitpid(second, &status[1], 0);
	waitpid(container_start(), &status[2], 0);
	for (int i = 0; i < 3; i++)
		if (status[i] != 0)
			return WIFEXITED(status[i]) ? WEXITSTATUS(status[i]) : 97;
	return 0;
}

struct found {
	int whole;
	int of_one;	/* with process number 1 in the name */
};

static void
count_whole(const char *name, void *arg) {
	struct found *f = arg;
	char path[400];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f->whole += heap_read(path).good;
	f->of_one += strncmp(name, "x.1.", 4) == 0;
}

static void
test_same_number(bool timestamps) {
	static struct test_result r;
	struct found f = {0, 0};
	char conf[300];

	snprintf(conf, sizeof(conf),
	    "prof:true,lg_prof_sample:12,prof_prefix:%s/x,prof_dump_timestamp:%s", dir, timestamps
	    ? "true" : "false");
	run_child_conf(&r, "forks", conf);
	child_exits(&r, 0, "a process, its child and its grandchild, timestamps %s", timestamps ? "on"
	    : "off");
	is_int(each_file(count_whole, &f), 3 * EACH, "as many files as dumps");
	is_int(f.whole, 3 * EACH, "each of them whole");
	each_file(remove_file, NULL);
	run_child_conf(&r, "containers", conf);
	if (exited_with(&r, 77)) {
		skip(3, "no name space of processes");
		return;
	}
	child_exits(&r, 0, "three containers, the program is process 1 in each");
	f = (struct found){0, 0};
	is_int(each_file(count_whole, &f), 3 * EACH, "as many files as dumps");
	ok(f.whole == 3 * EACH && f.of_one == 3 * EACH, "each whole, all of process 1 (%d, %d)",
	    f.whole, f.of_one);
	each_file(remove_file, NULL);
}

static const struct test_child children[] = {
	{"kinds", child_kinds},
	{"ends", child_ends},
	{"dumps", child_dumps},
	{"forks", child_forks},
	{"containers", child_containers},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	test_children(argc, argv, children);
	if (!ctl_bool("config.prof"))
		plan_skip_all("no profiler in this build");
	if (mkdtemp(dir) == NULL)
		bail_out("mkdtemp");
	test_kinds(true);
	test_kinds(false);
	test_ends();
	test_same_number(true);
	test_same_number(false);
	is_int(rmdir(dir), 0, "nothing else is left");
	return done_testing();
}
