/*
 * stats.h: the JSON is JSON, without a key twice, in one piece with or without each letter; the
 * table has its frame and headings; letters take away what they name.
 */
#include "ctl.h"

#include "conf/conf.h"
#include "ctl/ctl_snapshot.h"
#include "meta/freepool.h"
#include "os/gate.h"
#include "os/sys.h"
#include "stats.h"

static char text[4 << 20];
static size_t text_len;
static size_t nchunks;
static size_t longest;

static void
gather(void *opaque, const char *s) {
	size_t n = strlen(s);

	if (opaque != text || n >= sizeof(text) - text_len)
		return;
	memcpy(text + text_len, s, n + 1);
	text_len += n;
	nchunks++;
	longest = n > longest ? n : longest;
}

static void
print(const char *opts) {
	text_len = nchunks = longest = 0;
	text[0] = '\0';
	stats_print(gather, text, opts);
}

/* -------------------------------------------------------------- a strict reader of compact JSON */

static const char *at;

static bool json_value(int depth);

static bool
json_string(const char **from, size_t *len) {
	if (*at++ != '"')
		return false;
	*from = at;
	while (*at != '"') {
		if ((unsigned char)*at < 0x20)
			return false;
		at += *at == '\\' ? 2 : 1;
	}
	*len = (size_t)(at++ - *from);
	return true;
}

static bool
json_object(int depth) {
	const char *keys[300];
	size_t lens[300], n = 0;

	at++;
	while (*at != '}') {
		if ((n > 0 && *at++ != ',') || n == 300 || !json_string(&keys[n], &lens[n]))
			return false;
		for (size_t i = 0; i < n; i++) {
			if (lens[i] == lens[n] && memcmp(keys[i], keys[n], lens[n]) == 0) {
				diag("twice: %.*s", (int)lens[n], keys[n]);
				return false;
			}
		}
		n++;
		if (*at++ != ':' || !json_value(depth + 1))
			return false;
	}
	at++;
	return true;
}

static bool
json_array(int depth) {
	at++;
	for (size_t n = 0; *at != ']'; n++) {
		if ((n > 0 && *at++ != ',') || !json_value(depth + 1))
			return false;
	}
	at++;
	return true;
}

static bool
json_value(int depth) {
	const char *from;
	size_t len;

	if (depth > 20)
		return false;
	if (*at == '{')
		return json_object(depth);
	if (*at == '[')
		return json_array(depth);
	if (*at == '"')
		return json_string(&from, &len);
	len = strspn(at, "-0123456789");
	if (len == 0)
		len = strncmp(at, "true", 4) == 0 ? 4 : strncmp(at, "false", 5) == 0 ? 5 : 0;
	at += len;
	return len > 0;
}

static bool
is_json(void) {
	at = text;
	return json_value(0) && *at == '\0';
}

/* ---------------------------------------------------------------- tests */

static bool
has(const char *part) {
	return strstr(text, part) != NULL;
}

static void
test_json(void) {
	print("J");
	ok(is_json(), "compact JSON, no key twice");
	ok(strncmp(text, "{\"jemalloc\":{\"version\":\"", 24) == 0, "its head");
	ok(longest < 64 << 10 && nchunks < 20, "in %zu pieces of up to %zu bytes", nchunks, longest);
	static const char *const general[] = { "\"config\":{", "\"system\":{\"thp_mode\":", "\"opt\":{",
	    "\"arenas\":{\"narenas\":", "\"global_var\":", "\"env_var\":" };
	static const char *const parts[] = { "\"stats\":{\"allocated\":", "\"background_thread\":{",
	    "\"mutexes\":{", "\"stats.arenas\":{", "\"0\":{\"name\":\"auto_0\"", "\"small\":{",
	    "\"bins\":[{", "\"lextents\":[{", "\"extents\":[{" };

	for (size_t i = 0; i < ARRAY_LEN(general); i++)
		ok(has(general[i]), "it has %s", general[i]);
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		ok(has(parts[i]) || !config_stats, "it has %s", parts[i]);
}

/* The value of a node that is a number. */
static int64_t
number_of(const char *name) {
	int64_t v;
	size_t len = 8;
	uint32_t word;
	if (mallctl(name, &v, &len, NULL, 0) == 0)
		return v;
	len = sizeof(word);
	return mallctl(name, &word, &len, NULL, 0) == 0 ? (int64_t)word : INT64_MIN;
}

