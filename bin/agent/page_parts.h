/*
 * The parts of the page of a process, which scripts/join-page generates from bin/page/ (it
 * describes each part). "jeprof report" uses the same files. Used by pages.c.
 */
#pragma once
#include <stddef.h>

extern const unsigned char page_model[], page_live[], page_style[], page_body[];
extern const size_t page_model_size, page_live_size, page_style_size, page_body_size; /* bytes */
