/*
 * Which loaded object contains an address, and its unwind tables; without a lock, at any time.
 * glibc from 2.35 on has a look-up that needs no lock. For other C libraries this module keeps a
 * table of the objects, which each look of module_history.c lists again; a reader that finds the
 * table changed during its search searches again. Called by the unwinder (unwind_rows.c,
 * unwind_step.c, code.c), by module_history.c, and by prof.c at boot.
 */
#pragma once

#include "util/compiler.h"

/*
 * Finds the .eh_frame_hdr of the object at pc (*hdr is NULL if it has none). Returns false if no
 * object is known there; *hdr means nothing then. Without a look-up of the C library an object is
 * known from the look after its loading to the look after its unloading, if it is one of the first
 * 512; and a search is given up, with false, when looks disturbed it 4 times.
 */
bool objects_find(uintptr_t pc, const void **hdr);
/*
 * The range of an object, the address of the loader's description of it (a struct link_map), and
 * its .eh_frame_hdr; NULL: it has none.
 */
struct object_place_s {
	uintptr_t start;
	uintptr_t end;
	const void *entry;
	const void *hdr;
};
/*
 * The place of the object at pc. Returns false if there is none, or if the C library has no look-up
 * without a lock.
 */
bool objects_place(uintptr_t pc, struct object_place_s *place);
/* Notes which objects are there at the start of the process; called at boot, before any thread. */
void objects_boot(void);
/*
 * Whether the object was loaded when the process started, so that it is never unloaded. False also
 * if that is not known: without a look-up of the C library, or for the objects that are behind the
 * loader in its chain if this library was opened later.
 */
bool objects_is_of_start(const struct object_place_s *place);
struct sys_module_s;
/*
 * Describes the object at a place. False without a look-up of the C library, for unexpected headers
 * and if the headers are gone: the C library may find an object for a moment after it was
 * unmapped. (sys_copy_memory() says when such a read still faults.) *m may be half filled in then.
 * build_id has room for SYS_BUILD_ID_MAX bytes; m->build_id is then that array, or NULL. m->path is
 * the loader's text and may disappear too; see sys_copy_text().
 */
bool objects_describe(const struct object_place_s *place, struct sys_module_s *m,
    unsigned char *build_id);
/*
 * A listing of the objects, by one thread at a time, for objects_find() without a look-up of the C
 * library; with one these do nothing. is_whole: all objects were added; else the list before stays.
 */
void objects_list_begin(void);
void objects_list_add(const struct sys_module_s *m);
void objects_list_end(bool is_whole);
