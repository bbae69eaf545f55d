/*
 * MALLOC_CONF: the messages byte for byte, each once; values, clips and refusals; a bad
 * pair does not take the rest with it; no string of bytes hurts the start of a program.
 */
#include "ctl.h"

/* What the parser has to say about one string. */
struct message {
	const char *conf;
	const char *line;	/* the message, or its beginning if it ends with '*' */
};

static const struct message messages[] = {
	{"bogus:1", "Invalid conf pair: bogus:1"},
	{"bogus:", "Invalid conf pair: bogus:"},
	{"BOGUS_9:a:b", "Invalid conf pair: BOGUS_9:a:b"},
	{"narena:1", "Invalid conf pair: narena:1"},
	{"narenas:abc", "Invalid conf value: narenas:abc"},
	{"narenas:", "Invalid conf value: narenas:"},
	{"narenas:3 ", "Invalid conf value: narenas:3 "},
	{"narenas:3x", "Invalid conf value: narenas:3x"},
	{"narenas:0", "Out-of-range conf value: narenas:0"},
	{"dirty_decay_ms:-2", "Out-of-range conf value: dirty_decay_ms:-2"},
	{"muzzy_decay_ms:18446744072001", "Out-of-range conf value: muzzy_decay_ms:18446744072001"},
	{"stats_interval:-2", "Out-of-range conf value: stats_interval:-2"},
	{"abort:True", "Invalid conf value: abort:True"},
	{"tcache:1", "Invalid conf value: tcache:1"},
	{"retain:yes", "Invalid conf value: retain:yes"},
	{"dss:none", "Invalid conf value: dss:none"},
	{"thp:x", "Invalid conf value: thp:x"},
	{"metadata_thp:x", "Invalid conf value: metadata_thp:x"},
	{"percpu_arena:x", "Invalid conf value: percpu_arena:x"},
	{"junk:maybe", "Invalid conf value: junk:maybe"},
	{"zero_realloc:x", "Invalid conf value: zero_realloc:x"},
	{"prof:1", "Invalid conf value: prof:1"},
	{"lg_prof_sample:x", "Invalid conf value: lg_prof_sample:x"},
	{"lg_prof_interval:64", "Out-of-range conf value: lg_prof_interval:64"},
	{"bin_shards:1-x", "Invalid settings for bin_shards: bin_shards:1-x"},
	{"tcache:fal se", "Invalid conf value: tcache:fal se"},
	{"abo rt:true", "Malformed conf string -- abo*"},
	{" narenas:1", "Malformed conf string -- *"},
	{",", "Malformed conf string -- *"},
	{"muzzy_decay_ms", "Conf string ends with key -- muzzy_decay_ms"},
	{"tcache:true,", "Conf string ends with comma -- *"},
};

#define N_MESSAGES (sizeof(messages) / sizeof(messages[0]))

/* How many lines of the text are, or begin like, the message. */
static int
count_lines(const char *text, const char *message) {
	char want[512];
	size_t len;
	bool begins;
	int n = 0;

	snprintf(want, sizeof(want), "<jemalloc>: %s", message);
	len = strlen(want);
	begins = want[len - 1] == '*';
	if (begins)
		len--;
	while (*text != '\0') {
		if (strncmp(text, want, len) == 0 && (begins || text[len] == '\n'))
			n++;
		text = strchr(text, '\n');
		if (text == NULL)
			break;
		text++;
	}
	return n;
}

/* Debug builds stop at a bad option unless they are told not to. */
static void
run_with(struct test_result *r, const char *child, const char *conf) {
	char whole[9000];

	snprintf(whole, sizeof(whole), "abort_conf:false,%s", conf);
	run_child_conf(r, child, whole);
}

static int
child_boot(void) {
	void *p = keep(malloc(100));
	void *q = keep(calloc(1, 100000));

	free(p);
	free(q);
	return p != NULL && q != NULL ? 0 : 1;
}

