/*
 * Dumps that cannot be written: directory missing or not writable, disk full, file size
 * and descriptor limits, links and pipes as target. Each gives an error that says what
 * and where, leaves no file behind, and the program and its profile go on.
 */
#include "ctl.h"
#include "heap.h"
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

static char dir[64];

static int
dump_to(const char *fmt, ...) {
	char path[8200];
	const char *name = path;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	return mallctl("prof.dump", NULL, NULL, &name, sizeof(name));
}

static bool
is_good_dump(const char *fmt, ...) {
	char path[4200];
	struct heap_profile h;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	h = heap_read(path);
	return h.good && h.has_maps && h.live_bytes > 0;
}

static bool
last_error_has(const char *part) {
	const char *e = ctl_str("prof.last_error");

	if (e != NULL && strstr(e, part) == NULL)
		diag("prof.last_error: \"%s\"", e);
	return e != NULL && strstr(e, part) != NULL;
}

static void
test_good(void) {
	struct stat st;
	mode_t old = umask(0);

	is_int(dump_to("%s/good.heap", dir), 0, "a dump to a path");
	umask(old);
	ok(is_good_dump("%s/good.heap", dir), "can be read");
	is_int(dump_to("%s/good.heap", dir), 0, "the same path again is replaced");
	ok(is_good_dump("%s/good.heap", dir), "and can be read");
	is_int(files_in(dir), 1, "nothing else is there");
	char path[100];
	snprintf(path, sizeof(path), "%s/good.heap", dir);
	ok(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600, "mode 0600 also under umask 0 (%o)",
	    st.st_mode & 0777);
	unlink(path);
}

static void
test_paths(void) {
	char longest[5000];
	char path[100], target[100];
	int rc;

	ok(dump_to("%s/missing/x.heap", dir) != 0, "no such directory");
	ok(last_error_has("ENOENT") && last_error_has("missing/x.heap"), "it says so");
	ok(dump_to("/proc/x.heap") != 0, "a directory that takes no files");
	ok(last_error_has("/proc/x.heap"), "it says so");
	memset(longest, 'l', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	ok(dump_to("%s/%s", dir, longest) != 0, "a path that is too long");
	ok(dump_to("%s", "") != 0, "an empty path");
	ok(dump_to("%s", dir) != 0, "a directory");
	snprintf(target, sizeof(target), "%s/target", dir);
	snprintf(path, sizeof(path), "%s/link", dir);
	close(open(target, O_WRONLY | O_CREAT, 0600));
	if (symlink(target, path) != 0)
		bail_out("symlink");
	is_int(dump_to("%s", path), ELOOP, "a symbolic link is not followed: ELOOP");
	struct stat st;
	ok(stat(target, &st) == 0 && st.st_size == 0, "its target is as it was");
	unlink(path);
	unlink(target);
	if (mkfifo(path, 0600) != 0)
		bail_out("mkfifo");
	alarm(400);
	rc = dump_to("%s", path);
	alarm(0);
	is_int(rc, ENXIO, "a pipe that nobody reads: ENXIO, at once");
	unlink(path);
	is_int(dump_to("/dev/null"), 0, "a device is written in place");
	is_int(files_in(dir), 0, "no file was left behind");
	is_int(dump_to("%s/after.heap", dir), 0, "and dumps still work");
	snprintf(path, sizeof(path), "%s/after.heap", dir);
	unlink(path);
}

static void
test_descriptors(void) {
	struct rlimit old, none = {0, 0};

	getrlimit(RLIMIT_NOFILE, &old);
	none.rlim_max = old.rlim_max;
	setrlimit(RLIMIT_NOFILE, &none);
	is_int(dump_to("%s/fd.heap", dir), EMFILE, "no descriptor left: EMFILE");
	setrlimit(RLIMIT_NOFILE, &old);
	ok(last_error_has("EMFILE"), "it says so");
	is_int(files_in(dir), 0, "no file");
}

static void
test_file_size(void) {
	struct rlimit old, small = {1000, 0};

	getrlimit(RLIMIT_FSIZE, &old);
	small.rlim_max = old.rlim_max;
	setrlimit(RLIMIT_FSIZE, &small);
	int err = dump_to("%s/big.heap", dir);
	setrlimit(RLIMIT_FSIZE, &old); /* our own output may go to a file */
	is_int(err, EFBIG, "RLIMIT_FSIZE: EFBIG, and no SIGXFSZ");
	ok(last_error_has("EFBIG"), "it says so");
	is_int(files_in(dir), 0, "no half file");
}

/* Full disk and read-only disk, in a mount namespace of a child. */
static void
disks(void *arg) {
	(void)arg;
	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0
	    || mount("none", dir, "tmpfs", 0, "size=4k,nr_inodes=8") != 0)
		_exit(77);
	if (dump_to("%s/full.heap", dir) != ENOSPC)
		_exit(1);
	if (!last_error_has("ENOSPC") || files_in(dir) != 0)
		_exit(2);
	if (mount("none", dir, NULL, MS_REMOUNT | MS_RDONLY, NULL) != 0)
		_exit(77);
	if (dump_to("%s/ro.heap", dir) != EROFS)
		_exit(3);
	if (!last_error_has("EROFS"))
		_exit(4);
	if (mount("none", dir, NULL, MS_REMOUNT, "size=1m") != 0)
		_exit(77);
	_exit(dump_to("%s/good.heap", dir) == 0 && is_good_dump("%s/good.heap", dir) ? 0 : 5);
}

