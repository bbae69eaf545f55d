/*
 * The parts of the page of a process and the list of heaps: constants of page_parts.c, which
 * scripts/join-page generates from bin/page/ (it says what each part is). "jeprof report" uses the
 * same files. Used by page.c (parts) and elsewhere.c (heaps).
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

extern const unsigned char page_model[], page_live[], page_style[], page_body[];
extern const size_t page_model_size, page_live_size, page_style_size, page_body_size; /* bytes */

/*
 * A kind of program that has a heap beside malloc's, and how it is recognised (heaps.txt): by the
 * name of the program, of a mapped object, or of a section; NULL: not by this.
 */
typedef struct page_heap_s {
	const char *program, *object; /* extended regular expressions, for names without directory */
	const char *section;          /* name of a section of the program's file */
	const char *heap, *see;       /* whose heap it is, and how to look into it */
} page_heap_t;

extern const page_heap_t page_heaps[];
extern const size_t page_heaps_count;
/*
 * A process has memory elsewhere if its resident memory is more than page_heap_times what the
 * allocator has in memory, and by more than page_heap_more bytes.
 */
extern const uint64_t page_heap_times, page_heap_more;
