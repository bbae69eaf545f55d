/*
 * All addresses that are asked of an object, unit by unit: each unit is read once, whatever the order of the addresses, and then
 * forgotten, so that memory is that of the largest unit.
 * Called by main.c and table.c.
 */
#include "symbolize.h"

#include <stdlib.h>

enum { FRESH = 4 << 20 };	/* bytes of units after which libdw begins anew */

static int
by_address(const void *a, const void *b)
{
	const query_t *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

static int
by_unit(const void *a, const void *b)
{
	const query_t *x = a, *y = b;

	return x->unit < y->unit ? -1 : x->unit > y->unit ? 1 : by_address(a, b);
}

/* What a unit takes in the file, from its die. */
static size_t
unit_size(Dwarf *dwarf, Dwarf_Die *unit)
{
	Dwarf_Off start = dwarf_dieoffset(unit) - dwarf_cuoffset(unit), next;
	size_t header;

	if (dwarf_nextcu(dwarf, start, &next, &header, NULL, NULL, NULL) != 0)
		return FRESH;
	return (size_t)(next - start);
}

/* Answers for queries of one unit. */
static void
unit_answer(object_t *object, query_t *queries, size_t count, const answer_t *to)
{
	Dwarf_Die unit;
	bool has_unit = queries[0].unit != 0 && dwarf_offdie(object->dwarf, queries[0].unit, &unit) != NULL;

	if (has_unit)
		scopes_find(&unit, queries, count);
	for (size_t i = 0; i < count; i++)
		answer_give(object->dwarf, has_unit ? &unit : NULL, &queries[i], to);
	if (has_unit)
		object->weight += unit_size(object->dwarf, &unit);
}

const char *
object_answer(object_t *object, query_t *queries, size_t count, const answer_t *to)
{
	qsort(queries, count, sizeof(*queries), by_address);
	units_find(object, queries, count);
	qsort(queries, count, sizeof(*queries), by_unit);
	object->weight = FRESH;
	for (size_t from = 0, end; from < count; from = end) {
		for (end = from; end < count && queries[end].unit == queries[from].unit; end++)
			;
		if (object->weight >= FRESH) {
			object_forget(object);
			if (!object_renew(object))
				return dwarf_errmsg(-1);
		}
		unit_answer(object, queries + from, end - from, to);
	}
	return NULL;
}
