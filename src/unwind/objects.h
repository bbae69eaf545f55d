/*
 * Which loaded object contains an address, and its unwind tables; without a lock, at any time.
 * glibc from 2.35 on has a look-up that needs no lock. For other C libraries this module keeps a
 * table of the objects, which each refresh lists again; a reader that finds the table changed
 * during its search searches again. Called by the unwinder (unwind_rows.c, unwind_step.c,
 * unwind_fp.c, code.c, unwind.c in a forked child) and by module_history.c.
 */
#ifndef UNWIND_OBJECTS_H
#define UNWIND_OBJECTS_H

#include "util/compiler.h"

/* Whether the C library has a look-up that takes no lock. */
bool objects_have_lookup(void);
/*
 * Finds the .eh_frame_hdr of the object at pc (*hdr is NULL if it has none). Returns false if no
 * object is known there.
 */
bool objects_find(uintptr_t pc, const void **hdr);
/* The range of an object, and the address of the loader's description of it (a struct link_map). */
struct object_place_s {
	uintptr_t start;
	uintptr_t end;
	const void *entry;
};
/*
 * The place of the object at pc. Returns false if there is none, or if the C library has no look-up
 * without a lock.
 */
bool objects_place(uintptr_t pc, struct object_place_s *place);
struct sys_module_s;
/*
 * Describes the object at a place. The C library may still find an object for a moment after it was
 * unmapped, so its memory may disappear during the call: then the result is false, as it is for
 * unexpected headers. build_id has room for SYS_BUILD_ID_MAX bytes. m->path is the loader's text
 * and may disappear too; see sys_copy_text().
 */
bool objects_describe(const struct object_place_s *place, struct sys_module_s *m,
    unsigned char *build_id);
/*
 * Lists the objects again if the C library has no look-up. Takes the loader's lock then, so the
 * caller must hold no lock.
 */
void objects_refresh(void);
/* In a forked child: a refresh of another thread is over. */
void objects_postfork_child(void);

#endif