static void
test_disks(void) {
	static struct test_result r;

	run_forked(&r, disks, NULL);
	if (exited_with(&r, 77)) {
		skip(1, "no mount namespace");
		return;
	}
	child_exits(&r, 0, "a full disk, a read-only disk, and a good one again");
}

static void
test_node(void) {
	const char *name = "x", *null = NULL;
	size_t len = sizeof(name);
	uint64_t dummy;

	is_int(mallctl("prof.dump", &dummy, &len, &name, sizeof(name)), EPERM,
	    "prof.dump gives nothing");
	is_int(mallctl("prof.dump", NULL, NULL, &name, 4), EINVAL, "a wrong length");
	is_int(ctl_write("prof.prefix", null), EFAULT, "prof.prefix of NULL");
	is_int(mallctl("prof.prefix", NULL, NULL, &name, 1), EINVAL, "prof.prefix, a wrong length");
	name = "";
	is_int(ctl_write("prof.prefix", name), 0, "an empty prefix");
	is_int(mallctl("prof.dump", NULL, NULL, NULL, 0), EFAULT, "prof.dump without path or prefix");
}

static void
test_prefix(void) {
	char prefix[100], longest[9000];
	const char *name = prefix;

	snprintf(prefix, sizeof(prefix), "%s/%%n%%s", dir);
	is_int(ctl_write("prof.prefix", name), 0, "a prefix with percent signs");
	is_int(mallctl("prof.dump", NULL, NULL, NULL, 0), 0, "is taken as it stands");
	is_int(files_in(dir), 1, "one file");
	for (int i = 0; i < 9; i++)
		mallctl("prof.dump", NULL, NULL, NULL, 0);
	is_int(files_in(dir), 10, "each dump has a name of its own");
	memset(longest, 'p', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	name = longest;
	ok(ctl_write("prof.prefix", name) != 0, "a prefix of 9000 bytes is refused");
	is_int(mallctl("prof.dump", NULL, NULL, NULL, 0), 0, "and the old one holds");
	is_int(files_in(dir), 11, "so it does");
}

static void *volatile live[2000];

static int
child_all(void) {
	char cmd[200];

	strcpy(dir, "/tmp/jetest.XXXXXX");
	if (mkdtemp(dir) == NULL)
		return 99;
	for (int i = 0; i < 2000; i++)
		live[i] = malloc((size_t)(i + 100));
	test_good();
	test_paths();
	test_descriptors();
	test_file_size();
	test_disks();
	test_node();
	test_prefix();
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	is_int(system(cmd), 0, "clean up");
	return done_testing();
}

/* Automatic dumps into nothing: one line, not one per dump, and the program ends well. */
static int
child_automatic(void) {
	for (int i = 0; i < 2000; i++)
		live[i] = malloc(10000);
	return 0;
}

static int
count(const char *text, const char *part) {
	int n = 0;

	for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
		n++;
	return n;
}

/* A profile at the end, under a prefix that holds. */
static int
child_final(void) {
	printf("prefix %s\n", ctl_str("opt.prof_prefix"));
	fflush(stdout);
	is_int(ctl_void("prof.dump"), 0, "prof.dump");
	printf("%s\n", ctl_str("prof.session.last_dump"));
	fflush(stdout);
	unlink(ctl_str("prof.session.last_dump"));
	return done_testing();
}

static int
child_nothing(void) {
	return 0;
}

/* A refused prefix leaves the one from before, in name and in effect. */
static void
test_long_prefix(void) {
	static struct test_result r;
	static char conf[5000] = "abort_conf:false,prof:true,prof_prefix:/tmp/jekept,prof_prefix:/tmp/";

	memset(conf + strlen(conf), 'x', 300);
	run_child_conf(&r, "final", conf);
	child_exits(&r, 0, "a prefix that is too long");
	contains(r.out, "Invalid conf value: prof_prefix:/tmp/xxx", "is refused");
	contains(r.out, "prefix /tmp/jekept\n", "the one before stays");
	contains(r.out, "\n/tmp/jekept.", "and names the profile");
}

/* What somebody wrote in vain is said at the start, once. */
static void
test_notices(void) {
	static const struct {
		const char *conf;
		const char *line; /* NULL: nothing is printed */
	} c[] = {
		{"prof_final:true", "<jemalloc>: prof_final without prof:true: "},
		{"prof_prefix:/tmp/x", "<jemalloc>: prof_prefix without prof:true: "},
		{"prof_final:true,prof_prefix:/tmp/x", "<jemalloc>: prof_final without prof:true: "},
		{"prof_threshold_large:1000000", "<jemalloc>: a threshold without prof:true: "},
		{"prof_threshold_highwater:90%,prof_highwater_metric:rss",
		    "<jemalloc>: a threshold without prof:true: "},
		{"prof_blackbox:true", "<jemalloc>: prof_blackbox without prof:true: "},
		{"prof:true,prof_threshold_large:1000000", NULL},
		{"prof:true,prof_prefix:/nowhere/x", "<jemalloc>: prof_prefix:/nowhere/x: there is no such "
		    "directory"},
		{"prof:true,prof_prefix:/tmp/x", NULL},
		{"prof:true,prof_prefix:x", NULL},
		{"prof:true", NULL},
		{"prof_prefix:/tmp/x,prof_ctl_fd:true", NULL},
	};
	static struct test_result r;

	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		run_child_conf(&r, "nothing", c[i].conf);
		child_exits(&r, 0, "%s", c[i].conf);
		if (c[i].line != NULL)
			contains(r.out, c[i].line, "says so");
		is_int(count(r.out, "<jemalloc>"), c[i].line != NULL, "in one line");
	}
}

