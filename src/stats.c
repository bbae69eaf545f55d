/*
 * malloc_stats_print (stats.h): text tables or JSON. The report takes its own snapshot of the
 * counters first (report_gather), so that its numbers belong together although other threads run,
 * and prints from it part by part; option letters omit parts. Only settings, the number of arenas,
 * zero_reallocs and the counts of samples (prof_*) are read when they are printed. The JSON of a
 * directory of counters is made from its node of mallctl, which has the names, types and places of
 * the fields; one function prints both the header and the rows of a table.
 *
 * Invariant: no lock is held while text is passed to the user's function. Locks: none of its own;
 * snapshot_take() and the mallctl nodes that read_node() reads take theirs and release them. Called
 * by jemalloc.c; jemalloc_init.c registers the functions for the exit and for heartbeats.
 */
#include "stats.h"

#include <stdlib.h>

#include "arena/arenas.h"
#include "conf/conf.h"
#include "conf/conf_table.h"
#include "ctl/ctl.h"
#include "ctl/ctl_rooms.h"
#include "ctl/ctl_snapshot.h"
#include "hpa/hpa_opt.h"
#include "hpa/hslab.h"
#include "imalloc.h"
#include "meta/freepool.h"
#include "os/gate.h"
#include "os/malloc_io.h"
#include "os/nstime.h"
#include "prof/prof.h"
#include "thread/tcache.h"
#include "util/emitter.h"
#include "util/fmt.h"

/* Bytes of the buffer before the user's function. */
#define STATS_BUF_SIZE ((size_t)64 << 10)

/*
 * Longest single wait, in milliseconds, for a reader of standard error, if nobody has asked for the
 * report now (opt_stats_interval), or where a fork may wait for this thread (an extent hook).
 */
#define TIMEOUT_SHORT_MS 100

/* Option letters of stats_print(): the first chooses JSON, each other one omits its part. */
enum {
	OPTION_JSON = 'J',
	PART_GENERAL = 'g',
	PART_MERGED = 'm',    /* the sums over all arenas */
	PART_DESTROYED = 'd', /* the sums over the destroyed arenas */
	PART_ARENAS = 'a',    /* each arena */
	PART_BINS = 'b',
	PART_LARGE = 'l',
	PART_MUTEXES = 'x',
	PART_EXTENTS = 'e',
	PART_HPA = 'h',
};

typedef struct {
	emitter_t em;
	const char *opts; /* option letters */
	snapshot_t snap;
	char *buf;      /* STATS_BUF_SIZE bytes for em; NULL: no memory, its own buffer serves */
} report_t;

static bool
wants(const report_t *r, char part) {
	return strchr(r->opts, part) == NULL;
}

/* ------------------------------------------------------------------ values */

/* The child of this name of a directory, which has one. */
static const ctl_node_t *
child(const ctl_node_t *dir, const char *name) {
	size_t i = 0;
	while (i + 1 < dir->nchildren && strcmp(dir->children[i].name, name) != 0) {
		i++;
	}
	assert(strcmp(dir->children[i].name, name) == 0);
	return &dir->children[i];
}

static void
json_field(emitter_t *em, const char *key, const ctl_field_t *f, const void *part) {
	emitter_json_kv(em, key, (emitter_type_t)f->type, (const char *)part + f->offset);
}

static void
json_fields(emitter_t *em, const ctl_node_t *dir, const void *part) {
	for (size_t i = 0; i < dir->nfields; i++) {
		json_field(em, dir->fields[i].name, &dir->fields[i], part);
	}
}

static void json_tree(emitter_t *em, const ctl_node_t *dir, const void *whole, size_t i);

/* The directory as an object; see ctl_node_part() for `whole` and i. */
static void
json_dir(emitter_t *em, const ctl_node_t *dir, const void *whole, size_t i) {
	emitter_json_object_kv_begin(em, dir->name);
	json_tree(em, dir, whole, i);
	emitter_json_object_end(em);
}

/* Pages without memory in slabs that are not huge: neither in use nor dirty. */
static size_t
nretained_nonhuge(const hpa_slabs_stats_t *s) {
	size_t pages = s->npageslabs_nonhuge << (HSLAB_LG_SIZE - LG_PAGE);
	assert(s->nactive_nonhuge + s->ndirty_nonhuge <= pages);
	return pages - s->nactive_nonhuge - s->ndirty_nonhuge;
}

/* What is in a directory of counters: its fields, and the directories below it. */
static void
json_tree(emitter_t *em, const ctl_node_t *dir, const void *whole, size_t i) {
	const void *part = ctl_node_part(dir, whole, i);
	json_fields(em, dir, part);
	if (strcmp(dir->fields[0].name, "npageslabs_nonhuge") == 0) {
		size_t nretained = nretained_nonhuge(part);
		emitter_json_kv(em, "nretained_nonhuge", emitter_type_size, &nretained);
	}
	for (size_t k = 0; k < dir->nchildren; k++) {
		const ctl_node_t *below = &dir->children[k];
		if (below->kind == CTL_DIR) {
			json_dir(em, below, whole, i);
			continue;
		}
		emitter_json_array_kv_begin(em, strcmp(below->name, "alloc") == 0
		    ? "extent_allocation_distribution" : below->name);
		for (size_t j = 0; below->has(j); j++) {
			emitter_json_object_begin(em);
			json_tree(em, below->children, whole, j);
			emitter_json_object_end(em);
		}
		emitter_json_array_end(em);
	}
}

