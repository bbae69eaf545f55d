/*
 * The parts of the page of a process and the list of heaps: constants of page_parts.c, which
 * scripts/join-page generates from bin/page/. "jeprof report" uses the same files. Used by page.c
 * (parts) and elsewhere.c (heaps).
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

/*
 * Scripts (model: adds up profiles; live: fetches and draws them), CSS and HTML. No NUL ends them:
 * use the sizes.
 */
extern const unsigned char page_model[], page_live[], page_style[], page_body[];
extern const size_t page_model_size, page_live_size, page_style_size, page_body_size; /* bytes */

/*
 * A kind of program that has a heap beside malloc's, and how it is recognised (heaps.txt): by the
 * name of the program, of a mapped object, or of a section; NULL: not by this.
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
 * that of the allocator, and exceeds it by more than page_heap_more bytes.
 */
extern const uint64_t page_heap_times, page_heap_more;
