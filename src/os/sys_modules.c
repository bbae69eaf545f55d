/*
 * Lists the loaded objects by dl_iterate_phdr(), and keeps the allocator's own object loaded.
 * dl_iterate_phdr() takes the loader's lock, so callers hold no lock of the allocator. A fork
 * copies the loader's lock as it is, and the C library does not repair it in the child. If a thread
 * was in loader_iterate() during a fork, or loaded or unloaded an object, the lock may stay held in
 * the child for ever; so that child and its children never list objects again (loader_may_be_lost).
 * Calls of dl_iterate_phdr() by the program are not seen. Invariant: loader.inside is above 0 while
 * a thread of this process is in loader_iterate(). Callers are unwind/ (module_history.c,
 * objects.c), prof_dump.c, prof_backtrace.c (the notes), prof.c (after a fork) and jemalloc_init.c
 * (to stay loaded); sys.h has the prototypes.
 */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#include "os/gate.h"
#include "os/pages.h"
#include "os/sys.h"
#include "util/atomic.h"

static struct {
	atomic_u32_t inside; /* threads that hold the loader's lock or are about to take it */
	/* the lock may be held by a thread that does not exist; also true in children */
	atomic_b_t is_lost;
} loader;

/* What a debugger reads: glibc's loader has it, others may not. */
extern struct r_debug _r_debug WEAK;

const struct link_map *
sys_module_chain(void) {
	return &_r_debug == NULL ? NULL : _r_debug.r_map;
}

/* Whether a thread may hold the lock now; after a fork: of the parent's threads. */
static bool
lock_may_be_held(void) {
	return atomic_load_u32(&loader.inside, MO_SEQ_CST) != 0
	    || (&_r_debug != NULL && _r_debug.r_state != RT_CONSISTENT);
}

/*
 * Whether a thread that does not exist here may hold the lock. In a signal handler of a thread that
 * forks this may be the child already, before sys_modules_postfork_child() has run there.
 */
static bool
loader_may_be_lost(void) {
	return atomic_load_b(&loader.is_lost, MO_RELAXED)
	    || (gate_is_mine(tls_get()) && lock_may_be_held());
}

/* Returns what dl_iterate_phdr() returns, or -1 if it may not be called. */
static int
loader_iterate(int (*cb)(struct dl_phdr_info *info, size_t size, void *ctx), void *ctx) {
	if (loader_may_be_lost()) {
		return -1;
	}
	int saved = errno;
	atomic_fetch_add_u32(&loader.inside, 1, MO_SEQ_CST);
	int ret = dl_iterate_phdr(cb, ctx);
	atomic_fetch_sub_u32(&loader.inside, 1, MO_SEQ_CST);
	errno = saved;
	return ret;
}

void
sys_modules_postfork_child(void) {
	if (lock_may_be_held()) {
		atomic_store_b(&loader.is_lost, true, MO_RELAXED);
	}
}

/*
 * Most bytes of an image's program headers, and of one segment of notes, that sys_module_of_image()
 * copies before it reads them; more headers are refused, more notes left out.
 */
#define HEADERS_MAX 1536
#define NOTES_MAX 512

/* The arguments of sys_modules() on their way to on_module(). */
struct modules_ctx {
	int (*cb)(void *ctx, const struct sys_module_s *m);
	void *ctx;
	/*
	 * Whether the first object was listed. It is the program, for which the loader has no name, or
	 * a name that is not its path; so exe is its path.
	 */
	bool has_program;
	const char *exe;
};

/* Finds the note of an owner and type among the notes at p. Returns its description, or NULL. */
static const unsigned char *
find_note(const char *p, size_t len, size_t align, const char *owner, unsigned type,
    size_t *desc_len) {
	size_t owner_size = strlen(owner) + 1;
	align = align == 8 ? 8 : 4;
	while (len >= sizeof(ElfW(Nhdr))) {
		const ElfW(Nhdr) *n = (const void *)p;
		size_t desc = align_up(sizeof(*n) + n->n_namesz, align);
		size_t next = desc + align_up(n->n_descsz, align);
		if (n->n_namesz > len || n->n_descsz > len || next > len) {
			return NULL;
		}
		if (n->n_type == type && n->n_namesz >= owner_size
		    && memcmp(p + sizeof(*n), owner, owner_size) == 0) {
			*desc_len = n->n_descsz;
			return (const unsigned char *)p + desc;
		}
		p += next;
		len -= next;
	}
	return NULL;
}

