/*
 * The options of huge page allocation. Set during boot by one thread, read-only afterwards, so
 * there is no lock. conf/conf_table.c describes each option. Units:
 * - bytes: slab_max_alloc, hugification_threshold, purge_threshold, sec_max_alloc, sec_max_bytes;
 * - milliseconds: names that end in _ms;
 * - caches: sec_nshards; extents: sec_batch_fill_extra; slabs: max_purge_nhp (-1: no limit);
 * - dirty pages per page in use, in 16.16 fixed point (util/fxp.h): dirty_mult.
 * hpa/hrule.h has the rules that use the options. Read by the files of hpa/, by pac_hpa and
 * jemalloc_init, and through the rows of conf_table.c by ctl_opt and stats.
 */
#pragma once

#include "util/compiler.h"
#include "util/fxp.h"

/* opt_hpa_dirty_mult if the user gave "-1": no number of dirty pages makes purging begin. */
#define HPA_DIRTY_MULT_NEVER UINT32_MAX
/* Smallest value of hpa_sec_max_bytes. */
#define HPA_SEC_BYTES_MIN ((size_t)256 << 10)
/* Largest value of hpa_sec_max_alloc; with pages of 64 KiB it is one page instead. */
#define HPA_SEC_ALLOC_MAX ((size_t)32 << 10)

/* The values of opt_hpa_hugify_style, which says when slabs are made huge (hrule_mode()). */
enum {
	hpa_style_auto,
	hpa_style_none,
	hpa_style_eager,
	hpa_style_lazy
};

extern bool opt_hpa;
extern bool opt_experimental_hpa_start_huge_if_thp_always;
extern bool opt_experimental_hpa_enforce_hugify;
extern bool opt_hpa_hugify_sync;
extern size_t opt_hpa_slab_max_alloc;
extern size_t opt_hpa_hugification_threshold;
extern size_t opt_hpa_purge_threshold;
extern size_t opt_hpa_sec_nshards;
extern size_t opt_hpa_sec_max_alloc;
extern size_t opt_hpa_sec_max_bytes;
extern size_t opt_hpa_sec_batch_fill_extra;
extern uint64_t opt_hpa_hugify_delay_ms;
extern uint64_t opt_hpa_min_purge_interval_ms;
extern uint64_t opt_hpa_min_purge_delay_ms;
extern ssize_t opt_experimental_hpa_max_purge_nhp;
extern fxp_t opt_hpa_dirty_mult;
extern unsigned opt_hpa_hugify_style;
extern const char *const hpa_hugify_style_names[]; /* by style; NULL ends it */

/*
 * Called once after the options were read. Raises slab_max_alloc, both thresholds and sec_max_alloc
 * to at least a page. With hpa sets metadata_thp to auto (huge pages for the library's own data),
 * unless the user gave the option metadata_thp.
 */
void hpa_opt_boot(void);