/* Every option of interest as "name=value". */
static int
child_options(void) {
	static const char *const strings[] = { "junk", "zero_realloc", "dss", "metadata_thp", "thp",
		"percpu_arena", "stats_print_opts", "prof_prefix" };
	static const char *const bools[] = { "abort", "abort_conf", "tcache", "retain", "zero",
		"prof", "stats_print", "prof_accum" };
	static const char *const longs[] = { "dirty_decay_ms", "muzzy_decay_ms", "tcache_max",
		"lg_prof_sample", "lg_prof_interval", "mutex_max_spin", "oversize_threshold" };
	static const char *const words[] = {"narenas", "tcache_nslots_small_max"};
	char name[64];

	puts("");
	for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
		const char *v = ctl_str(ctl_name(name, "opt.%s", strings[i]));

		printf("%s=%s\n", strings[i], v != NULL ? v : "(none)");
	}
	for (size_t i = 0; i < sizeof(bools) / sizeof(bools[0]); i++)
		printf("%s=%s\n", bools[i],
		    ctl_bool(ctl_name(name, "opt.%s", bools[i])) ? "true" : "false");
	for (size_t i = 0; i < sizeof(longs) / sizeof(longs[0]); i++)
		printf("%s=%zd\n", longs[i], ctl_ssize(ctl_name(name, "opt.%s", longs[i])));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		printf("%s=%u\n", words[i], ctl_unsigned(ctl_name(name, "opt.%s", words[i])));
	return 0;
}

/* False for an option of a feature that this version or this build does not have. */
static bool
is_there(const char *conf) {
	static const char *const later[] = {"dss", "metadata_thp", "percpu_arena", "m:"};
	char name[64];

	if (strncmp(conf, "prof", 4) == 0 || strncmp(conf, "lg_prof", 7) == 0)
		return ctl_bool("config.prof");

	for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++) {
		if (strncmp(conf, later[i], strlen(later[i])) == 0)
			return ctl_exists(ctl_name(name, "opt.%s", i < 3 ? later[i] : "metadata_thp"));
	}
	return true;
}

static void
test_messages(void) {
	static struct test_result r;

	for (size_t i = 0; i < N_MESSAGES; i++) {
		const struct message *m = &messages[i];

		if (!is_there(m->conf)) {
			skip(1, m->conf);
			continue;
		}
		run_with(&r, "boot", m->conf);
		if (count_lines(r.out, m->line) != 1 || !exited_with(&r, 0)) {
			fail("\"%s\": \"%s\" once", m->conf, m->line);
			diag_result(&r);
			continue;
		}
		ok(strncmp(r.out, "<jemalloc>: ", 12) == 0 && count_lines(r.out, "*") <= 2,
		    "\"%s\": \"%s\" once, and at most a hint", m->conf, m->line);
	}
	run_child_conf(&r, "boot", "");
	is_str(r.out, "", "an empty string says nothing");
	run_child_conf(&r, "boot", NULL);
	is_str(r.out, "", "nor does no string");
}

static void
test_long_texts(void) {
	static struct test_result r;
	char conf[6000];
	size_t shown;

	memset(conf, 'k', 100);
	conf[100] = '\0';
	run_with(&r, "boot", conf);
	shown = strspn(r.out + strlen("<jemalloc>: Conf string ends with key -- "), "k");
	ok(strncmp(r.out, "<jemalloc>: Conf string ends with key -- kkkk", 45) == 0 && shown <= 64,
	    "a long key is cut to 64 bytes in the message (%zu)", shown);
	memset(conf, 'v', 5000);
	memcpy(conf, "narenas:", 8);
	conf[5000] = '\0';
	run_with(&r, "boot", conf);
	contains(r.out, "<jemalloc>: Invalid conf value: nar", "a value of 5000 bytes");
	child_exits(&r, 0, "does no harm");
}

