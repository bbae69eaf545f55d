/*
 * ctl: the rows of the tree keep what ctl.c relies on, also those whose index does not exist now;
 * which of them have flags.
 * The whole tree, node by node: names lead to MIBs and MIBs to the same node, every leaf keeps
 * the rules about lengths and access, nothing is written where something was refused; calls with
 * arbitrary MIBs and arguments.
 */
#include "test.h"

#include "conf/conf_table.h"
#include "ctl/ctl.h"
#include "ctl/ctl_rooms.h"
#include "ctl/ctl_snapshot.h"
#include "ctl/node.h"
#include "os/gate.h"
#include "prof/prof.h"

#define CANARY 0xc5

typedef struct {
	char name[256];
	size_t mib[CTL_MAX_DEPTH + 2];
	size_t depth;
} path_t;

static size_t nleaves;
static size_t nbad;
static unsigned char value[128];

static void
expect(bool good, const path_t *p, const char *what) {
	if (!good) {
		nbad++;
		diag("%s: %s", p->name, what);
	}
}

static int
read_len(const path_t *p, size_t *len) {
	memset(value, CANARY, sizeof(value));
	return ctl_bymib(p->mib, p->depth, value, len, NULL, 0);
}

static void
check_name(const path_t *p) {
	size_t mib[CTL_MAX_DEPTH + 2];
	size_t len = CTL_MAX_DEPTH + 2;

	expect(ctl_nametomib(p->name, mib, &len) == 0 && len == p->depth
	    && memcmp(mib, p->mib, len * sizeof(mib[0])) == 0, p, "name to MIB");
	memcpy(mib, p->mib, p->depth * sizeof(mib[0]));
	mib[p->depth] = 0;
	expect(ctl_bymib(mib, p->depth + 1, NULL, NULL, NULL, 0) == ENOENT, p, "MIB one too long");
}

/* A value that can be read: its length and no other. */
static void
check_reading(const path_t *p, size_t size) {
	size_t len = size;
	int err = read_len(p, &len);

	expect(err == 0 || err == ENOENT || err == EFAULT, p, "a read");
	if (err != 0)
		return;
	expect(len == size && is_filled(value + size, CANARY, sizeof(value) - size), p, "its length");
	for (size_t l = 0; l < size + 9; l++) {
		size_t least = l < size ? l : size;

		len = l;
		if (l != size) {
			expect(read_len(p, &len) == EINVAL && len == least
			    && is_filled(value + least, CANARY, sizeof(value) - least), p, "another length");
		}
	}
}

static void
check_read_only(const path_t *p) {
	uint64_t v[8] = {0};

	expect(ctl_bymib(p->mib, p->depth, NULL, NULL, v, 8) == EPERM, p, "a write");
	expect(ctl_bymib(p->mib, p->depth, NULL, NULL, NULL, 8) == EPERM, p, "a length to write");
}

static bool
is_refusal(int err) {
	return err == EINVAL || err == ENOENT || err == EFAULT || err == EPERM;
}

