/* util/ql.h: order after every kind of change, and links that know when they are on no list. */
#include "test.h"

#include "util/ql.h"

struct item {
	char name;
	ql_t link;
};

static struct item items[6] = {{'a', {0}}, {'b', {0}}, {'c', {0}}, {'d', {0}}, {'e', {0}}, {'f', {0}}};

/* The names in order, then, going back, in reverse. */
static const char *
text(const ql_t *head) {
	static char buf[32];
	char *p = buf;
	for (ql_t *q = ql_first(head); q != NULL; q = ql_next(head, q)) {
		*p++ = container_of(q, struct item, link)->name;
	}
	*p++ = '|';
	for (ql_t *q = ql_last(head); q != NULL; q = ql_prev(head, q)) {
		*p++ = container_of(q, struct item, link)->name;
	}
	*p = '\0';
	return buf;
}

int
main(void) {
	ql_t list;
	ql_t other = QL_HEAD_INITIALIZER(other);
	ql_init(&list);
	for (size_t i = 0; i < ARRAY_LEN(items); i++) {
		ql_init(&items[i].link);
	}
	ok(ql_is_empty(&list) && ql_first(&list) == NULL && ql_last(&list) == NULL, "a new list is empty");
	ok(ql_pop_head(&list) == NULL, "nothing to take");
	ql_rotate(&list);
	is_str(text(&list), "|", "rotating nothing");

	ql_push_tail(&list, &items[1].link);
	ql_push_tail(&list, &items[2].link);
	ql_push_head(&list, &items[0].link);
	is_str(text(&list), "abc|cba", "pushed at both ends");
	ql_rotate(&list);
	is_str(text(&list), "bca|acb", "rotated");
	ql_remove(&items[2].link);
	is_str(text(&list), "ba|ab", "removed from the middle");
	ok(ql_is_empty(&items[2].link), "the removed link is on no list");
	ql_remove(&items[2].link);
	is_str(text(&list), "ba|ab", "removing it again does nothing");
	ql_insert_after(&items[1].link, &items[2].link);
	is_str(text(&list), "bca|acb", "inserted behind another");

	ql_concat(&list, &other);
	is_str(text(&list), "bca|acb", "an empty list appended");
	ql_push_tail(&other, &items[3].link);
	ql_push_tail(&other, &items[4].link);
	ql_concat(&list, &other);
	is_str(text(&list), "bcade|edacb", "a list appended");
	ok(ql_is_empty(&other), "its source is empty");
	ql_concat(&other, &list);
	is_str(text(&other), "bcade|edacb", "appended to an empty list");
	ok(ql_pop_head(&other) == &items[1].link, "the first is taken");
	is_str(text(&other), "cade|edac", "and gone");
	return done_testing();
}
