/*
 * malloc_message gets the opaque of the call that asked for a text, and NULL with a message of the
 * library's own.
 */
#include "ctl.h"

static char mine;
static unsigned n_mine, n_null, n_other;

static void
hear(void *opaque, const char *s) {
	(void)s;
	n_mine += opaque == &mine;
	n_null += opaque == NULL;
	n_other += opaque != NULL && opaque != &mine;
	errno = 33;
}

static void
hears(bool is_mine, const char *what) {
	ok((is_mine ? n_mine : n_null) > 0 && (is_mine ? n_null : n_mine) == 0 && n_other == 0,
	    "%s: %u pieces with its opaque, %u with NULL, %u others", what, n_mine, n_null, n_other);
	n_mine = n_null = n_other = 0;
}

static void
test_stats(void) {
	errno = 4;
	malloc_stats_print(NULL, &mine, "J");
	is_int(errno, 4, "errno is kept");
	hears(true, "malloc_stats_print as JSON");
	malloc_stats_print(NULL, &mine, NULL);
	hears(true, "as a table");
	malloc_stats_print(NULL, NULL, "mdablxeh");
	hears(false, "without an opaque");
}

static void
test_recent(void) {
	struct {
		void (*write)(void *opaque, const char *s);
		void *opaque;
	} sink = {NULL, &mine};

	is_int(ctl_write("experimental.prof_recent.alloc_dump", sink), 0, "recent samples");
	hears(true, "recent samples");
	sink.opaque = NULL;
	is_int(ctl_write("experimental.prof_recent.alloc_dump", sink), 0, "once more");
	hears(false, "recent samples without an opaque");
}

/* stats_interval: nobody has asked for the text. */
static void
test_interval(void) {
	for (int i = 0; i < 1000 && n_null + n_mine + n_other == 0; i++) {
		free(keep(malloc(10000)));
	}
	hears(false, "statistics of an interval");
}

static int
child(void) {
	malloc_message = hear;
	test_stats();
	if (ctl_bool("config.prof")) {
		test_recent();
	}
	if (ctl_bool("config.stats")) {
		test_interval();
	}
	malloc_message = NULL;
	return done_testing();
}

static const struct test_child children[] = {
	{"child", child},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	static struct test_result r;

	test_children(argc, argv, children);
	run_child_conf(&r, "child", ctl_bool("config.prof")
	    ? "prof:true,lg_prof_sample:10,prof_recent_alloc_max:10,stats_interval:3000000"
	    : "stats_interval:3000000");
	child_exits(&r, 0, "each text is told who asked for it");
	return done_testing();
}
