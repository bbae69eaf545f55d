/*
 * Finds the .eh_frame of objects without .eh_frame_hdr, and keeps a sorted table of the functions
 * that it describes (frame_scan.h).
 *
 * An .eh_frame is recognised by its form: a CIE (what many functions share) that can be read,
 * records that follow each other without a gap, and at least one FDE (the record of one function)
 * of code in the same object. Only pages that can be read are scanned, of segments that are mapped
 * for reading, while the loader's lock is held, so that they stay mapped. The tables are pages of
 * their own, which are never changed or unmapped: a reader may be in one at any time. Invariant: an
 * entry of the list is complete before the list's length counts it, and then never changes. Where
 * an object was unloaded and another one is loaded, that one gets a new entry, which is found
 * first; so does an object that is back at its place, if another was there meanwhile. Until the
 * next look the old entry is found, so an FDE is checked at each use: it and its CIE must still lie
 * in the .eh_frame that was scanned, and its function begin where it did. No lock; one thread at a
 * time adds entries (module_history_try_look()). Called by module_history.c, unwind_rows.c,
 * unwind_step.c and prof_backtrace.c.
 */
#include "unwind/frame_scan.h"

#include <link.h>

#include "os/pages.h"
#include "os/sys.h"
#include "unwind/cfi.h"
#include "unwind/unwind_backend.h"
#include "util/atomic.h"
#include "util/hash.h"

/* Entries of the list; further objects are not scanned. */
#define N_ENTRIES 128
/* Most bytes of one segment that are scanned. */
#define SCAN_MAX (ZU(256) << 20)
/* Only a CIE whose length is below this (bytes) is taken for the first one of an .eh_frame. */
#define CIE_BYTES_MAX 256u

/* A function and its FDE, as distances in bytes from the start of the object, for cfi_search(). */
struct function_s {
	int32_t start;
	int32_t fde;
};
cassert(sizeof(struct function_s) == 8);

/* One object without .eh_frame_hdr that was seen. */
struct entry_s {
	uintptr_t start;               /* its first address */
	uintptr_t end;                 /* behind its last address */
	uint64_t stamp;                /* hash of its bias, path, start and build id */
	const unsigned char *frames;   /* its .eh_frame, up to frames_end */
	const unsigned char *frames_end;
	const struct function_s *functions; /* sorted by start */
	uint32_t n; /* number of functions; 0: no .eh_frame was found, or no memory for the table */
};

static LARGE_BSS struct {
	struct entry_s entries[N_ENTRIES]; /* oldest first */
	atomic_u32_t n;        /* number of entries */
	atomic_b_t is_wanted; /* a walk has come to an object that was not seen */
} scan;

/* ---- recognising ---- */

/* A range of an object that is searched, and what is counted or stored on the way. */
struct search_s {
	const struct sys_module_s *module;
	const unsigned char *end;       /* of the run of readable pages that is searched */
	struct function_s *to;          /* room for the functions; NULL: they are only counted */
	uint32_t room;                  /* functions that have room in `to` */
	uint32_t n;                     /* functions counted or stored */
	const unsigned char *frames_end; /* behind the last record that was read */
};

/* Whether these bytes lie in a segment of the object with code. */
static bool
is_code(const struct sys_module_s *m, uintptr_t start, uintptr_t size) {
	const ElfW(Phdr) *ph = m->headers;
	for (unsigned i = 0; i < m->n_headers; i++) {
		uintptr_t at = m->bias + ph[i].p_vaddr;
		if (ph[i].p_type == PT_LOAD && (ph[i].p_flags & PF_X) != 0 && start >= at
		    && size <= ph[i].p_memsz && start - at <= ph[i].p_memsz - size) {
			return true;
		}
	}
	return false;
}

/*
 * Reads records from `begin` on, as long as they have the form, and counts or stores their
 * functions in s. FDEs of functions that the linker has left out are not counted: their address is
 * not in the code of the object, or their size is 0. What is counted may change before it is
 * stored, in a segment that the program writes to.
 */
static void
read_records(struct search_s *s, const unsigned char *begin) {
	const unsigned char *p = begin, *record = p;
	uintptr_t base = s->module->start, start = 0, size = 0;
	cfi_record_t kind = cfi_read_record(begin, &p, s->end, &start, &size);
	s->n = 0;
	while ((kind == cfi_record_cie || kind == cfi_record_fde)
	    && (s->to == NULL || s->n < s->room)) {
		if (kind == cfi_record_fde && size > 0 && is_code(s->module, start, size)) {
			if (s->to != NULL) {
				s->to[s->n] = (struct function_s){(int32_t)(start - base),
				    (int32_t)((uintptr_t)record - base)};
			}
			s->n++;
		}
		record = p;
		kind = cfi_read_record(begin, &p, s->end, &start, &size);
	}
	s->frames_end = record;
}

