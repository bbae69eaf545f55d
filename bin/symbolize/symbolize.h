/*
 * Shared by the files of jeprof-symbolize: object files, queries about addresses, and callbacks
 * that receive the answers. See main.c and, for --table, table.c. No locks: one thread.
 */
#pragma once

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* An address to look up, and the DIEs (DWARF entries) that contain it, outermost first. */
typedef struct {
	Dwarf_Addr address;	/* in the file, without load bias */
	Dwarf_Off unit;		/* offset of the DIE of its compilation unit; 0: none */
	Dwarf_Off scopes[64];	/* offsets of DIEs: a function, then calls inlined in it, 64 at most */
	unsigned count;		/* of scopes */
	bool is_row_unsure;	/* rows of a discarded function may have this address too */
} query_t;

/* An object file in memory. */
typedef struct {
	const char *path;
	/* descriptor of the directory that is the root for its paths; AT_FDCWD: see file_open() */
	int root;
	void *image;		/* the mapped file; NULL: none */
	size_t size;		/* of the file, bytes */
	dev_t device;		/* of the file, as its inode */
	ino_t inode;
	Elf *elf;
	Dwarf *dwarf;		/* NULL until object_add_dwarf() */
	Dwarf *alt;		/* the file that dwz made of the common parts of debug files; NULL: none */
	int alt_fd;		/* its descriptor; -1: none */
	Elf *mini;		/* what .gnu_debugdata holds, in mini_image; NULL: nothing, or not read */
	char *mini_image;
	bool is_mini_known;
	bool is_packed;		/* some section is compressed */
	bool has_code_at_0;	/* a section of code begins at address 0 */
	unsigned lost;		/* split units that were asked for and whose .dwo is not there */
	char lost_name[256];	/* that of the first one, cut off if it is longer */
} object_t;

/*
 * The receiver of answers: answer_give() calls for each query begin once, then frame for each
 * frame, innermost first. A string that is not known is NULL, such a line 0; a line may be given
 * without a file. directory is what the name of the file is relative to; NULL if that is complete,
 * or if one of the two is not known.
 */
typedef struct answer {
	void (*begin)(const struct answer *to, Dwarf_Addr address);
	void (*frame)(const struct answer *to, const char *function, const char *directory,
	    const char *file, int line);
	void *context;
} answer_t;

enum { ID_BYTES_MAX = 64 };	/* of a build-id */

/*
 * Opens a regular file for reading; -1 if there is none or that fails. `root` is a descriptor of
 * the directory that is the root for the path and for links in it; neither can lead out of it. With
 * AT_FDCWD the path is one of this process, as for open(). Never opens a pipe, on which open()
 * could wait for another process, nor a device.
 */
int file_open(int root, const char *path);

/*
 * Opens for reading the regular file that an O_PATH descriptor names; -1 if it is none or cannot be
 * read. Does not close `named`.
 */
int file_reopen(int named);

/*
 * Map an ELF file. NULL, or the reason why it cannot be read; the caller calls object_close() in
 * either case. `path` must stay valid until object_close(). object_open_fd() does not close the
 * descriptor; `root` is that below which the object's links to other files are opened.
 */
const char *object_open(object_t *object, const char *path);
const char *object_open_fd(object_t *object, int fd, int root, const char *path);

/* Opens the DWARF of an open object, once. NULL, or the reason why there is none. */
const char *object_add_dwarf(object_t *object);

/* Releases all that an object holds, also after a failed open; its names and DIEs are then gone. */
void object_close(object_t *object);

/*
 * Closes and reopens libdw, so that all it has decoded is freed; DIEs become invalid, their offsets
 * stay. False without memory: then object->dwarf is NULL.
 */
bool object_renew(object_t *object);

/*
 * Returns the pages of the file to the kernel, which reads them again when they are needed. Does
 * nothing if a section is compressed.
 */
void object_forget(object_t *object);

/* Whether the file has a table of line numbers. */
bool object_has_lines(object_t *object);

