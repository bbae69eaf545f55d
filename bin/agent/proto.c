/*
 * Protobuf's wire format, as far as profiles need it: varints, fixed numbers and fields with a
 * length; and gzip (proto.h). A full buffer grows to more than twice its room. Invariant: len <=
 * room. When a buffer could not grow, its error is set, and nothing more is added: the field that
 * was being written may then be incomplete. No locks: a buffer belongs to one thread. Called by
 * pprof_encode.c, pprof_parts.c and otlp_encode.c.
 */
#include "proto.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
	NUMBER = 0,            /* wire type: the value is a varint */
	FIXED64 = 1,           /* wire type: the value is 8 bytes, the lowest first */
	WITH_LENGTH = 2,       /* wire type: the length as a varint, then so many bytes */
	VARINT_MAX = 10,       /* bytes of a varint of 64 bits, at most */
	GZIP_WINDOW = 15 + 16, /* windowBits of zlib: a window of 32 KiB; 16: the format of gzip */
};

/* Makes room for `more` bytes. False: p->error is set, now or before. */
static bool
try_room(proto_t *p, size_t more) {
	if (p->error != 0) {
		return false;
	}
	if (p->room - p->len >= more) {
		return true;
	}
	size_t room = (p->room < PROTO_MAX / 2 ? p->room * 2 : PROTO_MAX) + more + 256;
	bool fits = more <= PROTO_MAX && p->len + more <= PROTO_MAX;
	unsigned char *data = fits ? realloc(p->data, room) : NULL;
	if (data == NULL) {
		p->error = fits ? ENOMEM : EFBIG;
		return false;
	}
	p->data = data;
	p->room = room;
	return true;
}

static void
append(proto_t *p, const void *bytes, size_t len) {
	if (len != 0 && try_room(p, len)) {
		memcpy(p->data + p->len, bytes, len);
		p->len += len;
	}
}

void
proto_varint(proto_t *p, uint64_t value) {
	if (!try_room(p, VARINT_MAX)) {
		return;
	}
	for (; value > 127; value >>= 7) {
		p->data[p->len++] = (unsigned char)(value | 128);
	}
	p->data[p->len++] = (unsigned char)value;
}

void
proto_number(proto_t *p, unsigned field, uint64_t value) {
	if (value != 0) {
		proto_varint(p, field << 3 | NUMBER);
		proto_varint(p, value);
	}
}

void
proto_fixed64(proto_t *p, unsigned field, uint64_t value) {
	proto_varint(p, field << 3 | FIXED64);
	if (try_room(p, sizeof(value))) {
		for (unsigned i = 0; i < sizeof(value); i++) {
			p->data[p->len++] = (unsigned char)(value >> 8 * i);
		}
	}
}

void
proto_bytes(proto_t *p, unsigned field, const void *bytes, size_t len) {
	proto_varint(p, field << 3 | WITH_LENGTH);
	proto_varint(p, len);
	append(p, bytes, len);
}

void
proto_message(proto_t *p, unsigned field, const proto_t *message) {
	p->error = p->error != 0 ? p->error : message->error;
	proto_bytes(p, field, message->data, message->len);
}

void
proto_append(proto_t *p, const proto_t *fields) {
	p->error = p->error != 0 ? p->error : fields->error;
	append(p, fields->data, fields->len);
}

void
proto_clear(proto_t *p) {
	p->len = 0;
}

void
proto_free(proto_t *p) {
	free(p->data);
	memset(p, 0, sizeof(*p));
}

int
proto_take(proto_t *p, unsigned char **out, size_t *len) {
	if (p->error != 0 || p->data == NULL) {
		return p->error != 0 ? p->error : ENOMEM;
	}
	*out = p->data;
	*len = p->len;
	memset(p, 0, sizeof(*p));
	return 0;
}

int
proto_gzip(const proto_t *p, unsigned char **out, size_t *len) {
	z_stream z = {.zalloc = Z_NULL};
	/*
	 * Z_BEST_SPEED, because a client waits: its time counts more than the size. 9 is memLevel: the
	 * most memory, which is fastest.
	 */
	if (p->error != 0) {
		return p->error;
	}
	if (deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW, 9, Z_DEFAULT_STRATEGY) != Z_OK) {
		return ENOMEM;
	}
	size_t bound = deflateBound(&z, p->len);
	unsigned char *packed = malloc(bound);
	z.next_in = p->data;
	z.avail_in = (uInt)p->len;
	z.next_out = packed;
	z.avail_out = (uInt)bound;
	bool is_whole = packed != NULL && deflate(&z, Z_FINISH) == Z_STREAM_END;
	*len = z.total_out;
	deflateEnd(&z);
	if (!is_whole) {
		free(packed);
		return ENOMEM;
	}
	unsigned char *exact = realloc(packed, *len);
	*out = exact != NULL ? exact : packed;
	return 0;
}
