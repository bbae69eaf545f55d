/*
 * The ring of an image: one line for each second of the last hour (jeprof_client.h has the
 * contract). Invariant: as many lines are read as the ring can have, whatever it says. No locks.
 * Called by jeprofd.
 */
#include "client/image_read.h"

/* Reads line n; false if the image does not have it, or it was being written. */
static bool
try_read_line(jeprof_image_t *image, uint64_t n, image_line_t *line) {
	uint64_t block = image->root.blocks[n / IMAGE_BLOCK_LINES % IMAGE_BLOCKS];
	return block != 0 && block % 8 == 0
	    && image_read(image, block + n % IMAGE_BLOCK_LINES * sizeof(*line), line, sizeof(*line))
	    && line->time_ns != 0;
}

size_t
jeprof_image_course(jeprof_image_t *image, jeprof_image_line_t *lines, size_t most) {
	uint64_t end = image->root.nlines, room = IMAGE_BLOCKS * IMAGE_BLOCK_LINES;
	room = room < most ? room : most;
	size_t count = 0;
	uint64_t last = 0;
	for (uint64_t n = end > room ? end - room : 0; n < end; n++) {
		image_line_t line;
		/* The oldest lines may be overwritten by newer ones while they are read. */
		if (try_read_line(image, n, &line) && line.time_ns >= last) {
			last = line.time_ns;
			lines[count++] = (jeprof_image_line_t){.time_ns = line.time_ns,
			    .allocated = line.allocated, .active = line.active, .resident = line.resident,
			    .rss = line.rss, .limit = line.limit, .faults = line.faults};
		}
	}
	return count;
}
