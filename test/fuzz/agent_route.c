/*
 * A request line of jeprofd: a path, then arguments between '?', '&' and '='. A route without a
 * fault must name a place, with numbers within their limits; quoting must give JSON, labels and
 * HTML without what would end them.
 */
#include <stdlib.h>
#include <string.h>

#include "route.h"
#include "text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(int is_good) {
	if (!is_good) {
		abort();
	}
}

static void
check_route(const route_t *r) {
	if (r->fault != 0) {
		check((r->fault == 301 || (r->fault >= 400 && r->fault < 500)) && r->why != NULL);
		check(r->fault != 301 || (r->order.pid > 0) != (r->order.key[0] != '\0'));
		return;
	}
	check(r->place != place_none && r->order.seconds <= 86400
	    && r->order.rate <= UINT64_C(1) << 40);
	int is_dead = r->place == place_dead || (r->place == place_job && r->order.kind == job_dead);
	int is_process = r->place == place_page || r->place == place_process_metrics
	    || (r->place == place_job && r->order.kind != job_dead);
	check((r->order.pid > 0) == is_process && (r->order.key[0] != '\0') == is_dead);
	check(!r->is_post || r->place == place_job);
}

/*
 * Quoted text ends where it should: no quote, bracket or control character is left in it as it was.
 */
static void
check_quotes(const char *text) {
	text_t t = {0};
	text_json(&t, text);
	check(t.length >= 2 && t.at[0] == '"' && t.at[t.length - 1] == '"'
	    && strpbrk(t.at, "\n\r<") == NULL);
	for (size_t i = 1; i + 1 < t.length; i++) {
		check(t.at[i] != '"' || t.at[i - 1] == '\\');
		i += t.at[i] == '\\';
	}
	t.length = 0;
	text_label(&t, "l", text);
	check(strchr(t.at, '\n') == NULL);
	t.length = 0;
	text_bytes(&t, "", 0);
	text_html(&t, text);
	check(t.at == NULL || strpbrk(t.at, "<>\"'\n") == NULL);
	free(t.at);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	route_t r;
	char *copy = malloc(size + 1);
	memcpy(copy, data, size);
	copy[size] = '\0';
	check_quotes(copy);
	char *next = strchr(copy, '?');
	if (next != NULL) {
		*next++ = '\0';
	}
	route_path(copy, &r);
	while (next != NULL) {
		char *key = next;
		next = strchr(key, '&');
		if (next != NULL) {
			*next++ = '\0';
		}
		char *value = strchr(key, '=');
		if (value != NULL) {
			*value++ = '\0';
		}
		route_argument(key, value, &r);
	}
	route_finish(&r);
	check_route(&r);
	free(copy);
	return 0;
}
