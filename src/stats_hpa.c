/*
 * Prints the statistics of huge pages (stats_hpa.h): in JSON every key, also if hpa is off (its
 * counters are 0 then); as a table some lines of counters, and one line each for all, full and
 * empty slabs and for each kind of request, if there were such.
 * No lock and no state: prints from the snapshot of a report. Invariant: the keys of counters are
 * those of the field lists in hpa/hpa.h (HPA_SEC_FIELDS with "sec_" in front), extent/piece.h and
 * extent/ahead.h. Called by stats.c.
 */
#include "stats_hpa.h"

#include "ctl/node.h"
#include "hpa/hslab.h"
#include "os/pages.h"
#include "util/assert.h"

#define EMIT_FIELD(name, type, says) \
	emitter_json_kv(em, #name, (emitter_type_t)CTL_TYPE_##type, &s->name);

#define EMIT_SEC(name, says) emitter_json_kv(em, "sec_" #name, emitter_type_size, &s->name);
#define EMIT_ALLOC(name, says) emitter_json_kv(em, #name, emitter_type_uint64, &s->name);

static void
json_sec(emitter_t *em, const hpa_sec_stats_t *s) {
	emitter_json_kv(em, "sec_bytes", emitter_type_size, &s->bytes);
	HPA_SEC_FIELDS(EMIT_SEC)
}

static void
json_alloc(emitter_t *em, const hpa_alloc_stats_t *kinds) {
	emitter_json_array_kv_begin(em, "extent_allocation_distribution");
	for (unsigned i = 0; i < HPA_ALLOC_KINDS; i++) {
		const hpa_alloc_stats_t *s = &kinds[i];
		emitter_json_object_begin(em);
		HPA_ALLOC_FIELDS(EMIT_ALLOC)
		emitter_json_object_end(em);
	}
	emitter_json_array_end(em);
}

/* Pages of slabs that are not huge which are neither in use nor dirty: they have no memory. */
static size_t
nretained_nonhuge(const hpa_slabs_stats_t *s) {
	size_t pages = s->npageslabs_nonhuge << (HSLAB_LG_SIZE - LG_PAGE);
	assert(s->nactive_nonhuge + s->ndirty_nonhuge <= pages);
	return pages - s->nactive_nonhuge - s->ndirty_nonhuge;
}

static void
json_slabs(emitter_t *em, const hpa_slabs_stats_t *s) {
	HPA_SLABS_FIELDS(EMIT_FIELD)
	size_t nretained = nretained_nonhuge(s);
	emitter_json_kv(em, "nretained_nonhuge", emitter_type_size, &nretained);
}

static void
json_kind(emitter_t *em, const char *key, const hpa_slabs_stats_t *s) {
	emitter_json_object_kv_begin(em, key);
	json_slabs(em, s);
	emitter_json_object_end(em);
}

static void
json_hpa(emitter_t *em, const hpa_stats_t *s) {
	emitter_json_object_kv_begin(em, "hpa_shard");
	json_sec(em, &s->sec);
	HPA_SHARD_FIELDS(EMIT_FIELD)
	HPA_COUNTER_FIELDS(EMIT_FIELD)
	json_kind(em, "slabs", &s->slabs);
	json_kind(em, "full_slabs", &s->full_slabs);
	json_kind(em, "empty_slabs", &s->empty_slabs);
	emitter_json_array_kv_begin(em, "nonfull_slabs");
	for (unsigned i = 0; i < HPA_NONFULL_KINDS; i++) {
		emitter_json_object_begin(em);
		json_slabs(em, &s->nonfull_slabs[i]);
		emitter_json_object_end(em);
	}
	emitter_json_array_end(em);
	json_alloc(em, s->alloc);
	emitter_json_object_end(em);
}

static void
line_kind(emitter_t *em, const char *title, const hpa_slabs_stats_t *s) {
	if (s->npageslabs_huge + s->npageslabs_nonhuge > 0) {
		emitter_table_printf(em, "  %s: huge: %zu, active: %zu, dirty: %zu; "
		    "not huge: %zu, active: %zu, dirty: %zu, retained: %zu\n", title, s->npageslabs_huge,
		    s->nactive_huge, s->ndirty_huge, s->npageslabs_nonhuge, s->nactive_nonhuge,
		    s->ndirty_nonhuge, nretained_nonhuge(s));
	}
}

static void
line_alloc(emitter_t *em, const hpa_alloc_stats_t *s) {
	if (s->extents > 0) {
		emitter_table_printf(em, "  Requests for %llu to %llu extents: got %llu from %llu slabs, "
		    "%llu ns a slab\n", (unsigned long long)s->min_extents,
		    (unsigned long long)s->max_extents, (unsigned long long)s->extents,
		    (unsigned long long)s->ps, (unsigned long long)s->total_elapsed_ns_per_ps);
	}
}

void
stats_print_hpa(emitter_t *em, const hpa_stats_t *hpa) {
	if (emitter_is_json(em)) {
		json_hpa(em, hpa);
		return;
	}
	if (hpa->npageslabs == 0 && hpa->npurges == 0) {
		return;
	}
	emitter_table_printf(em, "Small extent cache: %zu bytes, hits: %zu, misses: %zu, "
	    "given back: %zu, with flush: %zu, overfills: %zu\n", hpa->sec.bytes, hpa->sec.hits,
	    hpa->sec.misses, hpa->sec.dalloc_noflush, hpa->sec.dalloc_flush, hpa->sec.overfills);
	emitter_table_printf(em, "HPA shard stats:\n  Pageslabs: %zu, active pages: %zu, "
	    "dirty pages: %zu\n",
	    hpa->npageslabs, hpa->nactive, hpa->ndirty);
	emitter_table_printf(em, "  Purge passes: %llu, purges: %llu, hugifies: %llu, failures: %llu, "
	    "dehugifies: %llu\n", (unsigned long long)hpa->npurge_passes,
	    (unsigned long long)hpa->npurges, (unsigned long long)hpa->nhugifies,
	    (unsigned long long)hpa->nhugify_failures, (unsigned long long)hpa->ndehugifies);
	line_kind(em, "In all slabs", &hpa->slabs);
	line_kind(em, "In full slabs", &hpa->full_slabs);
	line_kind(em, "In empty slabs", &hpa->empty_slabs);
	for (unsigned i = 0; i < HPA_ALLOC_KINDS; i++) {
		line_alloc(em, &hpa->alloc[i]);
	}
}

void
stats_print_thp(emitter_t *em, const thp_stats_t *s) {
	emitter_json_object_kv_begin(em, "thp");
	THP_STATS_FIELDS(EMIT_FIELD)
	emitter_json_kv(em, "state", emitter_type_string, &s->state);
	emitter_json_object_end(em);
	if (s->npopulate + s->nfailures > 0) {
		emitter_table_printf(em, "Populated: %zu bytes by %zu calls, failures: %zu\n", s->populated,
		    s->npopulate, s->nfailures);
	}
	if (s->npieces > 0) {
		emitter_table_printf(em, "Huge pieces: %zu, made: %zu, broken: %zu, slow: %zu, "
		    "pauses: %zu\n", s->pieces, s->npieces, s->nbroken, s->nslow, s->npauses);
	}
}
