/*
 * Shared by the reader of options and the modules that own options: the two options about reading
 * itself, and the grammar of ranges.
 */
#ifndef CONF_RANGE_H
#define CONF_RANGE_H

#include "util/compiler.h"

extern bool opt_confirm_conf; /* print each source and each accepted pair */
extern bool opt_abort_conf;   /* a bad pair ends the process */

/*
 * Reads lo-hi:n[|lo-hi:n...] and passes each item to set(). Returns 0, EINVAL at a malformed item,
 * or the error of set(); earlier items were passed by then. text[len] must be readable.
 */
typedef int conf_range_set_t(void *ctx, size_t lo, size_t hi, size_t n);
int conf_parse_ranges(const char *text, size_t len, conf_range_set_t *set, void *ctx);

#endif /* CONF_RANGE_H */
