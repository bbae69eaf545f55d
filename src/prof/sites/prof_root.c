/*
 * Fills in the root of the image, the tables as another program reads them (meta/image.h): the
 * layout of the types that such a reader walks through, from the one list of their fields
 * (IMAGE_FIELDS), and the facts that do not change (prof_root.h).
 *
 * Invariant: `version` is stored when all that does not change is there. Locks: none; later changes
 * are atomic stores of single words, except the unwinder's name, which is copied by bytes, so
 * that a reader may see parts of two names. Called by prof_data.c at boot, by prof_backtrace.c and
 * prof_course.c for the unwinder's name, by prof.c in a forked child; prof_root() by
 * prof_sample.c, prof_switch.c, prof_session.c, prof_course.c, prof_dump.c, prof_box.c,
 * prof_control.c and prof_request.c.
 */
#include "prof/sites/prof_root.h"

#include "meta/recs.h"
#include "meta/region.h"
#include "os/sys.h"
#include "os/thread.h"
#include "prof/sites/prof_label.h"
#include "prof/sites/prof_opt.h"
#include "prof/sites/prof_types.h"
#include "unwind/module_history.h"
#include "unwind/unwind.h"
#include "util/fmt.h"

cassert(IMAGE_USIZE_BITS == SAMPLE_USIZE_BITS);
cassert(IMAGE_NFIELDS <= IMAGE_FIELDS_ROOM && IMAGE_NSTRUCTS <= IMAGE_STRUCTS_ROOM);

#define FIELD_ROW(of, field, type, member) \
	{offsetof(type, member), sizeof(((type *)NULL)->member)},
static const image_field_t field_rows[] = {IMAGE_FIELDS(FIELD_ROW)};
#undef FIELD_ROW

#define STRUCT_ROW(of, type) sizeof(type),
static const uint32_t struct_rows[] = {IMAGE_STRUCTS(STRUCT_ROW)};
#undef STRUCT_ROW

/* Set once, when the root is complete; NULL before. */
static image_root_t *booted;

/* The names of the reasons for which a walk stops, separated by blanks. */
static void
stops_write(char *to, size_t size) {
	size_t at = 0;
	for (unsigned i = 0; i < unwind_stop_count && at < size; i++) {
		at += (size_t)fmt_snprintf(to + at, size - at, i == 0 ? "%s" : " %s",
		    unwind_stop_name((unwind_stop_t)i));
	}
}

image_root_t *
prof_root_boot(void) {
	image_root_t *root = region_root();
	if (root == NULL) {
		return NULL;
	}
	root->byte_order = IMAGE_BYTE_ORDER;
	root->root_bytes = sizeof(*root);
	root->page = (uint32_t)os_page_size;
	root->pid = (uint32_t)sys_pid();
	root->flags = (opt_prof_unbias ? 0 : IMAGE_RAW)
	    | (opt_prof_time_resolution == prof_time_res_high ? IMAGE_REALTIME : 0);
	fmt_snprintf(root->library_version, sizeof(root->library_version), "%s", JEMALLOC_VERSION);
	fmt_snprintf(root->ext_version, sizeof(root->ext_version), "%s", PROF_EXT_VERSION);
	stops_write(root->unwinder_stops, sizeof(root->unwinder_stops));
	root->nfields = IMAGE_NFIELDS;
	root->nstructs = IMAGE_NSTRUCTS;
	memcpy(root->fields, field_rows, sizeof(field_rows));
	memcpy(root->struct_bytes, struct_rows, sizeof(struct_rows));
	__atomic_store_n(&root->version, IMAGE_VERSION, MO_RELEASE);
	__atomic_store_n(&booted, root, MO_RELEASE);
	return root;
}

image_root_t *
prof_root(void) {
	return __atomic_load_n(&booted, MO_ACQUIRE);
}

void
prof_root_postfork_child(void) {
	/* Without a system call, which a filter may forbid. */
	__atomic_store_n(&prof_root()->pid, (uint32_t)os_tid_stored(), MO_RELAXED);
}

void
prof_root_unwinder_set(const char *name) {
	image_root_t *root = prof_root();
	if (root != NULL && strcmp(root->unwinder, name) != 0) {
		fmt_snprintf(root->unwinder, sizeof(root->unwinder), "%s", name);
	}
}