static void
check_leaf(const path_t *p, const ctl_node_t *leaf) {
	uint64_t v[8] = {0};
	size_t len = 8;
	size_t size = leaf->type == CTL_BYTES ? leaf->size : ctl_type_size((ctl_type_t)leaf->type);

	switch ((ctl_access_t)leaf->access) {
	case CTL_R:
		check_reading(p, size);
		if ((leaf->flags & ~(CTL_DIRECT | CTL_ARG(UINT16_MAX))) == 0)
			check_read_only(p);
		break;
	case CTL_RW:
		check_reading(p, size);
		for (size_t l = 0; l < 20; l++) {
			if (l != size)
				expect(is_refusal(ctl_bymib(p->mib, p->depth, NULL, NULL, v, l)), p,
				    "a write of another length");
		}
		break;
	case CTL_W:
		memset(value, CANARY, sizeof(value));
		expect(is_refusal(ctl_bymib(p->mib, p->depth, value, &len, NULL, 0))
		    && is_filled(value, CANARY, sizeof(value)), p, "a read of what can only be written");
		expect(is_refusal(ctl_bymib(p->mib, p->depth, NULL, NULL, v, size + 1)), p,
		    "a write of another length");
		break;
	case CTL_ACT:
		if ((leaf->flags & CTL_ANY_ARGS) != 0)
			break;
		expect(is_refusal(ctl_bymib(p->mib, p->depth, v, &len, NULL, 0))
		    && is_refusal(ctl_bymib(p->mib, p->depth, NULL, NULL, v, 8))
		    && is_refusal(ctl_bymib(p->mib, p->depth, NULL, NULL, NULL, 1)), p, "arguments");
		break;
	case CTL_RAW: {
		int err = ctl_bymib(p->mib, p->depth, NULL, NULL, NULL, 0);
		size_t answer = leaf->size, question = ctl_node_arg(leaf);
		expect(answer == 0 || is_refusal(err), p, "no question");
		expect(answer == 0 || is_refusal(ctl_bymib(p->mib, p->depth, v, &answer, v, question + 1)),
		    p, "a longer question");
		answer = leaf->size + 1;
		expect(leaf->size == 0 || is_refusal(ctl_bymib(p->mib, p->depth, v, &answer, v, question)),
		    p, "more room than the answer needs");
		break;
	}
	}
}

static void walk(const path_t *p, const ctl_node_t *node);

static path_t
below(const path_t *p, const char *name, size_t i) {
	path_t q = *p;

	snprintf(q.name + strlen(q.name), sizeof(q.name) - strlen(q.name), "%s%s",
	    p->depth > 0 ? "." : "", name);
	q.mib[q.depth++] = i;
	return q;
}

static void
walk_items(const path_t *p, const ctl_node_t *node) {
	size_t n = node->kind == CTL_DIR ? node->nfields
	    : node->kind == CTL_LIST ? conf_nrows : 0;

	for (size_t i = 0; i < n; i++) {
		bool is_field = node->kind == CTL_DIR;

		if (!is_field && ctl_opt_name(i)[0] == '\0')
			continue;
		path_t q = below(p, is_field ? node->fields[i].name : ctl_opt_name(i),
		    node->nchildren + i);

		nleaves++;
		check_name(&q);
		check_reading(&q, ctl_type_size(is_field ? (ctl_type_t)node->fields[i].type
		    : ctl_opt_type(i)));
		check_read_only(&q);
	}
}

static void
walk(const path_t *p, const ctl_node_t *node) {
	size_t len = 8;

	if (node->kind == CTL_LEAF) {
		nleaves++;
		check_name(p);
		check_leaf(p, node);
		expect(!gate_is_entered(tls_get()), p, "the gate is left");
		return;
	}
	expect(ctl_byname(p->name, value, &len, NULL, 0) == ENOENT, p, "a directory has no value");
	if (node->kind == CTL_INDEX) {
		path_t q = below(p, "0", 0);

		if (node->has(0))
			walk(&q, node->children);
		expect(!node->has(SIZE_MAX), p, "no such index");
		return;
	}
	for (size_t i = 0; i < node->nchildren; i++) {
		const ctl_node_t *child = node->kind == CTL_ROOT ? node->rooms[i] : &node->children[i];
		path_t q = below(p, child->name, i);

		walk(&q, child);
	}
	walk_items(p, node);
}

