/*
 * The parts of the page of a process and the list of heaps: constants of page_parts.c, which
 * scripts/join-page generates from bin/page/. "jeprof report" uses the same files. Used by page.c
 * (parts) and elsewhere.c (heaps).
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

/*
 * Two scripts (page_model adds up profiles; page_live fetches and draws them), the CSS (page_style)
 * and the HTML (page_body). No NUL ends them: use the sizes.
 */
extern const unsigned char page_model[], page_live[], page_style[], page_body[];
extern const size_t page_model_size, page_live_size, page_style_size, page_body_size; /* bytes */

/*
 * A kind of program that has a heap of its own beside malloc's, and by which signs it is recognised
 * (heaps.txt): the name of the program, of a mapped object, or of a section. Any one of them is
 * enough; NULL: it has no such sign.
 */
typedef struct page_heap_s {
	/* extended regular expressions (regcomp), for the last part of a path, behind its last '/' */
	const char *program, *object;
	const char *section;          /* name of a section of the program's file */
	const char *heap, *see;       /* for people: whose heap it is, and how to look into it */
} page_heap_t;

extern const page_heap_t page_heaps[];
extern const size_t page_heaps_count;
/*
 * A process has much memory beside malloc's if its resident memory is more than page_heap_times
 * (a factor) times the allocator's resident memory, and exceeds that by more than page_heap_more
 * bytes.
 */
extern const uint64_t page_heap_times, page_heap_more;
