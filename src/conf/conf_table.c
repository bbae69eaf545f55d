/*
 * The table of all options, and the functions that find a row in it (conf_table.h).
 *
 * Invariant: a whole key matches its own row, and each row keeps what its type promises; the test
 * conf_table checks that. An abbreviated key matches the first row that accepts it. Locks: none,
 * because rows are constant and the parsers here run only during boot, in one thread; mallctl nodes
 * (row->live) do not call them. Called by conf.c and ctl_opt.c; stats.c and doc/manual.c read the
 * rows.
 */
#include "conf/conf_table.h"

#include "arena/arena.h"
#include "arena/arenas.h"
#include "arena/background_thread.h"
#include "arena/bin_info.h"
#include "arena/large.h"
#include "call_log.h"
#include "conf/stats_opts.h"
#include "extent/ahead.h"
#include "extent/extent.h"
#include "extent/guard.h"
#include "extent/pac.h"
#include "extent/piece.h"
#include "extent/purge_batch.h"
#include "hpa/hpa_opt.h"
#include "hpa/hslab.h"
#include "imalloc.h"
#include "meta/base.h"
#include "meta/sz.h"
#include "os/malloc_io.h"
#include "os/mutex.h"
#include "os/pages.h"
#include "prof/control/prof_control.h"
#include "prof/control/prof_ctl_dir.h"
#include "prof/control/prof_listen.h"
#include "prof/control/prof_session.h"
#include "prof/file/prof_box.h"
#include "prof/file/prof_keep.h"
#include "prof/prof.h"
#include "prof/trigger/prof_signal.h"
#include "thread/quarantine.h"
#include "thread/tcache.h"
#include "util/fmt.h"
#include "util/fxp.h"

/* Greatest values of lg_tcache_max (8 MiB) and lg_san_uaf_align, both log2 of bytes. */
#define LG_TCACHE_MAX_LIMIT 23
#define SAN_UAF_LG_MAX 63
/* Longest key of a row, and longest unknown key for which a near one is searched, in bytes. */
#define KEY_LEN_MAX 48

/* The values of the rows of type CONF_TEXT. */
static LARGE_BSS char prof_prefix_room[PROF_PREFIX_TEXT_MAX + 1];
static LARGE_BSS char prof_ctl_dir_room[PROF_CTL_DIR_MAX + 1];

static const char *const junk_words[] = {"true", "false", "alloc", "free", NULL};
/* "not supported" is only shown: the parser of words refuses a word with a blank. */
static const char *const thp_words[] = {"default", "always", "never", "not supported", NULL};
static const char *const stats_letters[] = {STATS_PRINT_LETTERS, NULL};

/* ------------------------------------------------------------------ parsers of special values */

static int
parse_narenas(const conf_row_t *row, const char *value, size_t len) {
	if (fmt_is_word(value, len, "default")) {
		opt_narenas = 0;
		return 0;
	}
	return conf_store(row, value, len);
}

/* A user who sets it to true gets it for all large objects, not only from LARGE_OFFSET_MIN up. */
static int
parse_cache_oblivious(const conf_row_t *row, const char *value, size_t len) {
	int err = conf_store(row, value, len);
	if (err == 0) {
		opt_cache_oblivious_all = opt_cache_oblivious;
	}
	return err;
}

static int
parse_junk(const conf_row_t *row, const char *value, size_t len) {
	int err = conf_store(row, value, len);
	if (err == 0) {
		char first = opt_junk[0];
		opt_junk_alloc = first == 't' || first == 'a';
		opt_junk_free = first == 't' || (first == 'f' && opt_junk[1] == 'r');
	}
	return err;
}

/*
 * Also records that the user gave a limit of caches: the limit then holds as given, even if it
 * equals the default.
 */
static int
parse_cache_limit(const conf_row_t *row, const char *value, size_t len) {
	int err = conf_store(row, value, len);
	bool is_large = row->addr == &opt_tcache_max || row->addr == &opt_tcache_nslots_large;
	opt_tcache_limits_given |= err == 0;
	opt_tcache_large_given |= err == 0 && is_large;
	return err;
}

static int
parse_lg_tcache_max(const conf_row_t *row, const char *value, size_t len) {
	size_t lg;
	conf_row_t as_size = *row;
	as_size.addr = &lg;
	as_size.type = CONF_SIZE;
	int err = conf_store(&as_size, value, len);
	if (err == 0) {
		opt_tcache_max = (size_t)1 << lg;
		opt_tcache_limits_given = opt_tcache_large_given = true;
	}
	return err;
}

/* Calls row->set for each item; those before an item that is refused have taken effect. */
static int
parse_ranges(const conf_row_t *row, const char *value, size_t len) {
	return conf_parse_ranges(value, len, row->set);
}

static int
parse_slab_sizes(const conf_row_t *row, const char *value, size_t len) {
	if (fmt_is_word(value, len, "default")) {
		bin_info_default_slab_pages();
		return 0;
	}
	return parse_ranges(row, value, len);
}

/*
 * Accepts only words that this build offers: dss without sbrk, unwinders that are not built in. Of
 * dss prints a line of its own, and the caller then prints its message too.
 */
static int
parse_offered(const conf_row_t *row, const char *value, size_t len) {
	conf_row_t tried = *row;
	unsigned word;
	tried.addr = &word;
	int err = conf_store(&tried, value, len);
	if (err == 0 && !conf_row_offers(row, word)) {
		if (row->addr == &opt_dss) {
			malloc_printf("<jemalloc>: Error setting dss: dss:%s\n", dss_prec_names[word]);
		}
		err = EINVAL;
	}
	if (err == 0) {
		*(unsigned *)row->addr = word;
	}
	return err;
}

