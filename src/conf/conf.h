/*
 * MALLOC_CONF: reads the option strings of the five sources in order and stores the values in the
 * variables that conf_table names. It runs once, during boot, in one thread, before the first
 * allocation. It allocates nothing and accepts any bytes.
 *
 * Sources, later ones win for each key: the string given to configure, the program's variable
 * malloc_conf, the text of the symbolic link /etc/malloc.conf, the environment variable, the
 * program's variable malloc_conf_2_conf_harder.
 */
#ifndef CONF_H
#define CONF_H

#include "conf/conf_range.h"

typedef enum {
	CONF_SOURCE_BUILD,
	CONF_SOURCE_GLOBAL,
	CONF_SOURCE_SYMLINK,
	CONF_SOURCE_ENV,
	CONF_SOURCE_HARDER,
	CONF_NSOURCES
} conf_source_t;

/*
 * The public variables. The two strings are weak: a program that defines them has its own. The
 * function is called with each message; NULL: messages go to descriptor 2.
 */
extern const char *je_malloc_conf;
extern const char *je_malloc_conf_2_conf_harder;
extern void (*je_malloc_message)(void *cbopaque, const char *s);

/* Parses all sources. With abort_conf a bad pair ends the process. */
void conf_boot(void);

/*
 * Text of a source, NULL if it does not exist: the link as it was read at boot, the program's
 * variables and the environment variable as they are now.
 */
const char *conf_source_text(conf_source_t source);

/*
 * Parses one string of key:value pairs. Messages name no source, so tests and others can use it.
 * Returns the number of errors that abort_conf would count.
 */
unsigned conf_parse(const char *text);

#endif /* CONF_H */
