/*
 * Labels (prof/sites/prof_label, prof_label_sums): numbers and texts, what is refused, the lines of
 * a profile through clears, frees, reuse of records, resizes, resets, forks, many labels at one
 * site and threads that intern the same texts at once; and the limits.
 */
#include "ctl.h"
#include "dir.h"

#include "meta/region.h"
#include "prof/sites/prof_label.h"
#include "util/atomic.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>

const char *malloc_conf = "abort_conf:false,prof:true,lg_prof_sample:0,junk:false";

static const char *path = "p.heap";
static char text[1 << 20];

/* The profile, read without malloc. */
static const char *
dump(void) {
	const char *name = path;
	if (mallctl("prof.dump", NULL, NULL, &name, sizeof(name)) != 0) {
		bail_out("prof.dump");
	}
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	text[n < 0 ? 0 : n] = '\0';
	close(fd);
	return text;
}

static int
label_set(const char *label) {
	return mallctl("thread.prof.label", NULL, NULL, &label, sizeof(label));
}

static int
label_id(const char *label, uint32_t *id) {
	size_t len = sizeof(*id);
	return mallctl("prof.label_id", id, &len, &label, sizeof(label));
}

static uint32_t
id_of(const char *label) {
	uint32_t id = UINT32_MAX;
	return label_id(label, &id) == 0 ? id : UINT32_MAX;
}

static uint32_t *
label_word(void) {
	uint32_t *at = NULL;
	size_t len = sizeof(at);
	return mallctl("thread.prof.labelp", &at, &len, NULL, 0) == 0 ? at : NULL;
}

static NOINLINE void *
make(size_t size) {
	return keep(malloc(size));
}

/* Objects and bytes that the profile has of a label, over all sites. */
typedef struct {
	unsigned long objs, bytes;
} sum_t;

static sum_t
sum_of(const char *profile, uint32_t id) {
	sum_t sum = {0, 0};
	char part[32];
	int len = snprintf(part, sizeof(part), " %u:", id);
	for (const char *line = profile; (line = strstr(line, "\n# labeled ")) != NULL; line++) {
		const char *end = strchr(line + 1, '\n');
		for (const char *p = line; (p = strstr(p, part)) != NULL && p < end; p++) {
			char *at;
			sum.objs += strtoul(p + len, &at, 10);
			sum.bytes += strtoul(at + 1, NULL, 10);
		}
	}
	return sum;
}

static void
is_sum(const char *label, unsigned long objs, unsigned long bytes, const char *what) {
	sum_t sum = sum_of(dump(), id_of(label));
	ok(sum.objs == objs && sum.bytes == bytes, "%s: %lu objects of %lu bytes, want %lu of %lu",
	    what, sum.objs, sum.bytes, objs, bytes);
}

static void
test_arguments(void) {
	char long_text[258], most[256];
	uint32_t id = 7;
	const char *got = NULL, *none = NULL;
	size_t len = sizeof(got);
	memset(long_text, 'x', sizeof(long_text) - 1);
	long_text[257] = '\0';
	memset(most, 'y', sizeof(most) - 1);
	most[255] = '\0';
	is_uint(ctl_unsigned("prof.labels"), 0, "there are no labels at first");
	is_str(ctl_str("thread.prof.label"), "", "nor has a thread one");
	contains(dump(), "\n# age_bounds_s", "a profile with ages");
	ok(strstr(text, "\n# label") == NULL, "has no line about labels");
	is_int(label_set("first"), 0, "a label");
	is_str(ctl_str("thread.prof.label"), "first", "is the thread's");
	is_int(label_set(NULL), EINVAL, "NULL is refused");
	is_int(label_set(long_text), EINVAL, "257 bytes are");
	long_text[256] = '\0';
	is_int(label_set(long_text), EINVAL, "256 bytes too");
	is_int(mallctl("thread.prof.label", NULL, NULL, &none, 4), EINVAL, "and half a pointer");
	is_str(ctl_str("thread.prof.label"), "first", "which all change nothing");
	is_int(label_set(most), 0, "255 bytes are no fault");
	is_str(ctl_str("thread.prof.label"), most, "and whole");
	none = "second";
	is_int(mallctl("thread.prof.label", &got, &len, &none, sizeof(none)), 0, "read and write");
	is_str(got, most, "gives the one before");
	is_int(mallctl("thread.prof.labelp", NULL, NULL, &none, sizeof(none)), EPERM,
	    "the address cannot be set");
	len = 2;
	is_int(mallctl("prof.label_id", &id, &len, &none, sizeof(none)), EINVAL, "a short oldp");
	len = sizeof(id);
	is_int(mallctl("prof.label_id", NULL, NULL, &none, sizeof(none)), EINVAL, "no oldp");
	is_int(mallctl("prof.label_id", &id, &len, NULL, 0), EINVAL, "no newp");
	is_int(mallctl("prof.label_id", &id, &len, &none, 4), EINVAL, "a short newp");
	is_int(label_id(NULL, &id), EINVAL, "NULL as text");
	is_uint(id, 7, "leave the number as it was");
	is_uint(ctl_unsigned("prof.labels"), 3, "three labels by now");
	is_int(label_set(""), 0, "the empty text");
	is_str(ctl_str("thread.prof.label"), "", "clears");
}

