/*
 * The table of options: each option of MALLOC_CONF is listed here once. The parser (conf.c), the
 * opt.* nodes (ctl/ctl_opt.c), the option section of malloc_stats_print (stats.c) and the manual
 * (doc/manual.c) read these rows; there is no other list of options. Rows are constant; the
 * variables they point to are written during boot by one thread, so there is no lock
 * (opt_prof_unwind is one word, written again when a method is selected).
 */
#pragma once

#include "conf/conf_store.h"

extern const conf_row_t conf_rows[];
extern const size_t conf_nrows;

/* Whether the part of the library that the row needs (row->feature) is built in. */
bool conf_row_is_built(const conf_row_t *row);

/*
 * Why a row is absent, one for which conf_row_is_built() is false: a phrase that follows its key in
 * a hint, such as "is not built in (it needs --enable-xmalloc)".
 */
const char *conf_row_absence(const conf_row_t *row);

#ifdef MANUAL_TEXTS
/* In which builds the row is there, as a sentence; NULL: in all of them. */
const char *conf_row_build(const conf_row_t *row);
#endif

/* Whether word i of the row, one that conf_is_choice() accepts, is possible in this build. */
bool conf_row_offers(const conf_row_t *row, size_t i);

/*
 * The first row that a key matches when parsed (an abbreviated key too, but not an empty one), also
 * if it is not built in; NULL: none.
 */
const conf_row_t *conf_row_find(const char *key, size_t len);

/*
 * The key of a row that is built in with the fewest edits to an unknown key, ignoring case; NULL if
 * all need len / 3 + 2 edits or more, or if the unknown key is empty or has more than 48 bytes.
 */
const char *conf_row_nearest(const char *key, size_t len);
