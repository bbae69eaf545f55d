/*
 * Makes the places of a profile, its distinct addresses (pprof_frames.h), and decides which
 * addresses at the leaf of a stack (its first address, the innermost call) are the allocator's own,
 * with the rules of `jeprof`. First the run of addresses in the allocator's library or the
 * unwinder, up to the last one in the library. Then, because a program may have an allocator linked
 * in, the addresses up to the last entry point (malloc and its like) among the next ENTRY_DEPTH;
 * this search ends at the first address that is in another object than the one where it began. Also
 * makes the strings of the output, and rounds. Invariant: after places_make() only three things of
 * a places_t change: pprof_parts.c gives places their ids, the numbers in the output; strings are
 * added; and has_failed is set if one cannot be. No locks: a profile belongs to one thread. Called
 * by pprof_encode.c, otlp_encode.c, pprof_parts.c and pprof_names.c.
 */
#include "pprof_frames.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/removed.h"
#include "client/utf8.h"

enum { ENTRY_DEPTH = 16 }; /* addresses of a stack that are searched for an entry point */

/* ---------------------------------------------------------------- strings */

/*
 * Writes a '?' over each byte that is not valid UTF-8 or belongs to a character that a terminal
 * would obey (utf8_is_obeyed). The length stays.
 */
static void
text_clean(unsigned char *text, size_t len) {
	for (size_t i = 0; i < len;) {
		uint32_t point;
		size_t step = utf8_read(text + i, len - i, &point);
		if (step == 0 || utf8_is_obeyed(point)) {
			text[i] = '?';
			step = 1;
		}
		i += step;
	}
}

uint32_t
string_put(places_t *s, const char *text, size_t len) {
	bool is_plain = true;
	for (size_t i = 0; i < len && is_plain; i++) {
		is_plain = text[i] >= 0x20 && text[i] < 0x7f;
	}
	if (is_plain) {
		return intern_put(&s->strings, text, len);
	}
	unsigned char *copy = malloc(len);
	if (copy == NULL) {
		return INTERN_FAILED;
	}
	memcpy(copy, text, len);
	text_clean(copy, len);
	uint32_t number = intern_put(&s->strings, copy, len);
	free(copy);
	return number;
}

uint32_t
string_of(places_t *s, const char *text, size_t len) {
	uint32_t number = string_put(s, text, len);
	s->has_failed |= number == INTERN_FAILED;
	return number == INTERN_FAILED ? 0 : number;
}

uint32_t
string_of_word(places_t *s, const char *word) {
	return string_of(s, word, strlen(word));
}

uint32_t
string_of_text(places_t *s, uint32_t text) {
	return string_of(s, intern_text(&s->p->texts, text), intern_len(&s->p->texts, text));
}

uint32_t
string_of_path(places_t *s, uint32_t object) {
	char path[EXE_BYTES];
	uint32_t text = s->p->objects[object].path;
	if (object != 0 || *intern_text(&s->p->texts, text) != '\0' || s->pid <= 0) {
		return string_of_text(s, text);
	}
	return string_of(s, path, read_exe((int)s->pid, path));
}

/* ---------------------------------------------------------------- rounding */

/* 2^53 - 1: up to it doubles, and so the numbers of bin/page/pprof.js, hold every integer. */
#define VALUE_MAX 9007199254740991.0

int64_t
carry_next(carry_t *c, double estimate) {
	c->exact = fmin(fmax(c->exact + estimate, -VALUE_MAX), VALUE_MAX);
	double step = trunc(c->exact) - c->whole;
	c->whole += step;
	return (int64_t)step;
}

/* ---------------------------------------------------------------- the allocator's own frames */

static bool
starts_with(const char *text, const char *start) {
	return strncmp(text, start, strlen(start)) == 0;
}

static const char *
base_name(const char *path) {
	const char *slash = strrchr(path, '/');
	return slash == NULL ? path : slash + 1;
}

static bool
is_in_list(const char *text, const char *const *list) {
	for (; *list != NULL; list++) {
		if (strcmp(text, *list) == 0) {
			return true;
		}
	}
	return false;
}

/* Is this a function that programs call to allocate, or malloc_default, to which malloc jumps? */
static bool
is_entry_name(const char *name) {
	static const char *const fronts[] = {"je_", "jemalloc_", "__libc_", "__wrap_", "__", NULL};
	static const char *const verbs[] = {"malloc", "calloc", "realloc", "memalign",
	    "posix_memalign", "aligned_alloc", "valloc", "pvalloc", "mallocx", "rallocx", "xallocx",
	    "sallocx", "mdallocx", "rdallocx", "xdallocx", "sdallocx", "reallocarray",
	    "malloc_default", NULL};
	if (starts_with(name, "_Znwj") || starts_with(name, "_Znwm") || starts_with(name, "_Znaj")
	    || starts_with(name, "_Znam")) {
		return true;
	}
	for (const char *const *front = fronts; *front != NULL; front++) {
		if (starts_with(name, *front)) {
			name += strlen(*front);
			break;
		}
	}
	return is_in_list(name, verbs) || starts_with(name, "smallocx_");
}

