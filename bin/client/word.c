/* Words for a shell: word.h has the contract. No state, no locks. */
#include "client/word.h"

#include <stdbool.h>
#include <string.h>

size_t
client_put_word(char *to, size_t room, const char *word) {
	static const char plain[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,+@%-";
	size_t at = 0, length = strlen(word), quotes = 0;
	bool is_plain = length > 0 && strspn(word, plain) == length;
	for (const char *c = word; (c = strchr(c, '\'')) != NULL; c++) {
		quotes++;
	}
	if (length + (is_plain ? 0 : 2 + 3 * quotes) > room) {
		return 0;
	}
	if (is_plain) {
		memcpy(to, word, length);
		return length;
	}
	to[at++] = '\'';
	for (; *word != '\0'; word++) {
		if (*word == '\'') {
			memcpy(to + at, "'\\'", 3);
			at += 3;
		}
		to[at++] = *word;
	}
	to[at++] = '\'';
	return at;
}
