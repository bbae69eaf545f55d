/*
 * Defines the table of arenas; arena_table.h has the contract, its functions are inline there.
 * Invariant: an entry is NULL or a valid arena. Only arenas.c writes entries; readers need no lock.
 * The table is LARGE_BSS (apart from small variables), because its 64 KiB would spread those over
 * more pages.
 */
#include "arena/arena_table.h"

HIDDEN LARGE_BSS atomic_p_t arena_table[ARENA_TABLE_SIZE];
