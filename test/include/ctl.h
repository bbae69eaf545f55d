/*
 * Short forms of mallctl for tests: typed reads and writes, and what the page size of the
 * library means for its size classes, computed here from the published rule and not asked
 * from the library.
 */
#pragma once

#include "test.h"
#include <jemalloc/jemalloc.h>

#define CTL_READER(fn, type) \
	TEST_FN type fn(const char *name) \
	{ \
		type v = (type)0; \
		size_t len = sizeof(v); \
		return mallctl(name, &v, &len, NULL, 0) == 0 ? v : (type)-1; \
	}

CTL_READER(ctl_size, size_t)
CTL_READER(ctl_ssize, ssize_t)
CTL_READER(ctl_u64, uint64_t)
CTL_READER(ctl_u32, uint32_t)
CTL_READER(ctl_unsigned, unsigned)

TEST_FN bool
ctl_bool(const char *name) {
	bool v = false;
	size_t len = sizeof(v);

	return mallctl(name, &v, &len, NULL, 0) == 0 && v;
}

TEST_FN const char *
ctl_str(const char *name) {
	const char *v = NULL;
	size_t len = sizeof(v);

	return mallctl(name, &v, &len, NULL, 0) == 0 ? v : NULL;
}

/* A name with one index in it, as "arenas.bin.%u.size". */
#define ctl_name(buf, ...) (snprintf((buf), sizeof(buf), __VA_ARGS__), (buf))

#define ctl_write(name, value) \
	mallctl((name), NULL, NULL, &(value), sizeof(value))

TEST_FN int
ctl_void(const char *name) {
	return mallctl(name, NULL, NULL, NULL, 0);
}

TEST_FN bool
ctl_exists(const char *name) {
	size_t mib[8];
	size_t len = 8;

	return mallctlnametomib(name, mib, &len) == 0;
}

TEST_FN void
ctl_epoch(void) {
	uint64_t e = 1;

	mallctl("epoch", NULL, NULL, &e, sizeof(e));
}

/* -------------------------------------------------------------- size classes by the rule */

#define CLASS_MAX ((size_t)7 << 60)

/* 8, 16, then by 16 to 128, then four per doubling. */
TEST_FN size_t
class_of(size_t size) {
	size_t step = 16;

	if (size <= 8)
		return 8;
	if (size > CLASS_MAX)
		return 0;
	if (size > 128) {
		int lg = 63 - __builtin_clzl(size - 1);

		step = (size_t)1 << (lg - 2);
	}
	return (size + step - 1) & ~(step - 1);
}

/* Usable size of a request without alignment. */
TEST_FN size_t
usable_of(size_t size, size_t page, bool large_classes) {
	/* The default tcache_max, and eight pages. */
	size_t plain = (size_t)4 << 20;

	if (size <= plain || large_classes)
		return class_of(size);
	return size > CLASS_MAX ? 0 : (size + page - 1) & ~(page - 1);
}

/*
 * Bytes behind each small block that the program may not use: 16 in builds with safety checks,
 * where a request of n bytes has the class of n + 16; else none.
 */
TEST_FN size_t
canary_bytes(void) {
	return nallocx(1, 0) == 1 ? 16 : 0;
}

/* The class of a small request. */
TEST_FN size_t
small_class_of(size_t size) {
	return class_of(size + canary_bytes());
}

/* What a block of an alignment counts for in statistics: the bytes of its class. */
TEST_FN size_t
counted_aligned(const void *p, size_t alignment) {
	size_t n = sallocx(p, 0), page = ctl_size("arenas.page"), canary = canary_bytes();

	if (canary == 0 || n > 7 * page / 2)
		return n;
	return alignment > page ? 4 * page : class_of((n + canary + alignment - 1) & ~(alignment - 1));
}

/* The same without alignment. */
TEST_FN size_t
counted_size(const void *p) {
	return counted_aligned(p, 1);
}
