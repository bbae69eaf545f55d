/*
 * The memory of the table of arenas; arena_table.h has the contract.
 * It starts zeroed and is filled by arenas.c under its lock; readers need none.
 * It lies in the section of large data (LARGE_BSS), apart from what is used often.
 */
#include "arena/arena_table.h"

HIDDEN LARGE_BSS atomic_p_t arena_table[ARENA_TABLE_SIZE];
