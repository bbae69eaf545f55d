/*
 * Writes a forged black box: 260000 sites that overlap each other, each of 4096 frames and with the
 * right proof; the root says that the file is larger than it is. A reader that keeps the frames of
 * all of them needs 8 GB.
 */
#include <stdio.h>
#include <string.h>

#include "meta/image.h"

enum { BOX = 16 << 20, FIRST = 65536, FRAMES = 4096, STEP = 64 };

#define AT UINT64_C(0x7f0000000000)

static unsigned char box[BOX];

static void
put(size_t at, uint64_t value, size_t width) {
	memcpy(box + at, &value, width);
}

static void
make_root(void) {
	/* Of a site: next, bytes, nframes, hash, counts, stamp, then, frames. */
	static const image_field_t of_site[] = {{0, 8}, {8, 4}, {12, 4}, {16, 8}, {24, 8}, {32, 4},
	    {36, 4}, {40, 1}};
	image_root_t r = {.head = {IMAGE_MAGIC, AT, BOX, AT}, .version = IMAGE_VERSION,
	    .byte_order = IMAGE_BYTE_ORDER, .root_bytes = sizeof(r), .nparts = 1, .state = image_ended,
	    .nfields = IMAGE_NFIELDS, .nstructs = IMAGE_NSTRUCTS,
	    .struct_bytes = {40, 80, 40, 64, 64, 64}, .rate = 1, .box_bytes = BOX, .sites = AT + FIRST};
	r.parts[0] = (image_part_t){AT, UINT64_C(1) << 40, 0, UINT64_C(1) << 40};
	for (unsigned i = 0; i < IMAGE_NFIELDS; i++) {
		r.fields[i] = i < 8 ? of_site[i] : (image_field_t){8, 8};
	}
	memcpy(box, &r, sizeof(r));
}

int
main(void) {
	size_t last = (BOX - 40 - IMAGE_FRAME_BYTES * FRAMES) / STEP * STEP;
	make_root();
	for (size_t s = last; s >= FIRST; s -= STEP) { /* its frames lie behind it, and are made */
		uint64_t hash = FRAMES, frame = 0;
		put(s, s == last ? 0 : AT + s + STEP, 8);
		put(s + 8, 40 + IMAGE_FRAME_BYTES * FRAMES, 4);
		put(s + 12, FRAMES, 4);
		for (unsigned i = 0; i < FRAMES; i++) {
			memcpy(&frame, box + s + 40 + IMAGE_FRAME_BYTES * i, IMAGE_FRAME_BYTES);
			hash = image_hash_frame(hash, frame);
		}
		put(s + 16, hash_mix64(hash), 8);
	}
	return fwrite(box, 1, BOX, stdout) == BOX ? 0 : 1;
}
