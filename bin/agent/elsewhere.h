/*
 * Memory of a process that does not come from malloc: interpreters and virtual machines have heaps
 * of their own, of which no profile of the library says anything. The rule, the heaps and the words
 * are those of jeprof (bin/page/heaps.txt). Used by watch.c and pages.c.
 */
#pragma once
#include "table.h"

/*
 * Whether much of the resident memory is not the allocator's: that of the process (rss) is more
 * than page_heap_times that of the allocator (fig_resident), and exceeds it by more than
 * page_heap_more bytes. False if fig_resident is not known.
 */
bool is_elsewhere(const figures_t *f);

/*
 * Sets f->rss_shared (0 if it cannot be read). If may_search and f->heap is 0, sets f->heap, 1 +
 * the index of the heap that it may be, if that can be told. Reads files of the process, which may
 * block; exe is the path of its program.
 */
void elsewhere_look(int pid, const char *exe, bool may_search, figures_t *f);

/* Adds how much is not malloc's and whose heap it may be, unquoted. Only if is_elsewhere(f). */
void elsewhere_sentence(text_t *t, const figures_t *f);
