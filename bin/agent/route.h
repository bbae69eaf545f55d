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
	 * pid is set for all places below /p/, key for those below /dead/KEY. For a place_job the other
	 * fields of order_t (scrape.h) are set too, but for is_packed, push_again_ms, is_own and root,
	 * which stay 0.
	 */
	order_t order;
	unsigned given;       /* a bit for each argument seen so far: finds those given twice */
	unsigned fault; /* HTTP status of the first refusal; later calls change nothing; 0: none */
	const char *why;      /* a constant: the sentence of the refusal, if fault is not 0 */
} route_t;

/*
 * Clears *r and parses the path, without unescaping it or resolving "..". Sets a fault if there is
 * no such place: 301 if only the slash behind /p/PID or /dead/KEY is missing, because the links of
 * these pages are relative (pid or key is set then); 400 if the path begins with "/p/" and no
 * number follows, otherwise 404. The key behind "/dead/" may be any text, shorter than DEAD_KEY, of
 * the characters in DEAD_KEY_CHARS, even "..", because it is only compared with the keys of the
 * dead that are kept.
 */
void route_path(const char *path, route_t *r);

/*
 * Parses one argument of the query. value is NULL if the argument has no '='; it then counts as "".
 * Sets a fault (400) if the path does not take the argument, if it was given before, or if the
 * value is not allowed.
 */
void route_argument(const char *key, const char *value, route_t *r);

/* Sets a fault (400) if arguments exclude each other. */
void route_finish(route_t *r);

/* Prints the paths and the arguments, for --help. */
void route_put_help(void);
