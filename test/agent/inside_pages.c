/*
 * Inside of pages.c and page.c: a page with a part for which there was no memory is no whole page,
 * and the largest value that is told of a time is of that time; what --push lost is told; each fact
 * of a process has its row. Prints what is wrong. Built by inside.t.
 */
#include "pages.c"
#include "page.c"
#include "text.c"
#include "expect.h"

options_t options;

bool
is_elsewhere(const figures_t *f) {
	return f->rss != 0;
}

void
elsewhere_sentence(text_t *t, const figures_t *f) {
	(void)f;
	t->is_cut = true;
}

counts_t counts;
static uint64_t dropped; /* profiles that --push has lost */

void
dead_count(dead_counts_t *c) {
	*c = (dead_counts_t){.kept = 0};
}

void
push_read(push_figures_t *f) {
	*f = (push_figures_t){.dropped = dropped};
}

void
push_loss(const push_figures_t *f, char text[PUSH_LOSS]) {
	snprintf(text, PUSH_LOSS, "lost %d", (int)f->dropped);
}

void
table_lock(void) {}

void
table_unlock(void) {}

proc_t *const *
table_sorted(void) {
	static proc_t *const none[] = {NULL};
	return none;
}

/* The page of all processes tells what --push has lost. */
static void
check_loss(void) {
	for (dropped = 0; dropped < 2; dropped++) {
		text_t t = {0};
		tell_index(&t);
		expect("what --push lost", strstr(t.at, "</table>\n<p>lost 1</p>\n<p>0 more") != NULL,
		    dropped == 1);
		free(t.at);
	}
}

/* Whether the picture of a full ring, a point each look_ms, the first 200 large, tells `words`. */
static bool
is_told(uint64_t look_ms, const char *words) {
	static point_t ring[HISTORY_POINTS];
	text_t t = {0};
	unsigned points = 3 * HISTORY_POINTS / 2;
	for (unsigned i = 0; i < points; i++) {
		ring[i % HISTORY_POINTS] = (point_t){(int64_t)(i * look_ms), (i < 200 ? 90 : 3) << 20, 1};
	}
	options.look_ms = look_ms;
	page_picture(&t, ring, points, (int64_t)((points - 1) * look_ms), HOUR_MS);
	bool is = strstr(t.at, words) != NULL;
	free(t.at);
	return is;
}

/* The title tells the largest value of the time that it names, and only of what the ring has. */
static void
check_picture(void) {
	expect("4 hours of points", is_told(60000, "the last hour: resident grey, allocated red; at "
	    "most 3M<"), true);
	expect("an hour", is_told(15000, "the last hour: resident grey, allocated red; at most 90M<"),
	    true);
	expect("4 minutes", is_told(1000, "the last 4 minutes: "), true);
	expect("the upper edge", is_told(60000, "points=\"0.0,1.0 "), true);
}

const char *const fig_keys[fig_count] = {"f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9",
    "f10"};

bool
proc_has(const proc_t *p, fig_t figure) {
	return (p->figures.known >> figure & 1) != 0;
}

const char *
jeprof_state_word(uint32_t state) {
	return state == 7 ? "state-7" : "";
}

int64_t
client_now_ms(void) {
	return 0;
}

/* Whether the row of this name has the value; NULL: there is no such row. */
static bool
has_fact(const text_t *t, const char *name, const char *value) {
	char row[256];
	snprintf(row, sizeof(row), "<tr><td class=\"t\">%s</td><td class=\"t\">%s%s", name,
	    value == NULL ? "" : value, value == NULL ? "" : "</td></tr>");
	return (strstr(t->at, row) != NULL) == (value != NULL);
}

/* Each fact has a row with its own value, and what is not known has none. */
static void
check_facts(void) {
	static const char *const names[] = {"profiler", "service", "user", "program", "build-id",
	    "cgroup", "container", "library", "box"};
	labels_t labels = {.exe = "/the/program", .build_id = "a0b1", .cgroup = "/a/group",
	    .container_id = "c0ffee", .user = "a&user", .service = "a-service"};
	proc_t p = {.labels = &labels, .head = {.state = 7, .session_id = 5, .instance = 6,
	    .library_version = "9.8"}, .lease = {.session = 5, .instance = 6, .lack = lack_refused},
	    .figures = {.rss = 4321}};
	const char *values[] = {"state-7", "a-service", "a&amp;user", "/the/program", "a0b1",
	    "/a/group", "c0ffee", "9.8",
	    "none: the process has no room for it, or its library is older"};
	for (unsigned known = 0; known <= fig_count + 1; known++) {
		text_t t = {0};
		p.figures.known = known == fig_count + 1 ? ~0u : 1u << known;
		for (unsigned i = 0; i < fig_count; i++) {
			p.figures.values[i] = 1000 + i;
		}
		add_facts(&t, &p);
		for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			expect(names[i], has_fact(&t, names[i], values[i]), true);
		}
		for (unsigned i = 0; i < fig_count; i++) {
			char value[16];
			snprintf(value, sizeof(value), "%u", 1000 + i);
			bool is_known = known == i || known == fig_count + 1;
			expect(fig_keys[i], has_fact(&t, fig_keys[i], is_known ? value : NULL), true);
		}
		expect("rss", has_fact(&t, "rss", "4321"), true);
		free(t.at);
	}
	text_t t = {0};
	labels = (labels_t){.exe = ""};
	p = (proc_t){.labels = &labels, .lease = {.lack = lack_refused}};
	add_facts(&t, &p);
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		expect(names[i], has_fact(&t, names[i], NULL), true);
	}
	free(t.at);
}

/* What lacks is told of our own session, and of no other one. */
static void
check_lacks(void) {
	static const char *const begins[lack_count] = {[lack_none] = "",
		[lack_filter] = "none: its system calls are filtered (seccomp)",
		[lack_room] = "none: its memory cgroup", [lack_refused] = "none: the process has no room"};
	for (int lack = 0; lack < lack_count; lack++) {
		proc_t p = {.head = {.session_id = 5, .instance = 6},
		    .lease = {.session = 5, .instance = 6, .lack = (lack_t)lack}};
		size_t n = strlen(begins[lack]);
		expect("what lacks", strncmp(lack_text(&p), begins[lack], n == 0 ? 1 : n), 0);
		p.head.session_id = 4;
		expect("in another session", lack_text(&p)[0], 0);
		p.head.session_id = 5;
		p.head.instance = 7;
		expect("of another process", lack_text(&p)[0], 0);
		p.lease.session = p.head.session_id = 0;
		p.head.instance = 6;
		expect("in no session", lack_text(&p)[0], 0);
	}
}

int
main(void) {
	text_t t = {0};
	proc_t p = {0};
	check_facts();
	check_lacks();
	add_elsewhere(&t, &p, "", "");
	expect("nothing to tell: nothing lacks", t.is_cut, false);
	p.figures.rss = 1;
	add_elsewhere(&t, &p, "", "");
	expect("no memory for the sentence: the page is cut", t.is_cut, true);
	p.figures.rss = 0;
	add_elsewhere(&t, &p, "", "");
	expect("and stays so", t.is_cut, true);
	check_picture();
	check_loss();
	return bad;
}