/* The flags that only some leaves have, and the names of these. Flags of conditions are below. */
static const struct {
	uint32_t flag;
	const char *leaves;
} flagged[] = {
	{CTL_NEED_NEW, " experimental.hooks.remove experimental.hooks.thread_event"
	    " experimental.prof_recent.alloc_dump tcache.destroy tcache.flush "},
	{CTL_NULL_NEW, " prof.dump prof.dump_delta prof.log_start prof.prefix prof.reset"
	    " prof.session.start prof.session.stop "},
	{CTL_AFTER, " arena.#.dss epoch "},
	{CTL_LOCKED, " arena.#.name epoch stats.mutexes.reset "},
	{CTL_OUTSIDE, " background_thread experimental.batch_alloc experimental.prof_recent.alloc_dump"
	    " max_background_threads prof.dump prof.dump_delta prof.log_start prof.log_stop prof.mark"
	    " prof.reset prof.session.start prof.session.stop prof.threshold.alloc"
	    " prof.threshold.highwater prof.threshold.highwater_step prof.threshold.large"
	    " prof.threshold.time_ms "},
	{CTL_IF_STATS, " experimental.arenas.#.pactivep stats.mutexes.reset stats.zero_reallocs"
	    " thread.peak.read thread.peak.reset "},
	{CTL_IF_BOOTED, " experimental.prof_recent.alloc_dump experimental.prof_recent.alloc_max"
	    " prof.dump prof.dump_delta prof.log_start prof.log_stop prof.mark prof.prefix prof.reset"
	    " prof.stats.bins.#.accum prof.stats.bins.#.live prof.stats.lextents.#.accum"
	    " prof.stats.lextents.#.live thread.prof.name "},
	{CTL_ANY_ARGS, " stats.mutexes.reset "},
};

static size_t nflagged[ARRAY_LEN(flagged)];

static void
check_flags(const path_t *p, const ctl_node_t *leaf) {
	char word[sizeof(p->name) + 2];

	snprintf(word, sizeof(word), " %s ", p->name);
	for (size_t i = 0; i < ARRAY_LEN(flagged); i++) {
		bool is_listed = strstr(flagged[i].leaves, word) != NULL;

		nflagged[i] += is_listed;
		expect(((leaf->flags & flagged[i].flag) != 0) == is_listed, p, "its flags");
	}
	expect(((leaf->flags & (CTL_IF_PROF | CTL_IF_BOOTED)) != 0)
	    == (strstr(p->name, "prof") != NULL && strcmp(p->name, "config.prof") != 0), p,
	    "only what belongs to the profiler is not there without it");
}

static bool
is_leaf_sound(const ctl_node_t *leaf) {
	bool reads = leaf->access == CTL_R || leaf->access == CTL_RW || leaf->access == CTL_RAW;
	bool writes = leaf->access == CTL_W || leaf->access == CTL_RW || leaf->access == CTL_ACT;
	bool has_value = leaf->access != CTL_ACT && leaf->access != CTL_RAW;
	uint32_t both = CTL_NEED_NEW | CTL_NULL_NEW;
	bool good = (reads || writes) && (leaf->get != NULL) == reads && (leaf->set != NULL) == writes;

	good = good && ((leaf->flags & CTL_DIRECT) == 0 || ((leaf->access & ~CTL_RW) == 0
	    && (leaf->flags & CTL_NULL_NEW) == 0));
	good = good && leaf->type < CTL_NTYPES && (leaf->type != CTL_NONE) == has_value
	    && (leaf->access == CTL_RAW || (leaf->type == CTL_BYTES) == (leaf->size != 0));
	good = good && (leaf->size != 0 ? leaf->size : ctl_type_size((ctl_type_t)leaf->type))
	    <= sizeof(ctl_value_t);
	good = good && leaf->nchildren == 0 && leaf->nfields == 0;
	/* The lock of the snapshot is only taken inside the gate. */
	good = good && (leaf->flags & (CTL_LOCKED | CTL_OUTSIDE)) != (CTL_LOCKED | CTL_OUTSIDE);
	/* Without newp CTL_NEED_NEW refuses the call, but CTL_NULL_NEW calls set(). */
	return good && (leaf->flags & both) != both
	    && ((leaf->flags & CTL_AFTER) == 0 || leaf->access == CTL_RW);
}

/* Only list items may have an empty name, which is not found, or a longer one than a node. */
static bool
is_name_sound(const char *name, bool is_item) {
	return strchr(name, '.') == NULL
	    && (is_item || (name[0] != '\0' && strlen(name) < CTL_ENTRY_NAME_SIZE));
}