static void
emit_size(emitter_t *em, const char *json_key, const char *table_key, size_t value) {
	emitter_kv(em, json_key, table_key, emitter_type_size, &value);
}

static void
emit_unsigned(emitter_t *em, const char *json_key, const char *table_key, unsigned value) {
	emitter_kv(em, json_key, table_key, emitter_type_unsigned, &value);
}

/* ------------------------------------------------------------------ table lines */

typedef struct {
	emitter_t *em;
	bool is_header;   /* the line gets the titles of the columns instead of values */
	uint64_t seconds; /* uptime in whole seconds */
	bool is_young;    /* uptime is 0 ns: the clock has not advanced since the start */
} line_t;

static line_t
line_begin(emitter_t *em, bool is_header, uint64_t uptime_ns) {
	return (line_t){em, is_header, uptime_ns / NSTIME_PER_SEC, uptime_ns == 0};
}

static void
line_end(const line_t *l) {
	emitter_table_printf(l->em, "\n");
}

/* Adds a cell of text, or of the title in a header; width: characters, < 0: left justified. */
static void
cell_text(const line_t *l, int width, const char *title, const char *text) {
	emitter_table_printf(l->em, "%*s", width, l->is_header ? title : text);
}

static void
cell(const line_t *l, int width, const char *title, uint64_t value) {
	char digits[FMT_U64_BUF];
	char *end = &digits[sizeof(digits) - 1];
	*end = '\0';
	cell_text(l, width, title, fmt_u64_dec(end, value));
}

/* Adds the value per second of uptime; in the first second the value itself, or 0 if is_young. */
static void
cell_rate(const line_t *l, int width, uint64_t value) {
	uint64_t rate = l->is_young ? 0 : l->seconds == 0 ? value : value / l->seconds;
	cell(l, width, "(#/sec)", rate);
}

static void
cell_and_rate(const line_t *l, int width, const char *title, uint64_t value, int rate_width) {
	cell(l, width, title, value);
	cell_rate(l, rate_width, value);
}

/* If in_gap, prints the line that stands for a series of omitted classes, and clears in_gap. */
static void
table_gap(emitter_t *em, bool *in_gap) {
	if (*in_gap) {
		emitter_table_printf(em, "                     ---\n");
		*in_gap = false;
	}
}

/* ------------------------------------------------------------------ mutexes */

static void
cells_mutex(const line_t *l, const mutex_prof_data_t *m) {
	cell_and_rate(l, 16, "n_lock_ops", m->n_lock_ops, 8);
	cell_and_rate(l, 16, "n_waiting", m->n_wait_times, 8);
	cell_and_rate(l, 16, "n_spin_acq", m->n_spin_acquired, 8);
	cell_and_rate(l, 16, "n_owner_switch", m->n_owner_switches, 8);
	cell_and_rate(l, 16, "total_wait_ns", m->tot_wait_time, 10);
	cell(l, 16, "max_wait_ns", m->max_wait_time);
	cell(l, 12, "max_n_thds", m->max_n_thds);
}

static void
line_mutex(emitter_t *em, bool is_header, const char *name, const mutex_prof_data_t *m,
    uint64_t uptime_ns) {
	line_t l = line_begin(em, is_header, uptime_ns);
	cell_text(&l, -21, "", name);
	cells_mutex(&l, m);
	line_end(&l);
}

/*
 * Prints the directory "mutexes" of stats or of stats.arenas.<i>; `whole` is its part of the
 * snapshot (snapshot_global_t, snapshot_arena_t).
 */
static void
print_mutexes(emitter_t *em, const ctl_node_t *of, const void *whole, uint64_t uptime_ns) {
	const ctl_node_t *dir = child(of, "mutexes");
	emitter_json_object_kv_begin(em, dir->name);
	line_mutex(em, true, "", whole, uptime_ns);
	for (size_t i = 0; i < dir->nchildren; i++) {
		const ctl_node_t *lock = &dir->children[i];
		if (lock->kind == CTL_DIR && emitter_is_json(em)) {
			json_dir(em, lock, whole, 0);
		} else if (lock->kind == CTL_DIR) {
			line_mutex(em, false, lock->name, ctl_node_part(lock, whole, 0), uptime_ns);
		}
	}
	emitter_json_object_end(em);
}

/* ------------------------------------------------------------------ general part */

static void
print_config(emitter_t *em) {
	const char *facts = ctl_dir_config.base(&ctl_dir_config, NULL);
	emitter_dict_begin(em, "config", "Build-time option settings");
	for (size_t i = 0; i < ctl_dir_config.nfields; i++) {
		const ctl_field_t *f = &ctl_dir_config.fields[i];
		char key[64];
		fmt_snprintf(key, sizeof(key), "config.%s", f->name);
		emitter_kv(em, f->name, key, (emitter_type_t)f->type, facts + f->offset);
	}
	emitter_dict_end(em);
}

