/*
 * A parsed request line: which place of the server it names, with which arguments. Without
 * libmicrohttpd, so that test/fuzz/agent_route.c can use it alone. The method is not checked here:
 * server.c compares it with is_post. Called by server.c for each request, in this order:
 * route_path(), route_argument() for each argument, route_finish(); after a fault the rest changes
 * nothing. options.c prints the help.
 */
#pragma once
#include "scrape.h"

typedef enum { place_none, place_index, place_targets, place_metrics, place_page,
    place_process_metrics, place_dead_list, place_dead, place_job } route_place_t;

typedef struct route_s {
	route_place_t place;
	bool is_post;         /* the path is for POST, otherwise for GET and HEAD */
	/*
	 * pid is set for all places below /p/, key for those below /dead/KEY. A place_job has the other
	 * fields too, but for is_packed, push_again_ms, is_own and root, which stay 0.
	 */
	order_t order;
	unsigned given;       /* a bit for each argument seen so far: finds those given twice */
	unsigned fault; /* HTTP status of the first refusal; later calls change nothing; 0: none */
	const char *why;      /* a constant: the sentence of the refusal, if fault is not 0 */
} route_t;

/*
 * Clears *r and parses the path, without unescaping it or resolving "..". A path that is none of
 * the places is a fault: 400 if it begins with "/p/" and no number follows, otherwise 404. The key
 * behind "/dead/" is any text of DEAD_KEY_BYTES, even "..": it is only compared with kept ones.
 */
void route_path(const char *path, route_t *r);

/*
 * Parses one argument of the query; value may be NULL. An argument that the path does not take, one
 * given twice, and a value that is not allowed are faults (400).
 */
void route_argument(const char *key, const char *value, route_t *r);

/* Sets a fault (400) if arguments exclude each other. */
void route_finish(route_t *r);

/* Prints the paths and the arguments, for --help. */
void route_put_help(void);
