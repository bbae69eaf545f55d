/*
 * The limits of caches, computed from the options; tcache_limits.h has the contract.
 * Invariant: after boot nothing here changes, so there is no lock. The option parser and boot write
 * it; tcache.c reads it when a cache is made, asks for a grant (slots beyond the limit of a bin) or
 * flushes a full bin, tcache_set.c when a program changes the limits of one cache. The header names
 * who reads tcache_max_default and opt_tcache.
 */
#include "thread/tcache_limits.h"

#include "arena/arena.h"
#include "arena/bin_info.h"
#include "arena/large.h"
#include "meta/sz.h"

bool opt_tcache = true;
bool opt_tcache_limits_given;
bool opt_tcache_large_given;
size_t opt_tcache_max = (size_t)4 << 20;
ssize_t opt_lg_tcache_nslots_mul = 1;
unsigned opt_tcache_nslots_small_min = 20;
unsigned opt_tcache_nslots_small_max = 200;
unsigned opt_tcache_nslots_large = 20;
/* The options tcache_gc_* and experimental_tcache_gc are only shown: they have no effect. */
size_t opt_tcache_gc_incr_bytes = 65536;
size_t opt_tcache_gc_delay_bytes = 0;
unsigned opt_lg_tcache_flush_small_div = 1;
unsigned opt_lg_tcache_flush_large_div = 1;
bool opt_experimental_tcache_gc = true;

size_t tcache_max_default;
unsigned tcache_nhbins;

/* There are at most so many classes of sizes up to TCACHE_MAX_LIMIT. */
#define TCACHE_CLASSES_MAX 128u

static struct {
	uint16_t ncached[TCACHE_CLASSES_MAX]; /* tcache_ncached_max by class, plus one; 0: not set */
	bool has_ncached;                     /* at least one element of ncached is set */
	bool may_grant;                       /* no option has set a limit, not even of one class */
} limits;

/*
 * The limit of a class, in objects, for which no ncached_max is set. That of a small class is the
 * number of regions in one of its slabs times 2^opt_lg_tcache_nslots_mul, between
 * opt_tcache_nslots_small_min and opt_tcache_nslots_small_max (the latter wins if it is smaller),
 * rounded down to an even number, and at least 2. That of a large class is opt_tcache_nslots_large,
 * but above TCACHE_GRANT_ABOVE it is 0 unless opt_tcache_large_given.
 */
static unsigned
ncached_from_options(szind_t szind) {
	assert(szind < SC_NSIZES);
	if (szind >= SC_NBINS) {
		bool has_own = sz_i2s(szind) <= TCACHE_GRANT_ABOVE || opt_tcache_large_given;
		return has_own ? opt_tcache_nslots_large : 0;
	}
	uint64_t n = bin_infos[szind].nregs;
	n = opt_lg_tcache_nslots_mul >= 0 ? n << opt_lg_tcache_nslots_mul
	    : n >> -opt_lg_tcache_nslots_mul;
	uint64_t most = opt_tcache_nslots_small_max;
	uint64_t least = min_zu(opt_tcache_nslots_small_min, most);
	n = n > most ? most : n < least ? least : n;
	n &= ~(uint64_t)1;
	return n < 2 ? 2 : (unsigned)n;
}

unsigned
tcache_ncached_max_default(szind_t szind) {
	if (limits.has_ncached && szind < TCACHE_CLASSES_MAX && limits.ncached[szind] != 0) {
		return limits.ncached[szind] - 1u;
	}
	return ncached_from_options(szind);
}

bool
tcache_may_grant(szind_t szind, unsigned max) {
	/* These freed objects become inaccessible in hardened builds (arena/shut.h), not cached. */
	bool is_shut = config_hardening && sz_i2s(szind) > TCACHE_GRANT_ABOVE;
	return limits.may_grant && max == ncached_from_options(szind) && !is_shut;
}

bool
tcache_range_classes(size_t from, size_t to, szind_t *first, szind_t *last) {
	if (from > to || from > TCACHE_MAX_LIMIT) {
		return false;
	}
	*first = sz_s2i(from);
	*last = sz_s2i(min_zu(to, TCACHE_MAX_LIMIT));
	cassert(TCACHE_MAX_LIMIT == (size_t)1 << 23);
	assert(*last < TCACHE_CLASSES_MAX);
	return true;
}

int
tcache_ncached_max_default_set(size_t from, size_t to, size_t n) {
	szind_t first, last;
	if (tcache_range_classes(from, to, &first, &last)) {
		limits.has_ncached = true;
		for (szind_t i = first; i <= last; i++) {
			limits.ncached[i] = (uint16_t)(min_zu(n, TCACHE_NCACHED_LIMIT) + 1);
		}
	}
	return 0;
}

void
tcache_boot(void) {
	tcache_max_default = sz_i2s(sz_s2i(min_zu(opt_tcache_max, TCACHE_MAX_LIMIT)));
	tcache_nhbins = sz_s2i(tcache_max_default) + 1;
	assert(tcache_max_default <= TCACHE_MAX_LIMIT && tcache_nhbins <= SC_NSIZES);
	limits.may_grant = !opt_tcache_limits_given && !limits.has_ncached;
	arena_large_explicit_min = limits.may_grant ? sz_s2i(TCACHE_GRANT_ABOVE) + 1u : SC_NSIZES;
}
