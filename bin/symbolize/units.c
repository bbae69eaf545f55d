/*
 * Finds the unit (compilation unit of DWARF) that contains each address: first by the table
 * .debug_aranges, then, for addresses that it lacks, by the ranges of one unit after another until
 * all are found, no unit is left or one is damaged. Precondition: the queries are sorted by
 * address, and their units are 0. No locks. Called by walk.c, and query_at by scopes.c.
 */
#include "symbolize.h"

size_t
query_at(const query_t *queries, size_t count, Dwarf_Addr address) {
	size_t low = 0;

	while (low < count) {
		size_t middle = low + (count - low) / 2;

		if (queries[middle].address < address)
			low = middle + 1;
		else
			count = middle;
	}
	return low;
}

/* Sets the units that .debug_aranges gives; returns of how many queries. */
static size_t
units_by_table(object_t *object, query_t *queries, size_t count) {
	Dwarf_Aranges *table;
	size_t entries, found = 0;
	Dwarf_Addr start;

	if (dwarf_getaranges(object->dwarf, &table, &entries) != 0)
		return 0;
	for (size_t i = 0; i < count; i++) {
		Dwarf_Arange *range = dwarf_getarange_addr(table, queries[i].address);

		if (range != NULL && dwarf_getarangeinfo(range, &start, NULL, NULL) == 0
		    && !object_is_discarded(object, start)
		    && dwarf_getarangeinfo(range, NULL, NULL, &queries[i].unit) == 0)
			found++;
	}
	return found;
}

/* Gives the unit with this DIE to the queries in its ranges that have none; returns to how many. */
static size_t
unit_claim(const object_t *object, Dwarf_Die *die, query_t *queries, size_t count) {
	Dwarf_Addr base, start, end;
	size_t found = 0;

	for (ptrdiff_t at = 0; (at = dwarf_ranges(die, at, &base, &start, &end)) > 0;) {
		if (object_is_discarded(object, start))
			continue;
		for (size_t i = query_at(queries, count, start); i < count && queries[i].address < end;
		    i++) {
			if (queries[i].unit == 0) {
				queries[i].unit = dwarf_dieoffset(die);
				found++;
			}
		}
	}
	return found;
}

void
units_find(object_t *object, query_t *queries, size_t count) {
	size_t found = units_by_table(object, queries, count), header;
	Dwarf_Off next;

	for (Dwarf_Off at = 0; found < count && dwarf_nextcu(object->dwarf, at, &next, &header, NULL,
	    NULL, NULL) == 0; at = next) {
		Dwarf_Die die;

		if (dwarf_offdie(object->dwarf, at + header, &die) != NULL)
			found += unit_claim(object, &die, queries, count);
	}
}
