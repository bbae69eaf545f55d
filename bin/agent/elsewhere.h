/*
 * Memory of a process that does not come from malloc: interpreters and virtual machines have heaps
 * of their own, of which no profile of the library says anything. The rule, the heaps and the words
 * are those of jeprof (bin/page/heaps.txt). Used by watch.c and pages.c.
 */
#pragma once
#include "table.h"

/*
 * Whether much of the resident memory is not the allocator's: resident memory is more than
 * page_heap_times what the allocator has of it, and by more than page_heap_more bytes.
 */
bool is_elsewhere(const figures_t *f);

/*
 * Sets f->rss_shared and, if `may_search`, f->heap is 0 and it can be told, f->heap: whose heap it
 * may be. Reads files of the process, which may block; exe is the path of its program.
 */
void elsewhere_look(int pid, const char *exe, bool may_search, figures_t *f);

/* How much is elsewhere, and whose heap that may be. For a process that is_elsewhere(). */
void elsewhere_sentence(text_t *t, const figures_t *f);