/* Whether a CIE may begin at p: a small length, 0, a known version, "z..." or no augmentation. */
static bool
may_be_cie(const unsigned char *p) {
	uint32_t words[2];
	memcpy(words, p, sizeof(words));
	return words[1] == 0 && words[0] >= 12 && words[0] < CIE_BYTES_MAX
	    && (p[8] == 1 || p[8] == 3 || p[8] == 4) && (p[9] == 'z' || p[9] == '\0');
}

/*
 * The first place from `from` to s->end, in steps of 4 bytes, that has the form of an .eh_frame;
 * NULL: there is none.
 */
static const unsigned char *
find_in_pages(struct search_s *s, const unsigned char *from) {
	for (const unsigned char *p = from; (size_t)(s->end - p) >= 16; p += 4) {
		if (may_be_cie(p)) {
			read_records(s, p);
			if (s->n > 0) {
				return p;
			}
		}
	}
	return NULL;
}

/*
 * The first place in a segment that has the form of an .eh_frame; NULL: there is none. Each run of
 * pages that can be read is searched for itself: a program may have protected some of its data.
 */
static const unsigned char *
find_in_segment(struct search_s *s, const unsigned char *from, const unsigned char *end) {
	const unsigned char *found = NULL;
	while (found == NULL && from < end) {
		s->end = from;
		while (s->end < end && sys_is_readable(s->end, 1)) {
			const unsigned char *page = (const void *)align_up((uintptr_t)s->end + 1, os_page_size);
			s->end = page < end ? page : end;
		}
		found = find_in_pages(s, from);
		from = (const void *)align_up((uintptr_t)s->end + 1, os_page_size);
	}
	return found;
}

/*
 * Finds the .eh_frame of the object, in its segments without code first, and sets s->end and s->n.
 * NULL: there is none.
 */
static const unsigned char *
find_frames(struct search_s *s) {
	const struct sys_module_s *m = s->module;
	const ElfW(Phdr) *ph = m->headers;
	for (unsigned i = 0; i < 2 * m->n_headers; i++) {
		const ElfW(Phdr) *h = &ph[i % m->n_headers];
		bool wants_code = i >= m->n_headers;
		if (h->p_type != PT_LOAD || (h->p_flags & PF_R) == 0
		    || ((h->p_flags & PF_X) != 0) != wants_code) {
			continue;
		}
		const unsigned char *from = (const void *)align_up(m->bias + h->p_vaddr, 4);
		const unsigned char *found = find_in_segment(s, from,
		    from + (h->p_filesz < SCAN_MAX ? h->p_filesz : SCAN_MAX) / 4 * 4);
		if (found != NULL) {
			return found;
		}
	}
	s->n = 0;
	return NULL;
}

/* ---- the list ---- */

/* Sorts by Shell's method, with gaps that grow by 2.25: nearly linear, since most are in order. */
static void
functions_sort(struct function_s *v, size_t n) {
	size_t gap = 1;
	while (gap < n) {
		gap = gap * 9 / 4 + 1;
	}
	for (; gap > 0; gap = gap * 4 / 9) {
		for (size_t i = gap; i < n; i++) {
			struct function_s f = v[i];
			size_t at = i;
			for (; at >= gap && v[at - gap].start > f.start; at -= gap) {
				v[at] = v[at - gap];
			}
			v[at] = f;
		}
	}
}

/* Makes the table of an entry: none without an .eh_frame, above 2 GiB or without memory. */
static void
entry_scan(struct entry_s *e, const struct sys_module_s *m) {
	struct search_s s = {.module = m};
	const unsigned char *frames = m->end - m->start > INT32_MAX ? NULL : find_frames(&s);
	if (frames == NULL) {
		return;
	}
	size_t bytes = PAGE_CEILING(s.n * sizeof(struct function_s));
	s.room = s.n;
	s.to = pages_map(NULL, bytes, PAGE, NULL);
	if (s.to != NULL) {
		read_records(&s, frames);
		functions_sort(s.to, s.n);
		e->frames = frames;
		e->frames_end = s.frames_end;
		e->functions = s.to;
		e->n = s.n;
	}
}

