/*
 * Finds out, of a process that does not use this library, which malloc it uses: another allocator
 * that is loaded, by file names in its memory map, or preloaded in front of the library; or one
 * linked into the program, which no preloaded library replaces, by texts in the program's file and
 * by an exported malloc. Also builds the command line that would start it with this library. No
 * locks, no state. Called by way.c, mailbox.c, bin/ctl/session.c and bin/ctl/status.c.
 */
#include "client/target.h"

#include "client/word.h"

#include <errno.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef LIBRARY_DIR
#define LIBRARY_DIR "/usr/local/lib"
#endif

enum {
	PIECE = 1 << 20,         /* bytes of a file that are searched at once */
	OVERLAP = 64,            /* bytes kept of the previous piece: more than the longest mark */
	FILE_MAX = 256 << 20,   /* bytes of a program's file that are searched for marks */
	SYMBOLS_MAX = 16 << 20, /* bytes of a table of symbols, and of its strings */
	SECTIONS_MAX = 4096,    /* sections of a program; in one with more no malloc is looked for */
	LINE_LEN_MAX = 1000,        /* bytes of a process's command line that are shown */
	ENVIRONMENT_MAX = 1 << 14, /* bytes of its environment in which LD_PRELOAD is looked for */
};

/* ---- loaded ---- */

/* Known allocators. */
static const struct {
	const char *file;   /* the beginning of the name of its library */
	const char *name;
} libraries[] = {{"libjemalloc", "jemalloc"}, {"libtcmalloc", "tcmalloc"},
    {"libmimalloc", "mimalloc"}, {"libsnmalloc", "snmalloc"},
    {"librpmalloc", "rpmalloc"}, {"libscudo", "Scudo"}, {"libhoard", "Hoard"}, {"libmesh", "Mesh"},
    {"libtbbmalloc", "TBB malloc"},
    {"libasan", "AddressSanitizer's malloc"}};

/* The name of the known allocator that has a library with this file name; NULL: none. */
static const char *
library_name(const char *file) {
	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
		if (strncmp(file, libraries[i].file, strlen(libraries[i].file)) == 0) {
			return libraries[i].name;
		}
	}
	return NULL;
}

const char *
client_loaded_allocator(const jeprof_target_t *t, char *buf, size_t size) {
	char path[64], *line = NULL;
	const char *found = NULL;
	size_t room = 0;
	snprintf(path, sizeof(path), "/proc/%d/maps", t->task);
	FILE *maps = fopen(path, "re");
	while (maps != NULL && found == NULL && getline(&line, &room, maps) > 0) {
		line[strcspn(line, "\n")] = '\0';
		char *file = strchr(line, '/');
		const char *name = file != NULL ? library_name(strrchr(line, '/') + 1) : NULL;
		if (name != NULL) {
			snprintf(buf, size, "%s, %s", name, file);
			found = buf;
		}
	}
	free(line);
	if (maps != NULL) {
		fclose(maps);
	}
	return found;
}

/* ---- linked in ---- */

/*
 * Texts by which an allocator is recognised even in a stripped program: beginnings of its error
 * messages. The mark of this library is the name of its mailbox file; a program that has it is
 * taken to have no other malloc.
 */
static const struct {
	const char *words;
	const char *name;   /* NULL: this library */
} marks[] = {{PROF_MAILBOX_FD_NAME, NULL}, {"<jemalloc>: ", "a jemalloc"},
    {"mimalloc: ", "mimalloc"}, {"tcmalloc: ", "tcmalloc"}};
enum { MARKS = sizeof(marks) / sizeof(marks[0]) };

/* Bit i of the result: marks[i] is in the file. */
static unsigned
find_marks(int fd) {
	char *text = malloc(OVERLAP + PIECE);
	unsigned found = 0;
	size_t kept = 0;
	ssize_t n;
	for (off_t at = 0; text != NULL && at < FILE_MAX && (n = pread(fd, text + kept, PIECE, at))
	    > 0; at += n) {
		size_t length = kept + (size_t)n;
		for (unsigned i = 0; i < MARKS; i++) {
			found |= memmem(text, length, marks[i].words, strlen(marks[i].words)) != NULL ? 1u << i
			    : 0;
		}
		kept = length < OVERLAP ? length : OVERLAP;
		memmove(text, text + length - kept, kept);
	}
	free(text);
	return found;
}

