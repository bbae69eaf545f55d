/* The table of arenas; see arena_table.h. */
#include "arena/arena_table.h"

HIDDEN LARGE_BSS atomic_p_t arena_table[ARENA_TABLE_SIZE];