static void
test_numbers(void) {
	uint32_t a = id_of("a"), b = id_of("b"), *at = label_word();
	ok(a != 0 && b != 0 && a != b, "two texts, two numbers: %u and %u", a, b);
	is_uint(id_of("a"), a, "the same one again");
	is_uint(id_of(""), 0, "0 for the empty text");
	ok(at != NULL && *at == 0, "the thread's word");
	*at = b;
	is_str(ctl_str("thread.prof.label"), "b", "is its label");
	is_int(label_set("a"), 0, "which a text");
	is_uint(*at, a, "sets too");
	*at = 60000;
	is_str(ctl_str("thread.prof.label"), "", "a number without a text is no label");
	void *p = make(100);
	*at = 0;
	ok(strstr(dump(), "\n# label") == NULL, "in profiles neither");
	free(p);
}

static void
test_lines(void) {
	size_t small = small_class_of(1000), large = class_of(100000);
	char line[128];
	label_set("a\\b\n\x7f\xc3\xa4 c");
	void *p = make(1000), *q = make(100000);
	label_set("plain");
	void *r = make(1000);
	label_set("");
	void *s = make(1000);
	dump();
	contains(text, " a\\x5cb\\x0a\\x7f\\xc3\\xa4 c\n", "bytes that could confuse are escaped");
	is_sum("a\\b\n\x7f\xc3\xa4 c", 2, small + large, "small and large");
	is_sum("plain", 1, small, "another label");
	snprintf(line, sizeof(line), "\n# label %u plain\n", id_of("plain"));
	contains(text, line, "its text");
	ok(strstr(text, " first\n") == NULL, "no text of what nothing has");
	free(q);
	is_sum("a\\b\n\x7f\xc3\xa4 c", 1, small, "what was freed is in no label");
	free(p);
	free(r);
	p = make(1000);
	r = make(1000);
	ok(strstr(dump(), "\n# label") == NULL, "records that are used again have no label");
	label_set("resizer");
	s = keep(realloc(s, 200000));
	label_set("");
	is_sum("resizer", 1, class_of(200000), "a resize gives the label of its thread");
	free(p);
	free(r);
	free(s);
}

static void
test_reset(void) {
	label_set("kept");
	void *p = make(5000);
	is_sum("kept", 1, small_class_of(5000), "before a reset");
	is_int(mallctl("prof.reset", NULL, NULL, NULL, 0), 0, "prof.reset");
	ok(strstr(dump(), "\n# label") == NULL, "forgets samples");
	void *q = make(6000);
	is_sum("kept", 1, small_class_of(6000), "and keeps the thread's label");
	label_set("");
	free(p);
	free(q);
}

static void
test_delta(void) {
	const char *name = path;
	is_int(mallctl("prof.mark", NULL, NULL, NULL, 0), 0, "prof.mark");
	label_set("growth");
	void *p = make(7000);
	label_set("");
	is_int(mallctl("prof.dump_delta", NULL, NULL, &name, sizeof(name)), 0, "prof.dump_delta");
	int fd = open(path, O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);
	text[n < 0 ? 0 : n] = '\0';
	close(fd);
	ok(strstr(text, "\n# label") == NULL, "a profile of growth has no labels");
	free(p);
}

