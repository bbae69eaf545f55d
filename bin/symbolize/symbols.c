/*
 * Finds the symbol names of addresses, with the rules of jeprof: first functions in .symtab whose
 * size covers the address, then those in .dynsym, then the nearest symbol of .symtab at or below it
 * in the same section, in the page of the address or the one before, if that is a label (a symbol
 * without a size). Of several functions that cover the address the smallest is used; of those of
 * the same size the one with fewer leading underscores, then one that is not local, then the one
 * with the shorter name, then the first by the alphabet; of labels at one address the first in the
 * table is used. Each of the three searches makes one pass over the symbols, for all addresses with
 * no name yet; memory is proportional to the number of addresses. No locks. Called by tables.c.
 */
#include "symbolize.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096 }; /* bytes; of the rule for labels, not of the machine */

/* A symbol, or the best one so far for an address. */
typedef struct {
	GElf_Addr start;
	GElf_Xword size;	/* bytes; before a search for labels 0 or UINT64_MAX: sections_set() */
	const char *name;	/* NULL: none */
	unsigned bind;		/* STB_* */
} choice_t;

/* A search for the names of some addresses. */
typedef struct {
	const uint64_t *addresses;	/* ascending */
	size_t count;
	choice_t *best;			/* by index of the address */
} search_t;

/* Number of leading underscores; that of "_Z", which begins a mangled name, is not counted. */
static size_t
bars_of(const char *name) {
	size_t bars = strspn(name, "_");

	return bars > 0 && name[bars] == 'Z' ? bars - 1 : bars;
}

/* Length of the name without its version: "name@@VERSION". */
static size_t
name_len(const char *name) {
	return 1 + strcspn(name + 1, "@");
}

/* Whether `new` is the better name for an address that both cover: see the opening. */
static bool
is_better(const choice_t *new, const choice_t *old) {
	size_t new_bars, old_bars, new_len, old_len;

	if (old->name == NULL || new->size != old->size)
		return old->name == NULL || new->size < old->size;
	new_bars = bars_of(new->name);
	old_bars = bars_of(old->name);
	if (new_bars != old_bars)
		return new_bars < old_bars;
	if ((new->bind == STB_LOCAL) != (old->bind == STB_LOCAL))
		return new->bind > old->bind;
	new_len = name_len(new->name);
	old_len = name_len(old->name);
	return new_len != old_len ? new_len < old_len : memcmp(new->name, old->name, new_len) < 0;
}

/* Index of the first address at or above this one. */
static size_t
index_at_or_above(const search_t *s, GElf_Addr address) {
	size_t low = 0, high = s->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->addresses[middle] < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Makes the symbol the best one of each address in its range for which it is better. */
static void
offer(search_t *s, const choice_t *symbol) {
	for (size_t i = index_at_or_above(s, symbol->start);
	    i < s->count && s->addresses[i] - symbol->start < symbol->size; i++) {
		if (is_better(symbol, &s->best[i]))
			s->best[i] = *symbol;
	}
}

/* ---- visitors: called for each defined, named symbol of a table ---- */
typedef void visit_t(search_t *s, const GElf_Sym *symbol, const choice_t *choice);

/* Offers a function that has a size to the addresses that it covers. */
static void
function_visit(search_t *s, const GElf_Sym *symbol, const choice_t *choice) {
	int type = GELF_ST_TYPE(symbol->st_info);

	if ((type == STT_FUNC || type == STT_GNU_IFUNC) && choice->size != 0)
		offer(s, choice);
}

/*
 * Makes a symbol the best one of those addresses at or above it to which it is the nearest, in the
 * page of the symbol and the next one; so an address gets a label of its own page or the one
 * before. At first best[].start of an address is the start of its section, so symbols below that
 * do not count; nor do names that begin with . or $, absolute symbols and those of sections, files
 * and thread-local data. If the nearest one has a size, the address gets no name (search_run): it
 * is past the end of a function, or that symbol is data or has no type.
 */
static void
label_visit(search_t *s, const GElf_Sym *symbol, const choice_t *choice) {
	int type = GELF_ST_TYPE(symbol->st_info);

	if ((type > STT_FUNC && type != STT_GNU_IFUNC) || symbol->st_shndx >= SHN_LORESERVE
	    || choice->name[0] == '.' || choice->name[0] == '$')
		return;
	for (size_t i = index_at_or_above(s, choice->start); i < s->count
	    && s->addresses[i] / PAGE - choice->start / PAGE < 2; i++) {
		choice_t *near = &s->best[i];

		if (near->size == UINT64_MAX)
			continue;
		if (choice->start < near->start)
			break; /* the nearest ones of the addresses behind it start no lower */
		if (choice->start > near->start || near->name == NULL || choice->size != 0)
			*near = *choice;
	}
}

/* Calls the visitor for each defined symbol with a name; clears the Thumb bit of its address. */
static void
table_visit(Elf *file, Elf_Scn *section, const GElf_Shdr *header, search_t *s, visit_t *visit) {
	GElf_Ehdr elf;
	Elf_Data *data = elf_getdata(section, NULL);
	size_t count = header->sh_entsize != 0 && data != NULL ? data->d_size / header->sh_entsize : 0;
	GElf_Sym symbol;

	if (gelf_getehdr(file, &elf) == NULL)
		return;
	for (size_t i = 0; i < count && i < INT32_MAX && gelf_getsym(data, (int)i, &symbol) != NULL;
	    i++) {
		bool is_thumb = elf.e_machine == EM_ARM && GELF_ST_TYPE(symbol.st_info) == STT_FUNC;
		choice_t choice = {symbol.st_value & ~(GElf_Addr)is_thumb, symbol.st_size, NULL,
		    GELF_ST_BIND(symbol.st_info)};

		if (symbol.st_shndx == SHN_UNDEF)
			continue;
		choice.name = elf_strptr(file, header->sh_link, symbol.st_name);
		if (choice.name != NULL && choice.name[0] != '\0')
			visit(s, &symbol, &choice);
	}
}

static void
tables_visit(Elf *elf, GElf_Word type, search_t *s, visit_t *visit) {
	GElf_Shdr header;

	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section)) != NULL;) {
		if (gelf_getshdr(section, &header) != NULL && header.sh_type == type)
			table_visit(elf, section, &header, s, visit);
	}
}

