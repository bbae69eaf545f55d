/*
 * Protobuf messages in memory, and gzip. When a buffer cannot grow, `error` is set and later
 * additions are dropped, so that writers need to check for an error only once, at the end. Called
 * by pprof_encode.c, otlp_encode.c and pprof_parts.c.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A message that is being written. All zero is an empty one. */
typedef struct proto_s {
	unsigned char *data;
	size_t len, room; /* bytes written, bytes allocated */
	/*
	 * not 0: something is missing, because there was no memory (ENOMEM), or because the buffer
	 * would have got more than PROTO_MAX bytes (EFBIG)
	 */
	int error;
} proto_t;

/*
 * Bytes of a buffer, at most. A process chooses its profile, in which each thread of a stack takes
 * few bytes, but its sample in the output has the whole stack.
 */
enum { PROTO_MAX = 256 << 20 };

/* A bare varint, for packed fields. */
void proto_varint(proto_t *p, uint64_t value);

/* Field `field`, which is a number. The value 0 is not written: it is the default. */
void proto_number(proto_t *p, unsigned field, uint64_t value);

/* Field `field`, which is a fixed64; 0 is written too. */
void proto_fixed64(proto_t *p, unsigned field, uint64_t value);

/* Field `field`, which is a string, packed numbers, or a message; also if it has 0 bytes. */
void proto_bytes(proto_t *p, unsigned field, const void *bytes, size_t len);

/* Field `field` with another buffer as its message; its error becomes that of *p. */
void proto_message(proto_t *p, unsigned field, const proto_t *message);

/* Appends the bytes of another buffer as they are; its error becomes that of *p. */
void proto_append(proto_t *p, const proto_t *fields);

/* Empty again; the memory and the error stay. */
void proto_clear(proto_t *p);

/* Frees the memory; then *p is all zero. */
void proto_free(proto_t *p);

/*
 * Moves the bytes into *out, which the caller frees; then *p is all zero. After an error *p is as
 * before. 0; p->error; ENOMEM if data is NULL, because nothing was written since *p was all zero. A
 * buffer that was written and then cleared gives 0 bytes.
 */
int proto_take(proto_t *p, unsigned char **out, size_t *len);

/*
 * Compresses the buffer, which does not change, into *out, which the caller frees. 0, p->error or
 * ENOMEM.
 */
int proto_gzip(const proto_t *p, unsigned char **out, size_t *len);
