/*
 * Which path is what: a request line, read. No libmicrohttpd here, so that it can be tested and
 * fuzzed alone.
 */
#pragma once
#include "scrape.h"

typedef enum { place_none, place_index, place_targets, place_metrics, place_page,
    place_process_metrics, place_job } place_t;

typedef struct route_s {
	place_t place;
	bool is_post;         /* it wants POST, else GET and HEAD */
	order_t order;        /* pid of all places below /p/, the rest of place_job */
	unsigned given;       /* one bit for each argument that was read */
	unsigned fault;       /* a status of HTTP, 0: none */
	const char *why;      /* of the fault */
} route_t;

/* Reads the path; no escapes: a path with %, .. or // is none of ours. */
void route_path(const char *path, route_t *r);

/*
 * Reads one argument of the query; value may be NULL. One that the path does not take, or a value
 * that it cannot be, is a fault.
 */
void route_argument(const char *key, const char *value, route_t *r);

/* What can be said only when all arguments are read. */
void route_finish(route_t *r);
