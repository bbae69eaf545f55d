/*
 * MALLOC_CONF: reads the option strings of the five sources in order and stores what they say into
 * the variables named by conf_table.  Runs once, during boot, in one thread, before the first
 * allocation; allocates nothing and is safe on any bytes.
 *
 * Sources, later ones win key by key: the string given to configure, the program's malloc_conf
 * variable, the text of the symbolic link /etc/malloc.conf, the environment variable, the program's
 * malloc_conf_2_conf_harder variable.
 */
#ifndef CONF_H
#define CONF_H

#include "conf_range.h"

typedef enum {
	CONF_SOURCE_BUILD,
	CONF_SOURCE_GLOBAL,
	CONF_SOURCE_SYMLINK,
	CONF_SOURCE_ENV,
	CONF_SOURCE_HARDER,
	CONF_NSOURCES
} conf_source_t;

/*
 * Parses everything.  global and harder are the addresses of the two public variables; they are kept,
 * because the nodes opt.malloc_conf.* read them live.  With abort_conf a bad pair ends the process.
 */
void conf_boot(const char *const *global, const char *const *harder);

/* Text of a source, NULL when it is not there. */
const char *conf_source_text(conf_source_t source);

/*
 * Parses one string of key:value pairs; what stands in for the source's name in messages is nothing,
 * so tests and others can use it.  Returns the number of errors that abort_conf would count.
 */
unsigned conf_parse(const char *text);

#endif /* CONF_H */