static void
print_system(emitter_t *em) {
	static const char *const names[] = {
		[thp_mode_default] = "madvise",
		[thp_mode_always] = "always",
		[thp_mode_never] = "never",
		[thp_mode_not_supported] = "not supported",
	};
	emitter_dict_begin(em, "system", "System configuration");
	emitter_kv(em, "thp_mode", "thp_mode", emitter_type_string, &names[pages_system_thp_mode()]);
	emitter_dict_end(em);
}

static void
print_sources(emitter_t *em) {
	static const struct {
		conf_source_t source;
		const char *json_key;
		const char *table_key;
	} rows[] = {
		{CONF_SOURCE_GLOBAL, "global_var", "Global variable malloc_conf"},
		{CONF_SOURCE_SYMLINK, "symlink", "Symbolic link malloc.conf"},
		{CONF_SOURCE_ENV, "env_var", "Environment variable MALLOC_CONF"},
		{CONF_SOURCE_HARDER, "global_var_2_conf_harder",
		    "Global variable malloc_conf_2_conf_harder"},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *text = conf_source_text(rows[i].source);
		if (text == NULL && rows[i].source == CONF_SOURCE_HARDER) {
			continue;
		}
		text = text == NULL ? "" : text;
		emitter_kv(em, rows[i].json_key, rows[i].table_key, emitter_type_string, &text);
	}
}

/*
 * Reads a value of at most 8 bytes from a mallctl node, which is there. For a value of less than 8
 * bytes mallctl returns EINVAL, but copies all of it.
 */
static void
read_node(const char *name, ctl_value_t *value) {
	size_t size = 8;
	static_assert(sizeof(*value) >= 8, "room for what a node may give");
	memset(value, 0, sizeof(*value));
	(void)ctl_byname(name, value, &size, NULL, 0);
}

/* Returns the number whose decimal digits are the octal digits of n. */
static uint32_t
octal_digits(uint32_t n) {
	uint32_t out = 0;
	for (uint32_t unit = 1; n != 0; n >>= 3, unit *= 10) {
		out += (n & 7) * unit;
	}
	return out;
}

/* Gives the value of an option the form that it has in MALLOC_CONF; buf holds a ratio. */
static void
as_written(const conf_row_t *row, ctl_value_t *value, char buf[FXP_BUF_SIZE]) {
	if ((row->flags & CONF_OCTAL) != 0) {
		value->u32 = octal_digits(value->u32);
	}
	if (row->type == CONF_FXP) {
		fxp_print(buf, value->u32);
		value->s = value->u32 == HPA_DIRTY_MULT_NEVER ? "-1" : buf;
	}
}

static void
print_option(emitter_t *em, const conf_row_t *row, size_t item) {
	ctl_value_t value;
	ctl_value_t live;
	char key[80], ratios[2][FXP_BUF_SIZE];
	emitter_type_t type = (emitter_type_t)ctl_opt_type(item);
	const char *note = row->live;
	memset(&value, 0, sizeof(value));
	if (ctl_opt_read(item, &value) != 0) {
		return;
	}
	assert((row->flags & CONF_PRINT) != 0 && row == &conf_rows[item]);
	if (row->type == CONF_I64) {
		type = emitter_type_int64;
	} else if (row->type == CONF_FXP) {
		type = emitter_type_string;
	}
	as_written(row, &value, ratios[0]);
	if (note != NULL) {
		read_node(note, &live);
		as_written(row, &live, ratios[1]);
	}
	fmt_snprintf(key, sizeof(key), "opt.%s", row->key);
	emitter_kv_note(em, row->key, key, type, &value, note, type, &live);
}

static void
print_options(emitter_t *em) {
	emitter_dict_begin(em, "opt", "Run-time option settings");
	print_sources(em);
	for (size_t i = 0; i < conf_nrows; i++) {
		if ((conf_rows[i].flags & CONF_PRINT) != 0) {
			print_option(em, &conf_rows[i], i);
		}
	}
	emitter_dict_end(em);
}

static void
print_prof(emitter_t *em) {
	static const char *const names[] = {
		"thread_active_init", "active", "gdump", "interval", "lg_sample", "sample_interval",
	};
	emitter_dict_begin(em, "prof", "Profiling settings");
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const ctl_node_t *node = child(&ctl_dir_prof, names[i]);
		char key[64];
		ctl_value_t value;
		fmt_snprintf(key, sizeof(key), "prof.%s", node->name);
		read_node(key, &value);
		emitter_kv(em, node->name, key, (emitter_type_t)node->type, &value);
	}
	emitter_dict_end(em);
}

static void
json_bin_infos(emitter_t *em) {
	const ctl_node_t *bin = child(&ctl_dir_arenas, "bin");
	emitter_json_array_kv_begin(em, bin->name);
	for (size_t i = 0; bin->has(i); i++) {
		emitter_json_object_begin(em);
		json_fields(em, bin->children, bin->children->base(bin->children, (size_t[]){0, 0, i}));
		emitter_json_object_end(em);
	}
	emitter_json_array_end(em);
}

