/*
 * MALLOC_CONF: reads the option strings of the five sources in order and stores the values in the
 * variables that conf_table names. It runs once, during boot, in one thread, before the first
 * allocation, so there is no lock. It allocates nothing and accepts any bytes. jemalloc_init.c
 * calls conf_boot(); stats.c and ctl_opt.c read the source texts later, in any thread.
 *
 * Sources: the string given to configure, the program's variable malloc_conf, the text of the
 * symbolic link /etc/malloc.conf, the environment variable, the program's variable
 * malloc_conf_2_conf_harder. For each key the last valid value holds; but ranges and letters are
 * added to those given before.
 */
#pragma once

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
 * Public variables of the library. The two strings are weak symbols: a program that defines them
 * overrides them. je_malloc_message is called with each message, its cbopaque is NULL or
 * that of the call that asked for the text; without a function messages go to file descriptor 2.
 */
extern const char *je_malloc_conf;
extern const char *je_malloc_conf_2_conf_harder;
extern void (*je_malloc_message)(void *cbopaque, const char *s);

/*
 * Parses all sources. If abort_conf is true at the end of a source, an error in this source or an
 * earlier one ends the process; but not a pair with a retired key or one that begins with
 * experimental_.
 */
void conf_boot(void);

/*
 * Text of a source: the string given to configure; the link and the environment variable as they
 * were found at boot, of which the first 4095 bytes are kept; the program's variables as they are
 * now. NULL if it does not exist or the process must not read it.
 */
const char *conf_source_text(conf_source_t source);

/*
 * Parses one string of key:value pairs, for conf_boot() and for tests. The string may be empty.
 * Returns the number of errors in it that abort_conf counts, and never ends the process.
 */
unsigned conf_parse(const char *text);
