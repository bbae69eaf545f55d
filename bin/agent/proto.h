/*
 * Messages of protobuf in memory, and gzip. A buffer that could not grow says so at the end: what
 * is added then is dropped, so that writers need not look at each step.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero is an empty one. */
typedef struct proto_s {
	unsigned char *data;
	size_t len, room;
	bool has_failed; /* there was no memory for something */
} proto_t;

void proto_varint(proto_t *p, uint64_t value);

/* Field `field`, which is a number; one that is 0 is not written. */
void proto_number(proto_t *p, unsigned field, uint64_t value);

/* Field `field`, which is a string, packed numbers, or a message. */
void proto_bytes(proto_t *p, unsigned field, const void *bytes, size_t len);
void proto_message(proto_t *p, unsigned field, const proto_t *message);

/* Empty again; the memory stays. */
void proto_clear(proto_t *p);
void proto_free(proto_t *p);

/* The gzip form of a buffer in memory that the caller frees; 0 or ENOMEM. */
int proto_gzip(const proto_t *p, unsigned char **out, size_t *len);