static void
json_lextent_infos(emitter_t *em) {
	emitter_json_array_kv_begin(em, "lextent");
	for (unsigned i = SC_NBINS; i < SC_NSIZES; i++) {
		size_t size = sz_i2s(i);
		emitter_json_object_begin(em);
		emitter_json_kv(em, "size", emitter_type_size, &size);
		emitter_json_object_end(em);
	}
	emitter_json_array_end(em);
}

static void
print_arenas_facts(emitter_t *em) {
	ssize_t dirty_ms = arenas_decay_ms_default_get(true);
	ssize_t muzzy_ms = arenas_decay_ms_default_get(false);
	emitter_json_object_kv_begin(em, "arenas");
	emit_unsigned(em, "narenas", "Arenas", arenas_narenas_total());
	emitter_json_kv(em, "dirty_decay_ms", emitter_type_ssize, &dirty_ms);
	emitter_json_kv(em, "muzzy_decay_ms", emitter_type_ssize, &muzzy_ms);
	emit_size(em, "quantum", "Quantum size", (size_t)1 << LG_QUANTUM);
	emit_size(em, "page", "Page size", PAGE);
	emit_size(em, "hugepage", "Hugepage size", HUGEPAGE);
	emit_size(em, "tcache_max", "Maximum thread-cached size class", tcache_max_default);
	emit_unsigned(em, "nbins", "Number of bin size classes", SC_NBINS);
	emit_unsigned(em, "nhbins", "Number of thread-cache bin size classes", tcache_nhbins);
	json_bin_infos(em);
	emit_unsigned(em, "nlextents", "Number of large size classes", SC_NSIZES - SC_NBINS);
	json_lextent_infos(em);
	emitter_json_object_end(em);
}

static void
print_general(emitter_t *em) {
	const char *version = JEMALLOC_VERSION;
	emitter_kv(em, "version", "Version", emitter_type_string, &version);
	print_config(em);
	print_system(em);
	print_options(em);
	if (config_prof) {
		print_prof(em);
	}
	print_arenas_facts(em);
}

/* ------------------------------------------------------------------ one arena: pages and groups */

static void
line_decay(emitter_t *em, bool is_header, const char *name, ssize_t ms, size_t npages,
    const decay_stats_t *d) {
	line_t l = line_begin(em, is_header, 0);
	cell_text(&l, 9, "decaying:", name);
	if (ms < 0) {
		cell_text(&l, 6, "time", "N/A");
	} else {
		cell(&l, 6, "time", (uint64_t)ms);
	}
	cell(&l, 13, "npages", npages);
	cell(&l, 13, "sweeps", d->npurge);
	cell(&l, 13, "madvises", d->nmadvise);
	cell(&l, 13, "purged", d->purged);
	line_end(&l);
}

/* The title of a column: the field's name, but two titles are singular as in jemalloc's tables. */
static const char *
title_of(const char *name) {
	return strcmp(name, "nfills") == 0 ? "nfill" : strcmp(name, "nflushes") == 0 ? "nflush" : name;
}

static void
line_group(emitter_t *em, bool is_header, const char *name, const class_stats_t *g,
    uint64_t uptime_ns) {
	line_t l = line_begin(em, is_header, uptime_ns);
	cell_text(&l, -21, "", name);
	cell(&l, 16, "allocated", g->allocated);
#define CELL(name, type, says) cell_and_rate(&l, 16, title_of(#name), g->name, 10);
	CLASS_OF_SIZE_FIELDS(CELL)
	CLASS_OF_ALL_FIELDS(CELL)
#undef CELL
	line_end(&l);
}

/* A row of a name and a number. */
static void
line_value(emitter_t *em, const char *name, size_t value) {
	line_t l = line_begin(em, false, 0);
	cell_text(&l, -21, "", name);
	cell(&l, 16, "", value);
	line_end(&l);
}

/* The directory stats.arenas.<i>. */
static const ctl_node_t *
arena_dir(void) {
	return child(&ctl_dir_stats, "arenas")->children;
}

/* The fields of an arena whose names begin with hpa_, without that prefix, or all others. */
static void
json_arena_fields(emitter_t *em, const snapshot_arena_t *a, bool of_hpa) {
	const ctl_node_t *dir = arena_dir();
	for (size_t i = 0; i < dir->nfields; i++) {
		const ctl_field_t *f = &dir->fields[i];
		if ((strncmp(f->name, "hpa_", 4) == 0) == of_hpa) {
			json_field(em, of_hpa ? f->name + 4 : strcmp(f->name, "uptime") == 0 ? "uptime_ns"
			    : f->name, f, a);
		}
	}
}

static void
json_arena_head(emitter_t *em, const snapshot_arena_t *a) {
	if (a->name[0] != '\0') {
		const char *name = a->name;
		emitter_json_kv(em, "name", emitter_type_string, &name);
	}
	json_arena_fields(em, a, false);
	json_dir(em, child(arena_dir(), "small"), a, 0);
	json_dir(em, child(arena_dir(), "large"), a, 0);
}