/* Reads all the bytes at that offset; false if they are not there. */
static bool
try_read_at(int fd, void *buf, size_t size, uint64_t at) {
	return at <= INT64_MAX && pread(fd, buf, size, (off_t)at) == (ssize_t)size;
}

/* Whether a table of dynamic symbols defines that name. */
static bool
has_symbol(int fd, const Elf64_Shdr *table, const Elf64_Shdr *strings, const char *name) {
	if (table->sh_size > SYMBOLS_MAX || strings->sh_size > SYMBOLS_MAX || strings->sh_size == 0) {
		return false;
	}
	Elf64_Sym *symbols = malloc(table->sh_size + 1);
	char *text = malloc(strings->sh_size);
	bool is_there = false;
	if (symbols != NULL && text != NULL
	    && try_read_at(fd, symbols, table->sh_size, table->sh_offset)
	    && try_read_at(fd, text, strings->sh_size, strings->sh_offset)) {
		text[strings->sh_size - 1] = '\0';
		for (size_t i = 0; i < table->sh_size / sizeof(*symbols) && !is_there; i++) {
			is_there = symbols[i].st_shndx != SHN_UNDEF && symbols[i].st_name < strings->sh_size
			    && strcmp(text + symbols[i].st_name, name) == 0;
		}
	}
	free(symbols);
	free(text);
	return is_there;
}

/*
 * Whether the program exports a malloc; the loader then uses it in the whole process, in preference
 * to that of any library.
 */
static bool
has_malloc(int fd) {
	Elf64_Ehdr e;
	Elf64_Shdr table, strings;
	if (!try_read_at(fd, &e, sizeof(e), 0) || memcmp(e.e_ident, ELFMAG, SELFMAG) != 0
	    || e.e_ident[EI_CLASS] != ELFCLASS64 || e.e_shnum > SECTIONS_MAX
	    || e.e_shentsize != sizeof(table)) {
		return false;
	}
	for (unsigned i = 0; i < e.e_shnum && try_read_at(fd, &table, sizeof(table),
	    e.e_shoff + i * sizeof(table)); i++) {
		if (table.sh_type == SHT_DYNSYM && table.sh_link < e.e_shnum) {
			return try_read_at(fd, &strings, sizeof(strings),
			    e.e_shoff + table.sh_link * sizeof(strings)) && has_symbol(fd, &table, &strings,
			    "malloc");
		}
	}
	return false;
}

const char *
client_linked_allocator(const jeprof_target_t *t, char *buf, size_t size) {
	char path[64], exe[PATH_MAX];
	snprintf(path, sizeof(path), "/proc/%d/exe", t->task);
	client_read_link(path, exe, sizeof(exe));
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return NULL;
	}
	unsigned found = find_marks(fd);
	const char *name = NULL;
	for (unsigned i = 1; i < MARKS && name == NULL && !(found & 1); i++) {
		name = found & 1u << i ? marks[i].name : NULL;
	}
	if (name == NULL && !(found & 1) && has_malloc(fd)) {
		name = "an allocator";
	}
	close(fd);
	if (name == NULL) {
		return NULL;
	}
	snprintf(buf, size, "%s that is linked into %s", name, exe);
	return buf;
}

/* ---- preloaded in front ---- */

/* Whether the file at a path below the root of the process has a malloc and is not our library. */
static bool
is_other_library(const jeprof_target_t *t, const char *path) {
	char below[CLIENT_PATH];
	snprintf(below, sizeof(below), "/proc/%d/root%s", t->task, path);
	int fd = open(below, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) {
		return false;
	}
	bool is_other = (find_marks(fd) & 1) == 0 && has_malloc(fd);
	close(fd);
	return is_other;
}