/* A child has labels and the samples with them, and adds its own. */
static void
test_forked(void) {
	label_set("parent");
	void *p = make(8000);
	pid_t pid = fork();
	if (pid == 0) {
		path = "child.heap";
		bool has_label = strcmp(ctl_str("thread.prof.label"), "parent") == 0;
		label_set("child");
		void *q = make(9000);
		dump();
		sum_t old = sum_of(text, id_of("parent")), own = sum_of(text, id_of("child"));
		unlink(path);
		_exit(q != NULL && has_label && old.bytes == small_class_of(8000)
		    && own.bytes == small_class_of(9000) ? 0 : 1);
	}
	int status = -1;
	waitpid(pid, &status, 0);
	is_int(status, 0, "a child has the label, its parent's samples, and adds labels");
	is_str(ctl_str("thread.prof.label"), "parent", "of which the parent knows nothing");
	label_set("");
	free(p);
}

enum { MANY = 1000, EACH = 5 };

static NOINLINE void *
make_one(unsigned i) {
	*label_word() = id_of(i % 2 == 0 ? "even" : "odd");
	return make(64);
}

/* At one site: each label's sum, ascending, each once. */
static void
test_many(void) {
	static void *p[MANY * EACH];
	static uint32_t ids[MANY];
	uint32_t *at = label_word();
	size_t size = small_class_of(64);
	unsigned bad = 0, n = 0;
	for (unsigned i = 0; i < MANY; i++) {
		char name[16];
		snprintf(name, sizeof(name), "many %u", i);
		ids[i] = id_of(name);
	}
	for (unsigned i = 0; i < MANY * EACH; i++) {
		*at = ids[i * 7 % MANY];
		p[i] = make(64);
	}
	*at = 0;
	dump();
	for (unsigned i = 0; i < MANY; i++) {
		sum_t sum = sum_of(text, ids[i]);
		bad += sum.objs != EACH || sum.bytes != EACH * size;
	}
	is_uint(bad, 0, "a thousand labels at one site have their sums");
	uint32_t last = 0;
	bad = 0;
	char *line = strstr(text, "\n# labeled "), *end = line == NULL ? NULL : strchr(line + 1, '\n');
	for (char *q = line == NULL ? NULL : strchr(line + 11, ' '); q != NULL && q < end;
	    q = strchr(q + 1, ' ')) {
		uint32_t id = (uint32_t)strtoul(q + 1, NULL, 10);
		bad += id <= last;
		last = id;
		n++;
	}
	is_uint(bad, 0, "in order");
	is_uint(n, MANY, "each once");
	for (unsigned i = 0; i < MANY * EACH; i++) {
		free(p[i]);
	}
	void *even = make_one(2), *odd = make_one(3);
	*at = 0;
	is_sum("even", 1, size, "by a switch");
	is_sum("odd", 1, size, "to and fro");
	free(even);
	free(odd);
}

static uint32_t of_thread[4][1000];
static pthread_barrier_t start;

static atomic_u32_t n_met;

/* Waits until all threads have come to the text of this number, so that they intern it at once. */
static void
meet(unsigned i) {
	atomic_fetch_add_u32(&n_met, 1, MO_RELAXED);
	while (atomic_load_u32(&n_met, MO_RELAXED) < (i + 1) * ARRAY_LEN(of_thread)) {
		sched_yield();
	}
}

static void *
intern_all(void *arg) {
	uint32_t *ids = arg;
	bool was_none = strcmp(ctl_str("thread.prof.label"), "") == 0;
	pthread_barrier_wait(&start);
	for (unsigned i = 0; i < ARRAY_LEN(of_thread[0]); i++) {
		char name[16];
		snprintf(name, sizeof(name), "same %u", i);
		meet(i);
		ids[i] = id_of(name);
	}
	label_set("thread's own");
	return was_none ? arg : NULL;
}