static void
table_groups(emitter_t *em, const arena_stats_t *s) {
	class_stats_t total = s->small;
#define ADD(name, type, says) total.name += s->large.name;
	CLASS_STATS_FIELDS(ADD)
#undef ADD
	line_group(em, true, "", &total, s->uptime_ns);
	line_group(em, false, "small:", &s->small, s->uptime_ns);
	line_group(em, false, "large:", &s->large, s->uptime_ns);
	line_group(em, false, "total:", &total, s->uptime_ns);
	emitter_table_printf(em, "                                     \n");
}

static void
table_arena_head(emitter_t *em, const snapshot_arena_t *a) {
	const arena_stats_t *s = &a->stats;
	if (a->name[0] != '\0') {
		const char *name = a->name;
		emitter_table_kv(em, "name", emitter_type_string, &name);
	}
	emitter_table_kv(em, "assigned threads", emitter_type_unsigned, &s->nthreads);
	emitter_table_kv(em, "uptime", emitter_type_uint64, &s->uptime_ns);
	emitter_table_kv(em, "dss allocation precedence", emitter_type_string, &a->dss);
	line_decay(em, true, "", 0, 0, &s->dirty);
	line_decay(em, false, "dirty:", a->dirty_decay_ms, s->pdirty, &s->dirty);
	line_decay(em, false, "muzzy:", a->muzzy_decay_ms, s->pmuzzy, &s->muzzy);
	table_groups(em, s);
	line_value(em, "active:", s->pactive << LG_PAGE);
#define ROW(name, type, says) line_value(em, #name ":", s->name);
	ARENA_STATS_ROW_FIELDS(ROW)
#undef ROW
}

/* ------------------------------------------------------------------ one arena: classes */

/* Whether to print samples per class: only for the sum of all arenas, with option prof_stats. */
static bool
has_prof_columns(const report_t *r, const arena_stats_t *s) {
	return s == &r->snap.merged->stats && config_prof && opt_prof_stats && prof_is_booted();
}

/* Samples of a class: those in use (live), and all so far (accum). Zeros if there are none. */
static void
read_prof_columns(szind_t szind, prof_stats_t *live, prof_stats_t *accum) {
	memset(live, 0, sizeof(*live));
	memset(accum, 0, sizeof(*accum));
	(void)prof_stats_read(false, szind, live);
	(void)prof_stats_read(true, szind, accum);
}

static void
cells_prof(const line_t *l, szind_t szind) {
	prof_stats_t live, accum;
	read_prof_columns(szind, &live, &accum);
	cell(l, 21, "prof_live_requested", live.req_sum);
	cell(l, 17, "prof_live_count", live.count);
	cell(l, 21, "prof_accum_requested", accum.req_sum);
	cell(l, 17, "prof_accum_count", accum.count);
}

static void
json_prof(emitter_t *em, szind_t szind) {
	prof_stats_t live, accum;
	read_prof_columns(szind, &live, &accum);
	emitter_json_kv(em, "prof_live_requested", emitter_type_uint64, &live.req_sum);
	emitter_json_kv(em, "prof_live_count", emitter_type_uint64, &live.count);
	emitter_json_kv(em, "prof_accum_requested", emitter_type_uint64, &accum.req_sum);
	emitter_json_kv(em, "prof_accum_count", emitter_type_uint64, &accum.count);
}

/* Adds the share of the slabs' regions in use, with three decimals; 1 without slabs. */
static void
cell_util(const line_t *l, const bin_stats_t *b, const bin_info_t *info) {
	char text[16];
	uint64_t room = (uint64_t)info->nregs * b->curslabs;
	uint64_t permille = room == 0 ? 1000 : b->curregs * 1000 / room;
	assert(b->curregs <= room);
	fmt_snprintf(text, sizeof(text), permille == 1000 ? "1" : "0.%03u", (unsigned)permille);
	cell_text(l, 7, "util", text);
}

static void
line_bin(report_t *r, bool is_header, const arena_stats_t *s, unsigned i) {
	const bin_stats_t *b = &s->bins[i];
	const bin_info_t *info = &bin_infos[i];
	line_t l = line_begin(&r->em, is_header, s->uptime_ns);
	cell(&l, 20, "bins:           size", info->reg_size);
	cell(&l, 4, "ind", i);
	cell(&l, 13, "allocated", b->curregs * info->reg_size);
	cell_and_rate(&l, 13, "nmalloc", b->nmalloc, 8);
	cell_and_rate(&l, 13, "ndalloc", b->ndalloc, 8);
	cell_and_rate(&l, 13, "nrequests", b->nrequests, 10);
	if (has_prof_columns(r, s)) {
		cells_prof(&l, i);
	}
	cell(&l, 9, "nshards", info->n_shards);
	cell(&l, 13, "curregs", b->curregs);
	cell(&l, 13, "curslabs", b->curslabs);
	cell(&l, 15, "nonfull_slabs", b->nonfull_slabs);
	cell(&l, 5, "regs", info->nregs);
	cell(&l, 4, "pgs", info->slab_size >> LG_PAGE);
	cell_util(&l, b, info);
	cell_and_rate(&l, 13, "nfills", b->nfills, 8);
	cell_and_rate(&l, 13, "nflushes", b->nflushes, 8);
	cell(&l, 13, "nslabs", b->nslabs);
	cell_and_rate(&l, 13, "nreslabs", b->nreslabs, 8);
	if (wants(r, PART_MUTEXES)) {
		cells_mutex(&l, &s->bin_mutexes[i]);
	}
	line_end(&l);
}

