/*
 * Finds the function that contains an address and the calls inlined there, by one walk through the
 * DIEs (DWARF entries) of a unit for all its addresses. The walk enters all namespaces, and those
 * functions and blocks that contain an address; it skips types and all other DIEs. So a function
 * that is nested in another, whose code lies outside of that, is not found. Invariant: the queries
 * belong to one unit and are sorted by address. No locks. Called by walk.c.
 */
#include "symbolize.h"

#include <dwarf.h>

enum { DEEPEST = 200 };		/* nested DIEs; a damaged file may have any number */

/* The queries of the unit, sorted by address. */
typedef struct {
	const object_t *object;
	query_t *queries;
	size_t count;
	Dwarf_Addr discarded_end;	/* greatest end of a discarded function, which begins at 0 or 1 */
} group_t;

/*
 * Whether the DIE contains the address of a query. If is_scope (a function or an inlined call, not
 * a block), it is added to each such query that has `level` scopes, those that enclose the DIE. So
 * it is added once even if its ranges overlap, and of two DIEs of one level that contain the
 * address only the first is. Scopes that do not fit into the query are left out. Ranges of
 * discarded code, which overlap those of real code, count for discarded_end only.
 */
static bool
die_try_match(Dwarf_Die *die, group_t *group, bool is_scope, unsigned level) {
	Dwarf_Addr base, start, end;
	bool holds = false;

	for (ptrdiff_t at = 0; (at = dwarf_ranges(die, at, &base, &start, &end)) > 0;) {
		if (object_is_discarded(group->object, start)) {
			group->discarded_end = end > group->discarded_end ? end : group->discarded_end;
			continue;
		}
		for (size_t i = query_at(group->queries, group->count, start); i < group->count
		    && group->queries[i].address < end; i++) {
			query_t *query = &group->queries[i];

			holds = true;
			if (is_scope && query->count == level
			    && level < sizeof(query->scopes) / sizeof(query->scopes[0]))
				query->scopes[query->count++] = dwarf_dieoffset(die);
		}
	}
	return holds;
}

/* Visits the children of `parent`, which `level` scopes enclose; depth: DIEs above `parent`. */
static void scope_walk(Dwarf_Die *parent, group_t *group, unsigned level, unsigned depth);

static void
die_visit(Dwarf_Die *die, group_t *group, unsigned level, unsigned depth) {
	switch (dwarf_tag(die)) {
	case DW_TAG_subprogram:
	case DW_TAG_inlined_subroutine:
		if (die_try_match(die, group, true, level))
			scope_walk(die, group, level + 1, depth + 1);
		break;
	case DW_TAG_lexical_block:
	case DW_TAG_try_block:
	case DW_TAG_catch_block:
		if (die_try_match(die, group, false, level))
			scope_walk(die, group, level, depth + 1);
		break;
	case DW_TAG_namespace:
	case DW_TAG_module:
		scope_walk(die, group, level, depth + 1);
		break;
	default:
		break;
	}
}

static void
scope_walk(Dwarf_Die *parent, group_t *group, unsigned level, unsigned depth) {
	Dwarf_Die die;

	if (depth > DEEPEST || dwarf_child(parent, &die) != 0)
		return;
	do {
		die_visit(&die, group, level, depth);
	} while (dwarf_siblingof(&die, &die) == 0);
}

void
scopes_find(const object_t *object, Dwarf_Die *unit, query_t *queries, size_t count) {
	group_t group = {object, queries, count, 0};

	scope_walk(unit, &group, 0, 0);
	for (size_t i = 0; i < count && queries[i].address < group.discarded_end; i++)
		queries[i].is_row_unsure = true;
}
