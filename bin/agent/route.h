/*
 * A parsed request line: which place of the server it names, with which arguments. Independent of
 * libmicrohttpd, so that it can be tested and fuzzed alone. Called by server.c for each request, in
 * this order: route_path(), route_argument() for each argument, route_finish(). options.c prints
 * the help.
 */
#pragma once
#include "scrape.h"

typedef enum { place_none, place_index, place_targets, place_metrics, place_page,
    place_process_metrics, place_dead_list, place_dead, place_job } place_t;

typedef struct route_s {
	place_t place;
	bool is_post;         /* the path is for POST, otherwise for GET and HEAD */
	/*
	 * pid is set for all places below /p/, key for those below /dead/KEY, the other fields for
	 * place_job; is_packed, is_push and root are never set
	 */
	order_t order;
	unsigned given;       /* bit i: argument i (arg_t of route.c) was in the query */
	unsigned fault;       /* HTTP status of the first refusal, which ends the parsing; 0: none */
	const char *why;      /* a constant: the sentence of the refusal, if fault is not 0 */
} route_t;

/*
 * Clears *r and parses the path, without unescaping. A path that is none of the places is a fault
 * (404), also one with %, .. or //; so is "/p/" without a number behind it (400).
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
