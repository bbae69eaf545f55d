/*
 * Memory of a process that does not come from malloc (elsewhere.h). A "heap" here is a row of
 * page_heaps (bin/page/heaps.txt): a heap beside malloc's, as virtual machines have, and the signs
 * of a program that has it. Invariant: each read has a bounded size, and what is read may have any
 * content; the sentence has numbers, fixed words and words of heaps.txt only, no text of the
 * process. No locks, no state. Reading a file of a process may block, so only watchers, the threads
 * of watch.c that read processes, call elsewhere_look(); pages.c asks for the sentence. watch.c and
 * pages.c call is_elsewhere().
 */
#include "elsewhere.h"

#include <elf.h>
#include <fcntl.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/removed.h"
#include "labels.h"
#include "page_parts.h"

enum {
	LINE_BYTES = 4352,   /* of a line of /proc/PID/maps: its path and what is before it */
	LINES_MAX = 65536,   /* of that file that are read, at most */
	SECTIONS_MAX = 1024, /* a program with more is not searched */
	SECTION_NAME = 64,   /* bytes of the longest name that is searched for, with its NUL */
};

bool
is_elsewhere(const figures_t *f) {
	uint64_t own = f->values[fig_resident];
	/* a product could overflow */
	return (f->known & 1u << fig_resident) != 0 && f->rss > own
	    && (f->rss - 1) / page_heap_times >= own && f->rss - own > page_heap_more;
}

/* ---- whose heap ---- */

/* Whether the file is a 64-bit ELF file with a section of this name; false if a read fails. */
static bool
has_section(int fd, const char *name) {
	Elf64_Ehdr e;
	Elf64_Shdr names, h;
	char is[SECTION_NAME];
	size_t size = strlen(name) + 1;
	if (size > sizeof(is) || pread(fd, &e, sizeof(e), 0) != sizeof(e)
	    || memcmp(e.e_ident, ELFMAG, SELFMAG) != 0 || e.e_ident[EI_CLASS] != ELFCLASS64
	    || e.e_shentsize != sizeof(h) || e.e_shnum > SECTIONS_MAX
	    || pread(fd, &names, sizeof(names), (off_t)(e.e_shoff + e.e_shstrndx * sizeof(h)))
	    != sizeof(names)) {
		return false;
	}
	for (unsigned i = 0; i < e.e_shnum; i++) {
		if (pread(fd, &h, sizeof(h), (off_t)(e.e_shoff + i * sizeof(h))) != sizeof(h)) {
			return false;
		}
		if (pread(fd, is, size, (off_t)(names.sh_offset + h.sh_name)) == (ssize_t)size
		    && memcmp(is, name, size) == 0) {
			return true;
		}
	}
	return false;
}

/* The same of the program of a process; task: its id in /proc, as of jeprof_task(). */
static bool
has_program_section(int task, const char *name) {
	char path[64];
	struct stat st;
	snprintf(path, sizeof(path), "/proc/%d/exe", task);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	bool has = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && has_section(fd, name);
	if (fd >= 0) {
		close(fd);
	}
	return has;
}

/* The file name in a path; cuts the path at a newline and before the kernel's " (deleted)". */
static const char *
base_name(char *path) {
	path[length_unmarked(path, strcspn(path, "\n"))] = '\0';
	const char *slash = strrchr(path, '/');
	return slash != NULL ? slash + 1 : path;
}

/* Whether the extended regular expression matches in the name; false if it is NULL or malformed. */
static bool
is_match(const char *pattern, const char *name) {
	regex_t compiled;
	if (pattern == NULL || regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB) != 0) {
		return false;
	}
	bool is = regexec(&compiled, name, 0, NULL, 0) == 0;
	regfree(&compiled);
	return is;
}

/*
 * The index in page_heaps of the first heap before `end` whose pattern for programs, or for objects
 * if not is_program, matches the name; `end` if there is none.
 */
static size_t
first_match(const char *name, bool is_program, size_t end) {
	size_t i = 0;
	while (i < end && !is_match(is_program ? page_heaps[i].program : page_heaps[i].object, name)) {
		i++;
	}
	return i;
}

/*
 * The index in page_heaps of the first heap before `end` whose pattern for objects matches the name
 * of a file that the process has mapped as code; `end` if there is none.
 */
static size_t
first_mapped(int task, size_t end) {
	char path[64], line[LINE_BYTES];
	snprintf(path, sizeof(path), "/proc/%d/maps", task);
	FILE *maps = fopen(path, "re");
	int lines = 0;
	while (maps != NULL && lines++ < LINES_MAX && fgets(line, sizeof(line), maps) != NULL) {
		char *at = strchr(line, '/');
		if (at != NULL && strstr(line, " r-xp ") != NULL) {
			end = first_match(base_name(at), false, end);
		}
	}
	if (maps != NULL) {
		fclose(maps);
	}
	return end;
}

/*
 * 1 + the index of the first heap of which one sign is there: the program's name, a mapped object
 * or a section of the program. 0: there is none.
 */
static unsigned
find_heap(int task, const char *exe) {
	char path[sizeof(((labels_t *)0)->exe)];
	snprintf(path, sizeof(path), "%s", exe);
	size_t first = first_match(base_name(path), true, page_heaps_count);
	first = first_mapped(task, first);
	for (size_t i = 0; i < first; i++) {
		if (page_heaps[i].section != NULL && has_program_section(task, page_heaps[i].section)) {
			return (unsigned)i + 1;
		}
	}
	return first < page_heaps_count ? (unsigned)first + 1 : 0;
}

void
elsewhere_look(int pid, const char *exe, bool may_search, figures_t *f) {
	char path[64], text[256];
	unsigned long long shared = 0;
	int task = jeprof_task(pid);
	snprintf(path, sizeof(path), "/proc/%d/statm", task);
	bool is_known = read_file(path, text, sizeof(text)) > 0
	    && sscanf(text, "%*s %*s %llu", &shared) == 1;
	/* Not known, for instance, if the process has just ended; the sentence then says 0B. */
	f->rss_shared = is_known ? shared * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
	if (may_search && f->heap == 0) {
		f->heap = find_heap(task, exe);
	}
}

/* ---- the words ---- */

/* Adds a number of bytes as "812B", "1.5M", as sentences of jeprof do; tables have text_size(). */
static void
add_size(text_t *t, uint64_t bytes) {
	static const char letters[] = "BKMGT";
	double value = (double)bytes;
	int i = 0;
	for (; value >= 1023.95 && letters[i + 1] != '\0'; i++) {
		value /= 1024;
	}
	text_add(t, i == 0 ? "%.0f%c" : "%.1f%c", value, letters[i]);
}

void
elsewhere_sentence(text_t *t, const figures_t *f) {
	uint64_t rest = f->rss - f->values[fig_resident];
	add_size(t, f->rss);
	text_add(t, " in memory, ");
	add_size(t, f->values[fig_resident]);
	text_add(t, " of it through malloc; the rest is not malloc's: ");
	add_size(t, f->rss_shared);
	text_add(t, " of code and mapped files, ");
	add_size(t, rest > f->rss_shared ? rest - f->rss_shared : 0);
	text_add(t, " of data, stacks and other mappings");
	if (f->heap > 0) {
		text_add(t, " (%s; %s)", page_heaps[f->heap - 1].heap, page_heaps[f->heap - 1].see);
	}
}
