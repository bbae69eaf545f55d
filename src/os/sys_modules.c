/*
 * The loaded objects, by dl_iterate_phdr.  Takes the loader's lock: called with no lock held.
 *
 * A fork copies that lock as it is, and the C library does not make it new in the child.  Where a thread
 * was here meanwhile, it may be held by nobody for ever, so that child does not ask the loader again.
 */
#include <elf.h>
#include <link.h>

#include "os/pages.h"
#include "os/sys.h"
#include "util/atomic.h"

static struct {
	atomic_u32_t inside; /* threads that hold the lock, or will */
	atomic_b_t is_lost;  /* in this process and its children */
} loader;

/* What dl_iterate_phdr returns; -1: it cannot be called. */
static int
loader_iterate(int (*cb)(struct dl_phdr_info *info, size_t size, void *ctx), void *ctx) {
	if (atomic_load_b(&loader.is_lost, MO_RELAXED)) {
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
	if (atomic_load_u32(&loader.inside, MO_SEQ_CST) != 0) {
		atomic_store_b(&loader.is_lost, true, MO_RELAXED);
	}
}

struct modules_ctx {
	int (*cb)(void *ctx, const struct sys_module_s *m);
	void *ctx;
	/* The first object is the program: the loader knows no name of it, or not the path. */
	bool has_program;
	const char *exe;
};

/* Finds the build id in the notes at p; false if they have none. */
static bool
find_build_id(struct sys_module_s *m, const char *p, size_t len, size_t align) {
	align = align == 8 ? 8 : 4;
	while (len >= sizeof(ElfW(Nhdr))) {
		const ElfW(Nhdr) *n = (const void *)p;
		size_t desc = align_up(sizeof(*n) + n->n_namesz, align);
		size_t next = desc + align_up(n->n_descsz, align);
		if (n->n_namesz > len || n->n_descsz > len || next > len) {
			return false;
		}
		if (n->n_type == NT_GNU_BUILD_ID && n->n_namesz == 4
		    && memcmp(p + sizeof(*n), "GNU", 4) == 0) {
			m->build_id = (const unsigned char *)p + desc;
			m->build_id_len = n->n_descsz;
			return true;
		}
		p += next;
		len -= next;
	}
	return false;
}

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
	case PT_NOTE:
		if (m->build_id == NULL) {
			find_build_id(m, (const char *)start, ph->p_memsz, ph->p_align);
		}
		break;
	case PT_GNU_EH_FRAME:
		m->eh_frame_hdr = (const void *)start;
		break;
	default:
		break;
	}
}

static int
on_module(struct dl_phdr_info *info, size_t size, void *opaque) {
	(void)size;
	struct modules_ctx *c = opaque;
	struct sys_module_s m = {.bias = info->dlpi_addr, .path = info->dlpi_name};
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		add_segment(&m, &info->dlpi_phdr[i]);
	}
	if (!c->has_program) {
		c->has_program = true;
		m.path = c->exe;
	}
	return m.end == 0 ? 0 : c->cb(c->ctx, &m);
}

int
sys_modules(int (*cb)(void *ctx, const struct sys_module_s *m), void *ctx, char *exe, size_t size) {
	bool has_path = size > 0 && sys_readlink("/proc/self/exe", exe, size) >= 0;
	struct modules_ctx c = {.cb = cb, .ctx = ctx, .exe = has_path ? exe : ""};
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