static void
has(const char *conf, const char *line) {
	static struct test_result r;
	char with_end[300];

	if (!is_there(conf) || !is_there(line)) {
		skip(1, line);
		return;
	}
	run_with(&r, "options", conf);
	snprintf(with_end, sizeof(with_end), "\n%s\n", line);
	contains(r.out, with_end, "\"%s\" gives %s", conf, line);
}

static void
test_values(void) {
	has("narenas:7", "narenas=7");
	has("narenas:0x10", "narenas=16");
	has("narenas:010", "narenas=8");
	has("narenas:+3", "narenas=3");
	has("narenas:2,narenas:5", "narenas=5");
	has("narenas:5,narenas:x", "narenas=5");
	has("dirty_decay_ms:-1", "dirty_decay_ms=-1");
	has("dirty_decay_ms:0,muzzy_decay_ms:123", "muzzy_decay_ms=123");
	has("", "dirty_decay_ms=10000");
	has("", "muzzy_decay_ms=0");
	has("tcache_max:99999999999", "tcache_max=8388608");
	has("lg_tcache_max:99", "tcache_max=8388608");
	has("lg_tcache_max:12", "tcache_max=4096");
	has("lg_prof_sample:99", "lg_prof_sample=63");
	has("", "lg_prof_sample=19");
	has("tcache:false", "tcache=false");
	has("retain:false", "retain=false");
	has("zero:true", "zero=true");
	has("junk:alloc", "junk=alloc");
	has("junk:free", "junk=free");
	has("zero_realloc:alloc", "zero_realloc=alloc");
	has("dss:primary", "dss=primary");
	has("m:al", "metadata_thp=always");
	has("metadata_thp:auto", "metadata_thp=auto");
	has("thp:never", "thp=never");
	has("stats_print_opts:Jga", "stats_print_opts=Jga");
	has("stats_print_opts:JJxx!", "stats_print_opts=Jx");
	has("prof_prefix:a b:c", "prof_prefix=a b:c");
	has("mutex_max_spin:-1", "mutex_max_spin=-1");
	has("mutex_max_spin:77", "mutex_max_spin=77");
	has("tcache_nslots_small_max:99999", "tcache_nslots_small_max=2048");
	has("prof_leak:true", "prof=true");
	has("", "prof=false");
}

/* What stands after a bad pair counts. */
static void
test_rest_is_read(void) {
	has("bogus:1,narenas:9", "narenas=9");
	has("narenas:x,narenas:9", "narenas=9");
	has("abo rt:true,narenas:9", "narenas=9");
	has(",narenas:9", "narenas=9");
	has("narenas:9,,tcache:false", "tcache=false");
	has("tcache,narenas:9", "narenas=9");
	has("narenas:9,", "narenas=9");
	has("narenas:9,tcache", "narenas=9");
	has("\x01\x80\xff,narenas:9", "narenas=9");
}

static void
test_abort_conf(void) {
	static struct test_result r;

	run_child_conf(&r, "boot", "abort_conf:true,narenas:x");
	ok(died_of(&r, SIGABRT), "abort_conf:true aborts");
	is_int(count_lines(r.out,
	    "Abort (abort_conf:true) on invalid conf value (see above)."), 1, "and says so");
	run_child_conf(&r, "boot", "abort_conf:false,narenas:x,abort_conf:true");
	ok(died_of(&r, SIGABRT), "also when it stands after the error");
	run_child_conf(&r, "boot", "abort_conf:true,narenas:2");
	child_exits(&r, 0, "no error, no abort");
	run_child_conf(&r, "boot", "abort_conf:true,experimental_nothing:1");
	child_exits(&r, 0, "experimental keys never abort");
	is_int(count_lines(r.out, "Invalid conf pair: experimental_nothing:1"), 1, "but are reported");
}

