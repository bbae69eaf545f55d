/*
 * Defines the table of arenas; arena_table.h has the contract, its functions are inline there. The
 * lower half is of the arenas that mallctl names, the upper one of their hidden arenas. Invariant:
 * an entry is NULL or points to an arena_t, which stays valid memory also after the arena was
 * destroyed and its entry became NULL; so readers need no lock. Only arenas.c writes entries. The
 * table is LARGE_BSS (apart from small variables), because its 64 KiB would spread those over more
 * pages.
 */
#include "arena/arena_table.h"

HIDDEN LARGE_BSS atomic_p_t arena_table[ARENA_TABLE_SIZE];
