/*
 * The ring of an image: the last lines, of which the process writes one a second or fewer,
 * IMAGE_BLOCKS blocks of IMAGE_BLOCK_LINES lines, and what the lines say of growth
 * (jeprof_client.h has the contract: what is returned, in which units). Invariant: no more lines
 * are read than the ring has room for, whatever the root says. No locks. Called by image_write.c
 * and by jeprofd (dead_facts.c).
 */
#include "client/image_read.h"

#include <string.h>

enum {
	RING = IMAGE_BLOCKS * IMAGE_BLOCK_LINES,
	LEVEL_SHARE = 16,  /* differences up to 1/16 of the rise are ignored */
	GROWN_SHARE = 8,   /* a rise by less than 1/8 of the last value is no growth */
};

/* Reads line n, counted from 0 at the start; false if it is not there, or was being written. */
static bool
try_read_line(jeprof_image_t *image, uint64_t n, image_line_t *line) {
	uint64_t block = image->root.blocks[n / IMAGE_BLOCK_LINES % IMAGE_BLOCKS];
	return block != 0 && block % 8 == 0
	    && image_read(image, block + n % IMAGE_BLOCK_LINES * sizeof(*line), line, sizeof(*line))
	    && line->time_ns != 0;
}

/*
 * The lowest number of a line whose place a running process cannot have begun to use for a newer
 * line; UINT64_MAX if that cannot be read. Asked after lines were read: the number of lines only
 * rises, so what is safe then was so while they were read. Their times do not tell it: the clock
 * may have been set back.
 */
static uint64_t
first_safe(jeprof_image_t *image) {
	uint64_t now;
	if (!image->is_live) {
		return 0;
	}
	if (!image_read(image, image->at + offsetof(image_root_t, nlines), &now, sizeof(now))) {
		return UINT64_MAX;
	}
	return now >= RING ? now - RING + 1 : 0;
}

/*
 * Copies the lines from n on up to `end`, which are of one block; returns their number. The number
 * of lines of the ring is read once for all of them.
 */
static size_t
read_block(jeprof_image_t *image, uint64_t n, uint64_t end, jeprof_image_line_t *lines) {
	uint64_t numbers[IMAGE_BLOCK_LINES];
	size_t count = 0, unsafe = 0;
	for (; n < end; n++) {
		image_line_t line;
		if (try_read_line(image, n, &line)) {
			numbers[count] = n;
			lines[count++] = (jeprof_image_line_t){.time_ns = line.time_ns,
			    .allocated = line.allocated, .active = line.active, .resident = line.resident,
			    .rss = line.rss, .limit = line.limit, .samples = line.samples,
			    .faults = line.faults};
		}
	}
	uint64_t safe = first_safe(image);
	while (unsafe < count && numbers[unsafe] < safe) {
		unsafe++;
	}
	memmove(lines, lines + unsafe, (count - unsafe) * sizeof(*lines));
	return count - unsafe;
}

size_t
jeprof_image_course(jeprof_image_t *image, jeprof_image_line_t *lines, size_t most) {
	uint64_t end = image->root.nlines, room = RING < most ? RING : most;
	size_t count = 0;
	for (uint64_t n = end > room ? end - room : 0, step; n < end; n += step) {
		step = IMAGE_BLOCK_LINES - n % IMAGE_BLOCK_LINES;
		step = step < end - n ? step : end - n;
		count += read_block(image, n, n + step, &lines[count]);
	}
	return count;
}

static uint64_t
resident_of(const jeprof_image_line_t *line) {
	return line->rss != 0 ? line->rss : line->resident;
}

/*
 * Goes back from the last line until a line exceeds the lowest value behind it by more than 1/16 of
 * the rise so far (last value minus that lowest one) and a byte: there the memory fell. The lines
 * behind it are the stretch; `low` is its lowest value, `level` 1/16 of the way from there to the
 * last value. The growth begins at the last of the lines at the front of the stretch that are not
 * above `level`; its very first line counts as one of them in any case. The result is the last
 * value minus the value at that line.
 */
uint64_t
jeprof_course_growth(const jeprof_image_line_t *lines, size_t count, uint64_t *ms) {
	*ms = 0;
	if (count == 0) {
		return 0;
	}
	uint64_t last = resident_of(&lines[count - 1]), low = last;
	size_t first = count - 1;
	for (size_t i = count - 1; i-- > 0;) {
		uint64_t now = resident_of(&lines[i]);
		if (now > low && now - low > (last - low) / LEVEL_SHARE + 1) {
			break;
		}
		low = now < low ? now : low;
		first = i;
	}
	uint64_t level = low + (last - low) / LEVEL_SHARE;
	while (first + 1 < count && resident_of(&lines[first + 1]) <= level) {
		first++;
	}
	uint64_t begin = resident_of(&lines[first]), grown = last > begin ? last - begin : 0;
	if (grown == 0 || grown < last / GROWN_SHARE) {
		return 0;
	}
	uint64_t from = lines[first].time_ns, to = lines[count - 1].time_ns;
	/* Where the clock was set back the times do not tell: then at least a second for each line. */
	*ms = to > from ? (to - from) / 1000000 : (count - 1 - first) * 1000;
	return grown;
}