/* Also records that the user gave the option; else hpa:true changes its default (hpa_opt_boot). */
static int
parse_metadata_thp(const conf_row_t *row, const char *value, size_t len) {
	int err = conf_store(row, value, len);
	opt_metadata_thp_given |= err == 0;
	return err;
}

/*
 * A prefix that is too long for any file name is refused here, so that the previous value remains.
 * Also records that the user gave one.
 */
static int
parse_prof_prefix(const conf_row_t *row, const char *value, size_t len) {
	if (!prof_sys_prefix_fits(value, len)) {
		return EINVAL;
	}
	int err = conf_store(row, value, len);
	opt_prof_prefix_given |= err == 0;
	return err;
}

/* An alignment below a page would select nearly all objects, so it becomes a page. */
static int
parse_lg_san_uaf_align(const conf_row_t *row, const char *value, size_t len) {
	int err = conf_store(row, value, len);
	if (err == 0 && opt_lg_san_uaf_align >= 0 && (size_t)opt_lg_san_uaf_align < LG_PAGE) {
		opt_lg_san_uaf_align = (ssize_t)LG_PAGE;
	}
	return err == 0 ? 0 : EINVAL; /* not ERANGE: jemalloc's message says "Invalid" here */
}

/*
 * The high-water threshold and its step: bytes, or percent such as "90%". A percentage is stored in
 * opt_prof_highwater_percent, of the threshold at [0] and of the step at [1]; 0 there means bytes.
 */
static int
parse_highwater(const conf_row_t *row, const char *value, size_t len) {
	bool is_step = row->addr == &opt_prof_thresholds[prof_threshold_highwater_step];
	uint32_t percent = fmt_parse_percent(value, len);
	int err = percent != 0 ? 0 : conf_store(row, value, len);
	if (err == 0) {
		opt_prof_highwater_percent[is_step] = percent;
	}
	return err;
}

/*
 * Also records which limits the user gave: such a limit applies to jemalloc's kinds of automatic
 * dumps too; one by default does not (prof_keep.h).
 */
static int
parse_dump_limit(const conf_row_t *row, const char *value, size_t len) {
	int err = conf_store(row, value, len);
	for (unsigned i = 0; i < prof_keep_n; i++) {
		opt_prof_dump_given[i] |= err == 0 && row->addr == &opt_prof_dump_limits[i];
	}
	return err;
}

static int
parse_log(const conf_row_t *row UNUSED, const char *value, size_t len) {
	return call_log_names_set(value, len);
}

/* Reads a share of a slab and stores it as bytes in the size_t that row->addr points to. */
static int
parse_hpa_ratio(const conf_row_t *row, const char *value, size_t len) {
	fxp_t share;
	conf_row_t as_fxp = *row;
	as_fxp.addr = &share;
	as_fxp.type = CONF_FXP;
	assert((row->flags & CONF_RATIO) != 0);
	int err = conf_store(&as_fxp, value, len);
	if (err == 0) {
		*(size_t *)row->addr = fxp_mul_frac(HSLAB_SIZE, share);
	}
	return err;
}

static int
parse_hpa_dirty_mult(const conf_row_t *row, const char *value, size_t len) {
	if (fmt_is_word(value, len, "-1")) {
		opt_hpa_dirty_mult = HPA_DIRTY_MULT_NEVER;
		return 0;
	}
	return conf_store(row, value, len);
}

/* ------------------------------------------------------------------ rows */

#define SHOWN CONF_SHOWN
#define NODE CONF_NODE
#define HERE CONF_HERE
#define PROF CONF_NEEDS_PROF
#define PROBES CONF_NEEDS_PROBES
/* The row of an option that jemalloc does not have has exactly one of these two flags. */
#define STABLE CONF_STABLE
#define EXPERIMENTAL CONF_EXPERIMENTAL

