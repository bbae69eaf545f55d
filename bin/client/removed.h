/*
 * The mark that the kernel puts behind the path of a removed file, in /proc/PID/maps and in links
 * such as /proc/PID/exe. No state and no locks. Used by bin/client (process.c, image_maps.c) and
 * bin/agent (elsewhere.c, pprof_maps.c). Not part of jeprof_client.h.
 */
#pragma once
#include <stddef.h>
#include <string.h>

/*
 * The length of a path of `length` bytes without this mark. A path that is only the mark keeps it;
 * of a file that is not removed, a name that ends like the mark loses that end too.
 */
static inline size_t
length_unmarked(const char *path, size_t length) {
	static const char mark[] = " (deleted)";
	size_t n = sizeof(mark) - 1;
	return length > n && memcmp(path + length - n, mark, n) == 0 ? length - n : length;
}
