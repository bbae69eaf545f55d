/*
 * Each field of the statistics' lists is moved at its source, to a number of its own, and read back
 * through mallctl, in the JSON and in the text: a field that a list has and a sum or a row forgets
 * is found. What a second life of the arena must set to zero is zero then.
 */
#include "ctl.h"

#include <jemalloc/jemalloc.h>

#include "arena/arena_life.h"
#include "arena/arenas.h"
#include "arena/bin.h"
#include "ctl/ctl.h"
#include "ctl/ctl_snapshot.h"
#include "os/gate.h"
#include "stats.h"
#include "util/fmt.h"

static char text[8 << 20];
static size_t text_len;
static unsigned ind;
static uint64_t number; /* the last that was given out */

static void
gather(void *opaque, const char *s) {
	(void)opaque;
	size_t n = strlen(s);
	if (n < sizeof(text) - text_len) {
		memcpy(text + text_len, s, n + 1);
		text_len += n;
	}
}

static void
print(const char *opts) {
	text_len = 0;
	text[0] = '\0';
	stats_print(gather, NULL, opts);
}

static void
refresh(void) {
	uint64_t epoch = 1;
	ctl_byname("epoch", NULL, NULL, &epoch, sizeof(epoch));
}

static uint64_t
value_of(const char *path) {
	uint64_t value = 0;
	size_t size = sizeof(value);
	int err = ctl_byname(path, &value, &size, NULL, 0);
	if (err == EINVAL) { /* a field of 32 bits */
		value = 0;
		size = sizeof(uint32_t);
		err = ctl_byname(path, &value, &size, NULL, 0);
	}
	if (err != 0) {
		diag("%s: %s", path, strerror(err));
	}
	return value;
}

static uint64_t
node(const char *room, const char *name) {
	char path[128];
	snprintf(path, sizeof(path), "stats.arenas.%u.%s%s", ind, room, name);
	return value_of(path);
}

/* The text between the last "arenas[ind]:" and the end has the number as a word. */
static bool
has_number(const char *from, uint64_t value) {
	char word[32];
	size_t n = (size_t)snprintf(word, sizeof(word), "%llu", (unsigned long long)value);
	for (const char *at = strstr(from, word); at != NULL; at = strstr(at + 1, word)) {
		bool is_begun = at > from && at[-1] >= '0' && at[-1] <= '9';
		if (!is_begun && (at[n] < '0' || at[n] > '9')) {
			return true;
		}
	}
	return false;
}

static unsigned
wrong(bool is_wrong, const char *what, const char *name) {
	if (is_wrong) {
		diag("%s: %s", what, name);
	}
	return is_wrong;
}

/*
 * Numbers are far apart, so that no other number of a report is one of them, and of at most seven
 * digits, so that a column of the text has a blank before each.
 */
#define NEXT (number += 100003)

