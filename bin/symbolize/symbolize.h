/* What the files of jeprof-symbolize share: see main.c and, for tables, table.c. */
#ifndef SYMBOLIZE_H
#define SYMBOLIZE_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An address that is asked for, and the dies that hold it, outermost first. */
typedef struct {
	Dwarf_Addr address;
	Dwarf_Off unit;		/* die of its unit; 0: none */
	Dwarf_Off scopes[64];	/* a function, then the calls inlined in it */
	unsigned count;
} query_t;

/* An object file in memory. */
typedef struct {
	const char *path;
	int root;		/* directory that is the root of absolute paths; AT_FDCWD: ours */
	void *image;
	size_t size;
	Elf *elf;
	Dwarf *dwarf;
	Dwarf *alt;		/* what several debug files share */
	int alt_fd;
	bool is_packed;		/* some section is compressed */
} object_t;

/*
 * Takes what is told of an address: begin, then frames, the innermost first. What is not known is
 * NULL.
 */
typedef struct answer {
	void (*begin)(const struct answer *to, Dwarf_Addr address);
	void (*frame)(const struct answer *to, const char *function, const char *directory,
	    const char *file, int line);
	void *context;
} answer_t;

enum { ID_BYTES_MAX = 64 };	/* of a build-id */

/*
 * A file for reading below a root, which nothing in its path leads out of; -1 if there is none.
 * Neither waits nor touches a device.
 */
int file_open(int root, const char *path);

/* The same of a descriptor that only names it. */
int file_reopen(int named);

/* NULL, or why it cannot be read; close it in either case. Its DWARF is added when it is wanted. */
const char *object_open(object_t *object, const char *path);
const char *object_open_fd(object_t *object, int fd, int root, const char *path);
const char *object_add_dwarf(object_t *object);
void object_close(object_t *object);
bool object_renew(object_t *object);
void object_forget(object_t *object);

bool object_has_lines(object_t *object);

/* The build-id in hex, "" if there is none; room for 2 * ID_BYTES_MAX + 1. */
void object_id(object_t *object, char *hex);

/*
 * Opens the debug file of an object; its path, as seen from its root, is put in `path`, which has
 * room for PATH_MAX and stays.
 */
bool debug_try_find(object_t *debug, object_t *object, int own_root, bool with_servers, char *path);

/* Is there a whole symbol table? */
bool symbols_has_all(object_t *object);

/*
 * Sets the names of addresses (in rising order) that have none (NULL) yet, as they stand in the
 * object; false: no memory.
 */
bool symbols_try_find(object_t *object, const uint64_t *addresses, const char **names,
    size_t count);

/* The short demangled form of a linker's name. */
void name_for_people(const char *mangled, char *to, size_t room);

/*
 * Tells all that is asked of an object with DWARF; the order of the queries changes. NULL, or why
 * it cannot.
 */
const char *object_answer(object_t *object, query_t *queries, size_t count, const answer_t *to);

/* Sets the unit of each query, which are sorted by address; 0 if no unit contains it. */
void units_find(object_t *object, query_t *queries, size_t count);

/* Sets the scopes of queries that belong to one unit and are sorted by address. */
void scopes_find(Dwarf_Die *unit, query_t *queries, size_t count);

/* Passes the frames of a query to the callbacks; unit NULL: not known. */
void answer_give(Dwarf *dwarf, Dwarf_Die *unit, const query_t *query, const answer_t *to);

/* The callbacks that print text as addr2line -a -f -i does. */
void print_address(const answer_t *to, Dwarf_Addr address);
void print_frame(const answer_t *to, const char *function, const char *directory, const char *file,
    int line);

/* jeprof-symbolize --table: see table.c. Returns the exit code. */
int table_main(int count, char **words);

#endif
