/*
 * Random option strings: any rows of the table of options, mostly with values that their type and
 * limits allow.  A row is drawn by its type; a few have their own values here, each with a reason.
 */
#pragma once

#include "test.h"

#include "conf/conf_table.h"
#include "util/bits.h"

/* Rows whose whole range would end the run, flood it, or make it last for hours. */
static const struct {
	const char *key;
	const char *values[5];
} conf_own[] = {
	{"abort_conf", {"false"}},            /* ends the process at a bad pair */
	{"prof_leak_error", {"false"}},       /* changes the exit status */
	{"zero_realloc", {"alloc", "free"}},  /* not: abort */
	{"narenas", {"1", "2", "5", "64", "default"}},
	{"stats_interval", {"-1", "100000000"}},
	{"mutex_max_spin", {"-1", "0", "600"}},
	{"debug_double_free_max_scan", {"0", "1", "32"}},
	{"lg_prof_interval", {"-1", "18", "22", "40"}},
	{"lg_prof_sample", {"0", "3", "12", "19", "40"}},
	{"prof_sample_interval", {"1", "77", "1000", "512K"}},
	{"prof_threshold_alloc", {"0", "300K", "5M", "1G"}},
	{"prof_threshold_large", {"0", "20K", "1M", "1G"}},
	{"prof_threshold_highwater", {"0", "64K", "10M", "1G"}},
	{"prof_highwater_step", {"0", "64K", "10M", "1G"}},
	{"prof_threshold_time_ms", {"0", "20", "1000"}},
	{"prof_dump_min_gap_ms", {"1", "20", "1000"}},
	{"prof_thread", {"false"}},           /* is drawn for the whole run */
	{"prof_prefix", {"fuzz", "", "%p%n"}},
	{"prof_ctl_dir", {""}},
	{"thp", {"default", "always", "never"}},
	{"hpa", {"false"}},                   /* true is refused, which ends a debug build */
	{"hpa_hugification_threshold_ratio", {"0", "0.5", "1"}},
	{"hpa_purge_threshold_ratio", {"0", "0.5", "1"}},
	{"prof_unwind", {"auto"}},            /* the others may not be built in,
	    which ends a debug build */
	{"stats_print", {"false"}},           /* as malloc_stats_print, which is a step */
	{"san_guard_small", {"0", "1", "2", "30"}},
	{"san_guard_large", {"0", "1", "2", "30"}},
	{"tcache_gc_incr_bytes", {"1024", "65536", "10000000"}},
	{"bin_shards", {"1-160:4", "16-16:64|1024-4096:2", "1-100000:1"}},
	{"slab_sizes", {"1-4096:17", "8-64:1|100-200:33", "default", "1-14336:2"}},
	{"tcache_ncached_max", {"1-1024:3", "8-128:1|256-40000:200", "1-8000000:0", "16-16:2000"}},
};

static uint64_t
draw_log(uint64_t *rng) {
	return test_random(rng) >> (1 + test_random(rng) % 63);
}

static void
draw_number(uint64_t *rng, const conf_row_t *row, char *out, size_t size) {
	bool is_signed = row->type == CONF_SSIZE || row->type == CONF_I64;
	uint64_t v = draw_log(rng);
	if (is_signed && test_random(rng) % 4 == 0) {
		snprintf(out, size, "%lld", (long long)row->min);
		return;
	}
	v = row->min > 0 && v < (uint64_t)row->min ? (uint64_t)row->min : v > row->max ? row->max : v;
	snprintf(out, size, (row->flags & CONF_OCTAL) != 0 ? "%llo" : "%llu", (unsigned long long)v);
}

static void
draw_value(uint64_t *rng, const conf_row_t *row, char *out, size_t size) {
	unsigned n = 0;
	for (size_t i = 0; i < ARRAY_LEN(conf_own); i++) {
		if (strcmp(conf_own[i].key, row->key) == 0) {
			while (n < 5 && conf_own[i].values[n] != NULL) {
				n++;
			}
			snprintf(out, size, "%s", conf_own[i].values[test_random(rng) % n]);
			return;
		}
	}
	switch ((conf_type_t)row->type) {
	case CONF_BOOL:
		snprintf(out, size, "%s", test_random(rng) % 2 ? "true" : "false");
		return;
	case CONF_WORD:
	case CONF_ENUM:
		for (n = 0; row->words[n] != NULL; n++) {
			continue;
		}
		snprintf(out, size, "%s", row->words[test_random(rng) % n]);
		return;
	case CONF_LETTERS:
	case CONF_TEXT:
		snprintf(out, size, "%c", row->words == NULL ? 'x'
		    : row->words[0][test_random(rng) % strlen(row->words[0])]);
		return;
	case CONF_FXP:
		snprintf(out, size, "%u.%u", (unsigned)(test_random(rng) % 9),
		    (unsigned)(test_random(rng) % 100));
		return;
	case CONF_CUSTOM:
		snprintf(out, size, "%u", (unsigned)(test_random(rng) % 24));
		return;
	default:
		draw_number(rng, row, out, size);
		return;
	}
}

/* Some pairs; half of the runs with the profiler on. */
TEST_FN void
draw_conf(uint64_t *rng, char *out, size_t size) {
	size_t len = 0;
	unsigned n = (unsigned)(test_random(rng) % 9);
	out[0] = '\0';
	if (config_prof && test_random(rng) % 2 == 0) {
		len = (size_t)snprintf(out, size, "prof:true,lg_prof_sample:%u",
		    (unsigned)(test_random(rng) % 20));
	}
	if (config_prof && test_random(rng) % 4 != 0) {
		len += (size_t)snprintf(out + len, size - len, "%sprof_thread:false", len > 0 ? "," : "");
	}
	while (n-- > 0 && len + 200 < size) {
		const conf_row_t *row = &conf_rows[test_random(rng) % conf_nrows];
		char value[128];
		if (!conf_row_is_built(row)) {
			continue;
		}
		draw_value(rng, row, value, sizeof(value));
		len += (size_t)snprintf(out + len, size - len, "%s%s:%s", len > 0 ? "," : "", row->key,
		    value);
	}
}