static const struct test_child children[] = {
	{"final", child_final},
	{"nothing", child_nothing},
	{"all", child_all},
	{"automatic", child_automatic},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	static struct test_result r;

	test_children(argc, argv, children);
	if (!ctl_bool("config.prof"))
		plan_skip_all("no profiler in this build");
	run_child_conf(&r, "all", "prof:true,lg_prof_sample:10");
	child_exits(&r, 0, "dumps that cannot be written");
	run_child_conf(&r, "automatic", "abort:false,prof:true,lg_prof_sample:10,lg_prof_interval:20,"
	    "prof_final:true,prof_prefix:/nowhere/at/all");
	child_exits(&r, 0, "automatic dumps into a missing directory");
	contains(r.out, "<jemalloc>: ", "are reported");
	contains(r.out, "/nowhere/at/all", "with their path");
	ok(count(r.out, "/nowhere/at/all") <= 5, "but not every time (%d lines)",
	    count(r.out, "/nowhere/at/all"));
	run_child_conf(&r, "automatic", "prof:true,lg_prof_sample:10,lg_prof_interval:20,abort:true,"
	    "prof_prefix:/nowhere/at/all");
	ok(died_of(&r, SIGABRT), "abort:true aborts there");
	test_long_prefix();
	test_notices();
	return done_testing();
}
