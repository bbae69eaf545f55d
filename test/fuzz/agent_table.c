/*
 * A table of names that somebody has forged: opened, all rows, frames and strings read, addresses
 * looked up. First byte: whether the head is made right (else nearly nothing gets past it).
 */
#include <stdlib.h>
#include <string.h>

#include "names/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* As a writer would have made it, but for the counts, which are the input's. */
static void
head_make(unsigned char *copy, size_t size) {
	names_head_t head;
	if (size < sizeof(head)) {
		return;
	}
	memcpy(&head, copy, sizeof(head));
	memcpy(head.magic, NAMES_MAGIC, sizeof(head.magic));
	memcpy(head.key, "id", 3);
	head.version = NAMES_VERSION;
	head.size = size;
	head.nrows %= 64;
	head.nframes %= 64;
	head.nstrings = size - sizeof(head) - head.nrows * sizeof(names_row_t) - head.nframes
	    * sizeof(names_frame_t);
	head.key[sizeof(head.key) - 1] = '\0';
	head.sum = names_head_sum(&head);
	memcpy(copy, &head, sizeof(head));
	copy[size - 1] = '\0';
}

static size_t
frame_read(const names_table_t *t, const names_row_t *row, size_t i) {
	names_frame_t frame;
	size_t sum = 0, len;
	if (!names_table_frame(t, row, i, &frame)) {
		return 0;
	}
	const uint32_t texts[] = {frame.name, frame.system_name, frame.file};
	for (unsigned k = 0; k < 3; k++) {
		const char *text = names_table_string(t, texts[k], &len);
		for (size_t at = 0; at < len; at++) {
			sum += (unsigned char)text[at];
		}
		if (len > NAMES_STRING_MAX || text[len < NAMES_STRING_MAX ? len : 0] == 1) {
			sum++;
		}
	}
	return sum + 1;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	names_table_t t;
	names_row_t row;
	static volatile size_t sink;
	if (size < 1) {
		return 0;
	}
	unsigned char *copy = malloc(size);
	memcpy(copy, data + 1, size - 1);
	if ((data[0] & 1) != 0) {
		head_make(copy, size - 1);
	}
	if (names_table_try_open(&t, copy, size - 1, "id")) {
		for (size_t i = 0; i < t.head.nrows; i++) {
			row = names_table_row(&t, i);
			for (size_t k = 0; k < NAMES_FRAMES_MAX + 1u; k++) {
				sink += frame_read(&t, &row, k);
			}
			sink += names_table_find(&t, row.address + (i & 1), &row);
		}
	}
	free(copy);
	(void)sink;
	return 0;
}
