/*
 * The options of huge page allocation with their default values (hpa_opt.h).
 * No lock: written at boot only, by the rows of conf/conf_table.c and hpa_opt_boot(). Invariant:
 * the names of the styles are in the order of their numbers. Read by the files of hpa/, by pac_hpa,
 * jemalloc_init and, through the rows of conf_table.c, ctl_opt and stats.
 */
#include "hpa/hpa_opt.h"

#include "hpa/hslab.h"
#include "meta/base.h"

bool opt_hpa = false;
bool opt_experimental_hpa_start_huge_if_thp_always = true;
bool opt_experimental_hpa_enforce_hugify = false;
bool opt_hpa_hugify_sync = false;
size_t opt_hpa_slab_max_alloc = (size_t)64 << 10;
size_t opt_hpa_hugification_threshold = HSLAB_SIZE / 100 * 95 + HSLAB_SIZE % 100 * 95 / 100;
size_t opt_hpa_purge_threshold = ZU(1) << LG_PAGE_MIN;
size_t opt_hpa_sec_nshards = 2;
size_t opt_hpa_sec_max_alloc = HPA_SEC_ALLOC_MAX;
size_t opt_hpa_sec_max_bytes = HPA_SEC_BYTES_MIN;
size_t opt_hpa_sec_batch_fill_extra = 3;
uint64_t opt_hpa_hugify_delay_ms = 10000;
uint64_t opt_hpa_min_purge_interval_ms = 5000;
uint64_t opt_hpa_min_purge_delay_ms = 0;
ssize_t opt_experimental_hpa_max_purge_nhp = -1;
fxp_t opt_hpa_dirty_mult = FXP_INIT_PERCENT(25);
unsigned opt_hpa_hugify_style = hpa_style_lazy;
const char *const hpa_hugify_style_names[] = {
	[hpa_style_auto] = "auto",
	[hpa_style_none] = "none",
	[hpa_style_eager] = "eager",
	[hpa_style_lazy] = "lazy",
	NULL,
};

static void
at_least_a_page(size_t *size) {
	if (*size < PAGE) { /* a needless write would cost a page fault */
		*size = PAGE;
	}
}

void
hpa_opt_boot(void) {
	at_least_a_page(&opt_hpa_slab_max_alloc);
	at_least_a_page(&opt_hpa_hugification_threshold);
	at_least_a_page(&opt_hpa_purge_threshold);
	at_least_a_page(&opt_hpa_sec_max_alloc);
	if (opt_hpa && !opt_metadata_thp_given) {
		opt_metadata_thp = metadata_thp_auto;
	}
}