static void
test_threads(void) {
	pthread_t t[ARRAY_LEN(of_thread)];
	unsigned bad = 0, nfresh = 0;
	label_set("main's own");
	pthread_barrier_init(&start, NULL, ARRAY_LEN(t));
	for (unsigned i = 0; i < ARRAY_LEN(t); i++) {
		pthread_create(&t[i], NULL, intern_all, of_thread[i]);
	}
	for (unsigned i = 0; i < ARRAY_LEN(t); i++) {
		void *was_none;
		pthread_join(t[i], &was_none);
		nfresh += was_none != NULL;
	}
	is_uint(nfresh, ARRAY_LEN(t), "new threads have no label");
	is_str(ctl_str("thread.prof.label"), "main's own", "and change only their own");
	for (unsigned i = 0; i < ARRAY_LEN(of_thread[0]); i++) {
		for (unsigned k = 0; k < ARRAY_LEN(t); k++) {
			char name[16];
			snprintf(name, sizeof(name), "same %u", i);
			bad += of_thread[k][i] != of_thread[0][i] || of_thread[k][i] == 0;
			bad += strcmp(prof_label_text(of_thread[k][i]), name) != 0;
		}
	}
	is_uint(bad, 0, "threads that intern the same texts at once get the same numbers");
	label_set("");
}

/* How often readers outside the process find the text of this number. */
static unsigned
shown(uint32_t id) {
	const image_root_t *root = region_root();
	const uint64_t lists[] = {root->labels, root->labels_elsewhere};
	unsigned n = 0;
	for (unsigned i = 0; i < ARRAY_LEN(lists); i++) {
		const prof_label_shown_t *s = (const void *)(uintptr_t)lists[i];
		for (; s != NULL; s = s->next) {
			n += s->id == id;
		}
	}
	return n;
}

static void
test_shown(void) {
	uint32_t id = id_of("shown");
	is_uint(shown(id), 0, "a label without samples is not shown outside");
	label_set("shown");
	for (unsigned i = 0; i < 10; i++) {
		free(make(500));
	}
	label_set("");
	is_uint(shown(id), 1, "one with ten samples is shown once");
}

/* Interns until it is refused; the number of texts. */
static unsigned
intern_until(size_t len, int *err) {
	char name[256];
	unsigned n = 0;
	uint32_t id;
	memset(name, 'z', sizeof(name));
	name[len] = '\0';
	for (*err = 0; *err == 0; n += *err == 0) {
		int digits = snprintf(name, sizeof(name), "%u", n);
		name[digits] = 'z';
		*err = label_id(name, &id);
	}
	return n;
}

static void
is_full(void) {
	char longest[256];
	memset(longest, '!', sizeof(longest) - 1);
	longest[255] = '\0';
	label_set("a");
	is_int(label_set(longest), EAGAIN, "no further label");
	is_str(ctl_str("thread.prof.label"), "a", "the thread keeps its own");
	is_int(label_set("b"), 0, "those that are there work");
	void *p = make(3000);
	is_sum("b", 1, small_class_of(3000), "in samples too");
	free(p);
	label_set("");
}

/* In a child, as labels do not go; the other limit is reached here. */
static void
test_limits(void) {
	int err, status = -1;
	unsigned before = ctl_unsigned("prof.labels");
	pid_t pid = fork();
	if (pid == 0) {
		unsigned n = intern_until(8, &err);
		_exit(err == EAGAIN && before + n == 65535 && prof_label_count() == 65535 ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	is_int(status, 0, "the 65536th label is refused");
	unsigned n = intern_until(255, &err), most = (4u << 20) / 264;
	is_int(err, EAGAIN, "long ones are sooner");
	ok(n > most - 1000 && n <= most, "after %u of %u", n, most);
	is_uint(ctl_unsigned("prof.labels"), before + n, "as prof.labels says");
	is_full();
}

int
main(void) {
	static void (*const tests[])(void) = {test_arguments, test_numbers, test_lines, test_reset,
	    test_delta, test_forked, test_many, test_threads, test_shown, test_limits,
	    NULL};
	return dir_main(config_prof, tests);
}