/*
 * The known allocator whose path stands in front of this library's in LD_PRELOAD, so that its
 * malloc is used, in buf; NULL: none. Names without a directory are passed over.
 */
static const char *
preloaded_allocator(const jeprof_target_t *t, char *buf, size_t size) {
	static const char key[] = "LD_PRELOAD=";
	char text[ENVIRONMENT_MAX];
	ssize_t length = client_read_proc(t->task, "environ", text, sizeof(text));
	const char *list = "";
	for (char *word = text; length > 0 && word < text + length; word += strlen(word) + 1) {
		list = strncmp(word, key, sizeof(key) - 1) == 0 ? word + sizeof(key) - 1 : list;
	}
	for (size_t n; *(list += strspn(list, ": ")) != '\0'; list += n) {
		char path[PATH_MAX];
		n = strcspn(list, ": ");
		snprintf(path, sizeof(path), "%.*s", n < sizeof(path) ? (int)n : 0, list);
		const char *name = *path == '/' ? library_name(strrchr(path, '/') + 1) : NULL;
		if (name != NULL) {
			snprintf(buf, size, "%s (%s), which is preloaded in front of it", name, path);
			return is_other_library(t, path) ? buf : NULL;
		}
	}
	return NULL;
}

/* ---- the command line that starts it with this library ---- */

/* Path of the library: beside this program (../lib), else in LIBRARY_DIR. */
static void
library_path(char *buf, size_t size) {
	char exe[PATH_MAX], real[PATH_MAX];
	client_read_link("/proc/self/exe", exe, sizeof(exe));
	char *slash = strrchr(exe, '/');
	if (slash != NULL) {
		*slash = '\0';
		snprintf(buf, size, "%s/../lib/libjemalloc.so.2", exe);
		if (access(buf, R_OK) == 0 && realpath(buf, real) != NULL) {
			snprintf(buf, size, "%s", real);
			return;
		}
	}
	snprintf(buf, size, "%s/libjemalloc.so.2", LIBRARY_DIR);
}

/*
 * Cuts the first word to the name of the program, and returns true, if the command line was
 * replaced by a title, as by redis-server ("redis-server *:6379") and nginx ("nginx: master process
 * ..."): there is a blank in that word, and no '/' in front of it.
 */
static bool
cut_title(char *word) {
	size_t name = strcspn(word, " /");
	if (name == 0 || word[name] != ' ') {
		return false;
	}
	word[name - (word[name - 1] == ':')] = '\0';
	return true;
}

void
client_restart_line(const jeprof_target_t *t, char *buf, size_t size) {
	char text[LINE_LEN_MAX], library[2 * PATH_MAX];
	library_path(library, sizeof(library));
	size_t at = (size_t)snprintf(buf, size, "LD_PRELOAD=");
	at += client_put_word(buf + at, size - at - 1, library);
	ssize_t length = client_read_proc(t->task, "cmdline", text, sizeof(text));
	bool is_title = length > 0 && cut_title(text);
	for (char *word = text; length > 0 && word < text + length && at + 6 < size;
	    word += strlen(word) + 1) {
		size_t n = client_put_word(buf + at + 1, size - at - 6, word);
		bool is_cut = word + strlen(word) == text + sizeof(text) - 1;
		if (n == 0 || is_cut || (is_title && word > text)) {
			memcpy(buf + at, " ...", 4);
			at += 4;
			break;
		}
		buf[at] = ' ';
		at += n + 1;
	}
	buf[at] = '\0';
}

int
jeprof_check_allocator(jeprof_target_t *t) {
	char whose[PATH_MAX + 128];
	if (client_linked_allocator(t, whose, sizeof(whose)) == NULL
	    && preloaded_allocator(t, whose, sizeof(whose)) == NULL) {
		return 0;
	}
	return client_fail(t, ENXIO,
	    "%d %s has the library loaded, but does not use it: its malloc is that of %s", t->pid,
	    t->name, whose);
}
