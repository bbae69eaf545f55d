/*
 * jeprof-symbolize: prints the functions, files, lines and inlined calls of addresses in object
 * files with DWARF. jeprof runs it if it is installed; jeprofd runs its mode --table (table.c).
 * Invariant: all addresses of a file are read before they are answered, so that each unit of DWARF
 * is read once, whatever the order of the addresses, and released afterwards (walk.c). A file that
 * stdin names twice is read twice. No locks: one thread.
 *
 *   stdin    file PATH, then its addresses (without load bias) as 0xHEX, one on a line; then the
 *            next file
 *   stdout   file PATH, then for each address, in any order: 0xHEX and pairs of lines, see
 *            answer.c; then, if units of DWARF are split and N of their files are not there: lacks
 *            N NAME, where NAME is that of the first one
 *   exit     0 done; 1 some file or stdin could not be read (a line on stderr; its addresses have
 *            no answer, or some of them), or stdout not written; 2 the input or an option is wrong:
 *            then the files before the current one are answered
 */
#include "symbolize.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The queries about the current file: how many there are, and for how many there is memory. */
typedef struct {
	query_t *all;
	size_t count, room;
} list_t;

static const answer_t printer = {print_address, print_frame, NULL};

/* Answers the queries about one file, empties the list; false, with a message: it is unreadable. */
static bool
file_answer(const char *path, list_t *list) {
	object_t object;
	const char *reason;

	printf("file %s\n", path);
	reason = object_open(&object, path);
	if (reason == NULL)
		reason = object_add_dwarf(&object);
	if (reason == NULL)
		reason = object_answer(&object, list->all, list->count, &printer);
	for (char *c = object.lost_name; *c != '\0'; c++)
		*c = *c == '\n' ? '?' : *c;
	if (object.lost > 0)
		printf("lacks %u %s\n", object.lost, object.lost_name);
	object_close(&object);
	list->count = 0;
	if (reason != NULL)
		fprintf(stderr, "jeprof-symbolize: %s: %s\n", path, reason);
	return reason == NULL;
}

/* Adds a query for the text "0xHEX"; false if it is malformed. Aborts if there is no memory. */
static bool
query_try_add(list_t *list, const char *text) {
	char *end;
	query_t query = {.unit = 0};

	if (strncmp(text, "0x", 2) != 0)
		return false;
	errno = 0;
	query.address = strtoull(text + 2, &end, 16);
	if (end == text + 2 || *end != '\0' || errno != 0)
		return false;
	if (list->count == list->room) {
		list->room = list->room * 2 + 1000;
		list->all = realloc(list->all, list->room * sizeof(*list->all));
		if (list->all == NULL)
			abort();
	}
	list->all[list->count++] = query;
	return true;
}

/* Reads the whole of stdin and answers file by file; returns the exit code. */
static int
serve(void) {
	list_t list = {NULL, 0, 0};
	char *line = NULL, *path = NULL;
	size_t room = 0;
	ssize_t length;
	int code = 0;

	for (unsigned long number = 1; (length = getline(&line, &room, stdin)) >= 0; number++) {
		if (length > 0 && line[length - 1] == '\n')
			line[length - 1] = '\0';
		if (strncmp(line, "file ", 5) == 0 && line[5] != '\0') {
			if (path != NULL && !file_answer(path, &list))
				code = 1;
			free(path);
			path = strdup(line + 5);
		} else if (path == NULL || !query_try_add(&list, line)) {
			fprintf(stderr, "jeprof-symbolize: line %lu is neither \"file PATH\" nor an address "
			    "0xHEX of one\n", number);
			return 2;
		}
	}
	if (!feof(stdin)) {
		perror("jeprof-symbolize: stdin");
		code = 1;
	}
	if (path != NULL && !file_answer(path, &list))
		code = 1;
	free(path);
	free(line);
	free(list.all);
	return code;
}

int
main(int argc, char **argv) {
	int code;
	bool is_asked;

	(void)elf_version(EV_CURRENT);
	if (argc > 1 && strcmp(argv[1], "--table") == 0)
		return table_main(argc - 2, argv + 2);
	if (argc > 1) {
		is_asked = strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0;
		fputs("usage: jeprof-symbolize <INPUT    lines \"file PATH\", each followed by lines "
		    "0xADDRESS\n", is_asked ? stdout : stderr);
		return is_asked ? 0 : 2;
	}
	code = serve();
	if (fflush(stdout) != 0 || ferror(stdout)) {
		perror("jeprof-symbolize: stdout");
		return 1;
	}
	return code;
}
