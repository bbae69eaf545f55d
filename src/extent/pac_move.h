/*
 * Moving the pages of an extent into a longer one, for blocks that grow: mremap(2) costs a small
 * part of what it costs to touch new pages and copy, and what moves is never in memory twice.
 *
 * The kernel does not join a mapping of moved pages with the mappings beside it, and it limits the
 * number of mappings of a process. So extents with such pages are marked (is_moved), no move begins
 * while there are PAC_MOVED_MAX of them in the process (splits can make a few more), and they are
 * mapped anew when they are purged. Called by large.c, inside the gate (os/gate.h: fork waits
 * meanwhile), with no lock held.
 */
#pragma once

#include "extent/pac_types.h"

#define PAC_MOVED_MAX 4096u /* extents with is_moved in the process, about */

/*
 * Returns a new active extent of size bytes, longer than e, which begins with the contents of e;
 * its is_zeroed is true and means only what follows them. e belongs to the cache then. NULL: it is
 * cheaper to copy, because there are enough unused pages, or it is not possible. Then e is still
 * the caller's, with the same contents, but huge pieces in it may be broken (piece.h). e is no slab
 * and has no record of a sample. size: whole pages; alignment: of the new extent, in bytes.
 */
edata_t *pac_try_move(pac_t *pac, edata_t *e, size_t size, size_t alignment);
/* Allows moves again after the system has refused one; for tests. */
void pac_move_again(void);
