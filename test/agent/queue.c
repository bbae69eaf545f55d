/*
 * The queue of push.c without a receiver: which profiles it keeps, and what it counts. Prints what
 * is wrong; 1 if anything is. Built by push.t.
 */
#include "push.c"
#include <stdarg.h>
#include "expect.h"

options_t options;

void
table_lock(void) {}

void
table_unlock(void) {}

proc_t *const *
table_sorted(void) {
	static proc_t *const none[] = {NULL};
	return none;
}

size_t
proc_labels(const proc_t *p, label_t *labels) {
	(void)p;
	(void)labels;
	return 0;
}

bool
scrape_begin(const order_t *order, done_t *done, void *arg) {
	(void)order;
	(void)done;
	(void)arg;
	return false;
}

static char said[512]; /* what was said last */
static unsigned times; /* how often something was said */

void
talk(const char *format, ...) {
	va_list args;
	va_start(args, format);
	vsnprintf(said, sizeof(said), format, args);
	va_end(args);
	times++;
}

void
leave(int code, const char *format, ...) {
	(void)format;
	exit(code);
}

/* Queues a profile of `length` bytes whose first one is `mark`. */
static void
add(char mark, size_t length) {
	char *body = malloc(length);
	body[0] = mark;
	enqueue(body, length);
}

static char
oldest_mark(void) {
	parcel_t *p = take_oldest_locked();
	char mark = p->body[0];
	parcel_free(p);
	return mark;
}

int
main(void) {
	push_figures_t f;
	for (char mark = 'a'; mark <= 't'; mark++) {
		add(mark, 1 << 20);
	}
	push_read(&f);
	expect("bytes of 20 profiles of 1 MB", f.queued, 8 << 20);
	expect("dropped", f.dropped, 12);

	/* One is being sent, the others fill the queue meanwhile: it is too old to be tried again. */
	parcel_t *p = take_oldest_locked();
	expect("the oldest", (uint64_t)p->body[0], 'm');
	add('u', 1 << 20);
	put_back_locked(p);
	push_read(&f);
	expect("bytes with one back", f.queued, 8 << 20);
	expect("dropped with one back", f.dropped, 13);
	expect("tried again", f.retried, 0);

	/* There is room: it goes to the front. */
	p = take_oldest_locked();
	put_back_locked(p);
	push_read(&f);
	expect("tried again with room", f.retried, 1);
	expect("in front", (uint64_t)oldest_mark(), 'n');

	/* A large one takes the room of several; one that is larger than the queue goes itself. */
	add('v', (3 << 20) + 1);
	push_read(&f);
	expect("bytes with a large one", f.queued, (4 << 20) + (3 << 20) + 1);
	expect("dropped for a large one", f.dropped, 16);
	push_tick(0);
	expect("said that some were dropped", times, 1);
	add('w', (8 << 20) + 1);
	push_tick(0);
	expect("said once", times, 1);
	for (unsigned i = 0; i < 16; i++) {
		add('w', (8 << 20) + 1);
	}
	push_tick(0);
	expect("said again", times, 2);
	expect("with the numbers", strcmp(said, "--push: 33 profiles were dropped: 17 were larger than "
	    "8M, for the others the queue of 8M had no room"), 0);
	push_read(&f);
	expect("bytes with one too large", f.queued, (4 << 20) + (3 << 20) + 1);
	expect("dropped with those too large", f.dropped, 33);
	for (const char *want = "rstuv"; *want != '\0'; want++) {
		expect("order", (uint64_t)oldest_mark(), (uint64_t)*want);
	}
	push_read(&f);
	expect("bytes at the end", f.queued, 0);
	add('x', 10);
	expect("after it was empty", (uint64_t)oldest_mark(), 'x');
	return bad;
}
