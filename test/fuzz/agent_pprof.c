/*
 * The profile stream: bytes that a process gives as its heap profile, parsed, subtracted from each
 * other and encoded. The first byte says where the text is cut into the earlier and the later
 * profile; what comes out must be gzip.
 */
#include <stdlib.h>
#include <string.h>

#include "pprof.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An exact copy makes reading past the end a fault. */
static struct pprof_profile *
parse_exactly(const uint8_t *data, size_t size) {
	struct pprof_profile *p = NULL;
	const char *why = NULL;
	char *copy = malloc(size + (size == 0));
	memcpy(copy, data, size);
	int err = pprof_parse(copy, size, &p, &why);
	free(copy);
	if ((err == 0) != (p != NULL) || (err != 0 && (why == NULL || *why == '\0'))) {
		abort();
	}
	return p;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct pprof_request request = {.default_type = "alloc_space"};
	if (size < 1) {
		return 0;
	}
	size_t cut = 1 + (size - 1) * data[0] / 255;
	struct pprof_profile *before = parse_exactly(data + 1, cut - 1);
	struct pprof_profile *after = parse_exactly(data + cut, size - cut);
	struct pprof_profile *one = after != NULL ? after : before;
	unsigned char *out = NULL;
	const char *why = NULL;
	size_t len = 0;
	if (before != NULL && after != NULL) {
		(void)pprof_subtract(after, before);
	}
	if (one != NULL && (pprof_encode(one, &request, &out, &len, &why) != 0 || len < 18
	    || out[0] != 0x1f)) {
		abort();
	}
	free(out);
	pprof_free(before);
	pprof_free(after);
	return 0;
}
