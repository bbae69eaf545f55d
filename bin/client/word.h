/*
 * Quoting of words for a shell, used by jeprofctl too. Not installed, and not part of
 * jeprof_client.h. No state and no locks: any thread may call. Called by foreign.c and directory.c,
 * and in bin/ctl by talk.c.
 */
#pragma once
#include <stddef.h>

/*
 * Writes a word, quoted for a shell if necessary, and no NUL. Returns the bytes written; or 0, if
 * they are more than `room`.
 */
size_t client_put_word(char *to, size_t room, const char *word);
