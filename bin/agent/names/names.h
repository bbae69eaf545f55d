/*
 * Names of addresses in the objects of one process. A table is looked up by the object's build-id
 * and by whose file it is: what a container or a user has written names nothing for another. What
 * the table lacks is read by another process (maker.h), once for all who ask at the same time.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../pprof.h"
#include "cache.h"
#include "table.h"

typedef struct names_s {
	const struct pprof_request *request;
	cache_t cache;
	int root;            /* of the process; -1: it has no names */
	char domain[64];     /* whose root that is, "" if it is ours */
	char process[48];    /* pid and start time */
	int64_t deadline_ms; /* of the monotonic clock: no maker runs or is waited for after it */
	unsigned nmade;      /* makers that were started */
} names_t;

/* An object as the profile tells of it; nothing of it is believed. */
typedef struct names_object_s {
	const char *id;      /* build-id in hex, "" : none */
	const char *path;    /* as its process sees it */
	uint64_t map_start, map_end; /* of a line of the memory map; 0: not known */
	uint64_t inode;      /* in that line */
	bool is_main;        /* the program itself */
} names_object_t;

/* 0, or an errno if there is no such process or cache; then there are no names. */
int names_begin(names_t *n, const struct pprof_request *request);
void names_end(names_t *n);

/*
 * A table that has as many of these addresses (less the bias, in rising order) as can be had; false
 * if there is none. names_table_close is the caller's.
 */
bool names_try_table(names_t *n, const names_object_t *object, const uint64_t *addresses,
    size_t count, names_table_t *table);