/* How many numbers of the object at `from` differ from the nodes of these names; adds to *n. */
static unsigned
wrong_numbers(const char *from, const char *prefix, unsigned *n) {
	char key[64], name[128];
	long long value;
	unsigned bad = 0;
	int len = 0;
	for (; sscanf(from, "%*[{,]\"%63[a-z_]\":%lld%n", key, &value, &len) == 2; from += len, ++*n) {
		snprintf(name, sizeof(name), "%s.%s", prefix, key);
		bad += wrong_if(number_of(name) != value);
	}
	return bad;
}

/* What is told of all arenas is what the nodes say. */
static void
test_facts(void) {
	ssize_t dirty = 123, muzzy = 45;
	unsigned bad = 0, n = 0, nbins = 0;
	char prefix[64];
	is_int(ctl_write("arenas.dirty_decay_ms", dirty), 0, "one decay time");
	is_int(ctl_write("arenas.muzzy_decay_ms", muzzy), 0, "another");
	print("J");
	const char *from = strstr(text, "\"arenas\":{");
	if (from == NULL) {
		ok(false, "an object of all arenas");
		return;
	}
	bad += wrong_numbers(from + 9, "arenas", &n);
	const char *bin = strstr(from, "\"bin\":["), *large = strstr(from, "\"lextent\":[");
	for (; bin != NULL && bin < large && (bin = strchr(bin, '{')) < large; bin++, nbins++) {
		snprintf(prefix, sizeof(prefix), "arenas.bin.%u", nbins);
		bad += wrong_numbers(bin, prefix, &n);
	}
	is_uint(bad, 0, "numbers of all arenas and bins are those of the nodes");
	ok(n >= 9 + 3 * nbins && nbins == ctl_unsigned("arenas.nbins"), "%u of them", n);
}

static void
test_letters(void) {
	static const struct {
		const char *letter;
		const char *part;
	} c[] = {{"g", "\"opt\":{"}, {"a", "\"0\":{"}, {"b", "\"bins\":["},
	    {"l", "\"lextents\":["}, {"x", "\"mutexes\":{"}, {"e", "\"extents\":["}};
	char opts[32] = "J";

	for (size_t i = 0; i < ARRAY_LEN(c); i++) {
		snprintf(opts, sizeof(opts), "J%s%s?", c[i].letter, c[i].letter);
		print(opts);
		ok(is_json() && !has(c[i].part), "without %s", c[i].letter);
	}
	print("Ja");
	ok(has("\"merged\":{") || !config_stats, "a alone forces the merged section");
	print("Jgmdablxeh");
	ok(is_json(), "nothing but the sums");
	ok(text_len < 600, "is short (%zu)", text_len);
}

static void
test_table(void) {
	print("");
	ok(strncmp(text, "___ Begin jemalloc statistics ___\nVersion: \"", 44) == 0, "begin");
	ok(text_len > 40 && strcmp(text + text_len - 31, "--- End jemalloc statistics ---") != 0
	    && strcmp(text + text_len - 32, "--- End jemalloc statistics ---\n") == 0, "end");
	static const char *const lines[] = { "\nBuild-time option settings\n  config.cache_oblivious: ",
	    "\nSystem configuration\n", "\nRun-time option settings\n",
	    "  Global variable malloc_conf: \"", "  Symbolic link malloc.conf: \"",
	    "  Environment variable MALLOC_CONF: \"", "\nArenas: ", "\nQuantum size: 16\n",
	    "\nPage size: ", "\nHugepage size: ", "\nMaximum thread-cached size class: ",
	    "\nNumber of bin size classes: ", "\nNumber of thread-cache bin size classes: ",
	    "\nNumber of large size classes: ", "\nAllocated: ", ", active: ",
	    "\nCount of realloc(non-null-ptr, 0) calls: ", "\nBackground threads: 0, num_runs: 0, ",
	    "\narenas[0]:\nname: \"auto_0\"\nassigned threads: ", "\nuptime: ",
	    "\ndecaying:  time       npages       sweeps     madvises       purged\n   dirty: ",
	    "\nsmall:     ", "\ntotal:     ", "\nextent_avail:  ", "\nbins:           size ind    "
	    "allocated", "\nlarge:          size ind    allocated", "\nextents:        size ind       "
	    "ndirty", "\n                     ---\n", "  opt.dirty_decay_ms: " };

	for (size_t i = 0; i < ARRAY_LEN(lines); i++)
		ok(has(lines[i]) || !config_stats, "it has %s", lines[i]);
	ok(has(" (arenas.dirty_decay_ms: "), "the present value behind the configured one");
}

static void
test_strings(void) {
	malloc_conf = "prof_prefix:a\"b\\c\td\x01\xff";
	conf_boot();
	print("J");
	ok(is_json(), "any bytes in strings are still JSON");
	ok(has("a\\\"b\\\\c\\td\\u0001"), "escaped");
	malloc_conf = NULL;
	print(NULL);
	ok(has("Global variable malloc_conf: \"\""), "read live");
}