/*
 * The kind of the places in this object, but for entry points, which kinds_set() finds by name.
 * Object 0 is the program; even if it has the library linked in, most of it is not the allocator's.
 */
static place_kind_t
object_kind(const struct pprof_profile *p, uint32_t number) {
	const object_t *o = &p->objects[number];
	const char *name = base_name(intern_text(&p->texts, o->path));
	if (number != 0 && ((starts_with(name, "libjemalloc") && strstr(name, ".so") != NULL)
		|| (p->library != 0 && p->library == o->path))) {
		return place_library;
	}
	return starts_with(name, "libgcc_s") || starts_with(name, "libunwind") ? place_unwinder
	    : place_other;
}

/*
 * The linker's name of the function that has the address: of the place's last frame, since those
 * before it are calls that are inlined in it. "" if it is not known.
 */
static const char *
system_name(const places_t *s, const place_t *place) {
	function_t f;
	if (place->nframes == 0) {
		return "";
	}
	uint32_t number = s->frames[place->frame + place->nframes - 1].function;
	memcpy(&f, intern_text(&s->functions, number), sizeof(f));
	return intern_text(&s->strings, f.system_name);
}

/* Sets the kind of each place by its object and by the name of its function. */
static void
kinds_set(places_t *s) {
	for (size_t i = 0; i < s->count; i++) {
		place_t *place = &s->all[i];
		place->kind = place->object == NO_OBJECT ? place_other : object_kind(s->p, place->object);
		if (place->kind != place_library && is_entry_name(system_name(s, place))) {
			place->kind = place_entry;
		}
	}
}

/*
 * Looks at up to ENTRY_DEPTH addresses of a stack (of, depth) from index `first_kept` on, and stops
 * at the first one in another object than the address at `first_kept`. Returns the index behind the
 * last entry point among them; `first_kept` itself if there is none.
 */
static uint32_t
past_entries(const places_t *s, const uint32_t *of, uint32_t depth, uint32_t first_kept) {
	uint32_t result = first_kept;
	uint32_t first = first_kept < depth ? s->all[of[first_kept]].object : NO_OBJECT;
	for (uint32_t i = first_kept; i < depth && i < first_kept + ENTRY_DEPTH; i++) {
		const place_t *place = &s->all[of[i]];
		if (place->object != first) {
			break;
		}
		result = place->kind == place_entry ? i + 1 : result;
	}
	return result;
}

uint32_t
places_to_cut(const places_t *s, const site_t *site) {
	const uint32_t *of = s->of + site->first;
	uint32_t first_kept = 0;
	for (uint32_t i = 0; i < site->depth; i++) {
		place_kind_t kind = s->all[of[i]].kind;
		if (kind == place_library) {
			first_kept = i + 1;
		} else if (kind != place_unwinder) {
			break;
		}
	}
	first_kept = past_entries(s, of, site->depth, first_kept);
	return first_kept < site->depth ? first_kept : site->depth == 0 ? 0 : site->depth - 1;
}

/* ---------------------------------------------------------------- all places */

/* Makes a place for each distinct address (table `known`), and sets `of`. 0 or ENOMEM. */
static int
places_collect(places_t *s, intern_t *known) {
	const struct pprof_profile *p = s->p;
	for (size_t i = 0; i < p->naddresses; i++) {
		uint64_t address = p->addresses[i];
		uint32_t number = intern_put(known, &address, sizeof(address));
		if (number == INTERN_FAILED) {
			return ENOMEM;
		}
		s->of[i] = number;
		if (number < s->count) {
			continue;
		}
		if (array_grow(&s->all, &s->room, s->count, sizeof(*s->all)) != 0) {
			return ENOMEM;
		}
		const range_t *range = range_of(p, address);
		s->all[s->count++] = (place_t){.address = address,
		    .object = range == NULL ? NO_OBJECT : range->object};
	}
	return 0;
}

int
places_make(places_t *s, const struct pprof_profile *p, const struct pprof_request *request) {
	intern_t known = {0};
	memset(s, 0, sizeof(*s));
	s->p = p;
	s->pid = request->pid;
	s->of = malloc((p->naddresses + 1) * sizeof(*s->of));
	s->has = calloc(p->nobjects + 1, 1);
	int err = s->of == NULL || s->has == NULL || intern_put(&s->strings, "", 0) != 0 ? ENOMEM
	    : places_collect(s, &known);
	intern_free(&known);
	if (err == 0) {
		err = places_name(s, request);
	}
	if (err == 0) {
		kinds_set(s);
	}
	return err;
}

void
places_free(places_t *s) {
	free(s->all);
	free(s->of);
	free(s->frames);
	free(s->has);
	intern_free(&s->strings);
	intern_free(&s->functions);
}
