/*
 * Passes the frames of an address to a callback, the innermost inlined call first, each by its name
 * for the linker (mangled), or where DWARF has none by that in the source. print_frame() is the
 * callback for text: it prints two lines for each frame, the function and FILE:LINE, as addr2line
 * -f -i does, with "??" for what is not known. Invariant: print_frame() prints two lines, whatever
 * the names contain. No locks. answer_give() is called by walk.c. The callbacks are those
 * that main.c (print_address, print_frame) or tables.c passes to walk.c.
 */
#include "symbolize.h"

#include <dwarf.h>
#include <stdio.h>
#include <string.h>

/* The linker's name of a function, else its name in the source; NULL: none. */
static const char *
function_name(Dwarf_Die *die) {
	Dwarf_Attribute attribute;
	const char *name = NULL;

	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) != NULL
	    || dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute) != NULL)
		name = dwarf_formstring(&attribute);
	if (name == NULL && dwarf_attr_integrate(die, DW_AT_name, &attribute) != NULL)
		name = dwarf_formstring(&attribute);
	return name;
}

/* Prints a text with '?' for each line end, so that it remains one line. */
static void
text_print(const char *text) {
	for (; *text != '\0'; text++)
		putchar(*text == '\n' ? '?' : *text);
}

/*
 * The working directory of the compiler, to which the file's name is relative; NULL if the name is
 * NULL, absolute or begins with that directory, or the directory is not known.
 */
static const char *
directory_of(Dwarf_Die *unit, const char *file) {
	Dwarf_Attribute attribute;
	const char *directory;
	size_t length;
	bool is_below;

	if (file == NULL || file[0] == '/' || dwarf_attr(unit, DW_AT_comp_dir, &attribute) == NULL)
		return NULL;
	directory = dwarf_formstring(&attribute);
	if (directory == NULL)
		return NULL;
	length = strlen(directory);
	is_below = strncmp(file, directory, length) == 0
	    && (length == 0 || directory[length - 1] == '/' || file[length] == '/');
	return is_below ? NULL : directory;
}

void
print_address(const answer_t *to, Dwarf_Addr address) {
	(void)to;
	printf("0x%llx\n", (unsigned long long)address);
}

void
print_frame(const answer_t *to, const char *function, const char *directory, const char *file,
    int line) {
	(void)to;
	text_print(function != NULL && function[0] != '\0' ? function : "??"); /* never an empty line */
	putchar('\n');
	if (directory != NULL) {
		text_print(directory);
		putchar('/');
	}
	text_print(file != NULL ? file : "??");
	printf(":%d\n", file != NULL ? line : 0);
}

/* The value of an attribute that is a number; 0 if there is none. */
static int
attribute_number(Dwarf_Die *die, unsigned name) {
	Dwarf_Attribute attribute;
	Dwarf_Word value;

	if (dwarf_attr(die, name, &attribute) == NULL || dwarf_formudata(&attribute, &value) != 0)
		return 0;
	return (int)value;
}

/* The file of the call inlined as this DIE; entry 0 if the DIE names none. NULL: unknown. */
static const char *
call_file(Dwarf_Die *unit, Dwarf_Die *die) {
	Dwarf_Files *files;
	size_t count;
	int index = attribute_number(die, DW_AT_call_file);

	if (dwarf_getsrcfiles(unit, &files, &count) != 0 || (size_t)index >= count)
		return NULL;
	return dwarf_filesrc(files, (size_t)index, NULL, NULL);
}

static void
frame_give(const answer_t *to, Dwarf_Die *unit, const char *function, const char *file, int line) {
	to->frame(to, function, directory_of(unit, file), file, line);
}

/*
 * The line table gives the file and line of the innermost frame; those of each outer frame are
 * where the next inner one was called. libdw mixes the rows of functions that the linker
 * discarded with the others; where such a row may be found (is_row_unsure), file and line are
 * unknown.
 */
void
answer_give(Dwarf_Die *unit, Dwarf_Die *whole, const query_t *query, const answer_t *to) {
	Dwarf_Line *row = unit != NULL && !query->is_row_unsure
	    ? dwarf_getsrc_die(unit, query->address) : NULL;
	const char *file = row != NULL ? dwarf_linesrc(row, NULL, NULL) : NULL;
	Dwarf_Die die;
	int line = 0;

	to->begin(to, query->address);
	if (row != NULL)
		(void)dwarf_lineno(row, &line);
	if (query->count == 0)
		frame_give(to, unit, NULL, file, line);
	for (unsigned at = query->count; at-- > 0;) {
		if (dwarf_offdie(dwarf_cu_getdwarf(whole->cu), query->scopes[at], &die) == NULL)
			continue;
		frame_give(to, unit, function_name(&die), file, line);
		file = call_file(whole, &die);
		line = attribute_number(&die, DW_AT_call_line);
	}
}
