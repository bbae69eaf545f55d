/*
 * History of loaded objects: what a profile needs to name addresses in objects that were unloaded.
 * Records are never removed, and no field that readers use changes but `next`, so they are read
 * without a lock; one thread at a time makes records. To look is to list the loaded objects, to
 * record those without a record, and to show them to the unwinder (objects.h, frame_scan.h), whose
 * rows are forgotten if an object was unloaded. Record numbers rise. For an address and a time: of
 * the records up to the number that module_history_last() gave at that time, the last one whose
 * object covers the address is that of the object that lay there then. If a later object was loaded
 * at the place of an earlier one, the earlier one is shadowed, and a profile gives it and its
 * addresses a substitute range that no object has. An object that was loaded and unloaded between
 * two looks, and in which nothing was sampled, is not known. Called by prof_backtrace.c and the
 * boot of unwind_fp.c (look), prof_data.c (stamps, notes), prof_dump.c (looks, all questions),
 * prof_box.c (holds, looks), and by prof.c in a forked child.
 */
#pragma once

#include "os/sys.h"
#include "util/atomic.h"

/* A longer build id is treated as none. */
#define MODULE_BUILD_ID_MAX 32

/* One loaded object. */
typedef struct module_record_s {
	atomic_p_t next; /* atomic: the only field of readers that changes */
	uintptr_t start; /* first address */
	uintptr_t end;   /* behind the last address */
	uintptr_t bias;  /* load bias in bytes: address in memory minus the file's (p_vaddr) */
	uint32_t number; /* from 1 on, rising */
	bool is_covered; /* a loaded object lies here; scratch field of module_history_gone() */
	uint8_t build_id_len; /* bytes; 0: it has none */
	unsigned char build_id[MODULE_BUILD_ID_MAX];
	char path[]; /* NUL terminated, as the loader has it: it may be relative or only a name */
} module_record_t;

/*
 * A look, if any objects were loaded or unloaded since the last one, or one could not be recorded
 * then, or the loader does not count them. If some were unloaded or scanned for unwind tables, or
 * the loader does not count, all cached unwind rows are forgotten. The program itself is not
 * recorded. Returns false, and has done nothing, while another thread makes records. Takes the
 * loader's lock, so the caller must hold no lock and be outside the gate (os/gate.h); to be called
 * from time to time, and at once if frame_scan_is_wanted(). Objects beyond MODULE_HISTORY_MAX are
 * not recorded.
 */
bool module_history_try_look(void);
/*
 * A hash that identifies the objects in which these return addresses lie: equal numbers are taken
 * for the same objects. 0 means that they lie only in objects that are never unloaded, or that the
 * objects are not known, as without a look-up of the C library (objects.h). Takes no lock, because
 * objects whose code is on a stack are not unloaded.
 */
uint32_t module_history_stamp(void *const *frames, unsigned n);
/*
 * Records the objects in which these return addresses lie, if they can be unloaded. Returns the
 * number of the last record of all, as module_history_last() does. Called inside the gate. Does not
 * take the loader's lock; a new record takes memory of the region, with its lock. If another thread
 * makes records, this one does not wait; then, or if memory is lacking, an object that stays loaded
 * is recorded at the next look.
 */
uint32_t module_history_note(void *const *frames, unsigned n);
/*
 * Keeps other threads from making records until module_history_release(): while prof_box.c moves
 * the tables' memory into or out of a box (their addresses stay), or makes records itself. False:
 * another thread makes records, try again.
 */
bool module_history_try_hold(void);
void module_history_release(void);
/*
 * Records the loaded objects, the program too, for a reader that cannot see them. exe is the
 * program's path. Returns the program's record; NULL if there is none. Takes the loader's lock. The
 * caller holds module_history_try_hold().
 */
const module_record_t *module_history_look_program(const char *exe);
/* In a forked child, before any other function here: the thread that made records is not there. */
void module_history_postfork_child(void);
/* The number of the last record; 0 if there is none. */
uint32_t module_history_last(void);
/* Whether the records up to number `now` shadow any object: if not, addresses are shown as is. */
bool module_history_has_shadows(uint32_t now);
/*
 * The address that a profile written at record `now` shows for an address sampled at record `then`:
 * the address itself, or the substitute if the object there is shadowed.
 */
uint64_t module_history_place(uintptr_t addr, uint32_t then, uint32_t now);
/*
 * Calls cb for each recorded object that is unloaded, also with a number above `now` (recorded
 * while the profile was written), or that is shadowed at record `now` (with its substitute range),
 * until cb returns nonzero; returns that value or 0. One caller at a time. Takes the loader's lock
 * before the first call of cb, but does not hold it during the calls.
 */
int module_history_gone(int (*cb)(void *ctx, const struct sys_module_s *m), void *ctx,
    uint32_t now);

/* Maximum number of records; bounds the memory and the time of a search. */
#define MODULE_HISTORY_MAX 1000
/*
 * With this many records, an object that was recorded before gets no new record when it is loaded
 * again; record_find() says what that costs.
 */
#define MODULE_HISTORY_ENOUGH 500
