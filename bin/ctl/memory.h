/*
 * The memory of a process: reading and writing it, and finding the library's block in it by the ELF note that points there.
 * Invariant: a block is used only if its magic, protocol version and place (a writable mapping) were checked.
 */
#pragma once
#include "process.h"

typedef struct range_s {
	uint64_t start;
	uint64_t end;
	bool is_writable;
	bool may_be_object;
} range_t;

typedef struct finding_s {
	range_t *ranges;
	size_t count;
	uint64_t block;        /* 0: none that is open */
	uint64_t heartbeats;
	uint32_t other_version;
	bool is_without;       /* a library that was built without the profiler */
	int closed;
	int looked_at;
	int headers;           /* of ELF objects, seen so far */
	uint64_t notes_left;   /* bytes of notes that are read yet */
} finding_t;

bool read_memory(const process_t *p, uint64_t at, void *buf, size_t size);
bool write_memory(const process_t *p, uint64_t at, const void *buf, size_t size);

/* Finds the mailbox in the memory; false if the maps may not be read. */
bool find_block(process_t *p, finding_t *f);

/* Reads what lies before the slots; false if the block is no mailbox (any more). */
bool read_head(process_t *p);
