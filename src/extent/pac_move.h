/*
 * Moving the pages of an extent into a longer one, for blocks that grow: mremap(2) takes some 20 ns
 * for each page, copying and touching a new one 20 times as long, and a block is never there twice.
 *
 * The pages keep the mapping that they came from, which does not join those beside it. So extents
 * with such pages are marked (is_moved), at most PAC_MOVED_MAX at a time, and are mapped anew when
 * they are purged: the number of mappings that the process has is limited by the system.
 * Called by large.c, inside the gate, with no lock held.
 */
#ifndef EXTENT_PAC_MOVE_H
#define EXTENT_PAC_MOVE_H

#include "extent/pac_types.h"

#define PAC_MOVED_MAX 4096u

/*
 * Returns a new active extent of size bytes, longer than e, which begins with the pages of e. e
 * belongs to the cache then. NULL: it is cheaper to copy, because there are enough unused pages, or
 * it is not possible; e is unchanged. alignment: of the new extent.
 */
edata_t *pac_try_move(pac_t *pac, edata_t *e, size_t size, size_t alignment);
/* Forgets that the system refused once; for tests. */
void pac_move_again(void);

#endif