/* The newest entry of an object that overlaps this range; NULL: none. */
static const struct entry_s *
entry_overlapping(uintptr_t start, uintptr_t end) {
	for (uint32_t i = atomic_load_u32(&scan.n, MO_ACQUIRE); i > 0; i--) {
		const struct entry_s *e = &scan.entries[i - 1];
		if (start < e->end && e->start < end) {
			return e;
		}
	}
	return NULL;
}

/* The newest entry of the object at an address; NULL: none. */
static const struct entry_s *
entry_find(uintptr_t addr) {
	return entry_overlapping(addr, addr + 1);
}

/* A hash by which another object that is loaded at the same place later is told from this one. */
static uint64_t
stamp_of(const struct sys_module_s *m) {
	uint64_t stamp = hash_mix64(m->bias) ^ hash64(m->path, strlen(m->path), m->start);
	return m->build_id_len == 0 ? stamp : hash64(m->build_id, m->build_id_len, stamp);
}

void
frame_scan_begin(void) {
	atomic_store_b(&scan.is_wanted, false, MO_RELAXED);
}

bool
frame_scan_look(const struct sys_module_s *m) {
	uint32_t n = atomic_load_u32(&scan.n, MO_RELAXED);
	if (m->eh_frame_hdr != NULL || n == N_ENTRIES) {
		return false;
	}
	const struct entry_s *known = entry_overlapping(m->start, m->end);
	uint64_t stamp = stamp_of(m);
	if (known != NULL && known->start == m->start && known->end == m->end
	    && known->stamp == stamp) {
		return false;
	}
	struct entry_s *e = &scan.entries[n];
	*e = (struct entry_s){.start = m->start, .end = m->end, .stamp = stamp};
	entry_scan(e, m);
	atomic_store_u32(&scan.n, n + 1, MO_RELEASE);
	return true;
}

bool
frame_scan_try_know(uintptr_t pc) {
	bool is_known = entry_find(pc) != NULL;
	if (!is_known && atomic_load_u32(&scan.n, MO_RELAXED) < N_ENTRIES) {
		atomic_store_b(&scan.is_wanted, true, MO_RELAXED);
	}
	return is_known;
}

bool
frame_scan_is_wanted(void) {
	return atomic_load_b(&scan.is_wanted, MO_RELAXED);
}

/* ---- finding ---- */

static NO_SANITIZE_ADDRESS uint32_t
word_at(const unsigned char *p) {
	uint32_t word;
	__builtin_memcpy(&word, p, sizeof(word));
	return word;
}

/* Whether the record at p, of the length that its first word says, is in e's range and readable. */
static bool
is_record(const struct entry_s *e, const unsigned char *p) {
	size_t room = (size_t)(e->frames_end - p);
	return p >= e->frames && p < e->frames_end && room >= CFI_HDR_BYTES
	    && sys_is_readable(p, CFI_HDR_BYTES) && word_at(p) <= room - 4
	    && sys_is_readable(p, (size_t)word_at(p) + 4);
}

/* Whether the FDE is still there: other bytes are, if another object has been loaded meanwhile. */
static bool
is_fde_of(const struct entry_s *e, const struct function_s *f) {
	const unsigned char *fde = (const unsigned char *)e->start + f->fde, *p = fde;
	uintptr_t start = 0, size = 0;
	return is_record(e, fde) && word_at(fde + 4) <= (size_t)(fde + 4 - e->frames)
	    && is_record(e, fde + 4 - word_at(fde + 4))
	    && cfi_read_record(e->frames, &p, e->frames_end, &start, &size) == cfi_record_fde
	    && start == e->start + (uintptr_t)f->start;
}

const unsigned char *
frame_scan_find(uintptr_t pc) {
	const struct entry_s *e = entry_find(pc);
	const struct function_s *f = e == NULL ? NULL
	    : (const void *)cfi_search(e->functions, e->n, e->start, pc);
	return f != NULL && is_fde_of(e, f) ? (const unsigned char *)e->start + f->fde : NULL;
}

void
frame_scan_stats(struct unwind_stats_s *dst) {
	dst->without_hdr = atomic_load_u32(&scan.n, MO_ACQUIRE);
	dst->scanned = 0;
	for (unsigned i = 0; i < dst->without_hdr; i++) {
		dst->scanned += scan.entries[i].n > 0;
	}
}