static void
check_rows(const path_t *above, const ctl_node_t *node, unsigned depth) {
	path_t p = depth < 2 ? (path_t){.depth = 0} : *above;

	if (depth > 0)
		p = below(&p, node->name[0] == '\0' ? "#" : node->name, 0);
	expect(depth <= CTL_MAX_DEPTH && node->kind <= CTL_LEAF, &p, "depth and kind");
	if (node->kind == CTL_LEAF) {
		expect(is_leaf_sound(node), &p, "the row of a leaf");
		check_flags(&p, node);
		return;
	}
	expect(node->nchildren + node->nfields + (node->kind == CTL_LIST) > 0, &p, "empty");
	expect(node->nfields == 0 || (node->kind == CTL_DIR && node->base != NULL), &p, "fields");
	expect(node->kind != CTL_INDEX || (node->nchildren == 1 && node->has != NULL), &p, "index");
	for (size_t i = 0; i < node->nfields; i++)
		expect(is_name_sound(node->fields[i].name, false)
		    && ctl_type_size((ctl_type_t)node->fields[i].type) > 0
		    && (node->fields[i].flags & ~CTL_IF_STATS) == 0, &p, "a field");
	for (size_t i = 0; node->kind == CTL_LIST && i < conf_nrows; i++)
		expect(is_name_sound(ctl_opt_name(i), true), &p, "an item");
	for (size_t i = 0; i < node->nchildren; i++) {
		const ctl_node_t *child = node->kind == CTL_ROOT ? node->rooms[i] : &node->children[i];

		expect(is_name_sound(child->name, node->kind == CTL_INDEX), &p, "a name");
		check_rows(&p, child, depth + 1);
	}
}

static void
test_tree(void) {
	path_t p = {.depth = 0};

	check_rows(&p, &ctl_root, 0);
	for (size_t i = 0; i < ARRAY_LEN(flagged); i++) {
		size_t nwords = 0;

		for (const char *s = flagged[i].leaves; *s != '\0'; s++)
			nwords += *s == ' ' && s[1] != '\0';
		is_uint(nflagged[i], nwords, "the leaves that have flag %#x", flagged[i].flag);
	}
	walk(&p, &ctl_root);
	is_uint(nbad, 0, "%zu leaves keep the rules", nleaves);
	ok(nleaves > 250, "there are that many");
}

static void
test_names(void) {
	static const char *const none[] = { "", ".", "stats.", "stats..active", ".stats", "opt.prof.x",
	    "version.0", "arena.0x0.initialized", "arena. 0.initialized", "arena.+0.initialized",
	    "arena.0a.initialized", "arena.18446744073709551616.initialized", "Stats.active",
	    "stats.arenas.4095.nthreads", "arenas.bin.999.size" };
	size_t len = 8, mib[8];
	bool good = true;

	for (size_t i = 0; i < ARRAY_LEN(none); i++) {
		len = 8;
		good = good && ctl_byname(none[i], value, &len, NULL, 0) == ENOENT;
	}
	ok(good, "names that lead nowhere");
	len = 2;
	is_int(ctl_nametomib("stats.arenas.0.nothing", mib, &len), 0, "no look behind the room");
	is_uint(len, 2, "that was given");
	len = 8;
	ok(ctl_byname(NULL, value, &len, NULL, 0) == EINVAL && ctl_nametomib(NULL, mib, &len) == EINVAL
	    && ctl_nametomib("epoch", NULL, &len) == EINVAL && ctl_nametomib("epoch", mib,
	    NULL) == EINVAL && ctl_bymib(NULL, 1, value, &len, NULL, 0) == EINVAL,
	    "NULL where something must be");
}