typedef enum { kind_small, kind_large, kind_extents } kind_t;

/* What is printed of each size class of a kind; s: the statistics of the arena. */
typedef struct {
	char name[16]; /* of the directory, and of the array in JSON */
	kind_t kind;
	bool (*is_unused)(const arena_stats_t *s, unsigned i); /* the table has no line for it */
	void (*line)(report_t *r, bool is_header, const arena_stats_t *s, unsigned i);
} classes_t;

static void
json_class(report_t *r, kind_t kind, const ctl_node_t *dir, const snapshot_arena_t *a, unsigned i) {
	emitter_json_object_begin(&r->em);
	json_fields(&r->em, dir, ctl_node_part(dir, a, i));
	if (kind != kind_extents && has_prof_columns(r, &a->stats)) {
		json_prof(&r->em, kind == kind_large ? SC_NBINS + i : i);
	}
	if (kind == kind_small && wants(r, PART_MUTEXES)) {
		json_dir(&r->em, child(dir, "mutex"), a, i);
	}
	emitter_json_object_end(&r->em);
}

/* Prints the classes of a kind; one line stands for a series of unused ones. */
static void
print_classes(report_t *r, const classes_t *c, const snapshot_arena_t *a) {
	const ctl_node_t *dir = child(arena_dir(), c->name);
	bool in_gap = false;
	emitter_json_array_kv_begin(&r->em, c->name);
	c->line(r, true, &a->stats, 0);
	for (unsigned i = 0; dir->has(i); i++) {
		if (emitter_is_json(&r->em)) {
			json_class(r, c->kind, dir->children, a, i);
		} else if (c->is_unused(&a->stats, i)) {
			in_gap = true;
		} else {
			table_gap(&r->em, &in_gap);
			c->line(r, false, &a->stats, i);
		}
	}
	table_gap(&r->em, &in_gap);
	emitter_json_array_end(&r->em);
}

static bool
bin_is_unused(const arena_stats_t *s, unsigned i) {
	return s->bins[i].nslabs == 0;
}

static const classes_t bin_classes = {"bins", kind_small, bin_is_unused, line_bin};

static void
line_large(report_t *r, bool is_header, const arena_stats_t *all, unsigned i) {
	const large_stats_t *s = &all->lextents[i];
	size_t size = sz_i2s(SC_NBINS + i);
	line_t l = line_begin(&r->em, is_header, all->uptime_ns);
	cell(&l, 20, "large:          size", size);
	cell(&l, 4, "ind", SC_NBINS + i);
	cell(&l, 13, "allocated", s->curlextents * size);
#define CELL(name, type, says) cell_and_rate(&l, 13, #name, s->name, 8);
	LARGE_COUNT_FIELDS(CELL)
#undef CELL
	if (has_prof_columns(r, all)) {
		cells_prof(&l, SC_NBINS + i);
	}
	cell(&l, 13, "curlextents", s->curlextents);
	line_end(&l);
}

static bool
large_is_unused(const arena_stats_t *s, unsigned i) {
	return s->lextents[i].nmalloc == 0 && s->lextents[i].nrequests == 0;
}

static const classes_t large_classes = {"lextents", kind_large, large_is_unused, line_large};

static void
line_extents(report_t *r, bool is_header, const arena_stats_t *all, unsigned i) {
	const ecache_stats_t *s = &all->extents[i];
	line_t l = line_begin(&r->em, is_header, 0);
	cell(&l, 20, "extents:        size", sz_pind2sz(i));
	cell(&l, 4, "ind", i);
	cell(&l, 13, "ndirty", s->ndirty);
	cell(&l, 13, "dirty", s->dirty_bytes);
	cell(&l, 13, "nmuzzy", s->nmuzzy);
	cell(&l, 13, "muzzy", s->muzzy_bytes);
	cell(&l, 13, "nretained", s->nretained);
	cell(&l, 13, "retained", s->retained_bytes);
	cell(&l, 13, "ntotal", s->ndirty + s->nmuzzy + s->nretained);
	cell(&l, 13, "total", s->dirty_bytes + s->muzzy_bytes + s->retained_bytes);
	line_end(&l);
}

static bool
extents_are_none(const arena_stats_t *s, unsigned i) {
	return s->extents[i].ndirty + s->extents[i].nmuzzy + s->extents[i].nretained == 0;
}

static const classes_t extent_classes = {"extents", kind_extents, extents_are_none, line_extents};

/* ------------------------------------------------------------------ huge pages */

