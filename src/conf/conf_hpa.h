/*
 * The options of huge page allocation, which this library does not have. They are read, checked and
 * shown, so that option strings written for jemalloc stay valid; hpa:true itself is refused with a
 * message.
 */
#ifndef CONF_HPA_H
#define CONF_HPA_H

#include "util/compiler.h"
#include "util/fxp.h"

/* The value of opt_hpa_dirty_mult that stands for -1. */
#define HPA_DIRTY_MULT_NEVER UINT32_MAX
/* Smallest value of hpa_sec_max_bytes. */
#define HPA_SEC_BYTES_MIN ((size_t)256 << 10)
/* Largest value of hpa_sec_max_alloc: the largest size that thread caches hold by default. */
#define HPA_SEC_ALLOC_MAX ((size_t)32 << 10)

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
extern const char *const hpa_hugify_style_names[];

/*
 * Called after the options were read: raises sizes to a page, and refuses hpa:true. is_fatal
 * (abort_conf) ends the process then.
 */
void conf_hpa_boot(bool is_fatal);

#endif /* CONF_HPA_H */
