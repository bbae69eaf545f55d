/*
 * Makes doc/jemalloc.3: copies a page from standard input to standard output and puts, for the lines
 * "@options@", "@profiler options@" and "@nodes@", what the library's own tables hold.  No name of an
 * option or node stands in the page but by these tables, or in words around them.
 *
 * Run by "make manual" with the library's objects, the tables compiled once more with MANUAL_TEXTS
 * (util/manual.h).  The page lies in the source tree, so a cross build installs it without running
 * anything; test/demo/manual.t sees that it is the one that the tables give.
 */
#include <stdio.h>
#include <stdlib.h>

#include "conf/conf_table.h"
#include "ctl/node.h"
#include "util/compiler.h"
#include "util/fxp.h"

#ifndef MANUAL_TEXTS
#error "to be compiled with MANUAL_TEXTS"
#endif

#define NAME_MAX_BYTES 256

/* ------------------------------------------------------------------ text for troff */

static void
fail(const char *what, const char *name) {
	fprintf(stderr, "manual: %s: %s\n", name, what);
	exit(1);
}

/* A minus, a backslash and a leading dot or quote mean themselves; lines may break after a comma of a name. */
static void
put(const char *text, bool is_name) {
	for (const char *c = text; *c != '\0'; c++) {
		if (*c == '-' || *c == '\\') {
			fputs(*c == '-' ? "\\-" : "\\e", stdout);
		} else if (*c == '\n') {
			fail("line break in a text", text);
		} else {
			putchar(*c);
		}
		if (is_name && *c == ',') {
			fputs("\\:", stdout);
		}
	}
}

/* What the mark of a row promises, doc/STABILITY.md. */
static void
put_mark(bool is_stable) {
	printf("Not in jemalloc; %s.\n", is_stable ? "stable" : "experimental");
}

/* The text of a row as a sentence, and its mark (NODE_STABLE) behind it. */
static void
put_sentence(const char *name, const char *text) {
	if (text == NULL || text[0] == '\0') {
		fail("no text for the manual", name);
	}
	if (text[0] == NODE_STABLE[0] || text[0] == NODE_EXPERIMENTAL[0]) {
		put_sentence(name, text + 1);
		put_mark(text[0] == NODE_STABLE[0]);
		return;
	}
	char *copy = strdup(text);
	if (copy[0] >= 'a' && copy[0] <= 'z' && strncmp(copy, "lo-hi", 5) != 0 && strncmp(copy, "void ", 5) != 0) {
		copy[0] = (char)(copy[0] - 'a' + 'A');
	}
	fputs("\\&", stdout);
	put(copy, false);
	puts(copy[strlen(copy) - 1] == '.' ? "" : ".");
	free(copy);
}

/* ------------------------------------------------------------------ options */

static const char *
row_placeholder(const conf_row_t *row) {
	static const char *const of[] = {
		[CONF_BOOL] = "bool", [CONF_UNSIGNED] = "number", [CONF_SIZE] = "number",
		[CONF_SSIZE] = "number", [CONF_U64] = "number", [CONF_I64] = "number",
		[CONF_FXP] = "decimal", [CONF_WORD] = "word", [CONF_ENUM] = "word",
		[CONF_LETTERS] = "letters", [CONF_TEXT] = "text", [CONF_CUSTOM] = "ranges",
	};
	if ((row->flags & CONF_NAMES) != 0) {
		return "names";
	}
	return (row->flags & CONF_OCTAL) != 0 ? "octal" : (row->flags & CONF_RANGES) == 0 &&
	    row->type == CONF_CUSTOM ? "number" : of[row->type];
}

/* "Outside: refused", or what becomes of the value. */
static const char *
row_outside(const conf_row_t *row) {
	switch (row->flags & CONF_CLIP) {
	case CONF_CLIP:
		return "a value outside becomes the nearer end";
	case CONF_CLIP_MIN:
		return "a smaller value becomes the least, a larger one is refused";
	case CONF_CLIP_MAX:
		return "a larger value becomes the largest, a smaller one is refused";
	default:
		return "a value outside is refused";
	}
}

static void
put_range(const conf_row_t *row, uint64_t unbounded) {
	bool is_octal = (row->flags & CONF_OCTAL) != 0;
	if (row->max >= unbounded) {
		printf("A number, at least %s%lld", row->min < 0 ? "\\" : "", (long long)row->min);
	} else {
		printf(is_octal ? "An octal number from %s%llo to %llo" : "A number from %s%lld to %llu",
		    row->min < 0 ? "\\" : "", (long long)row->min, (unsigned long long)row->max);
	}
	if ((row->flags & CONF_SUFFIX) != 0) {
		fputs(", which may end in K, M or G (powers of 1024)", stdout);
	}
	if (row->max < unbounded || row->min != 0) {
		printf("; %s", row_outside(row));
	}
	puts(".");
}

static void
put_words(const conf_row_t *row) {
	fputs("One of", stdout);
	for (size_t i = 0; row->words[i] != NULL; i++) {
		if (strchr(row->words[i], ' ') == NULL) {
			printf("%s %s", i == 0 ? "" : ",", row->words[i]);
		}
	}
	puts((row->flags & CONF_PREFIX_WORD) != 0 ? "; a word may be cut short." : ".");
}