static void
line_slabs(emitter_t *em, const char *title, const hpa_slabs_stats_t *s) {
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

/* In JSON every key, also if hpa is off; text only if there are huge slabs, or some were purged. */
static void
print_hpa(emitter_t *em, const snapshot_arena_t *a) {
	const hpa_stats_t *hpa = &a->stats.hpa;
	if (emitter_is_json(em)) {
		const ctl_node_t *dir = child(arena_dir(), "hpa_shard");
		emitter_json_object_kv_begin(em, dir->name);
		json_arena_fields(em, a, true);
		json_tree(em, dir, a, 0);
		emitter_json_object_end(em);
		return;
	}
	if (hpa->npageslabs == 0 && hpa->npurges == 0) {
		return;
	}
	emitter_table_printf(em, "Small extent cache: %zu bytes, hits: %zu, misses: %zu, "
	    "freed without flush: %zu, with flush: %zu, overfills: %zu\n", hpa->sec_bytes,
	    hpa->sec_hits, hpa->sec_misses, hpa->sec_dalloc_noflush, hpa->sec_dalloc_flush,
	    hpa->sec_overfills);
	emitter_table_printf(em, "HPA shard stats:\n  Pageslabs: %zu, active pages: %zu, "
	    "dirty pages: %zu\n",
	    hpa->npageslabs, hpa->nactive, hpa->ndirty);
	emitter_table_printf(em, "  Purge passes: %llu, purges: %llu, hugifies: %llu, failures: %llu, "
	    "dehugifies: %llu\n", (unsigned long long)hpa->npurge_passes,
	    (unsigned long long)hpa->npurges, (unsigned long long)hpa->nhugifies,
	    (unsigned long long)hpa->nhugify_failures, (unsigned long long)hpa->ndehugifies);
	line_slabs(em, "In all slabs", &hpa->slabs);
	line_slabs(em, "In full slabs", &hpa->full_slabs);
	line_slabs(em, "In empty slabs", &hpa->empty_slabs);
	for (unsigned i = 0; i < HPA_ALLOC_KINDS; i++) {
		line_alloc(em, &hpa->alloc[i]);
	}
}

/*
 * Text only if pages were populated (MADV_POPULATE_WRITE), if that failed, or if a huge piece
 * (2 MiB, extent/piece.h) was made.
 */
static void
print_thp(emitter_t *em, const snapshot_global_t *global) {
	const thp_stats_t *s = &global->thp;
	json_dir(em, child(&ctl_dir_stats, "thp"), global, 0);
	if (s->npopulate + s->nfailures > 0) {
		emitter_table_printf(em, "Populated: %zu bytes by %zu calls, failures: %zu\n", s->populated,
		    s->npopulate, s->nfailures);
	}
	if (s->npieces > 0) {
		emitter_table_printf(em, "Huge pieces: %zu, made: %zu, broken: %zu, slow: %zu, "
		    "pauses: %zu\n", s->pieces, s->npieces, s->nbroken, s->nslow, s->npauses);
	}
}

static void
print_arena(report_t *r, const snapshot_arena_t *a) {
	if (emitter_is_json(&r->em)) {
		json_arena_head(&r->em, a);
	} else {
		table_arena_head(&r->em, a);
	}
	if (wants(r, PART_MUTEXES)) {
		print_mutexes(&r->em, arena_dir(), a, a->stats.uptime_ns);
	}
	if (wants(r, PART_BINS)) {
		print_classes(r, &bin_classes, a);
	}
	if (wants(r, PART_LARGE)) {
		print_classes(r, &large_classes, a);
	}
	if (wants(r, PART_EXTENTS)) {
		print_classes(r, &extent_classes, a);
	}
	if (wants(r, PART_HPA)) {
		print_hpa(&r->em, a);
	}
}

/* ------------------------------------------------------------------ all statistics */

static void
print_global(report_t *r) {
	emitter_t *em = &r->em;
	const snapshot_global_t *s = &r->snap.global;
	size_t zero_reallocs = imalloc_zero_reallocs();
	json_fields(em, &ctl_dir_stats, s);
	emitter_table_printf(em, "Allocated: %zu, active: %zu, metadata: %zu (n_thp %zu, edata %zu, "
	    "rtree %zu), resident: %zu, mapped: %zu, retained: %zu\n", s->allocated, s->active,
	    s->metadata, s->metadata_thp, s->metadata_edata, s->metadata_rtree, s->resident,
	    s->mapped, s->retained);
	emit_size(em, "zero_reallocs", "Count of realloc(non-null-ptr, 0) calls", zero_reallocs);
}

static void
print_background(emitter_t *em, const snapshot_global_t *global) {
	const background_thread_stats_t *s = &global->background;
	json_dir(em, child(&ctl_dir_stats, "background_thread"), global, 0);
	emitter_table_printf(em, "Background threads: %zu, num_runs: %llu, run_interval: %llu ns\n",
	    s->num_threads, (unsigned long long)s->num_runs, (unsigned long long)s->run_interval);
}

static unsigned
count_arenas(const snapshot_t *snap) {
	unsigned n = 0;
	for (unsigned i = 0; i < snap->narenas; i++) {
		n += snap->arenas[i] != NULL;
	}
	return n;
}

static void
print_arenas(report_t *r) {
	emitter_t *em = &r->em;
	const snapshot_t *snap = &r->snap;
	emitter_json_object_kv_begin(em, "stats.arenas");
	if (wants(r, PART_MERGED) && (count_arenas(snap) > 1 || !wants(r, PART_ARENAS))) {
		emitter_table_printf(em, "Merged arenas stats:\n");
		emitter_json_object_kv_begin(em, "merged");
		print_arena(r, snap->merged);
		emitter_json_object_end(em);
	}
	if (wants(r, PART_DESTROYED) && snap->destroyed != NULL) {
		emitter_table_printf(em, "Destroyed arenas stats:\n");
		emitter_json_object_kv_begin(em, "destroyed");
		print_arena(r, snap->destroyed);
		emitter_json_object_end(em);
	}
	for (unsigned i = 0; wants(r, PART_ARENAS) && i < snap->narenas; i++) {
		if (snap->arenas[i] == NULL) {
			continue;
		}
		char key[16];
		fmt_snprintf(key, sizeof(key), "%u", i);
		emitter_table_printf(em, "arenas[%u]:\n", i);
		emitter_json_object_kv_begin(em, key);
		print_arena(r, snap->arenas[i]);
		emitter_json_object_end(em);
	}
	emitter_json_object_end(em);
}

static void
print_stats(report_t *r) {
	const snapshot_global_t *global = &r->snap.global;
	emitter_json_object_kv_begin(&r->em, "stats");
	print_global(r);
	print_background(&r->em, global);
	print_thp(&r->em, global);
	if (wants(r, PART_MUTEXES)) {
		print_mutexes(&r->em, &ctl_dir_stats, global, r->snap.merged->stats.uptime_ns);
	}
	emitter_json_object_end(&r->em);
	if (wants(r, PART_MERGED) || wants(r, PART_ARENAS)
	    || (wants(r, PART_DESTROYED) && r->snap.destroyed != NULL)) {
		print_arenas(r);
	}
}

/* ------------------------------------------------------------------ entry */

/*
 * Refreshes the values of stats.* (epoch) and takes the report's copy of them and its buffer. 0, or
 * EAGAIN without memory for the values or the copy; report_drop() is to be called in both cases.
 */
static int
report_gather(report_t *r) {
	struct tls_s *tls = tls_get();
	gate_enter(tls);
	int err = snapshot_take(&r->snap);
	r->buf = meta_alloc(STATS_BUF_SIZE);
	gate_exit(tls);
	return err;
}

static void
report_drop(report_t *r) {
	struct tls_s *tls = tls_get();
	gate_enter(tls);
	snapshot_free(&r->snap);
	meta_free(r->buf, STATS_BUF_SIZE);
	gate_exit(tls);
}

static void
report_print(report_t *r) {
	emitter_t *em = &r->em;
	emitter_begin(em);
	emitter_table_printf(em, "___ Begin jemalloc statistics ___\n");
	emitter_json_object_kv_begin(em, "jemalloc");
	if (wants(r, PART_GENERAL)) {
		print_general(em);
	}
	if (config_stats) {
		print_stats(r);
	}
	emitter_json_object_end(em);
	emitter_table_printf(em, "--- End jemalloc statistics ---\n");
	emitter_end(em);
}

void
stats_print(void (*write_cb)(void *opaque, const char *s), void *opaque, const char *opts) {
	report_t r;
	malloc_io_text_t text = {opaque,
		gate_is_entered(tls_get()) ? TIMEOUT_SHORT_MS : MALLOC_IO_TIMEOUT_MS};
	if (gate_is_lost()) {
		return; /* the owners of the locks that would be taken do not exist */
	}
	memset(&r, 0, sizeof(r));
	r.opts = opts == NULL ? "" : opts;
	if (write_cb == NULL) {
		write_cb = malloc_write_long;
		opaque = &text;
	}
	if (report_gather(&r) != 0) {
		write_cb(opaque, "<jemalloc>: Memory allocation failure in mallctl(\"epoch\", ...)\n");
	} else {
		bool is_json = strchr(r.opts, OPTION_JSON) != NULL;
		emitter_init(&r.em, is_json ? emitter_json : emitter_table, write_cb, opaque, r.buf,
		    STATS_BUF_SIZE);
		report_print(&r);
	}
	report_drop(&r);
}

void
stats_atexit(void) {
	if (opt_stats_print) {
		stats_print(NULL, NULL, opt_stats_print_opts);
	}
}

/*
 * Bytes that all threads have allocated since the last print. The thread whose addition reaches
 * opt_stats_interval subtracts the interval, as often as it is contained, and prints.
 */
static atomic_u64_t interval_bytes;

void
stats_heartbeat(struct tsd_s *tsd UNUSED, uint64_t bytes) {
	if (opt_stats_interval < 0) {
		return;
	}
	uint64_t interval = opt_stats_interval == 0 ? 1 : (uint64_t)opt_stats_interval;
	if (atomic_sum_try_reach(&interval_bytes, bytes, interval) != 0) {
		struct tls_s *tls = tls_get();
		assert(witness_depth_from(WITNESS_RANK_INIT) == 0);
		uint32_t depth = gate_leave_all(tls);
		stats_print(malloc_write_long, &(malloc_io_text_t){NULL, TIMEOUT_SHORT_MS},
		    opt_stats_interval_opts);
		gate_reenter(tls, depth);
	}
}
