/*
 * The rules of huge page allocation: when a slab is made huge, purged or returned. Pure functions
 * of counts, options and times. Times are monotonic nanoseconds, delays milliseconds, counts pages
 * or slabs. No state and no lock; called by hpa.c, mostly under the lock of its shard, and by
 * test/unit/hpa.c with a clock of its own.
 */
#pragma once

#include "hpa/hpa_opt.h"
#include "hpa/hslab.h"
#include "os/nstime.h"

/*
 * A shard of at least HRULE_GROWN slabs of whose pages three quarters are in use is growing: its
 * next slab is expected to fill, and in lazy mode becomes huge before its first touch.
 */
#define HRULE_GROWN 4u
/* After a refusal of the system no slab is made huge for this long. */
#define HRULE_PAUSE_MS UINT64_C(60000)

/* Where the system uses huge pages of 2 MiB. */
typedef enum {
	hpa_sys_off,    /* nowhere in this process */
	hpa_sys_asked,  /* where the process asks for them (madvise) */
	hpa_sys_always  /* wherever it can */
} hpa_sys_t;

/* When slabs are made huge. */
typedef enum {
	hpa_mode_never,
	hpa_mode_lazy,  /* while the shard grows, and when they are nearly full for long enough */
	hpa_mode_eager, /* when they are new */
	hpa_mode_given  /* the system does it by itself: new slabs count as huge */
} hpa_mode_t;

/*
 * The mode for the system and the options. is_enforced: ask even if the system uses huge pages
 * anyway; starts_huge: if it uses them wherever it can and is_enforced is false, let it do so,
 * whatever the style is. Otherwise style none: never; auto: as lazy, but never where the system
 * uses huge pages anyway; is_enforced makes both of them lazy.
 */
static inline hpa_mode_t
hrule_mode(hpa_sys_t sys, unsigned style, bool is_enforced, bool starts_huge) {
	if (sys == hpa_sys_off) {
		return hpa_mode_never;
	}
	if (sys == hpa_sys_always && !is_enforced) {
		bool is_quiet = style == hpa_style_none || style == hpa_style_auto;
		return starts_huge ? hpa_mode_given : is_quiet ? hpa_mode_never
		    : style == hpa_style_eager ? hpa_mode_eager : hpa_mode_lazy;
	}
	if (style == hpa_style_none && !is_enforced) {
		return hpa_mode_never;
	}
	return style == hpa_style_eager ? hpa_mode_eager : hpa_mode_lazy;
}

/* Whether at least ms milliseconds have passed from `since` to `now`; if now is earlier: none. */
static inline bool
hrule_has_passed(uint64_t since, uint64_t ms, uint64_t now) {
	return nstime_ns_between(since, now) / NSTIME_PER_MSEC >= ms;
}

/* Whether a shard makes a new slab huge before its first touch; nactive: pages in use. */
static inline bool
hrule_is_born_huge(hpa_mode_t mode, size_t nslabs, size_t nactive) {
	bool is_growing = nslabs >= HRULE_GROWN && nactive / 3 >= nslabs * HSLAB_NPAGES / 4;
	return mode == hpa_mode_eager || (mode == hpa_mode_lazy && is_growing);
}

/*
 * Whether extents of both kinds may lie in one slab: in a shard that is small, where a further slab
 * would cost more than it brings.
 */
static inline bool
hrule_may_mix(size_t nslabs) {
	return nslabs < HRULE_GROWN;
}

/* Whether a slab with this many pages in use is to become huge after a delay; threshold: bytes. */
static inline bool
hrule_is_ripe(hpa_mode_t mode, bool is_huge, size_t nused, size_t threshold) {
	return (mode == hpa_mode_lazy || mode == hpa_mode_eager) && !is_huge
	    && nused << LG_PAGE >= min_zu(threshold, HSLAB_SIZE);
}

/* Dirty pages that a shard with nactive pages in use may keep; mult: opt_hpa_dirty_mult. */
static inline size_t
hrule_dirty_limit(size_t nactive, fxp_t mult) {
	return mult == HPA_DIRTY_MULT_NEVER ? SIZE_MAX : fxp_mul_frac(nactive, mult);
}

/*
 * Whether a slab that is partly in use may be purged when there are too many dirty pages;
 * threshold: bytes.
 */
static inline bool
hrule_may_purge(size_t nused, size_t ndirty, size_t threshold) {
	return nused > 0 && ndirty > 0 && ndirty << LG_PAGE >= threshold;
}

/* Whether a pass of purging may begin now; last: when the last one began, 0: there was none. */
static inline bool
hrule_may_begin(size_t ndirty, size_t limit, uint64_t last, uint64_t interval_ms, uint64_t now) {
	return ndirty > limit && (last == 0 || hrule_has_passed(last, interval_ms, now));
}

/* Whether a pass goes on after npurged slabs; most: its limit of slabs, below 0: any number. */
static inline bool
hrule_may_go_on(size_t ndirty, size_t limit, size_t npurged, ssize_t most) {
	return ndirty > limit && (most < 0 || npurged < (size_t)most);
}

/* Whether a slab that is empty since `since` is returned to the source; decay_ms -1: never. */
static inline bool
hrule_may_return(uint64_t since, ssize_t decay_ms, uint64_t now) {
	return decay_ms >= 0 && hrule_has_passed(since, (uint64_t)decay_ms, now);
}