static void
put_accepted(const conf_row_t *row) {
	switch ((conf_type_t)row->type) {
	case CONF_BOOL:
		break;
	case CONF_WORD:
	case CONF_ENUM:
		put_words(row);
		break;
	case CONF_LETTERS:
		printf("Any of the letters %s; other ones are passed over.\n", row->words[0]);
		break;
	case CONF_TEXT:
		printf("At most %llu bytes.\n", (unsigned long long)row->max - 1);
		break;
	case CONF_FXP:
		puts("A decimal number below 65536.");
		break;
	case CONF_CUSTOM:
		if ((row->flags & CONF_RATIO) != 0) {
			puts("A decimal number from 0 to 1.");
		} else if ((row->flags & (CONF_RANGES | CONF_NAMES)) == 0) {
			put_range(row, INT64_MAX);
		}
		break;
	case CONF_UNSIGNED:
		put_range(row, UINT32_MAX);
		break;
	case CONF_SIZE:
	case CONF_SSIZE:
	case CONF_U64:
	case CONF_I64:
		put_range(row, INT64_MAX);
		break;
	}
}

static void
put_default_number(const conf_row_t *row) {
	uint64_t n = 0;
	memcpy(&n, row->addr, row->type == CONF_UNSIGNED ? sizeof(unsigned) : sizeof(n));
	if (row->type == CONF_SSIZE || row->type == CONF_I64) {
		char text[32];
		snprintf(text, sizeof(text), "%lld", (long long)n);
		put(text, false);
	} else {
		printf((row->flags & CONF_OCTAL) != 0 ? "%llo" : "%llu", (unsigned long long)n);
	}
}

static void
put_default(const conf_row_t *row) {
	fputs("Default: ", stdout);
	if (row->initially != NULL) {
		put(row->initially, false);
		puts(".");
		return;
	}
	switch ((conf_type_t)row->type) {
	case CONF_BOOL:
		fputs(*(bool *)row->addr ? "true" : "false", stdout);
		break;
	case CONF_WORD:
		fputs(*(const char **)row->addr, stdout);
		break;
	case CONF_ENUM:
		fputs(row->words[*(unsigned *)row->addr], stdout);
		break;
	case CONF_TEXT:
		put(**(const char **)row->addr == '\0' ? "empty" : *(const char **)row->addr, false);
		break;
	case CONF_LETTERS:
		put(*(char *)row->addr == '\0' ? "empty" : row->addr, false);
		break;
	case CONF_FXP:
		printf("%g", *(fxp_t *)row->addr / 65536.0);
		break;
	case CONF_CUSTOM:
		fail("no default", row->key);
		break;
	default:
		put_default_number(row);
		break;
	}
	puts(".");
}

static void
put_row(const conf_row_t *row) {
	printf(".TP\n\\fB%s:\\fR\\fI%s\\fR\n", row->key, row_placeholder(row));
	put_sentence(row->key, row->help);
	put_accepted(row);
	put_default(row);
	if ((row->flags & CONF_NODE) == 0) {
		puts("No node shows it.");
	}
	if ((row->flags & (CONF_STABLE | CONF_EXPERIMENTAL)) != 0) {
		put_mark((row->flags & CONF_STABLE) != 0);
	}
	if (row->live != NULL) {
		printf("While running: \\fB%s\\fR.\n", row->live);
	}
	/* The section of the profiler says it once for all of its rows. */
	if (row->feature != CONF_NEEDS_PROF && conf_row_build(row) != NULL) {
		put(conf_row_build(row), false);
		putchar('\n');
	}
}

static void
put_options(bool of_profiler) {
	for (size_t i = 0; i < conf_nrows; i++) {
		const conf_row_t *row = &conf_rows[i];
		bool is_there = row->feature != CONF_RETIRED;
		bool is_profilers = row->feature == CONF_NEEDS_PROF || row->feature == CONF_NEEDS_PROBES;
		if (is_there && is_profilers == of_profiler) {
			put_row(row);
		}
	}
}

/* ------------------------------------------------------------------ nodes */

static const char *
type_name(ctl_type_t type) {
	static const char *const of[CTL_NTYPES] = {
		[CTL_BOOL] = "bool", [CTL_UNSIGNED] = "unsigned", [CTL_U32] = "uint32_t",
		[CTL_U64] = "uint64_t", [CTL_SIZE] = "size_t", [CTL_SSIZE] = "ssize_t",
		[CTL_STRING] = "const char *", [CTL_POINTER] = "pointer", [CTL_BYTES] = "struct",
	};
	assert(type < CTL_NTYPES && of[type] != NULL);
	return of[type];
}