static void
test_writes(void) {
	ssize_t ms = -2, old = 5, now = 0;
	size_t len = sizeof(old);
	uint64_t epoch = 0, before = 0;

	ctl_byname("arenas.dirty_decay_ms", &before, &len, NULL, 0);
	is_int(ctl_byname("arenas.dirty_decay_ms", NULL, NULL, &ms, sizeof(ms)), EFAULT,
	    "no such time");
	ms = 777;
	is_int(ctl_byname("arenas.dirty_decay_ms", &old, &len, &ms, sizeof(ms)), 0, "read and write");
	is_int(old, (ssize_t)before, "the old value comes back");
	len = 3;
	ms = 778;
	is_int(ctl_byname("arenas.dirty_decay_ms", &old, &len, &ms, sizeof(ms)), EINVAL,
	    "a bad length");
	len = sizeof(now);
	ctl_byname("arenas.dirty_decay_ms", &now, &len, NULL, 0);
	is_int(now, 777, "of what is read writes nothing");
	ctl_byname("epoch", &before, &len, NULL, 0);
	is_int(ctl_byname("epoch", &epoch, &len, &epoch, sizeof(epoch)), 0, "epoch");
	is_uint(epoch, before + 1, "tells the new one");
}

/* Every struct of a name and its own list: sums over arenas are what the merged one says. */
static void
test_snapshot(void) {
	snapshot_t s = {.narenas = 0};
	uint64_t sum = 0;

	is_int(snapshot_take(&s), 0, "a snapshot of one's own");
	is_int(snapshot_take(&s), 0, "and once more into the same");
	for (unsigned i = 0; i < s.narenas; i++)
		sum += s.arenas[i] == NULL ? 0 : s.arenas[i]->stats.small.nmalloc;
	is_uint(s.merged->stats.small.nmalloc, sum, "merged is the sum");
	is_uint(s.global.allocated, s.merged->stats.small.allocated + s.merged->stats.large.allocated,
	    "allocated is small and large");
	snapshot_free(&s);
	ok(s.merged == NULL && s.arenas == NULL, "gone");
}

/* Both places hold zeros, so that what is taken for a pointer is NULL. */
static void
test_any_call(void) {
	uint64_t rng = 7;
	uint64_t zeros[16] = {0};
	size_t answered = 0, inside = 0;

	for (int i = 0; i < 300000; i++) {
		size_t mib[10], len = draw_below(&rng, 17), depth = draw_below(&rng, 10);
		static const size_t wild[] = {4096, 4097, SIZE_MAX, (size_t)1 << 32, UINT32_MAX};

		for (size_t k = 0; k < depth; k++) {
			mib[k] = draw_below(&rng, 40) == 0 ? wild[draw_below(&rng, 5)]
			    : draw_below(&rng, k == 0 ? 15 : 12);
		}
		memset(value, 0, sizeof(value));
		bool reads = draw_below(&rng, 2) == 0, writes = draw_below(&rng, 4) == 0;

		answered += ctl_bymib(mib, depth, reads ? value : NULL, draw_below(&rng, 3) != 0 ? &len
		    : NULL, writes ? zeros : NULL, writes ? draw_below(&rng, 33) : draw_below(&rng, 8) == 0)
		    == 0;
		inside += gate_is_entered(tls_get());
	}
	is_uint(inside, 0, "each call leaves the gate");
	ok(answered > 1000, "any MIB, any arguments: alive, %zu answers", answered);
	bool untouched = true;
	for (size_t i = 0; i < ARRAY_LEN(zeros); i++)
		untouched = untouched && zeros[i] == 0;
	ok(untouched, "what was passed in stays as it was");
}

/* With the profiler on, all leaves are there. */
static int
child_profiler(void) {
	size_t len = 8;

	is_int(ctl_byname("prof.log_stop", NULL, NULL, NULL, 0), config_prof ? EFAULT : ENOENT,
	    "a leaf that is only there then");
	is_int(ctl_byname("thread.prof.name", value, &len, NULL, 0), config_prof ? 0 : ENOENT,
	    "and another one");
	test_tree();
	return done_testing();
}

int
main(int argc, char **argv) {
	static const struct test_child children[] = {{"profiler", child_profiler}, {NULL, NULL}};
	static struct test_result r;

	test_children(argc, argv, children);
	run_child_conf(&r, "profiler", "prof:true,prof_active:false");
	child_exits(&r, 0, "all leaves once more with the profiler on");
	free(malloc(1));
	test_names();
	test_tree();
	test_writes();
	test_snapshot();
	test_any_call();
	free(malloc(100));
	return done_testing();
}