static void
test_bins(void) {
	arena_t *a = arenas_get(ind);
	bin_t *bin = arena_bin(a, 1, 0);
	bin_stats_t want;
	unsigned bad = 0;
	mutex_lock(&bin->mtx);
#define MOVE(name, type, says) bin->stats.name = want.name = (type)NEXT;
	BIN_STATS_FIELDS(MOVE)
#undef MOVE
	mutex_unlock(&bin->mtx);
	refresh();
#define LOOK(name, type, says) \
	bad += wrong(node("bins.1.", #name) != want.name, "mallctl", #name);
	BIN_STATS_FIELDS(LOOK)
#undef LOOK
#define LOOK(name, type, says) bad += wrong(node("small.", #name) != want.name, "small", #name);
	CLASS_OF_SIZE_FIELDS(LOOK)
	CLASS_OF_ALL_FIELDS(LOOK)
#undef LOOK
	print("J");
#define LOOK(name, type, says) bad += wrong(!has_number(text, want.name), "JSON", #name);
	BIN_STATS_FIELDS(LOOK)
#undef LOOK
	print("m");
#define LOOK(name, type, says) bad += wrong(!has_number(text, want.name), "text", #name);
	BIN_STATS_FIELDS(LOOK)
#undef LOOK
	is_uint(bad, 0, "bins: each field is in mallctl, in JSON, in the text, in the sums");
	mutex_lock(&bin->mtx);
	memset(&bin->stats, 0, sizeof(bin->stats));
	mutex_unlock(&bin->mtx);
}

static void
test_large(void) {
	arena_t *a = arenas_get(ind);
	large_stats_t want;
	class_stats_t all;
	unsigned bad = 0;
#define MOVE(name, type, says) atomic_store_u64(&a->large[2].name, want.name = NEXT, MO_RELAXED);
	LARGE_COUNT_FIELDS(MOVE)
#undef MOVE
#define MOVE(name, type, says) atomic_store_u64(&a->large_all.name, all.name = NEXT, MO_RELAXED);
	CLASS_OF_ALL_FIELDS(MOVE)
#undef MOVE
	refresh();
#define LOOK(name, type, says) \
	bad += wrong(node("lextents.2.", #name) != want.name, "mallctl", #name);
	LARGE_COUNT_FIELDS(LOOK)
#undef LOOK
#define LOOK(name, type, says) bad += wrong(node("large.", #name) != want.name, "large", #name);
	CLASS_OF_SIZE_FIELDS(LOOK)
#undef LOOK
#define LOOK(name, type, says) bad += wrong(node("large.", #name) != all.name, "large", #name);
	CLASS_OF_ALL_FIELDS(LOOK)
#undef LOOK
	for (int i = 0; i < 2; i++) {
		print(i == 0 ? "J" : "m");
#define LOOK(name, type, says) bad += wrong(!has_number(text, want.name), "printed", #name);
		LARGE_COUNT_FIELDS(LOOK)
#undef LOOK
#define LOOK(name, type, says) bad += wrong(!has_number(text, all.name), "printed", #name);
		CLASS_OF_ALL_FIELDS(LOOK)
#undef LOOK
	}
	is_uint(bad, 0, "large classes: each field is in mallctl, in JSON, in the text, in the sums");
}

/* Moves all counters of a lock but num_ops, which each look at them moves. */
static void
mutex_move(mutex_t *m, mutex_prof_data_t *want) {
	mutex_lock(m);
#define MOVE(name, member, type, says) m->counts.member = want->member = (type)NEXT;
	MUTEX_STATS_FIELDS(MOVE)
#undef MOVE
	mutex_unlock(m);
}

/* Whether mallctl and, if has_text, the text of the last print have the counters of a lock. */
static unsigned
mutex_bad(const char *room, const mutex_prof_data_t *want, bool has_text) {
	unsigned bad = 0;
#define LOOK(name, member, type, says) \
	bad += wrong(strcmp(#name, "num_ops") != 0 && (node(room, #name) != want->member \
	    || (has_text && !has_number(text, want->member))), room, #name);
	MUTEX_STATS_FIELDS(LOOK)
#undef LOOK
	return bad;
}

static void
test_mutexes(void) {
	arena_t *a = arenas_get(ind);
	mutex_prof_data_t want[arena_mutex_count + 1] = {0}, zero = {0};
	mutex_t *bin = &arena_bin(a, 1, 0)->mtx;
	unsigned bad = 0;
#define MOVE(name, expr, says) \
	if ((expr) != NULL) { \
		mutex_move(expr, &want[arena_mutex_##name]); \
	}
	ARENA_MUTEXES(MOVE)
#undef MOVE
	mutex_move(bin, &want[arena_mutex_count]);
	refresh();
	for (int i = 0; i < 2; i++) {
		print(i == 0 ? "J" : "");
#define LOOK(name, expr, says) \
	bad += mutex_bad("mutexes." #name ".", &want[arena_mutex_##name], (expr) != NULL);
		ARENA_MUTEXES(LOOK)
#undef LOOK
		bad += mutex_bad("bins.1.mutex.", &want[arena_mutex_count], i == 0);
	}
	is_uint(bad, 0, "locks: each counter is in mallctl, in JSON and in the text");
	is_int(ctl_byname("stats.mutexes.reset", NULL, NULL, NULL, 0), 0, "reset");
	refresh();
#define LOOK(name, expr, says) bad += mutex_bad("mutexes." #name ".", &zero, false);
	ARENA_MUTEXES(LOOK)
#undef LOOK
	bad += mutex_bad("bins.1.mutex.", &zero, false);
	is_uint(bad, 0, "and all are zero");
}

/*
 * Each directory reads its own struct of the snapshot, in which the structs of locks and huge slabs
 * get numbers of their own.
 */
static void
test_places(void) {
	static snapshot_global_t global;
	static hpa_stats_t hpa;
	unsigned bad = 0;
	refresh();
	gate_enter(tls_get());
	mutex_lock(&snapshot_mutex);
	snapshot_global_t *g = (snapshot_global_t *)(uintptr_t)&snapshot_get_locked()->global;
	snapshot_arena_t *a = (snapshot_arena_t *)(uintptr_t)snapshot_arena_locked(ind);
#define MOVE(name, says) g->mutexes[snapshot_mutex_##name].n_lock_ops = NEXT;
	SNAPSHOT_MUTEXES(MOVE)
#undef MOVE
#define MOVE(name, type, says) \
	a->stats.hpa.slabs.name = (type)NEXT; \
	a->stats.hpa.full_slabs.name = (type)NEXT; \
	a->stats.hpa.empty_slabs.name = (type)NEXT; \
	a->stats.hpa.nonfull_slabs[5].name = (type)NEXT;
	HPA_SLABS_FIELDS(MOVE)
#undef MOVE
#define MOVE(name, says) a->stats.hpa.alloc[3].name = NEXT;
	HPA_ALLOC_FIELDS(MOVE)
#undef MOVE
	global = *g;
	hpa = a->stats.hpa;
	mutex_unlock(&snapshot_mutex);
	gate_exit(tls_get());
#define LOOK(name, says) \
	bad += wrong(value_of("stats.mutexes." #name ".num_ops") \
	    != global.mutexes[snapshot_mutex_##name].n_lock_ops, "mutexes", #name);
	SNAPSHOT_MUTEXES(LOOK)
#undef LOOK
#define LOOK(name, type, says) \
	bad += wrong(node("hpa_shard.slabs.", #name) != hpa.slabs.name, "slabs", #name); \
	bad += wrong(node("hpa_shard.full_slabs.", #name) != hpa.full_slabs.name, "full", #name); \
	bad += wrong(node("hpa_shard.empty_slabs.", #name) != hpa.empty_slabs.name, "empty", #name); \
	bad += wrong(node("hpa_shard.nonfull_slabs.5.", #name) != hpa.nonfull_slabs[5].name, \
	    "nonfull", #name);
	HPA_SLABS_FIELDS(LOOK)
#undef LOOK
#define LOOK(name, says) \
	bad += wrong(node("hpa_shard.alloc.3.", #name) != hpa.alloc[3].name, "alloc", #name);
	HPA_ALLOC_FIELDS(LOOK)
#undef LOOK
	is_uint(bad, 0, "locks of the process and huge slabs: each directory reads its own struct");
}

/* Fields whose source is no single counter are named in both forms. */
static void
test_rows(void) {
	unsigned bad = 0;
	refresh();
	print("J");
#define LOOK(name, type, says) \
	bad += wrong(strstr(text, "\"" #name "\":") == NULL, "JSON", #name);
	ARENA_STATS_SUM_FIELDS(LOOK)
#undef LOOK
	print("m");
#define LOOK(name, type, says) bad += wrong(strstr(text, #name ":") == NULL, "text", #name);
	ARENA_STATS_ROW_FIELDS(LOOK)
#undef LOOK
	is_uint(bad, 0, "arenas: each field has a key and a row");
}

/* ---- the columns of the text ---- */

static const char *
next_line(const char *line) {
	const char *end = strchr(line, '\n');
	return end == NULL ? "" : end + 1;
}

/* The word that ends at this column of the line. */
static const char *
word_at(const char *line, size_t end) {
	static char word[32];
	size_t from = end;
	if (end > strcspn(line, "\n")) {
		return "";
	}
	while (from > 0 && line[from - 1] != ' ') {
		from--;
	}
	snprintf(word, sizeof(word), "%.*s", (int)(end - from), line + from);
	return word;
}

/* The column where the title ends; 0: there is none. */
static size_t
end_of_title(const char *header, const char *title) {
	const char *end = next_line(header);
	size_t n = strlen(title);
	for (const char *at = header; (at = strstr(at, title)) != NULL && at < end; at++) {
		if (at > header && at[-1] == ' ' && (at[n] == ' ' || at[n] == '\n')) {
			return (size_t)(at - header) + n;
		}
	}
	return 0;
}

/* The row of the table with this title whose column "ind" has the number; "": there is none. */
static const char *
row_of(const char *header, unsigned number_of_row) {
	char word[16];
	snprintf(word, sizeof(word), "%u", number_of_row);
	size_t end = end_of_title(header, "ind");
	const char *row = next_line(header);
	while (*row == ' ' && strcmp(word_at(row, end), word) != 0) {
		row = next_line(row);
	}
	return *row == ' ' ? row : "";
}

/* Whether the cell of the row below this title is not the text. */
static unsigned
text_bad(const char *header, const char *row, const char *title, const char *want) {
	size_t end = end_of_title(header, title);
	const char *got = word_at(row, end);
	if (end == 0 || strcmp(got, want) != 0) {
		diag("column %s: \"%s\", not \"%s\"", title, got, want);
		return 1;
	}
	return 0;
}

static unsigned
cell_bad(const char *header, const char *row, const char *title, uint64_t want) {
	char word[32];
	snprintf(word, sizeof(word), "%llu", (unsigned long long)want);
	return text_bad(header, row, title, word);
}

/* The tables of our arena: prints them, and gives the line that begins with this, after blanks. */
static const char *
line_of(const char *begin) {
	char head[32];
	snprintf(head, sizeof(head), "arenas[%u]:", ind);
	const char *at = strstr(text, head);
	while (at != NULL && *at != '\0' && strncmp(at + strspn(at, " "), begin, strlen(begin)) != 0) {
		at = next_line(at);
	}
	return at == NULL ? "" : at;
}

/* What a row of a size class has beside the fields of its list. */
static void
test_bin_columns(void) {
	arena_t *a = arenas_get(ind);
	bin_t *bin = arena_bin(a, 1, 0);
	const bin_info_t *info = &bin_infos[1];
	const struct {
		size_t slabs, regs;
		const char *util;
	} cases[] = {{0, 0, "1"}, {2, 0, "0.000"}, {2, 1, NULL}, {2, info->nregs, "0.500"},
	    {10, info->nregs - 1U, "0.099"}, {1, info->nregs - 1U, NULL}, {1, info->nregs, "1"},
	    {200, info->nregs, "0.005"}};
	unsigned bad = 0;
	for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
		char share[16];
		unsigned room = (unsigned)(info->nregs * cases[i].slabs);
		snprintf(share, sizeof(share), "0.%03u",
		    room == 0 ? 0 : (unsigned)cases[i].regs * 1000 / room);
		mutex_lock(&bin->mtx);
		number = i;
#define MOVE(name, type, says) bin->stats.name = (type)NEXT;
		BIN_STATS_FIELDS(MOVE)
#undef MOVE
		bin->stats.curslabs = cases[i].slabs;
		bin->stats.curregs = cases[i].regs;
		bin_stats_t want = bin->stats;
		mutex_unlock(&bin->mtx);
		print("m");
		const char *header = line_of("bins:"), *row = row_of(header, 1);
		bad += text_bad(header, row, "util", cases[i].util == NULL ? share : cases[i].util);
		bad += cell_bad(header, row, "size", info->reg_size);
		bad += cell_bad(header, row, "allocated", info->reg_size * cases[i].regs);
		bad += cell_bad(header, row, "nshards", info->n_shards);
		bad += cell_bad(header, row, "regs", info->nregs);
		bad += cell_bad(header, row, "pgs", info->slab_size / PAGE);
#define LOOK(name, type, says) bad += cell_bad(header, row, #name, want.name);
		BIN_STATS_FIELDS(LOOK)
#undef LOOK
	}
	is_uint(bad, 0, "bins: each cell is below its title");
	mutex_lock(&bin->mtx);
	memset(&bin->stats, 0, sizeof(bin->stats));
	mutex_unlock(&bin->mtx);
}

static void
test_large_columns(void) {
	unsigned bad = 0;
	size_t size = 0, len = sizeof(size);
	refresh();
	print("m");
	const char *header = line_of("large:          size"), *row = row_of(header, SC_NBINS + 2);
	is_int(ctl_byname("arenas.lextent.2.size", &size, &len, NULL, 0), 0, "the size of the class");
	bad += cell_bad(header, row, "size", size);
	bad += cell_bad(header, row, "allocated", size * node("lextents.2.", "curlextents"));
#define LOOK(name, type, says) bad += cell_bad(header, row, #name, node("lextents.2.", #name));
	LARGE_STATS_FIELDS(LOOK)
#undef LOOK
	is_uint(bad, 0, "large classes: each cell is below its title");
}

/* The title of a field in the table of small, large and all objects. */
static const char *
group_title(const char *name) {
	return strcmp(name, "nfills") == 0 ? "nfill" : strcmp(name, "nflushes") == 0 ? "nflush" : name;
}

static void
test_group_columns(void) {
	arena_t *a = arenas_get(ind);
	bin_t *bin = arena_bin(a, 1, 0);
	unsigned bad = 0;
	int flags = MALLOCX_ARENA((int)ind) | MALLOCX_TCACHE_NONE;
	void *p = mallocx(SC_LARGE_MINCLASS, flags);
	mutex_lock(&bin->mtx);
	number = 0;
#define MOVE(name, type, says) bin->stats.name = (type)NEXT;
	BIN_STATS_FIELDS(MOVE)
#undef MOVE
	mutex_unlock(&bin->mtx);
	refresh();
	print("m");
	dallocx(p, flags);
	const char *small = line_of("small:"), *large = next_line(small), *total = next_line(large);
	const char *header = line_of("allocated");
	ok(strncmp(large, "large:", 6) == 0 && strncmp(total, "total:", 6) == 0, "three rows");
#define LOOK(name, type, says) do { \
	uint64_t s = node("small.", #name), l = node("large.", #name); \
	const char *title = group_title(#name); \
	bad += wrong(s == 0 || l == 0, "no number", #name); \
	bad += cell_bad(header, small, title, s) + cell_bad(header, large, title, l); \
	bad += cell_bad(header, total, title, s + l); \
} while (0);
	CLASS_STATS_FIELDS(LOOK)
#undef LOOK
	is_uint(bad, 0, "groups: each cell is below its title, and the last row is the sum");
	mutex_lock(&bin->mtx);
	memset(&bin->stats, 0, sizeof(bin->stats));
	mutex_unlock(&bin->mtx);
}

static void
decay_set(const char *which, ssize_t ms) {
	char path[64];
	snprintf(path, sizeof(path), "arena.%u.%s_decay_ms", ind, which);
	is_int(ctl_byname(path, NULL, NULL, &ms, sizeof(ms)), 0, "%s: %zd", path, ms);
}

/*
 * The rows of unused pages, of which some are dirty, some muzzy and some retained. The end of the
 * arena frees the rest.
 */
static void
test_page_columns(void) {
	enum { N = 8 };
	size_t size = 5 * SC_LARGE_MINCLASS;
	int flags = MALLOCX_ARENA((int)ind) | MALLOCX_TCACHE_NONE;
	void *p[N];
	unsigned bad = 0, nmixed = 0;
	for (int i = 0; i < N; i++) {
		p[i] = mallocx(size, flags);
	}
	decay_set("dirty", 0);
	decay_set("muzzy", 0);
	dallocx(p[1], flags);
	decay_set("muzzy", -1);
	dallocx(p[3], flags);
	decay_set("dirty", 54321);
	dallocx(p[5], flags);
	refresh();
	print("m");
	const char *header = line_of("decaying:");
	const char *dirty = next_line(header), *muzzy = next_line(dirty);
	bad += cell_bad(header, dirty, "time", 54321) + text_bad(header, muzzy, "time", "N/A");
	bad += wrong(node("", "pdirty") == 0 || node("", "pmuzzy") == 0, "no pages", "unused");
	bad += cell_bad(header, dirty, "npages", node("", "pdirty"));
	bad += cell_bad(header, muzzy, "npages", node("", "pmuzzy"));
	bad += cell_bad(header, dirty, "sweeps", node("", "dirty_npurge"));
	bad += cell_bad(header, muzzy, "sweeps", node("", "muzzy_npurge"));
	bad += cell_bad(header, dirty, "madvises", node("", "dirty_nmadvise"));
	bad += cell_bad(header, muzzy, "madvises", node("", "muzzy_nmadvise"));
	bad += cell_bad(header, dirty, "purged", node("", "dirty_purged"));
	bad += cell_bad(header, muzzy, "purged", node("", "muzzy_purged"));
	header = line_of("extents:");
	for (unsigned i = 0; i < SC_NPSIZES; i++) {
		char room[32];
		snprintf(room, sizeof(room), "extents.%u.", i);
		const char *row = row_of(header, i);
		uint64_t n = node(room, "ndirty") + node(room, "nmuzzy") + node(room, "nretained");
		bad += wrong((*row != '\0') != (n > 0), "row of extents", room);
		if (n == 0) {
			continue;
		}
		nmixed += (node(room, "ndirty") != 0) + (node(room, "nmuzzy") != 0) >= 2;
		bad += cell_bad(header, row, "size", sz_pind2sz(i)) + cell_bad(header, row, "ntotal", n);
		bad += cell_bad(header, row, "total", node(room, "dirty_bytes") + node(room, "muzzy_bytes")
		    + node(room, "retained_bytes"));
#define LOOK(name, title) bad += cell_bad(header, row, title, node(room, name));
		LOOK("ndirty", "ndirty") LOOK("nmuzzy", "nmuzzy") LOOK("nretained", "nretained")
		LOOK("dirty_bytes", "dirty") LOOK("muzzy_bytes", "muzzy")
		LOOK("retained_bytes", "retained")
#undef LOOK
	}
	ok(nmixed > 0, "a class has dirty and muzzy extents");
	is_uint(bad, 0, "pages: each cell is below its title");
	decay_set("muzzy", 0);
	print("m");
	header = line_of("decaying:");
	is_uint(cell_bad(header, next_line(next_line(header)), "time", 0), 0, "a time of 0");
}

static void
test_reset(void) {
	char path[64];
	unsigned again = 0;
	size_t size = sizeof(again);
	unsigned bad = 0;
	snprintf(path, sizeof(path), "arena.%u.destroy", ind);
	is_int(ctl_byname(path, NULL, NULL, NULL, 0), 0, "the arena is destroyed");
	is_int(ctl_byname("arenas.create", &again, &size, NULL, 0), 0, "and made again");
	is_uint(again, ind, "with its old number");
	refresh();
#define LOOK(name, type, says) bad += wrong(node("lextents.2.", #name) != 0, "lextents", #name);
	LARGE_STATS_FIELDS(LOOK)
#undef LOOK
#define LOOK(name, type, says) \
	bad += wrong(node("large.", #name) != 0 || node("small.", #name) != 0, "classes", #name);
	CLASS_STATS_FIELDS(LOOK)
#undef LOOK
	is_uint(bad, 0, "its statistics begin at zero");
}

int
main(void) {
	size_t size = sizeof(ind);
	free(malloc(1));
	if (!config_stats) {
		plan_skip_all("no statistics in this build");
	}
	is_int(ctl_byname("arenas.create", &ind, &size, NULL, 0), 0, "an arena of its own");
	test_bins();
	test_large();
	test_mutexes();
	is_str(ctl_str("stats.arenas.4096.dss"), "N/A", "all arenas have no one way to memory");
	is_int(ctl_ssize("stats.arenas.4096.dirty_decay_ms"), -1, "no one decay time of dirty pages");
	is_int(ctl_ssize("stats.arenas.4096.muzzy_decay_ms"), -1, "nor of muzzy ones");
	test_places();
	test_rows();
	test_bin_columns();
	test_large_columns();
	test_group_columns();
	test_page_columns();
	test_reset();
	return done_testing();
}