static void
test_keeps_nothing(void) {
	print("");
	size_t before = meta_in_use();
	print("");
	print("J");
	is_uint(meta_in_use(), before, "a report returns all memory that it takes");
}

static void *
no_mmap(void *addr, size_t size, int prot, int flags, int fd, off_t off) {
	(void)addr, (void)size, (void)prot, (void)flags, (void)fd, (void)off;
	errno = ENOMEM;
	return (void *)-1;
}

#define PIECE sizeof(snapshot_arena_t)

/* Memory runs out at every possible point: the whole report, or one line that says so. */
static void
test_no_memory(void) {
	struct os_hooks_s hooks = *os_hooks;
	static void *taken[20000];
	size_t n = 0, whole = 0, refused = 0;

	hooks.mmap = no_mmap;
	os_hooks = &hooks;
	gate_enter(tls_get());
	while (n < ARRAY_LEN(taken) && (taken[n] = meta_alloc(PIECE)) != NULL)
		n++;
	gate_exit(tls_get());
	for (size_t i = 0; i < 40 && i <= n; i++) {
		print("J");
		whole += is_json();
		refused += strcmp(text, "<jemalloc>: Memory allocation failure in mallctl(\"epoch\", "
		    "...)\n") == 0;
		if (i < n) {
			gate_enter(tls_get());
			meta_free(taken[i], PIECE);
			taken[i] = NULL;
			gate_exit(tls_get());
		}
	}
	os_hooks = &os_hooks_real;
	ok(refused > 0, "memory was really out");
	is_uint(whole + refused, n < 39 ? n + 1 : 40, "without memory: %zu whole, %zu refused", whole,
	    refused);
	gate_enter(tls_get());
	for (size_t i = 0; i < n; i++)
		meta_free(taken[i], PIECE);
	gate_exit(tls_get());
	print("J");
	ok(is_json(), "and with memory again");
}

/* Samples of each class, in JSON and in the tables, are those of its node; most have none. */
static int
child_samples(void) {
	unsigned bad = 0, nsampled = 0;
	uint64_t of[4];
	size_t len;
	void *p[50];
	char name[64];
	for (unsigned i = 0; i < ARRAY_LEN(p); i++)
		p[i] = keep(malloc(i % 5 == 0 ? 50000 : 90 + i));
	for (unsigned i = 0; i < ARRAY_LEN(p); i += 3)
		free(p[i]);
	for (unsigned is_table = 0; is_table < 2; is_table++) {
		print(is_table ? "a" : "Ja");
		const char *from = text;
		for (unsigned i = 0; i < SC_NSIZES && from != NULL; i++) {
			bool is_bin = i < SC_NBINS;
			for (unsigned k = 0; k < 2; k++) {
				len = 2 * sizeof(of[0]);
				snprintf(name, sizeof(name), "prof.stats.%s.%u.%s", is_bin ? "bins" : "lextents",
				    is_bin ? i : i - SC_NBINS, k == 0 ? "live" : "accum");
				bad += wrong_if(mallctl(name, &of[2 * k], &len, NULL, 0) != 0);
			}
			if (is_table && of[3] == 0)
				continue;
			char row[256];
			snprintf(row, sizeof(row), is_table ? " %20llu %16llu %20llu %16llu "
			    : "\"prof_live_requested\":%llu,\"prof_live_count\":%llu,"
			    "\"prof_accum_requested\":%llu,\"prof_accum_count\":%llu",
			    (unsigned long long)of[0], (unsigned long long)of[1],
			    (unsigned long long)of[2], (unsigned long long)of[3]);
			nsampled += of[3] > of[1] && of[1] > 0 && of[0] > of[1];
			from = strstr(from, is_table ? row : "\"prof_live_requested\":");
			bad += wrong_if(from == NULL || strncmp(from, row, strlen(row)) != 0);
			from = from == NULL ? NULL : from + 1;
		}
	}
	is_uint(bad, 0, "samples are told as the nodes have them");
	ok(nsampled >= 4, "of some classes some live");
	return done_testing();
}

static const struct test_child children[] = {{"samples", child_samples}, {NULL, NULL}};

int
main(int argc, char **argv) {
	test_children(argc, argv, children);
	void *p = malloc(100000);

	test_json();
	test_facts();
	test_letters();
	test_table();
	test_strings();
	test_keeps_nothing();
	test_no_memory();
	free(p);
	if (config_prof && config_stats) {
		child_runs("samples", "prof:true,prof_stats:true,lg_prof_sample:0,narenas:1");
	}
	return done_testing();
}
