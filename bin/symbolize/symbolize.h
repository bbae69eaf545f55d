/* What the files of jeprof-symbolize share: see main.c. */
#ifndef SYMBOLIZE_H
#define SYMBOLIZE_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>

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
	void *image;
	size_t size;
	Elf *elf;
	Dwarf *dwarf;
	Dwarf *alt;		/* what several debug files share */
	int alt_fd;
	bool is_packed;		/* some section is compressed */
	size_t weight;		/* bytes of units read since dwarf was made */
} object_t;

/* NULL, or why it cannot be read. */
const char *object_open(object_t *object, const char *path);
void object_close(object_t *object);
bool object_renew(object_t *object);
void object_forget(object_t *object);

void units_find(object_t *object, query_t *queries, size_t count);
void scopes_find(Dwarf_Die *unit, query_t *queries, size_t count);
void answer_print(Dwarf *dwarf, Dwarf_Die *unit, const query_t *query);

#endif