#define BOOL(k, var, feat, fl, text) \
	{.key = #k, .addr = &(var), .type = CONF_BOOL, .feature = (feat), .flags = (fl), .help = text}
#define NUM(k, t, var, lo, hi, feat, fl, text) \
	{.key = #k, .addr = &(var), .type = (t), .min = (lo), .max = (hi), .feature = (feat), \
	    .flags = (fl), .help = text}
#define WORD(k, t, var, list, feat, fl, text) \
	{.key = #k, .addr = &(var), .type = (t), .words = (list), .feature = (feat), .flags = (fl), \
	    .help = text}
#define RANGES(k, reader, setter, init, text) \
	{.key = #k, .type = CONF_CUSTOM, .parse = (reader), .set = (setter), .flags = CONF_RANGES, \
	    .help = text, MANUAL(initially, init)}
#define ABSENT(k, feat, fl) \
	{.key = #k, .type = CONF_CUSTOM, .feature = (feat), .flags = (fl)}
/* Options of huge page allocation; their texts begin alike. */
#define HPA_TEXT(text) "with hpa: " text
#define HPA_BOOL(k, text) BOOL(k, opt_##k, HERE, SHOWN, HPA_TEXT(text))
#define HPA_NUM(k, t, lo, hi, fl, text) \
	NUM(k, t, opt_##k, lo, hi, HERE, SHOWN | (fl), HPA_TEXT(text))
#define HPA_SIZE(k, lo, hi, text) HPA_NUM(k, CONF_SIZE, lo, hi, CONF_CLIP, text)
#define HPA_RATIO(k, var, init, text) \
	{.key = #k, .addr = &(var), .type = CONF_CUSTOM, .max = FXP_INIT_INT(1), \
	    .parse = parse_hpa_ratio, \
	    .flags = CONF_RATIO, .help = HPA_TEXT(text), MANUAL(initially, init)}
#define MORE (SHOWN | CONF_PROF_MORE | STABLE)
#define THRESHOLD_FLAGS (MORE | CONF_SUFFIX | CONF_STRICT)
#define THRESHOLD(k, t, text) \
	{.key = "prof_threshold_" #k, .addr = &opt_prof_thresholds[prof_threshold_##k], .type = (t), \
	    .max = INT64_MAX, .feature = PROF, .flags = THRESHOLD_FLAGS, \
	    .live = "prof.threshold." #k, .help = text}
#define CACHE_LIMIT(k, t, var, lo, hi, fl, text) \
	{.key = #k, .addr = &(var), .type = (t), .min = (lo), .max = (hi), .feature = HERE, \
	    .flags = (fl), .parse = parse_cache_limit, .help = text}
#define LIMIT(k, fl, text) \
	{.key = "prof_dump_" #k, .addr = &opt_prof_dump_limits[prof_keep_##k], .type = CONF_U64, \
	    .max = INT64_MAX, .feature = PROF, .flags = (fl), .parse = parse_dump_limit, \
	    .live = "prof.dump_" #k, .help = text}

const conf_row_t conf_rows[] = {
BOOL(confirm_conf, opt_confirm_conf, HERE, SHOWN,
    "print each source string and each accepted pair while they are read"),
BOOL(abort, opt_abort, HERE, SHOWN, "turn warnings at run time into abort(); on in a debug build"),
BOOL(abort_conf, opt_abort_conf, HERE, SHOWN,
    "abort when a setting is not valid; on in a debug build"),
{.key = "cache_oblivious", .addr = &opt_cache_oblivious, .type = CONF_BOOL, .feature = HERE,
    .flags = SHOWN, .parse = parse_cache_oblivious,
    .help = "start large allocations at varying cache lines of their first page, which their "
    "addresses decide; where the option is not given, only those of 128 KiB or more"},
BOOL(populate, opt_populate, HERE, SHOWN | EXPERIMENTAL,
    "let an arena that uses 1 MiB or more get fresh pages for objects up to half a page in runs, "
    "by one call each (MADV_POPULATE_WRITE) instead of a page fault each; a run has a 64th of the "
    "bytes that the arena uses, 16 to 256 KiB"),
BOOL(trust_madvise, opt_trust_madvise, HERE, NODE,
    "do not test before the first purge whether MADV_DONTNEED gives zeroed pages"),
HPA_BOOL(experimental_hpa_start_huge_if_thp_always,
    "new slabs count as huge where the system makes them so by itself"),
HPA_BOOL(experimental_hpa_enforce_hugify, "the calls for huge pages are made in every style, also "
    "where the system makes them by itself"),
BOOL(huge_arena_pac_thp, opt_huge_arena_pac_thp, HERE, SHOWN,
    "ask for huge pages for the arena of oversized requests, if metadata_thp is on, thp is default "
    "and the system gives huge pages on request only"),
{.key = "metadata_thp", .addr = &opt_metadata_thp, .type = CONF_ENUM, .words = metadata_thp_names,
    .parse = parse_metadata_thp, .flags = SHOWN | CONF_PREFIX_KEY | CONF_PREFIX_WORD,
    .help = "huge pages for the library's own data: auto only for an arena that has 2 MiB of "
    "it", MANUAL(initially, "disabled; auto with hpa:true")},
BOOL(retain, opt_retain, HERE, SHOWN, "keep unused address space mapped for reuse"),
{.key = "dss", .addr = &opt_dss, .type = CONF_ENUM, .words = dss_prec_names, .parse = parse_offered,
    .flags = SHOWN | CONF_PREFIX_KEY | CONF_PREFIX_WORD,
    .help = "whether address space comes from sbrk(2): never, before mmap (primary) or where mmap "
    "has none (secondary)", MANUAL(initially, "secondary where sbrk is built in, else disabled")},
{.key = "narenas", .addr = &opt_narenas, .type = CONF_UNSIGNED, .min = 1, .max = UINT64_MAX,
    .flags = SHOWN, .parse = parse_narenas,
    .help = "number of automatic arenas, or default: computed from the CPUs; at most 4094",
    MANUAL(initially, "narenas_ratio per CPU; 1 with one CPU")},
NUM(narenas_ratio, CONF_FXP, opt_narenas_ratio, 0, FXP_MAX, HERE, 0,
    "arenas per CPU when narenas is automatic"),
RANGES(bin_shards, parse_ranges, bin_info_set_shards, "1 for all",
    "lo-hi:n items joined by |: shards (1 to 64) for the size classes from lo to hi bytes"),
RANGES(tcache_ncached_max, parse_ranges, tcache_ncached_max_default_set,
    "what the options tcache_nslots_* give",
    "lo-hi:n items joined by |: maximum objects that a thread cache holds per class from lo to hi "
    "bytes; an item with lo above hi or above 8 MiB sets nothing"),
NUM(mutex_max_spin, CONF_I64, opt_mutex_max_spin, -1, INT64_MAX, HERE, SHOWN,
    "times that a thread tries a held lock before it sleeps; -1: it never sleeps"),
{.key = "dirty_decay_ms", .addr = &opt_dirty_decay_ms, .type = CONF_SSIZE, .min = -1,
    .max = DECAY_MS_MAX, .flags = SHOWN, .live = "arenas.dirty_decay_ms",
    .help = "milliseconds until unused dirty pages are given back, and empty pages between "
    "small objects; 0 at once (the empty ones within a second), -1 never. The "
    "program's threads do this during their own calls; a few small calls a second are enough. If "
    "they make none, background_thread:true is needed"},
{.key = "muzzy_decay_ms", .addr = &opt_muzzy_decay_ms, .type = CONF_SSIZE, .min = -1,
    .max = DECAY_MS_MAX, .flags = SHOWN, .live = "arenas.muzzy_decay_ms",
    .help = "the same for pages that were given back lazily"},
NUM(process_madvise_max_batch, CONF_SIZE, opt_process_madvise_max_batch, 0, PAGES_BATCH_MAX, HERE,
    SHOWN | CONF_CLIP,
    "extents, or with hpa:true runs of pages, that are purged in one call of process_madvise(2), "
    "where the kernel lets a process use it on itself; 0: one call of madvise(2) for each"),
BOOL(stats_print, opt_stats_print, HERE, SHOWN, "print statistics at exit"),
{.key = "stats_print_opts", .addr = opt_stats_print_opts, .type = CONF_LETTERS,
    .words = stats_letters, .max = STATS_OPTS_SIZE, .flags = SHOWN,
    .help = "letters of malloc_stats_print for the print at exit"},
NUM(stats_interval, CONF_I64, opt_stats_interval, -1, INT64_MAX, HERE, SHOWN,
    "print statistics whenever this many bytes have been allocated; each thread reports them after "
    "at most 64 KiB, 64 KiB of each size class, and a block; -1: off"),
{.key = "stats_interval_opts", .addr = opt_stats_interval_opts, .type = CONF_LETTERS,
    .words = stats_letters, .max = STATS_OPTS_SIZE, .flags = SHOWN,
    .help = "letters of malloc_stats_print for the interval print"},
{.key = "junk", .addr = &opt_junk, .type = CONF_WORD, .words = junk_words,
    .feature = CONF_NEEDS_FILL, .flags = SHOWN, .parse = parse_junk,
    .help = "fill new memory with 0xa5 (alloc), freed memory with 0x5a (free), both (true; so in a "
    "debug build) or none"},
BOOL(zero, opt_zero, CONF_NEEDS_FILL, SHOWN, "zero every allocation"),
BOOL(utrace, opt_utrace, CONF_NEEDS_UTRACE, SHOWN, "record calls with utrace(2)"),
BOOL(xmalloc, opt_xmalloc, CONF_NEEDS_XMALLOC, SHOWN,
    "print a message and abort when an allocation fails, for an invalid alignment too"),
BOOL(experimental_infallible_new, opt_experimental_infallible_new, CONF_NEEDS_CXX, SHOWN,
    "operator new aborts with a message instead of throwing"),
BOOL(experimental_tcache_gc, opt_experimental_tcache_gc, HERE, SHOWN,
    "accepted and shown, without effect: caches are maintained at heartbeats"),
BOOL(tcache, opt_tcache, HERE, SHOWN, "give every thread a cache"),
CACHE_LIMIT(tcache_max, CONF_SIZE, opt_tcache_max, 0, TCACHE_MAX_LIMIT, SHOWN | CONF_CLIP,
    "largest size in bytes that thread caches hold"),
{.key = "lg_tcache_max", .type = CONF_CUSTOM, .parse = parse_lg_tcache_max, .max =
    LG_TCACHE_MAX_LIMIT, .flags = CONF_CLIP, .help = "sets tcache_max to this power of two",
    MANUAL(initially, "that of tcache_max")},
CACHE_LIMIT(lg_tcache_nslots_mul, CONF_SSIZE, opt_lg_tcache_nslots_mul, -16, 16, SHOWN,
    "slots of a small cache bin per region of a slab, as a power of two"),
CACHE_LIMIT(tcache_nslots_small_min, CONF_UNSIGNED, opt_tcache_nslots_small_min, 1,
    TCACHE_NSLOTS_LIMIT, SHOWN | CONF_CLIP, "minimum slots of a small cache bin"),
CACHE_LIMIT(tcache_nslots_small_max, CONF_UNSIGNED, opt_tcache_nslots_small_max, 1,
    TCACHE_NSLOTS_LIMIT, SHOWN | CONF_CLIP, "maximum slots of a small cache bin"),
CACHE_LIMIT(tcache_nslots_large, CONF_UNSIGNED, opt_tcache_nslots_large, 1, TCACHE_NSLOTS_LIMIT,
    SHOWN | CONF_CLIP, "slots of a large cache bin"),
NUM(tcache_gc_incr_bytes, CONF_SIZE, opt_tcache_gc_incr_bytes, 1024, UINT64_MAX, HERE,
    SHOWN | CONF_CLIP, "accepted and shown, without effect"),
NUM(tcache_gc_delay_bytes, CONF_SIZE, opt_tcache_gc_delay_bytes, 0, UINT64_MAX, HERE, SHOWN,
    "accepted and shown, without effect"),
NUM(lg_tcache_flush_small_div, CONF_UNSIGNED, opt_lg_tcache_flush_small_div, 1, 16, HERE,
    SHOWN | CONF_CLIP,
    "share of a full small bin that is flushed, as a power of one half; with 1 that is a half, or "
    "seven eighths if the thread frees many objects in a row"),
NUM(lg_tcache_flush_large_div, CONF_UNSIGNED, opt_lg_tcache_flush_large_div, 1, 16, HERE,
    SHOWN | CONF_CLIP,
    "share of a full large bin that is flushed, as a power of one half; with 1 that is a half, or "
    "all if the thread frees many objects in a row"),
NUM(debug_double_free_max_scan, CONF_UNSIGNED, opt_debug_double_free_max_scan, 0, UINT64_MAX,
    HERE, SHOWN,
    "accepted and shown, without effect: each flush of a cache looks for double frees"),
NUM(calloc_madvise_threshold, CONF_SIZE, opt_calloc_madvise_threshold, 0, SC_LARGE_MAXCLASS,
    HERE, 0, "callocs of at least this size get zeroes from the kernel instead of memset"),
NUM(oversize_threshold, CONF_SIZE, opt_oversize_threshold, 0, SC_LARGE_MAXCLASS, HERE, SHOWN,
    "requests of at least this size go to an arena of their own, whose unused memory is at most "
    "half of what is in use, or four times the threshold if that is more; and used and unused "
    "together never exceed the greatest amount that was in use; below the smallest large class: "
    "none do"),
NUM(lg_extent_max_active_fit, CONF_SIZE, opt_lg_extent_max_active_fit, 0, 64, HERE, SHOWN,
    "maximum ratio, as a power of two, of a reused dirty extent to the request"),
WORD(percpu_arena, CONF_ENUM, opt_percpu_arena, percpu_arena_names, HERE,
    SHOWN | CONF_PREFIX_KEY | CONF_PREFIX_WORD,
    "threads use the arena of the CPU they run on (percpu), or one arena for the two CPUs of a "
    "core (phycpu); they switch arenas at heartbeats"),
{.key = "background_thread", .addr = &opt_background_thread, .type = CONF_BOOL, .flags = SHOWN,
    .live = "background_thread", .help = "threads of the library give unused memory back; they are "
    "started with the library, and are off in a forked child"},
NUM(max_background_threads, CONF_SIZE, opt_max_background_threads, 1, BACKGROUND_THREADS_LIMIT,
    HERE, NODE | CONF_CLIP,
    "maximum number of these threads; there are as many as automatic arenas, but not more than "
    "this"),
BOOL(hpa, opt_hpa, HERE, SHOWN,
    "arenas take small extents from slabs of 2 MiB, the fullest that has room first, and slabs "
    "become huge pages"),
HPA_SIZE(hpa_slab_max_alloc, 0, HSLAB_SIZE, "largest extent that comes from slabs"),
HPA_SIZE(hpa_hugification_threshold, 0, HSLAB_SIZE,
    "bytes in use that make a slab a candidate for a huge page"),
HPA_RATIO(hpa_hugification_threshold_ratio, opt_hpa_hugification_threshold, "0.95",
    "hpa_hugification_threshold as a share of a slab"),
HPA_NUM(hpa_hugify_delay_ms, CONF_U64, 0, UINT64_MAX, 0,
    "milliseconds that a slab stays a candidate before it becomes huge"),
HPA_BOOL(hpa_hugify_sync,
    "any thread makes huge pages at once (MADV_COLLAPSE); false: background threads only, others "
    "ask the system for them"),
HPA_NUM(hpa_min_purge_interval_ms, CONF_U64, 0, UINT64_MAX, 0,
    "minimum milliseconds between the starts of two passes of purging"),
HPA_NUM(experimental_hpa_max_purge_nhp, CONF_SSIZE, -1, INT64_MAX, 0,
    "maximum slabs that a pass purges; -1: any number"),
HPA_SIZE(hpa_purge_threshold, 0, HSLAB_SIZE,
    "minimum dirty bytes of a slab that is partly in use and is purged"),
HPA_RATIO(hpa_purge_threshold_ratio, opt_hpa_purge_threshold, "one page",
    "hpa_purge_threshold as a share of a slab"),
HPA_NUM(hpa_min_purge_delay_ms, CONF_U64, 0, UINT64_MAX, 0,
    "milliseconds that a slab waits for its purge"),
WORD(hpa_hugify_style, CONF_ENUM, opt_hpa_hugify_style, hpa_hugify_style_names, HERE,
    SHOWN | CONF_PREFIX_KEY | CONF_PREFIX_WORD,
    HPA_TEXT("when slabs are made huge: lazy: new ones if the arena's slabs "
    "are in use, and any "
    "that has been a candidate for long enough; eager: each new one; none: never; auto: as none "
    "where the system does it by itself, otherwise as lazy")),
{.key = "hpa_dirty_mult", .addr = &opt_hpa_dirty_mult, .type = CONF_FXP, .max = FXP_MAX,
    .flags = SHOWN, .parse = parse_hpa_dirty_mult,
    .help = HPA_TEXT("dirty pages allowed per page in use, beyond which slabs are "
    "purged; -1: any number")},
HPA_NUM(hpa_sec_nshards, CONF_SIZE, 0, UINT64_MAX, 0,
    "how often the small extent cache of an arena may hold hpa_sec_max_bytes; 0: there is none"),
HPA_NUM(hpa_sec_max_alloc, CONF_SIZE, 0, HPA_SEC_ALLOC_MAX, CONF_CLIP,
    "largest extent in this cache"),
HPA_NUM(hpa_sec_max_bytes, CONF_SIZE, HPA_SEC_BYTES_MIN, UINT64_MAX, CONF_CLIP,
    "bytes that this cache may hold for each of hpa_sec_nshards; what exceeds them goes back to "
    "its slab"),
HPA_NUM(hpa_sec_batch_fill_extra, CONF_SIZE, 1, HSLAB_NPAGES_MAX, CONF_CLIP,
    "further extents that a request which finds none there takes from slabs at once"),
ABSENT(hpa_sec_bytes_after_flush, CONF_RETIRED, 0),
RANGES(slab_sizes, parse_slab_sizes, bin_info_set_slab_pages, "default",
    "lo-hi:n items joined by |, or default: pages per slab for classes from lo to hi bytes"),
BOOL(prof, opt_prof, PROF, SHOWN, "profile the heap from the start"),
{.key = "prof_prefix", .addr = &opt_prof_prefix, .type = CONF_TEXT,
    .room = prof_prefix_room, .max = sizeof(prof_prefix_room),
    .feature = PROF, .flags = SHOWN | CONF_FILE_PREFIX, .parse = parse_prof_prefix,
    .help = "how the names of dumps begin; a relative path is made absolute at start; empty: no "
    "automatic dumps"},
{.key = "prof_active", .addr = &opt_prof_active, .type = CONF_BOOL, .feature = PROF,
    .flags = SHOWN, .live = "prof.active", .help = "take samples from the start"},
{.key = "prof_thread_active_init", .addr = &opt_prof_thread_active_init, .type = CONF_BOOL,
    .feature = PROF, .flags = SHOWN, .live = "prof.thread_active_init",
    .help = "new threads take samples"},
{.key = "lg_prof_sample", .addr = &opt_lg_prof_sample, .type = CONF_SIZE, .max = 63,
    .feature = PROF, .flags = SHOWN | CONF_CLIP, .live = "prof.lg_sample",
    .help = "mean bytes between samples, as a power of two"},
NUM(prof_sample_interval, CONF_U64, opt_prof_sample_interval, 1, INT64_MAX, PROF,
    SHOWN | CONF_SUFFIX | CONF_STRICT | STABLE,
    "mean bytes between samples, any number from 1 on; if it is given, lg_prof_sample is ignored"),
BOOL(prof_probes, opt_prof_probes, PROBES, SHOWN | EXPERIMENTAL,
    "take samples while a tracer is attached to the probe otel_memory:alloc"),
NUM(prof_probe_interval, CONF_U64, opt_prof_probe_interval, 1, INT64_MAX, PROBES,
    SHOWN | CONF_SUFFIX | CONF_STRICT | EXPERIMENTAL,
    "mean bytes between samples while only a tracer wants them"),
BOOL(prof_accum, opt_prof_accum, PROF, SHOWN,
    "also count what was allocated and freed since the start; a thread that has ended keeps some "
    "500 bytes for each stack that it was sampled at, until prof.reset"),
NUM(prof_bt_max, CONF_UNSIGNED, opt_prof_bt_max, 1, PROF_BT_MAX_LIMIT, PROF, SHOWN | CONF_CLIP,
    "maximum frames recorded per stack"),
NUM(lg_prof_interval, CONF_SSIZE, opt_lg_prof_interval, -1, 63, PROF, SHOWN,
    "bytes between automatic dumps, as a power of two; -1 is off"),
BOOL(prof_gdump, opt_prof_gdump, PROF, SHOWN,
    "dump after each new maximum of mapped memory; several before the next heartbeat make one"),
BOOL(prof_final, opt_prof_final, PROF, SHOWN, "dump at exit"),
BOOL(prof_leak, opt_prof_leak, PROF, SHOWN,
    "with prof_final: report at exit what was not freed; switches prof on"),
BOOL(prof_leak_error, opt_prof_leak_error, PROF, SHOWN,
    "with prof_final: exit with status 1 if the leak report found something; switches prof_leak "
    "on"),
BOOL(prof_log, opt_prof_log, PROF, 0,
    "log each sampled allocation from the start, to a file written at exit"),
BOOL(prof_pid_namespace, opt_prof_pid_namespace, PROF, NODE,
    "put the number of the pid namespace into the names of dumps"),
NUM(prof_recent_alloc_max, CONF_SSIZE, opt_prof_recent_alloc_max, -1, INT64_MAX, PROF, NODE,
    "how many recent samples are kept for experimental.prof_recent.*; -1: all"),
BOOL(prof_stats, opt_prof_stats, PROF, NODE, "count samples per size class, for prof.stats.*"),
BOOL(prof_sys_thread_name, opt_prof_sys_thread_name, PROF, NODE,
    "take thread names from the system"),
WORD(prof_time_resolution, CONF_ENUM, opt_prof_time_resolution, prof_time_res_names, PROF, NODE,
    "clock of the times of samples (log, recent samples, ages): default is coarse and monotonic, "
    "high is the exact time of day"),
BOOL(prof_unbias, opt_prof_unbias, PROF, 0,
    "correct dumped numbers so that the usual scaling gives true totals"),
BOOL(prof_dump_timestamp, opt_prof_dump_timestamp, PROF, SHOWN | STABLE,
    "put the time into the names of dumps"),
NUM(prof_dump_mode, CONF_UNSIGNED, opt_prof_dump_mode, 0400, 0777, PROF,
    SHOWN | CONF_OCTAL | CONF_STRICT | STABLE,
    "permission bits of dump files, octal, that of the owner to read among them"),
{.key = "prof_unwind", .addr = &opt_prof_unwind, .type = CONF_ENUM, .words = prof_unwind_names,
    .feature = PROF, .flags = SHOWN | STABLE, .parse = parse_offered,
    .help = "how stacks are read, of the methods built in; auto takes the best that works"},
{.key = "prof_budget", .addr = &opt_prof_budget, .type = CONF_FXP, .max = PROF_BUDGET_MAX,
    .feature = PROF, .flags = SHOWN | EXPERIMENTAL | CONF_PROF_MORE, .live = "prof.budget",
    .help = "ceiling for what sampling costs, in percent of processor time: the sampling interval "
    "doubles above it, and halves again, down to the one that was set, far below; 0: none"},
THRESHOLD(alloc, CONF_U64, "dump whenever this many bytes have been allocated"),
THRESHOLD(large, CONF_SIZE, "dump after a single request of at least this size"),
{.key = "prof_threshold_highwater", .addr = &opt_prof_thresholds[prof_threshold_highwater],
    .type = CONF_SIZE, .max = INT64_MAX, .feature = PROF, .flags = THRESHOLD_FLAGS,
    .parse = parse_highwater, .live = "prof.threshold.highwater",
    .help = "dump when live memory first reaches this; 1% to 100%: of the limit of the control "
    "group (metric cgroup) or of the machine's memory (rss). With another metric, or where there "
    "is no limit, a message says so and nothing is dumped; abort_conf does not count that"},
{.key = "prof_highwater_step", .addr = &opt_prof_thresholds[prof_threshold_highwater_step],
    .type = CONF_SIZE, .max = INT64_MAX, .feature = PROF, .flags = THRESHOLD_FLAGS,
    .parse = parse_highwater, .live = "prof.threshold.highwater_step",
    .help = "dump again after each further rise by this many bytes, or by percent as above; 0: an "
    "eighth of the threshold"},
{.key = "prof_highwater_metric", .addr = &opt_prof_highwater_metric, .type = CONF_ENUM,
    .words = prof_metric_names, .feature = PROF, .flags = MORE,
    .live = "prof.threshold.highwater_metric",
    .help = "what counts as live memory: of the allocator (allocated, active, resident) or of the "
    "process (rss) or its control group (cgroup)"},
{.key = "prof_threshold_time_ms", .addr = &opt_prof_thresholds[prof_threshold_time_ms],
    .type = CONF_U64, .max = INT64_MAX, .feature = PROF,
    .flags = MORE | CONF_STRICT, .live = "prof.threshold.time_ms",
    .help = "dump whenever this many milliseconds have passed; without the profiler's thread only "
    "while the program allocates"},
LIMIT(min_gap_ms, MORE | CONF_STRICT,
    "minimum milliseconds between two automatic dumps of one kind"),
LIMIT(max_files, MORE | CONF_STRICT,
    "maximum automatic dumps kept of the process and its forked children; older ones are removed; "
    "0: all"),
LIMIT(max_bytes, THRESHOLD_FLAGS, "maximum bytes of these dumps; 0: no limit"),
{.key = "prof_dump_keep", .addr = &opt_prof_dump_keep, .type = CONF_ENUM,
    .words = prof_keep_policy_names, .feature = PROF, .flags = MORE,
    .live = "prof.dump_keep", .help = "which automatic dumps are kept: first, peak and newest, or "
    "only the newest"},
BOOL(prof_final_signals, opt_prof_final_signals, PROF, MORE,
    "dump before SIGTERM, SIGINT or SIGHUP end the process, where the program has no "
    "action of its own"),
WORD(prof_thread, CONF_ENUM, opt_prof_thread, prof_thread_opt_names, PROF, MORE,
    "the profiler's own thread: auto (while needed), true (from the start on; in a forked "
    "child as auto) or false"),
WORD(prof_blackbox, CONF_ENUM, opt_prof_blackbox, prof_box_names, PROF, MORE,
    "the tables of the profiler in a file that outlives the process: true "
    "(PREFIX.PID.TIME.NUMBER.b.box), fd (a memory file) or false; also the default of a session"),
NUM(prof_blackbox_size, CONF_SIZE, opt_prof_blackbox_size, REGION_BOX_MIN, PROF_BOX_MAX, PROF,
    SHOWN | CONF_SUFFIX | CONF_STRICT | STABLE, "bytes of that file, reserved when it opens"),
BOOL(prof_blackbox_keep, opt_prof_blackbox_keep, PROF, SHOWN | STABLE,
    "that file stays after a clean end"),
WORD(prof_fork, CONF_ENUM, opt_prof_fork, prof_fork_names, PROF, SHOWN | STABLE,
    "profiling in a forked child: auto as configured at start, inherit as it is now, idle none"),
BOOL(prof_ctl_fd, opt_prof_ctl_fd, PROF, MORE,
    "put the mailbox into a memory file, which is reachable without the right to attach"),
{.key = "prof_ctl_dir", .addr = &opt_prof_ctl_dir, .type = CONF_TEXT,
    .room = prof_ctl_dir_room, .max = sizeof(prof_ctl_dir_room),
    .feature = PROF, .flags = MORE | CONF_ABSOLUTE,
    .help = "control directory, an absolute path: PID.cmd is executed, PID.status has the "
    "answer; see CONTROL FROM OUTSIDE"},
{.key = "log", .type = CONF_CUSTOM, .feature = CONF_NEEDS_LOG, .flags = CONF_NAMES,
    .parse = parse_log,
    .help = "print a line to standard error when one of these functions is called and when it "
    "returns: names such as core.malloc.entry, core.malloc or core, joined by |; a single dot "
    "means all", MANUAL(initially, "empty: none")},
WORD(thp, CONF_ENUM, opt_thp, thp_words, HERE, SHOWN | CONF_PREFIX_WORD,
    "transparent huge pages for the program's memory; default: for slabs of small objects of an "
    "arena that uses thp_min bytes or more, where the system gives them on request"),
NUM(thp_min, CONF_SIZE, opt_thp_min, 0, SIZE_MAX, HERE, SHOWN | EXPERIMENTAL,
    "bytes that an arena uses before it takes memory for slabs from huge pages (thp:default); no "
    "arena below 1 MiB does"),
WORD(zero_realloc, CONF_ENUM, opt_zero_realloc, zero_realloc_names, HERE, SHOWN,
    "what realloc(p, 0) does: return an object of the smallest size, free p, or abort"),
{.key = "lg_san_uaf_align", .addr = &opt_lg_san_uaf_align, .type = CONF_SSIZE, .min = -1,
    .max = SAN_UAF_LG_MAX, .feature = CONF_NEEDS_UAF, .flags = NODE | CONF_CLIP_MAX,
    .parse = parse_lg_san_uaf_align,
    .help = "freed small objects that contain a multiple of this power of two (a page at least) "
    "wait before they are reused; a write to one of them is found then and aborts; -1: none wait"},
NUM(san_guard_small, CONF_SIZE, opt_san_guard_small, 0, UINT64_MAX, HERE, 0,
    "one slab of an arena in this many lies between guard pages, so an access beyond its end is a "
    "fault; 0: none"),
NUM(san_guard_large, CONF_SIZE, opt_san_guard_large, 0, UINT64_MAX, HERE, 0,
    "the same for large allocations, which then grow by moving"),
BOOL(disable_large_size_classes, opt_disable_large_size_classes, HERE, SHOWN,
    "round sizes above tcache_max, and above eight pages, to pages only"),
};

const size_t conf_nrows = ARRAY_LEN(conf_rows);

/* ------------------------------------------------------------------ look-ups */

/*
 * The features that rows can need (row->feature): whether this build has the feature, and the
 * switch of configure that decides it, as a phrase for a hint and as a sentence for the manual.
 */
#define EXTRA(is_in, switches) {.is_built = (is_in), \
    .why = "is not built in (it needs " switches ")", \
    MANUAL(build, "Only in a build with " switches ".")}
#define PART(is_in, switches) {.is_built = (is_in), \
    .why = "is not built in (the library was configured with " switches ")", \
    MANUAL(build, "Not in a build with " switches ".")}

static const struct {
	bool is_built;
	/*
	 * Why rows that need the feature are absent: a phrase that follows the key in a hint. An array
	 * and not a pointer, because the loader would write (relocate) each pointer at every start.
	 */
	char why[120];
	MANUAL_MEMBER(build)   /* in which builds these rows are there: a sentence of the manual */
} features[CONF_NFEATURES] = {
	[CONF_HERE] = {.is_built = true, .why = "is there"}, /* the phrase is never shown */
	[CONF_NEEDS_FILL] = PART(config_fill, "--disable-fill"),
	[CONF_NEEDS_UTRACE] = EXTRA(config_utrace, "--enable-utrace"),
	[CONF_NEEDS_XMALLOC] = EXTRA(config_xmalloc, "--enable-xmalloc"),
	[CONF_NEEDS_PROF] = PART(config_prof, "--disable-prof"),
	[CONF_NEEDS_PROBES] = PART(config_prof_probes,
	    "--disable-prof-probes, or for a processor without probes"),
	[CONF_NEEDS_CXX] = PART(config_cxx, "--disable-cxx"),
	[CONF_NEEDS_UAF] = EXTRA(config_uaf_detection, "--enable-uaf-detection or --enable-debug"),
	[CONF_NEEDS_LOG] = EXTRA(config_log, "--enable-log"),
	[CONF_RETIRED] = {.why = "is an option of an older version that no longer exists"},
};

bool
conf_row_is_built(const conf_row_t *row) {
	assert(row->feature < CONF_NFEATURES && features[row->feature].why[0] != '\0');
	return features[row->feature].is_built;
}

const char *
conf_row_absence(const conf_row_t *row) {
	assert(!conf_row_is_built(row));
	return features[row->feature].why;
}

#ifdef MANUAL_TEXTS
const char *
conf_row_build(const conf_row_t *row) {
	return features[row->feature].build;
}
#endif

const conf_row_t *
conf_row_find(const char *key, size_t len) {
	if (len == 0) {
		return NULL;
	}
	for (size_t i = 0; i < conf_nrows; i++) {
		const conf_row_t *row = &conf_rows[i];
		if (strncmp(row->key, key, len) != 0) {
			continue;
		}
		if (row->key[len] == '\0' || (row->flags & CONF_PREFIX_KEY) != 0) {
			return row;
		}
	}
	return NULL;
}

bool
conf_row_offers(const conf_row_t *row, size_t i) {
	if (row->addr == &opt_dss) {
		return config_dss || i == dss_prec_disabled;
	}
	if (row->addr != &opt_prof_unwind) {
		return true;
	}
	switch ((prof_unwind_t)i) {
	case prof_unwind_fp:
		return config_prof_frameptr;
	case prof_unwind_libunwind:
		return config_prof_libunwind;
	case prof_unwind_libgcc:
		return config_prof_libgcc;
	default:
		return true;
	}
}

static char
lower_case(char c) {
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/*
 * Number of edits (insert, delete, replace) that lead from a to b, ignoring case in a; b has lower
 * case only. Both are at most KEY_LEN_MAX long.
 */
static unsigned
edit_distance(const char *a, size_t alen, const char *b, size_t blen) {
	uint8_t row[KEY_LEN_MAX + 1];
	static_assert(2 * KEY_LEN_MAX <= UINT8_MAX, "distances fit a byte");
	assert(alen <= KEY_LEN_MAX && blen <= KEY_LEN_MAX);
	for (size_t j = 0; j <= blen; j++) {
		row[j] = (uint8_t)j;
	}
	for (size_t i = 1; i <= alen; i++) {
		uint8_t diagonal = row[0];
		row[0] = (uint8_t)i;
		for (size_t j = 1; j <= blen; j++) {
			uint8_t replace = (uint8_t)(diagonal + (lower_case(a[i - 1]) != b[j - 1]));
			uint8_t shift = (uint8_t)((row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1);
			diagonal = row[j];
			row[j] = replace < shift ? replace : shift;
		}
	}
	return row[blen];
}

const char *
conf_row_nearest(const char *key, size_t len) {
	const char *best = NULL;
	unsigned best_edits = (unsigned)len / 3 + 2;
	if (len == 0 || len > KEY_LEN_MAX) {
		return NULL;
	}
	for (size_t i = 0; i < conf_nrows; i++) {
		const conf_row_t *row = &conf_rows[i];
		if (!conf_row_is_built(row)) {
			continue;
		}
		unsigned edits = edit_distance(key, len, row->key, strlen(row->key));
		if (edits < best_edits) {
			best_edits = edits;
			best = row->key;
		}
	}
	return best;
}
