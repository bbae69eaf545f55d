/*
 * Inside of pages.c: a page with a part for which there was no memory is no whole page. Prints what
 * is wrong. Built by inside.t.
 */
#include "pages.c"
#include "expect.h"

bool
is_elsewhere(const figures_t *f) {
	return f->rss != 0;
}

void
elsewhere_sentence(text_t *t, const figures_t *f) {
	(void)f;
	t->is_cut = true;
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
	return bad;
}
