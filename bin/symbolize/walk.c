/*
 * Answers all queries about one object whose DWARF is open: sorts them by address, finds the
 * compilation unit of each (units.c) and sorts them by unit. Then, for each unit, it finds the
 * scopes, which are the functions and inlined calls that contain the address (scopes.c), and
 * reports the frames (answer.c). Each unit is read once. Before each unit object_forget() drops the
 * pages of the file and object_renew() closes and reopens libdw. So the most memory is needed by
 * the largest unit or, before the first one, by the headers and first DIEs of all units, which
 * units_find() decodes; object.c lists what stays in memory all the time. Queries without a unit
 * get a frame without names. No locks. Called by main.c and tables.c.
 */
#include "symbolize.h"

#include <dwarf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

static int
by_address(const void *a, const void *b) {
	const query_t *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

static int
by_unit(const void *a, const void *b) {
	const query_t *x = a, *y = b;

	return x->unit < y->unit ? -1 : x->unit > y->unit ? 1 : by_address(a, b);
}

/* Notes that the .dwo which `unit` names is not there. */
static void
note_lost(object_t *object, Dwarf_Die *unit) {
	Dwarf_Attribute attribute;
	const char *name = NULL;

	if (dwarf_attr(unit, DW_AT_dwo_name, &attribute) != NULL
	    || dwarf_attr(unit, DW_AT_GNU_dwo_name, &attribute) != NULL)
		name = dwarf_formstring(&attribute);
	if (object->lost++ == 0)
		snprintf(object->lost_name, sizeof(object->lost_name), "%s", name != NULL ? name : "?");
}

/*
 * The DIE below which the functions of a unit are: of a split unit (-gsplit-dwarf) that in the
 * compiler's file, .dwo, which libdw opens by the path in `unit` and puts into *split; else, and
 * for files below another root, where that path means another file, `unit` itself.
 */
static Dwarf_Die *
unit_whole(object_t *object, Dwarf_Die *unit, Dwarf_Die *split) {
	uint8_t type;
	bool is_split = object->root == AT_FDCWD && dwarf_cu_info(unit->cu, NULL, &type, NULL, split,
	    NULL, NULL, NULL) == 0 && type == DW_UT_skeleton;

	if (is_split && split->cu == NULL)
		note_lost(object, unit);
	return is_split && split->cu != NULL ? split : unit;
}

/* Answers queries (at least one) that all have the same unit, or all none. */
static void
unit_answer(object_t *object, query_t *queries, size_t count, const answer_t *to) {
	Dwarf_Die unit, split, *whole = NULL;
	bool has_unit = queries[0].unit != 0 && dwarf_offdie(object->dwarf, queries[0].unit,
	    &unit) != NULL;

	if (has_unit) {
		whole = unit_whole(object, &unit, &split);
		scopes_find(object, whole, queries, count);
	}
	for (size_t i = 0; i < count; i++)
		answer_give(has_unit ? &unit : NULL, whole, &queries[i], to);
}

const char *
object_answer(object_t *object, query_t *queries, size_t count, const answer_t *to) {
	if (count == 0)
		return NULL; /* and queries may be NULL, which qsort() does not take */
	qsort(queries, count, sizeof(*queries), by_address);
	units_find(object, queries, count);
	qsort(queries, count, sizeof(*queries), by_unit);
	for (size_t from = 0, end; from < count; from = end) {
		for (end = from; end < count && queries[end].unit == queries[from].unit; end++)
			;
		object_forget(object);
		if (!object_renew(object))
			return dwarf_errmsg(-1);
		unit_answer(object, queries + from, end - from, to);
	}
	return NULL;
}
