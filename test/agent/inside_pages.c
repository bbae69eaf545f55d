/*
 * Inside of pages.c and page.c: a page with a part for which there was no memory is no whole page,
 * and the largest value that is told of a time is of that time; what --push lost is told. Prints
 * what is wrong. Built by inside.t.
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

int
main(void) {
	text_t t = {0};
	proc_t p = {0};
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
