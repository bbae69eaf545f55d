/*
 * Tells what is known of an address, the innermost inlined call first; names are those of the
 * linker. print_frame() prints two lines for each call, the function and FILE:LINE, as addr2line -f
 * -i does, with "??" for what is not known. Called by walk.c; printing by main.c.
 */
#include "symbolize.h"

#include <dwarf.h>
#include <stdio.h>
#include <string.h>

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

/* A name with a line end in it must not look like two answers. */
static void
text_print(const char *text) {
	for (; *text != '\0'; text++)
		putchar(*text == '\n' ? '?' : *text);
}

/*
 * The directory of the compiler, which a relative name is in; NULL if it is not known or in the
 * name already.
 */
static const char *
directory_of(Dwarf_Die *unit, const char *file) {
	Dwarf_Attribute attribute;
	const char *directory;

	if (file == NULL || file[0] == '/' || dwarf_attr(unit, DW_AT_comp_dir, &attribute) == NULL)
		return NULL;
	directory = dwarf_formstring(&attribute);
	return directory == NULL || strncmp(file, directory, strlen(directory)) == 0 ? NULL : directory;
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
	text_print(function != NULL ? function : "??");
	putchar('\n');
	if (directory != NULL) {
		text_print(directory);
		putchar('/');
	}
	text_print(file != NULL ? file : "??");
	printf(":%d\n", file != NULL ? line : 0);
}

static int
number_of(Dwarf_Die *die, unsigned name) {
	Dwarf_Attribute attribute;
	Dwarf_Word value;

	if (dwarf_attr(die, name, &attribute) == NULL || dwarf_formudata(&attribute, &value) != 0)
		return 0;
	return (int)value;
}

/* Where the call stood that was inlined as this die. */
static const char *
call_file(Dwarf_Die *unit, Dwarf_Die *die) {
	Dwarf_Files *files;
	size_t count;
	int index = number_of(die, DW_AT_call_file);

	if (dwarf_getsrcfiles(unit, &files, &count) != 0 || (size_t)index >= count)
		return NULL;
	return dwarf_filesrc(files, (size_t)index, NULL, NULL);
}

static void
frame_give(const answer_t *to, Dwarf_Die *unit, const char *function, const char *file, int line) {
	to->frame(to, function, directory_of(unit, file), file, line);
}

void
answer_give(Dwarf *dwarf, Dwarf_Die *unit, const query_t *query, const answer_t *to) {
	Dwarf_Line *row = unit != NULL ? dwarf_getsrc_die(unit, query->address) : NULL;
	const char *file = row != NULL ? dwarf_linesrc(row, NULL, NULL) : NULL;
	Dwarf_Die die;
	int line = 0;

	to->begin(to, query->address);
	if (row != NULL)
		(void)dwarf_lineno(row, &line);
	if (query->count == 0)
		frame_give(to, unit, NULL, file, line);
	for (unsigned at = query->count; at-- > 0;) {
		if (dwarf_offdie(dwarf, query->scopes[at], &die) == NULL)
			continue;
		frame_give(to, unit, function_name(&die), file, line);
		file = call_file(unit, &die);
		line = number_of(&die, DW_AT_call_line);
	}
}
