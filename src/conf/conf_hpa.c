/*
 * Default values of the huge page options, and the message that refuses hpa:true (conf_hpa.h).
 *
 * Invariant: no option here has an effect. Set during boot by one thread, read-only afterwards, so
 * there is no lock. Called by jemalloc_init.c after the options were read.
 */
#include "conf/conf_hpa.h"

#include <stdlib.h>

#include "os/malloc_io.h"
#include "os/pages.h"

bool opt_hpa = false;
bool opt_experimental_hpa_start_huge_if_thp_always = true;
bool opt_experimental_hpa_enforce_hugify = false;
bool opt_hpa_hugify_sync = false;
size_t opt_hpa_slab_max_alloc = (size_t)64 << 10;
size_t opt_hpa_hugification_threshold = HUGEPAGE / 100 * 95 + HUGEPAGE % 100 * 95 / 100;
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
unsigned opt_hpa_hugify_style = 3;
const char *const hpa_hugify_style_names[] = {"auto", "none", "eager", "lazy", NULL};

static void
at_least_a_page(size_t *size) {
	*size = max_zu(*size, PAGE);
}

void
conf_hpa_boot(bool is_fatal) {
	at_least_a_page(&opt_hpa_slab_max_alloc);
	at_least_a_page(&opt_hpa_hugification_threshold);
	at_least_a_page(&opt_hpa_purge_threshold);
	at_least_a_page(&opt_hpa_sec_max_alloc);
	if (!opt_hpa) {
		return;
	}
	opt_hpa = false;
	malloc_printf("<jemalloc>: HPA not supported in the current configuration; %s\n",
	    is_fatal ? "aborting." : "disabling.");
	malloc_write("<jemalloc>: Hint: this library has no huge page allocator; thp:always asks for "
	    "huge pages for the program's memory, metadata_thp for the library's own.\n");
	if (is_fatal) {
		abort();
	}
}
