/*
 * Reads the headers and notes of ELF objects in the memory of a process, in what a core file has of
 * it, or in a file. Internal to bin/client/ and jeprofd. No locks, no state but the caller's.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "prof/control/prof_mailbox.h"

enum { CLIENT_BUILD_ID_MAX = 64 }; /* bytes; a longer build id counts as none */

/* Copies bytes of the memory; false if not all can be read. */
typedef bool client_read_t(void *arg, uint64_t at, void *buf, size_t size);

/*
 * Memory or a file to read from. headers and notes tell how much was read from it; the caller sets
 * both to 0 at first. elf.c bounds them, so that a hostile source costs little.
 */
typedef struct client_elf_s {
	client_read_t *read;
	void *arg;
	bool is_file;            /* addresses are offsets in a file; `start` is 0 then */
	unsigned headers;        /* ELF headers read so far */
	uint64_t notes;          /* bytes of notes read so far */
} client_elf_t;

/* A loaded object. */
typedef struct client_object_s {
	uint64_t start;          /* first address of its loaded segments */
	uint64_t end;            /* the address after them */
	uint64_t bias;           /* address in memory minus address in the file */
	unsigned build_id_len;   /* 0: none, a longer one, or it cannot be read */
	unsigned char build_id[CLIENT_BUILD_ID_MAX];
	bool has_note;           /* it has the note of this allocator: note and block are set */
	prof_note_t note;
	uint64_t block;          /* address of its mailbox, computed from the note */
	bool is_whole;           /* all its note segments were read */
} client_object_t;

/*
 * Reads the object whose ELF header is at `start`, of either word size, into *o. False, and *o is
 * not usable, if no ELF header of this machine's byte order is there, its program headers are too
 * many or cannot be read, it has no loaded segment, or the bound of headers is reached. A note
 * segment that cannot be read, or exceeds a bound, only clears o->is_whole; a malformed note does
 * not even that, it hides those behind it in its segment.
 */
bool client_read_object(client_elf_t *elf, uint64_t start, client_object_t *o);