bool
sys_program_has_note(const char *owner, unsigned type) {
	const ElfW(Phdr) *ph = (const void *)sys_auxval(AT_PHDR);
	size_t n = ph == NULL ? 0 : sys_auxval(AT_PHNUM);
	uintptr_t bias = 0;
	size_t len;
	for (size_t i = 0; i < n; i++) {
		if (ph[i].p_type == PT_PHDR) {
			bias = (uintptr_t)ph - ph[i].p_vaddr;
		}
	}
	for (size_t i = 0; i < n; i++) {
		const char *notes = (const char *)(bias + ph[i].p_vaddr);
		if (ph[i].p_type == PT_NOTE
		    && find_note(notes, ph[i].p_memsz, ph[i].p_align, owner, type, &len) != NULL) {
			return true;
		}
	}
	return false;
}

bool
sys_is_run_by_loader(void) {
	const ElfW(Phdr) *ph = (const void *)sys_auxval(AT_PHDR);
	size_t n = ph == NULL || sys_auxval(AT_BASE) != 0 ? 0 : sys_auxval(AT_PHNUM);
	for (size_t i = 0; i < n; i++) {
		if (ph[i].p_type == PT_INTERP) {
			return true;
		}
	}
	return false;
}

/* Extends the object's range by a segment, or notes the object's .eh_frame_hdr. */
static void
add_segment(struct sys_module_s *m, const ElfW(Phdr) *ph) {
	uintptr_t start = m->bias + ph->p_vaddr;
	switch (ph->p_type) {
	case PT_LOAD:
		if (m->end == 0 || start < m->start) {
			m->start = start;
		}
		if (start + ph->p_memsz > m->end) {
			m->end = start + ph->p_memsz;
		}
		break;
	case PT_GNU_EH_FRAME:
		m->eh_frame_hdr = (const void *)start;
		break;
	default:
		break;
	}
}

/* Whether a segment has notes and the build id is not known yet. */
static bool
may_have_build_id(const struct sys_module_s *m, const ElfW(Phdr) *ph) {
	return ph->p_type == PT_NOTE && m->build_id == NULL;
}

/* Sets the build id, if the note segment whose bytes are at `notes` has one. */
static void
add_build_id(struct sys_module_s *m, const ElfW(Phdr) *ph, const char *notes, size_t len) {
	m->build_id = find_note(notes, len, ph->p_align, "GNU", NT_GNU_BUILD_ID, &m->build_id_len);
}

/*
 * Copies the program headers of the image at start. Returns their number; 0 if there is no valid
 * image, or if they are more than `size` bytes.
 */
static unsigned
copy_headers(ElfW(Phdr) ph[], size_t size, uintptr_t start, uintptr_t end) {
	ElfW(Ehdr) e;
	if (end - start < sizeof(e) || !sys_copy_memory(&e, (const void *)start, sizeof(e))
	    || memcmp(e.e_ident, ELFMAG, SELFMAG) != 0 || e.e_phnum == 0
	    || e.e_phnum > size / sizeof(*ph) || e.e_phoff > end - start) {
		return 0;
	}
	return sys_copy_memory(ph, (const void *)(start + e.e_phoff), e.e_phnum * sizeof(*ph))
	    ? e.e_phnum : 0;
}