static void
put_takes(const ctl_node_t *leaf) {
	static const char *const access[] = {[CTL_R] = "r-", [CTL_W] = "-w", [CTL_RW] = "rw"};
	char text[64];
	if (leaf->access == CTL_RAW) {
		put(leaf->takes, false);
	} else if (leaf->access == CTL_ACT) {
		put("nothing, --", false);
	} else {
		snprintf(text, sizeof(text), "%s, %s", type_name((ctl_type_t)leaf->type),
		    access[leaf->access]);
		put(text, false);
	}
}

static void
put_conditions(unsigned flags) {
	if ((flags & CTL_IF_BOOTED) != 0) {
		puts("ENOENT before the profiler runs.");
	}
	if ((flags & CTL_NEED_NEW) != 0) {
		puts("EINVAL without newp.");
	}
}

static void
put_name(const char *name) {
	fputs(".TP\n\\fB", stdout);
	put(name, true);
	fputs("\\fR (", stdout);
}

static void
put_leaf(const char *name, const ctl_node_t *leaf) {
	put_name(name);
	put_takes(leaf);
	puts(")");
	put_sentence(name, leaf->text);
	put_conditions(leaf->flags);
}

static void
put_fields(const char *name, const ctl_node_t *dir) {
	char full[NAME_MAX_BYTES];
	for (unsigned i = 0; i < dir->nfields; i++) {
		const ctl_field_t *f = &dir->fields[i];
		snprintf(full, sizeof(full), "%s.%s", name, f->name);
		put_name(full);
		printf("%s, r\\-)\n", type_name((ctl_type_t)f->type));
		put_sentence(full, f->text);
	}
}

/* Directories with the same fields: one entry for each, names in braces; the first one explains them. */
static void
put_same_fields(const char *name, const ctl_node_t *dir) {
	static const ctl_field_t *explained[8];
	unsigned seen = 0;
	printf(".TP\n\\fB%s.{\\:", name);
	for (unsigned i = 0; i < dir->nfields; i++) {
		printf("%s%s", i == 0 ? "" : ",\\:", dir->fields[i].name);
	}
	puts("}\\fR");
	put_sentence(name, dir->text);
	while (explained[seen] != NULL && explained[seen] != dir->fields) {
		seen++;
	}
	if (explained[seen] == dir->fields) {
		return;
	}
	assert(seen + 1 < ARRAY_LEN(explained));
	explained[seen] = dir->fields;
	puts(".RS");
	for (unsigned i = 0; i < dir->nfields; i++) {
		const ctl_field_t *f = &dir->fields[i];
		printf(".TP\n%s (%s, r\\-)\n", f->name, type_name((ctl_type_t)f->type));
		put_sentence(f->name, f->text);
	}
	puts(".RE");
}

static void put_node(const char *name, const ctl_node_t *node, unsigned nindices);

static void
put_children(const char *name, const ctl_node_t *dir, unsigned nindices) {
	char full[NAME_MAX_BYTES];
	for (unsigned i = 0; i < dir->nchildren; i++) {
		snprintf(full, sizeof(full), "%s.%s", name, dir->children[i].name);
		put_node(full, &dir->children[i], nindices);
	}
}

static void
put_node(const char *name, const ctl_node_t *node, unsigned nindices) {
	static const char *const index[] = {"<i>", "<j>"};
	char full[NAME_MAX_BYTES];
	switch ((ctl_kind_t)node->kind) {
	case CTL_LEAF:
		put_leaf(name, node);
		break;
	case CTL_INDEX:
		assert(nindices < ARRAY_LEN(index));
		snprintf(full, sizeof(full), "%s.%s", name, index[nindices]);
		put_node(full, &node->children[0], nindices + 1);
		break;
	case CTL_DIR:
		if (node->text != NULL) {
			put_same_fields(name, node);
		} else {
			put_fields(name, node);
		}
		put_children(name, node, nindices);
		break;
	case CTL_LIST: /* its items are the options */
		printf(".TP\n\\fB%s.\\fR\\fIoption\\fR (of the option's type, r\\-)\n", name);
		puts("What the option came out as; see section OPTIONS.");
		put_children(name, node, nindices);
		break;
	case CTL_ROOT:
		fail("a root inside", name);
		break;
	}
}

static void
put_nodes(void) {
	for (unsigned i = 0; i < ctl_root.nchildren; i++) {
		const ctl_node_t *room = ctl_root.rooms[i];
		bool is_leaf = room->kind == CTL_LEAF;
		if (i == 0 || !is_leaf || ctl_root.rooms[i - 1]->kind != CTL_LEAF) {
			printf(".SS %s%s\n", is_leaf ? "At the root" : room->name, is_leaf ? "" : ".*");
		}
		put_node(room->name, room, 0);
	}
}

/* ------------------------------------------------------------------ the page */

int
main(void) {
	char line[4096];
	while (fgets(line, sizeof(line), stdin) != NULL) {
		if (strcmp(line, "@options@\n") == 0) {
			put_options(false);
		} else if (strcmp(line, "@profiler options@\n") == 0) {
			put_options(true);
		} else if (strcmp(line, "@nodes@\n") == 0) {
			put_nodes();
		} else {
			fputs(line, stdout);
		}
	}
	return ferror(stdin) || fflush(stdout) != 0 || ferror(stdout);
}
