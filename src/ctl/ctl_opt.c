/*
 * The directories config.* and opt.*: how the library was built, and the values of the options.
 * opt.* lists the rows of conf_table that are marked as readable (CONF_NODE), so no option is named
 * here. Options do not change after boot (except prof_unwind, one word, when a method of reading
 * stacks is selected), so no lock is needed. Called by ctl.c, the options through ctl_opt_name()
 * and so on, and by stats.c, which reads the options and the list of config.* directly.
 */
#include "conf/conf.h"
#include "conf/conf_table.h"
#include "ctl/ctl_rooms.h"

/* ------------------------------------------------------------------ opt */

const char *
ctl_opt_name(size_t i) {
	assert(i < conf_nrows);
	return (conf_rows[i].flags & CONF_NODE) != 0 ? conf_rows[i].key : "";
}

ctl_type_t
ctl_opt_type(size_t i) {
	assert(i < conf_nrows);
	unsigned type = conf_rows[i].type;
	return type == CONF_CUSTOM ? CTL_NONE : type == CONF_I64 ? CTL_U64
	    : type > CONF_TEXT ? CTL_STRING : (ctl_type_t)type;
}

int
ctl_opt_read(size_t i, ctl_value_t *out) {
	const conf_row_t *row = &conf_rows[i];
	if ((row->flags & CONF_NODE) == 0 || !conf_row_is_built(row)) {
		return ENOENT;
	}
	switch ((conf_type_t)row->type) {
	case CONF_LETTERS:
		out->s = row->addr;
		break;
	case CONF_ENUM:
		assert(row->words[*(unsigned *)row->addr] != NULL);
		out->s = row->words[*(unsigned *)row->addr];
		break;
	default:
		assert(row->type != CONF_CUSTOM);
		memcpy(out, row->addr, ctl_type_size(ctl_opt_type(i)));
		break;
	}
	return 0;
}

/* The option string of the source in CTL_ARG() (conf_source_text); ENOENT if there is none. */
static int
get_source(const ctl_call_t *call, ctl_value_t *out) {
	out->s = conf_source_text((conf_source_t)ctl_arg(call));
	return out->s == NULL ? ENOENT : 0;
}

static const ctl_node_t malloc_conf_nodes[] = {
	CTL_NODE_R("symlink", CTL_STRING, get_source, CTL_ARG(CONF_SOURCE_SYMLINK),
	    "the text of the symbolic link /etc/malloc.conf as it was read at start; ENOENT if there "
	    "was none"),
	CTL_NODE_R("env_var", CTL_STRING, get_source, CTL_ARG(CONF_SOURCE_ENV),
	    "the value of the environment variable MALLOC_CONF at start, its first 4095 bytes; ENOENT "
	    "if it was not set or was not to be read"),
	CTL_NODE_R("global_var", CTL_STRING, get_source, CTL_ARG(CONF_SOURCE_GLOBAL),
	    "the string that the program's variable malloc_conf points to; ENOENT if there is none"),
	CTL_NODE_R("global_var_2_conf_harder", CTL_STRING, get_source,
	    CTL_ARG(CONF_SOURCE_HARDER),
	    "the string that the program's variable malloc_conf_2_conf_harder points to; ENOENT if "
	    "there is none"),
};
static const ctl_node_t opt_nodes[] = {CTL_NODE_DIR("malloc_conf", malloc_conf_nodes)};

const ctl_node_t ctl_dir_opt = {
	.name = "opt",
	.kind = CTL_LIST,
	.children = opt_nodes,
	.nchildren = ARRAY_LEN(opt_nodes),
};

/* ------------------------------------------------------------------ config */

/* The members are the leaves of config.*. */
typedef struct {
	const char *malloc_conf;
	const char *prof_ext_version;
	bool cache_oblivious, debug, fill, lazy_lock, opt_safety_checks, prof, prof_libgcc,
	    prof_libunwind, prof_frameptr, prof_probes, stats, utrace, xmalloc;
} build_facts_t;

static const build_facts_t build_facts = {
	.malloc_conf = CONFIG_MALLOC_CONF,
	.prof_ext_version = PROF_EXT_VERSION,
	.cache_oblivious = CONFIG_CACHE_OBLIVIOUS,
	.debug = CONFIG_DEBUG,
	.fill = CONFIG_FILL,
	.lazy_lock = CONFIG_LAZY_LOCK,
	.opt_safety_checks = CONFIG_OPT_SAFETY_CHECKS,
	.prof = CONFIG_PROF,
	.prof_libgcc = CONFIG_PROF_LIBGCC,
	.prof_libunwind = CONFIG_PROF_LIBUNWIND,
	.prof_frameptr = CONFIG_PROF_FRAMEPTR,
	.prof_probes = CONFIG_PROF_PROBES,
	.stats = CONFIG_STATS,
	.utrace = CONFIG_UTRACE,
	.xmalloc = CONFIG_XMALLOC,
};

static const void *
base_build_facts(const ctl_node_t *dir UNUSED, const size_t *mib UNUSED) {
	return &build_facts;
}

#define FACT(member, type, says) CTL_FIELD(#member, build_facts_t, member, type, 0, says)

static const ctl_field_t config_fields[] = {
	FACT(cache_oblivious, boolean,
	    "large allocations may start at a random cache line"),
	FACT(debug, boolean,
	    "a build with --enable-debug: asserts, other defaults of some options"),
	FACT(fill, boolean,
	    "the options junk and zero are there"),
	FACT(lazy_lock, boolean,
	    "always false: locks are ready from the start"),
	FACT(malloc_conf, string,
	    "the option string given by --with-malloc-conf, empty if none was"),
	FACT(opt_safety_checks, boolean,
	    "a build with --enable-opt-safety-checks: more kinds of misuse are found"),
	FACT(prof, boolean,
	    "the heap profiler is built in"),
	FACT(prof_libgcc, boolean,
	    "stacks can be read with the unwinder of libgcc"),
	FACT(prof_libunwind, boolean,
	    "stacks can be read with libunwind"),
	FACT(prof_frameptr, boolean,
	    "stacks can be read by frame pointers and unwind tables"),
	FACT(prof_probes, boolean, NODE_EXPERIMENTAL
	    "the probes otel_memory:alloc and otel_memory:free are built in"),
	FACT(stats, boolean,
	    "statistics are built in"),
	FACT(utrace, boolean,
	    "the option utrace is there"),
	FACT(xmalloc, boolean,
	    "the option xmalloc is there"),
	FACT(prof_ext_version, string, NODE_STABLE
	    "version of the profiler's extensions, those names of ours that jemalloc does not have"),
};

const ctl_node_t ctl_dir_config = CTL_NODE_FIELDS("config", config_fields, base_build_facts, 0);
