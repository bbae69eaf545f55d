/* util/ql.h: order after every kind of change, and links that know when they are on no list. */
#include "test.h"

#include "util/ql.h"

struct item {
	char name;
	ql_t link;
};

static struct item items[3] = {{'a', {0}}, {'b', {0}}, {'c', {0}}};

/* The names in order, then, by the other links, in reverse. */
static const char *
text(const ql_t *head) {
	static char buf[32];
	char *p = buf;
	for (ql_t *q = ql_first(head); q != NULL; q = ql_next(head, q)) {
		*p++ = container_of(q, struct item, link)->name;
	}
	*p++ = '|';
	for (const ql_t *q = head->prev; q != head; q = q->prev) {
		*p++ = container_of(q, const struct item, link)->name;
	}
	*p = '\0';
	return buf;
}

int
main(void) {
	ql_t list;
	ql_init(&list);
	for (size_t i = 0; i < ARRAY_LEN(items); i++) {
		ql_init(&items[i].link);
	}
	ok(ql_is_empty(&list), "a new list is empty");
	ok(ql_first(&list) == NULL, "it has no first element");

	ql_push_tail(&list, &items[1].link);
	ql_push_tail(&list, &items[2].link);
	ql_insert_after(&list, &items[0].link);
	is_str(text(&list), "abc|cba", "pushed at both ends");
	ql_remove(&items[1].link);
	is_str(text(&list), "ac|ca", "removed from the middle");
	ok(ql_is_empty(&items[1].link), "the removed link is on no list");
	ql_remove(&items[1].link);
	is_str(text(&list), "ac|ca", "removing it again does nothing");
	ql_insert_after(&items[0].link, &items[1].link);
	is_str(text(&list), "abc|cba", "inserted behind another");
	ok(ql_first(&list) == &items[0].link, "the first");
	ql_remove(&items[0].link);
	is_str(text(&list), "bc|cb", "removed from the front");
	ql_remove(&items[2].link);
	is_str(text(&list), "b|b", "and from the end");
	ql_remove(&items[1].link);
	ok(ql_is_empty(&list), "the last one leaves an empty list");
	return done_testing();
}