static bool
has_symtab(Elf *elf) {
	GElf_Shdr header;

	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section)) != NULL;) {
		if (gelf_getshdr(section, &header) != NULL && header.sh_type == SHT_SYMTAB
		    && header.sh_size != 0)
			return true;
	}
	return false;
}

/* The file that has the tables of a type: .symtab may be in .gnu_debugdata. */
static Elf *
elf_of(object_t *object, GElf_Word type) {
	Elf *mini = type == SHT_SYMTAB && !has_symtab(object->elf) ? mini_elf(object) : NULL;

	return mini != NULL ? mini : object->elf;
}

/* ---- searches ---- */
/* Copies the addresses that have no name to `left`, their indexes to `place`; returns how many. */
static size_t
left_collect(const uint64_t *addresses, const char *const *names, size_t count, uint64_t *left,
    size_t *place) {
	size_t found = 0;

	for (size_t i = 0; i < count; i++) {
		if (names[i] == NULL) {
			place[found] = i;
			left[found++] = addresses[i];
		}
	}
	return found;
}

/*
 * Sets best[].start of each address to the start of its code section, best[].size to 0. An address
 * outside of all code sections gets the size UINT64_MAX instead, so that it gets no name.
 */
static void
sections_set(object_t *object, search_t *s) {
	GElf_Shdr header;

	for (size_t i = 0; i < s->count; i++)
		s->best[i].size = UINT64_MAX;
	for (Elf_Scn *section = NULL; (section = elf_nextscn(object->elf, section)) != NULL;) {
		if (gelf_getshdr(section, &header) == NULL || (header.sh_flags & SHF_EXECINSTR) == 0)
			continue;
		for (size_t i = index_at_or_above(s, header.sh_addr);
		    i < s->count && s->addresses[i] - header.sh_addr < header.sh_size; i++)
			s->best[i] = (choice_t){.start = header.sh_addr, .size = 0};
	}
}

/*
 * Searches the symbol tables of one type for the addresses that have no name, by functions or by
 * labels, and sets their names. False without memory.
 */
static bool
search_run(object_t *object, GElf_Word type, bool is_label, const uint64_t *addresses,
    const char **names, size_t count) {
	uint64_t *left = malloc((count + 1) * sizeof(*left));
	size_t *place = malloc((count + 1) * sizeof(*place));
	choice_t *best = calloc(count + 1, sizeof(*best));
	bool is_done = left != NULL && place != NULL && best != NULL;

	if (is_done) {
		search_t s = {left, left_collect(addresses, names, count, left, place), best};

		if (is_label)
			sections_set(object, &s);
		if (s.count > 0)
			tables_visit(elf_of(object, type), type, &s, is_label ? label_visit : function_visit);
		for (size_t i = 0; i < s.count; i++) {
			if (!is_label || best[i].size == 0)
				names[place[i]] = best[i].name;
		}
	}
	free(left);
	free(place);
	free(best);
	return is_done;
}

bool
symbols_has_table(object_t *object) {
	return has_symtab(elf_of(object, SHT_SYMTAB));
}

bool
symbols_try_find(object_t *object, const uint64_t *addresses, const char **names, size_t count) {
	return search_run(object, SHT_SYMTAB, false, addresses, names, count)
		&& search_run(object, SHT_DYNSYM, false, addresses, names, count)
		&& search_run(object, SHT_SYMTAB, true, addresses, names, count);
}