static void
test_confirm_conf(void) {
	static struct test_result r;

	run_child_conf(&r, "boot", "narenas:2,confirm_conf:true,mutex_max_spin:18");
	is_int(count_lines(r.out, "malloc_conf #1 (string specified via --with-malloc-conf): *"), 1,
	    "source 1");
	is_int(count_lines(r.out,
	    "malloc_conf #2 (string pointed to by the global variable malloc_conf): \"\""), 1,
	    "source 2");
	is_int(count_lines(r.out, "malloc_conf #3 (\"name\" of the file referenced by the symbolic "
	    "link named /etc/malloc.conf): *"), 1, "source 3");
	is_int(count_lines(r.out, "malloc_conf #4 (value of the environment variable MALLOC_CONF): "
	    "\"narenas:2,confirm_conf:true,mutex_max_spin:18\""), 1, "source 4");
	is_int(count_lines(r.out, "malloc_conf #5 (string pointed to by the global variable "
	    "malloc_conf_2_conf_harder): \"\""), 1, "source 5");
	is_int(count_lines(r.out, "-- Set conf value: narenas:2"), 1, "a pair before the key");
	is_int(count_lines(r.out, "-- Set conf value: confirm_conf:true"), 1, "the key itself");
	is_int(count_lines(r.out, "-- Set conf value: mutex_max_spin:18"), 1, "a pair after it");
}

/* One random string: keys, values, marks and junk in disorder. */
static void
random_conf(char *conf, size_t room, uint64_t *seed) {
	static const char *const parts[] = {
		"narenas", "dirty_decay_ms", "muzzy_decay_ms", "tcache", "tcache_max", "lg_tcache_max",
		"bin_shards", "slab_sizes", "tcache_ncached_max", "dss", "thp", "metadata_thp",
		"percpu_arena", "junk", "zero", "stats_interval", "lg_extent_max_active_fit",
		"narenas_ratio", "mutex_max_spin", "prof", "prof_active", "lg_prof_sample",
		"prof_bt_max", "prof_prefix", "oversize_threshold", "retain", "trust_madvise",
		"true", "false", "-1", "0", "1", "4294967296", "18446744073709551615", "0x", "1-8:4",
		"1-4096:2|1-8:9", "default", "1.5", "9999999999999999999999", "nothing",
	};
	static const char marks[] = ":,:,:,:,|-. \t\n%sn*:,:,";
	size_t len = 0;
	size_t n = 1 + test_random(seed) % 30;

	while (n-- > 0 && len + 64 < room) {
		const char *part = parts[test_random(seed) % (sizeof(parts) / sizeof(parts[0]))];

		switch (test_random(seed) % 6) {
		case 0:
			conf[len++] = (char)(1 + test_random(seed) % 255);
			break;
		case 1:
		case 2:
			conf[len++] = marks[test_random(seed) % (sizeof(marks) - 1)];
			break;
		default:
			len += (size_t)snprintf(conf + len, room - len, "%s", part);
			if (test_random(seed) % 4 != 0)
				conf[len++] = test_random(seed) % 2 ? ':' : ',';
		}
	}
	conf[len] = '\0';
}

static void
test_random_bytes(void) {
	static struct test_result r;
	char conf[4096];
	uint64_t seed = 20260101;
	int bad = 0, n_strings = (int)test_rounds(400, 2000);

	for (int i = 0; i < n_strings && bad < 5; i++) {
		if (i % 4 == 0) {
			size_t n = test_random(&seed) % 300;

			for (size_t j = 0; j < n; j++)
				conf[j] = (char)(1 + test_random(&seed) % 255);
			conf[n] = '\0';
		} else {
			random_conf(conf, sizeof(conf), &seed);
		}
		run_with(&r, "boot", conf);
		if (!exited_with(&r, 0)) {
			diag("string %d: \"%s\"", i, conf);
			diag_result(&r);
			bad++;
		}
	}
	is_int(bad, 0, "%d random strings: every program starts and ends well",
	    n_strings);
}

static const struct test_child children[] = {
	{"boot", child_boot},
	{"options", child_options},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	test_children(argc, argv, children);
	test_messages();
	test_long_texts();
	test_values();
	test_rest_is_read();
	test_abort_conf();
	test_confirm_conf();
	test_random_bytes();
	return done_testing();
}
