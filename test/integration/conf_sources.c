/*
 * The five sources of options and their order: each source here sets options that the
 * next ones may set again. The link /etc/malloc.conf is made in a mount namespace of the
 * child's own; where that is not allowed those checks are skipped.
 */
#include "ctl.h"
#include <sched.h>
#include <sys/mount.h>

const char *malloc_conf = "narenas:2,lg_extent_max_active_fit:2,mutex_max_spin:2,"
    "dirty_decay_ms:2222,muzzy_decay_ms:2";
const char *malloc_conf_2_conf_harder = "muzzy_decay_ms:5";

/* How much the library keeps of the environment variable. */
#define KEPT_MAX 4095

static int
child_show(void) {
	printf("narenas=%u fit=%zu spin=%zd dirty=%zd muzzy=%zd\n", ctl_unsigned("opt.narenas"),
	    ctl_size("opt.lg_extent_max_active_fit"), ctl_ssize("opt.mutex_max_spin"),
	    ctl_ssize("opt.dirty_decay_ms"), ctl_ssize("opt.muzzy_decay_ms"));
	printf("var=%s link=%s env=%s harder=%s\n", ctl_str("opt.malloc_conf.global_var"),
	    ctl_str("opt.malloc_conf.symlink") ? ctl_str("opt.malloc_conf.symlink") : "(unset)",
	    ctl_str("opt.malloc_conf.env_var") ? ctl_str("opt.malloc_conf.env_var") : "(unset)",
	    ctl_str("opt.malloc_conf.global_var_2_conf_harder"));
	return 0;
}

/* The environment that the program changes for its children. */
static int
child_changed(void) {
	setenv("MALLOC_CONF", "narenas:77", 1);
	printf("before=%s\n", ctl_str("opt.malloc_conf.env_var"));
	fflush(stdout);
	clearenv();
	malloc_stats_print(NULL, NULL, "mdablxeh");
	printf("after=%s\n", ctl_str("opt.malloc_conf.env_var"));
	return 0;
}

/* The environment that the program overwrites in place, as programs do that show a title in ps. */
static int
child_overwritten(void) {
	char *values[] = {getenv("MALLOC_CONF"), getenv("JE_MALLOC_CONF")};

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		memset(values[i], '*', strlen(values[i]));
	printf("after=%s\n", ctl_str("opt.malloc_conf.env_var"));
	malloc_stats_print(NULL, NULL, "mdablxeh");
	return 0;
}

/* Makes /etc/malloc.conf in a new mount namespace, then runs this program again. */
static void
with_link(void *arg) {
	static char env[] = "MALLOC_CONF=mutex_max_spin:4,muzzy_decay_ms:4";

	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0
	    || mount("none", "/etc", "tmpfs", 0, NULL) != 0
	    || symlink("lg_extent_max_active_fit:3,mutex_max_spin:3,muzzy_decay_ms:3",
	    "/etc/malloc.conf") != 0)
		_exit(77);
	if (arg != NULL)
		putenv(env);
	else
		unsetenv("MALLOC_CONF");
	execl("/proc/self/exe", "conf_sources", "--child=show", NULL);
	_exit(127);
}

static void
test_link(void) {
	static struct test_result r;

	run_forked(&r, with_link, (void *)1);
	if (exited_with(&r, 77)) {
		skip(3, "no mount namespace");
		return;
	}
	contains(r.out, "narenas=2 fit=3 spin=4 dirty=2222 muzzy=5\n",
	    "variable < link < environment < harder variable, key by key");
	contains(r.out, "link=lg_extent_max_active_fit:3,mutex_max_spin:3,muzzy_decay_ms:3 "
	    "env=mutex_max_spin:4,muzzy_decay_ms:4 ", "and each string can be read");
	run_forked(&r, with_link, NULL);
	contains(r.out, "narenas=2 fit=3 spin=3 dirty=2222 muzzy=5\n", "without the environment");
}

/* A text longer than what is kept: all of it is read, and its beginning is shown. */
static void
test_long(void) {
	static struct test_result r;
	static char text[KEPT_MAX + 1000], begin[sizeof(text) + 16];

	strcpy(text, "mutex_max_spin:6");
	while (strlen(text) + 32 < sizeof(text))
		strcat(text, ",mutex_max_spin:7");
	strcat(text, ",narenas:9");
	snprintf(begin, sizeof(begin), "env=%.*s harder", KEPT_MAX, text);
	run_child_conf(&r, "show", text);
	contains(r.out, "narenas=9 ", "a long text of the environment is read to its end");
	contains(r.out, begin, "and its first %d bytes are kept", KEPT_MAX);
}

/* The last value of confirm_conf says for all sources whether they are printed. */
static void
test_confirm(void) {
	static struct test_result r;

	run_child_conf(&r, "show", "confirm_conf:true,mutex_max_spin:4,confirm_conf:false");
	ok(strstr(r.out, "<jemalloc>") == NULL, "confirm_conf: its last value holds: false");
	run_child_conf(&r, "show", "confirm_conf:false,mutex_max_spin:4,confirm_conf:true");
	contains(r.out, "Set conf value: mutex_max_spin:4", "or true");
	contains(r.out, "Set conf value: narenas:2", "for an earlier source too");
}

static const struct test_child children[] = {
	{"show", child_show},
	{"changed", child_changed},
	{"overwritten", child_overwritten},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	static struct test_result r;

	test_children(argc, argv, children);
	run_child_conf(&r, "show", NULL);
	contains(r.out, "narenas=2 fit=2 spin=2 dirty=2222 muzzy=5\n", "the program's variables");
	contains(r.out, "env=(unset)", "no environment");
	contains(r.out, "var=narenas:2,lg_extent", "the variable can be read");
	contains(r.out, "harder=muzzy_decay_ms:5", "and the harder one");
	run_child_conf(&r, "show", "mutex_max_spin:4,muzzy_decay_ms:4");
	contains(r.out, "narenas=2 fit=2 spin=4 dirty=2222 muzzy=5\n", "with the environment");
	contains(r.out, "env=mutex_max_spin:4,muzzy_decay_ms:4 ", "which can be read");
	run_child_conf(&r, "changed", "narenas:3");
	contains(r.out, "before=narenas:3\n", "as it was at the start, if the program changes it");
	contains(r.out, "after=narenas:3\n", "or cleared it");
	contains(r.out, "MALLOC_CONF: \"narenas:3\"", "the statistics say so too");
	run_child_conf(&r, "overwritten", "narenas:3");
	contains(r.out, "after=narenas:3\n", "or has overwritten its memory");
	contains(r.out, "MALLOC_CONF: \"narenas:3\"", "in the statistics too");
	test_long();
	test_confirm();
	test_link();
	return done_testing();
}