/*
 * Sets hex, which has 2 * ID_BYTES_MAX + 1 bytes, to the build-id; "" if there is none or it is
 * longer.
 */
void object_id(object_t *object, char *hex);

/*
 * Finds and opens the debug file of an object; false if there is none, then `debug` is not open.
 * `path` has PATH_MAX bytes and must stay valid while `debug` is open; it gets the path below
 * debug->root. For a file from a server debug->path is "/", and `path` has the last path tried.
 * own_root: a descriptor of our root directory, as file_open() needs it to keep links inside.
 * with_servers: debuginfod is asked too.
 */
bool debug_try_find(object_t *debug, object_t *object, int own_root, bool with_servers, char *path);

/*
 * What .gnu_debugdata of an open object holds, unpacked at the first call: an ELF file with the
 * symbols of functions that are not exported. NULL: nothing that can be read.
 */
Elf *mini_elf(object_t *object);

/* Releases what mini_elf() holds. */
void mini_close(object_t *object);

/* Whether a full symbol table (.symtab) that is not empty is there, or in .gnu_debugdata. */
bool symbols_has_table(object_t *object);

/*
 * Sets the symbol name of each address that has none (NULL) yet; NULL stays where no symbol fits.
 * The addresses ascend. The names lie in the object, until object_close(): mangled, and with the
 * version if the table has it ("memcpy@@GLIBC_2.14"). False without memory.
 */
bool symbols_try_find(object_t *object, const uint64_t *addresses, const char **names,
    size_t count);

/*
 * Writes the short demangled form of a name, the linker's or that in the source, to `to`: `room`
 * bytes (above 0) at most, with the NUL.
 */
void name_for_people(const char *mangled, char *to, size_t room);

/* Writes a code point in UTF-8, at most 4 bytes. Returns their number; 0: it is none. */
size_t put_utf8(unsigned long point, char *to);

/*
 * Writes a name of Rust's newer scheme (_R...), without template arguments. False if it is none, is
 * damaged, or does not fit; then `to` is undefined.
 */
bool rust_try_demangle(const char *mangled, char *to, size_t room);

/*
 * Answers all queries from the DWARF of an object, which object_add_dwarf() has opened. Only the
 * addresses are set, in any order; the rest is 0. The array is sorted by unit and address, and the
 * answers come in that order. NULL, or the reason why it failed: then some queries have no answer,
 * and the object can only be closed.
 */
const char *object_answer(object_t *object, query_t *queries, size_t count, const answer_t *to);

/*
 * Sets the unit of each query, which is 0 before and stays 0 if no unit contains it. The queries
 * are sorted by address.
 */
void units_find(object_t *object, query_t *queries, size_t count);

/* The index of the first of the sorted queries at or after an address; count if there is none. */
size_t query_at(const query_t *queries, size_t count, Dwarf_Addr address);

/*
 * Whether a range that begins there is that of code which the linker has discarded; it leaves the
 * debug information of that, with addresses from 0 (in some tables 1) on.
 */
bool object_is_discarded(const object_t *object, Dwarf_Addr start);

/*
 * Sets the scopes and is_row_unsure of queries that belong to one unit, have no scopes yet and are
 * sorted by address.
 */
void scopes_find(const object_t *object, Dwarf_Die *unit, query_t *queries, size_t count);

/*
 * Passes the frames of a query, whose scopes are set, to the receiver; unit NULL: no unit contains
 * the address. The scopes lie in the unit `whole`, which is `unit` or, of a split one, in another
 * file. A query without scopes gets one frame without a function.
 */
void answer_give(Dwarf_Die *unit, Dwarf_Die *whole, const query_t *query, const answer_t *to);

/* The callbacks that print text as addr2line -a -f -i does, but addresses without leading zeros. */
void print_address(const answer_t *to, Dwarf_Addr address);
void print_frame(const answer_t *to, const char *function, const char *directory, const char *file,
    int line);

/* The mode --table (table.c); `words` are those after it. Returns the exit code. */
int table_main(int count, char **words);