bool
sys_module_of_image(struct sys_module_s *m, uintptr_t start, uintptr_t end,
    unsigned char build_id[SYS_BUILD_ID_MAX]) {
	ElfW(Phdr) ph[HEADERS_MAX / sizeof(ElfW(Phdr))];
	union {
		char bytes[NOTES_MAX];
		ElfW(Nhdr) align;
	} notes;
	unsigned n = copy_headers(ph, sizeof(ph), start, end);
	for (unsigned i = 0; i < n; i++) {
		add_segment(m, &ph[i]);
		size_t len = ph[i].p_memsz < NOTES_MAX ? ph[i].p_memsz : NOTES_MAX;
		if (may_have_build_id(m, &ph[i]) && len > 0
		    && sys_copy_memory(notes.bytes, (const void *)(m->bias + ph[i].p_vaddr), len)) {
			add_build_id(m, &ph[i], notes.bytes, len);
		}
	}
	if (m->build_id != NULL) {
		m->build_id_len = m->build_id_len < SYS_BUILD_ID_MAX ? m->build_id_len : SYS_BUILD_ID_MAX;
		m->build_id = memcpy(build_id, m->build_id, m->build_id_len);
	}
	return m->start == start && m->end > start;
}

static int
on_module(struct dl_phdr_info *info, size_t size UNUSED, void *opaque) {
	struct modules_ctx *c = opaque;
	struct sys_module_s m = {.bias = info->dlpi_addr, .path = info->dlpi_name,
		.headers = info->dlpi_phdr, .n_headers = info->dlpi_phnum};
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		add_segment(&m, ph);
		if (may_have_build_id(&m, ph)) {
			add_build_id(&m, ph, (const char *)(m.bias + ph->p_vaddr), ph->p_memsz);
		}
	}
	if (!c->has_program) {
		c->has_program = true;
		m.path = c->exe;
	}
	return m.end == 0 ? 0 : c->cb(c->ctx, &m);
}

int
sys_modules(int (*cb)(void *ctx, const struct sys_module_s *m), void *ctx, const char *exe) {
	struct modules_ctx c = {.cb = cb, .ctx = ctx, .exe = exe};
	return loader_iterate(on_module, &c);
}

struct changes_ctx {
	uint64_t adds;
	uint64_t subs;
	bool is_known;
};

static int
on_first_module(struct dl_phdr_info *info, size_t size, void *opaque) {
	struct changes_ctx *c = opaque;
	if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof(info->dlpi_subs)) {
		c->adds = info->dlpi_adds;
		c->subs = info->dlpi_subs;
		c->is_known = true;
	}
	return 1;
}

bool
sys_module_changes(uint64_t *adds, uint64_t *subs) {
	struct changes_ctx c = {0, 0, false};
	loader_iterate(on_first_module, &c);
	*adds = c.adds;
	*subs = c.subs;
	return c.is_known;
}

/* ---- the object that this code is in ---- */

#ifdef __PIE__
/*
 * Compiled for a program, which is never unloaded. Naming dlopen() would cause a warning of the
 * linker for every static program.
 */
void
sys_module_keep_self(void) {
}
#else
/* Without dynamic loading the C library may not have these. */
#pragma weak dladdr
#pragma weak dlopen
extern ElfW(Dyn) _DYNAMIC[] WEAK HIDDEN;

/* Whether this code is in the program itself or in an object that was linked with -z nodelete. */
static bool
is_permanent(void) {
	for (const ElfW(Dyn) *d = _DYNAMIC; d != NULL && d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_FLAGS_1) {
			return (d->d_un.d_val & (DF_1_NODELETE | DF_1_PIE)) != 0;
		}
	}
	return _DYNAMIC == NULL;
}

void
sys_module_keep_self(void) {
	Dl_info self;
	if (is_permanent() || dladdr == NULL || dlopen == NULL) {
		return;
	}
	bool is_found = dladdr((const void *)(uintptr_t)sys_module_keep_self, &self) != 0;
	/* Not for the program itself, whose program headers lie directly behind its ELF header. */
	if (is_found && sys_auxval(AT_PHDR) - (uintptr_t)self.dli_fbase != sizeof(ElfW(Ehdr))) {
		(void)dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
	}
}
#endif
