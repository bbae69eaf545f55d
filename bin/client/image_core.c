/*
 * An image of a core file: of the kernel, of gcore, or of an emulator (image_read.h). Its PT_LOAD
 * headers say which memory the file has, the note NT_FILE which files were mapped, and NT_AUXV
 * which of them is the program. The root of the tables is found through the library's ELF note, as
 * in a living process; where the core lacks that note or the mailbox, by the head with which each
 * part of the tables begins.
 *
 * A stream (a pipe) is read once, from the front. Of its memory two things are kept: the parts of
 * the tables, found by their heads, with the root at the start of the first; and the first
 * OBJECT_BYTES of each range that begins with an ELF header.
 * The notes are before the memory in a core of the kernel, and after it in one of gcore.
 *
 * Invariant: what is kept of a file is bounded by what was read from it. No locks. Called by
 * image_file.c.
 */
#include "client/image_read.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
	HEADERS_MAX = 1 << 18,  /* program headers; a core with more is refused */
	FILES_MAX = 32 << 20,   /* bytes of the note NT_FILE; a larger one is left out */
	AUXV_MAX = 8192,        /* bytes of the note NT_AUXV */
	NOTES_SIZE_MAX = 1 << 20,    /* notes */
	CHUNK = 65536,           /* bytes of a stream that are read and searched at once */
	PAGE_SIZE_MIN = 4096,       /* heads of parts are looked for at multiples of it */
	OBJECT_BYTES = 16384,    /* kept of what begins with an ELF header */
	KEPT_MAX = 1 << 30,     /* bytes of a stream that are kept */
};

/* What the core says beside its memory. */
typedef struct core_s {
	Elf64_Ehdr header;
	uint64_t notes_at;       /* offset of the first note segment in the file */
	uint64_t notes_size;     /* its bytes; 0: none was found yet */
	uint64_t program;        /* an address in the program; 0: not known */
	uint64_t vdso;           /* address of the vdso; 0: not known */
	char *files;             /* the note NT_FILE */
	size_t files_size;
	image_array_t loads;     /* image_range_t: all PT_LOAD ranges of a stream */
} core_t;

/* ---- headers ---- */

/* The sentence for a file that does not begin as a core does; returns EINVAL. */
static int
fail_no_core(jeprof_image_t *image, const void *begin) {
	static const struct {
		char begin[7];
		const char *tool;
	} packers[] = {{"\x1f\x8b", "gzip"}, {"\xfd" "7zXZ", "xz"}, {"\x28\xb5\x2f\xfd", "zstd"},
	    {"\x04\x22\x4d\x18", "lz4"}, {"BZh", "bzip2"}};
	static const uint64_t magic = IMAGE_MAGIC;
	for (size_t i = 0; i < sizeof(packers) / sizeof(packers[0]); i++) {
		if (memcmp(begin, packers[i].begin, strlen(packers[i].begin)) == 0) {
			return image_fail(image, EINVAL, "it is compressed; unpack it into a pipe: %s -dc FILE "
			    "| jeprofctl dump --core -", packers[i].tool);
		}
	}
	return image_fail(image, EINVAL, memcmp(begin, &magic, sizeof(magic)) == 0
	    ? "a black box cannot be read from a pipe; give its file"
	    : "this is no core file and no black box");
}

/* Reads and checks the ELF header. 0; EINVAL, EPROTO or the errno of a read, with its sentence. */
static int
header_read(jeprof_image_t *image, core_t *core) {
	static const uint16_t order = 1;
	Elf64_Ehdr *e = &core->header;
	errno = 0;
	bool is_read = image_read_file(image, 0, e, sizeof(*e));
	if (!is_read && errno != 0) {
		return image_fail(image, errno, "%s", strerror(errno));
	}
	if (!is_read || memcmp(e->e_ident, ELFMAG, SELFMAG) != 0) {
		return fail_no_core(image, e);
	}
	if (e->e_ident[EI_DATA] != (*(const char *)&order == 1 ? ELFDATA2LSB : ELFDATA2MSB)) {
		return image_fail(image, EPROTO, "it is of a machine with another byte order; read it on "
		    "such a machine");
	}
	if (e->e_ident[EI_CLASS] != ELFCLASS64 || e->e_type != ET_CORE
	    || e->e_phentsize != sizeof(Elf64_Phdr)) {
		return image_fail(image, EINVAL, "this is no core file of a 64-bit process");
	}
	return 0;
}

/* The number of program headers; a large one is in the first section header. 0: not known. */
static uint64_t
headers_count(jeprof_image_t *image, const core_t *core) {
	Elf64_Shdr first;
	if (core->header.e_phnum != PN_XNUM) {
		return core->header.e_phnum;
	}
	return !image->is_stream && image_read_file(image, core->header.e_shoff, &first, sizeof(first))
	    ? first.sh_info : 0;
}

/* Notes one program header. file_size: bytes of the file, not used of a stream. 0 or ENOMEM. */
static int
header_take(jeprof_image_t *image, core_t *core, const Elf64_Phdr *h, uint64_t file_size) {
	uint64_t end = h->p_offset + h->p_filesz;
	if (!image->is_stream && end > file_size && end >= h->p_offset) {
		image->cut = end - file_size > image->cut ? end - file_size : image->cut;
	}
	if (h->p_type == PT_NOTE && core->notes_size == 0) {
		core->notes_at = h->p_offset;
		core->notes_size = h->p_filesz;
	}
	if (h->p_type != PT_LOAD || h->p_filesz == 0 || h->p_vaddr + h->p_filesz < h->p_vaddr) {
		return 0;
	}
	image_range_t range = {h->p_vaddr, h->p_filesz, h->p_offset, NULL, "---p"};
	range.flags[0] = (h->p_flags & PF_R) != 0 ? 'r' : '-';
	range.flags[1] = (h->p_flags & PF_W) != 0 ? 'w' : '-';
	range.flags[2] = (h->p_flags & PF_X) != 0 ? 'x' : '-';
	return image_add_range(image, &range) == NULL ? ENOMEM : 0;
}

/* Reads the program headers into image->ranges and *core. 0, EINVAL or ENOMEM with its sentence. */
static int
headers_read(jeprof_image_t *image, core_t *core) {
	struct stat st = {.st_size = 0};
	uint64_t n = headers_count(image, core);
	fstat(image->fd, &st);
	if (n == 0 || n > HEADERS_MAX) {
		return image_fail(image, EINVAL, core->header.e_phnum == PN_XNUM && image->is_stream
		    ? "a core of so many mappings cannot be read from a pipe; give a file"
		    : "the core is damaged: the number of its headers makes no sense");
	}
	for (uint64_t i = 0; i < n; i++) {
		Elf64_Phdr h;
		if (!image_read_file(image, core->header.e_phoff + i * sizeof(h), &h, sizeof(h))) {
			return image_fail(image, EINVAL, "the core is cut off in the midst of its headers");
		}
		if (header_take(image, core, &h, (uint64_t)st.st_size) != 0) {
			return image_fail(image, ENOMEM, "no memory");
		}
	}
	return 0;
}

/* ---- notes ---- */

static void
auxv_take(core_t *core, const char *text, size_t size) {
	for (size_t at = 0; at + 2 * sizeof(uint64_t) <= size; at += 2 * sizeof(uint64_t)) {
		uint64_t pair[2];
		memcpy(pair, text + at, sizeof(pair));
		core->program = pair[0] == AT_PHDR ? pair[1] : core->program;
		core->vdso = pair[0] == AT_SYSINFO_EHDR ? pair[1] : core->vdso;
	}
}

/* Takes what is wanted of one note, if it is NT_AUXV or the first NT_FILE. 0 or ENOMEM. */
static int
note_take(jeprof_image_t *image, core_t *core, uint32_t type, uint64_t at, uint32_t size) {
	char text[AUXV_MAX];
	if (type == NT_AUXV && size <= sizeof(text) && image_read_file(image, at, text, size)) {
		auxv_take(core, text, size);
	}
	if (type != NT_FILE || size > FILES_MAX || core->files != NULL) {
		return 0;
	}
	char *files = malloc((size_t)size + 1);
	if (files == NULL) {
		return ENOMEM;
	}
	if (!image_read_file(image, at, files, size)) {
		free(files); /* the file is cut off */
		return 0;
	}
	files[size] = '\0';
	core->files = files;
	core->files_size = size;
	return 0;
}

/* Reads the notes of the first note segment, as far as they are there. 0 or ENOMEM. */
static int
notes_read(jeprof_image_t *image, core_t *core) {
	uint64_t at = core->notes_at, end = core->notes_at + core->notes_size;
	int error = 0;
	for (unsigned i = 0; i < NOTES_SIZE_MAX && error == 0 && at + sizeof(Elf64_Nhdr) <= end; i++) {
		Elf64_Nhdr h;
		if (!image_read_file(image, at, &h, sizeof(h))) {
			return 0;
		}
		uint64_t body = at + sizeof(h) + ((h.n_namesz + 3u) & ~UINT64_C(3));
		at = body + ((h.n_descsz + UINT64_C(3)) & ~UINT64_C(3));
		error = at <= end ? note_take(image, core, h.n_type, body, h.n_descsz) : 0;
	}
	return error != 0 ? image_fail(image, error, "no memory") : 0;
}

/* ---- the memory map ---- */

/* The access that a PT_LOAD header gives to the mapping that begins here. */
static const char *
flags_at(const jeprof_image_t *image, const core_t *core, uint64_t start) {
	const image_range_t *r = image_find_range(image->is_stream ? &core->loads : &image->ranges,
	    start);
	/* Nothing of it is in the core: so it was not changed, and is code, probably. */
	return r != NULL ? r->flags : "r-xp";
}

/* Appends one line to the text of the memory map; one that is too long is left out. 0 or ENOMEM. */
static int
map_line(jeprof_image_t *image, const core_t *core, uint64_t start, uint64_t end,
    uint64_t offset, const char *path) {
	char line[PATH_MAX + 128];
	int n = snprintf(line, sizeof(line), "%" PRIx64 "-%" PRIx64 " %s %08" PRIx64 " 00:00 0 %.*s\n",
	    start, end, flags_at(image, core, start), offset, PATH_MAX, path);
	for (char *c = line; *c != '\0' && c < line + n - 1; c++) {
		*c = (unsigned char)*c < 0x20 ? '?' : *c;
	}
	return n < 0 || n >= (int)sizeof(line) ? 0 : image_add_text(image, line, (size_t)n);
}

/*
 * Makes the text of a memory map of the note NT_FILE, which has the number of mappings, the page
 * size, a row (start, end, offset in pages) for each mapping, then the paths; adds the vdso. Sets
 * image->exe and lacks_files.
 */
static int
files_to_map(jeprof_image_t *image, const core_t *core) {
	uint64_t head[2] = {0, 0}, row[3];
	image->lacks_files = true;
	if (core->files_size < sizeof(head)) {
		return 0;
	}
	memcpy(head, core->files, sizeof(head));
	uint64_t most = (core->files_size - sizeof(head)) / sizeof(row);
	uint64_t n = head[0] < most ? head[0] : most;
	const char *path = core->files + sizeof(head) + n * sizeof(row);
	const char *stop = core->files + core->files_size;
	int error = 0;
	uint64_t i = 0;
	for (; i < n && error == 0 && path < stop; i++) {
		memcpy(row, core->files + sizeof(head) + i * sizeof(row), sizeof(row));
		error = map_line(image, core, row[0], row[1], row[2] * head[1], path);
		if (core->program >= row[0] && core->program < row[1]) {
			snprintf(image->exe, sizeof(image->exe), "%s", path);
		}
		path += strlen(path) + 1;
	}
	image->lacks_files = i < head[0];
	if (error == 0 && core->vdso != 0) {
		error = map_line(image, core, core->vdso, core->vdso + PAGE_SIZE_MIN, 0, "[vdso]");
	}
	return error != 0 ? image_fail(image, error, "no memory") : 0;
}

/* ---- the root ---- */

/* Whether this is the head of a part of the tables at this address. */
static bool
is_head(const void *bytes, uint64_t address, image_head_t *h) {
	memcpy(h, bytes, sizeof(*h));
	return h->magic == IMAGE_MAGIC && h->self == address;
}

/* The sentence for a core in which no root was found; returns ENOENT. */
static int
fail_no_tables(jeprof_image_t *image) {
	return image->cut != 0 ? image_fail(image, ENOENT, "the core has no tables of the profiler: it "
	    "is cut off and lacks %" PRIu64 " bytes", image->cut)
	    : image_fail(image, ENOENT, "the core has no tables of the profiler: the process did not "
	    "run the library, nothing had started the profiler, or the core lacks that memory, as that "
	    "of a box, which is a file of its own");
}

/* Looks for the root at the beginning of each page of the core; sets image->at if it is there. */
static void
root_search(jeprof_image_t *image) {
	const image_range_t *r = image->ranges.items;
	for (size_t i = 0; i < image->ranges.n; i++) {
		for (uint64_t at = 0; at + sizeof(image_head_t) <= r[i].size; at += PAGE_SIZE_MIN) {
			char bytes[sizeof(image_head_t)];
			image_head_t h;
			if (!image_read_file(image, r[i].offset + at, bytes, sizeof(bytes))) {
				break; /* the file is cut off */
			}
			if (is_head(bytes, r[i].address + at, &h) && h.root == h.self) {
				image->at = h.self;
				return;
			}
		}
	}
}

/* Finds the root through the mailbox, else by a search. 0 or an errno. */
static int
root_find(jeprof_image_t *image, uint64_t block) {
	uint64_t at = 0;
	bool has_block = block != 0
	    && image_read(image, block + offsetof(prof_mailbox_t, root), &at, sizeof(at));
	char byte;
	if (has_block && at != 0 && !image_read(image, at, &byte, 1)) {
		return image_fail(image, ENODATA, image->cut != 0
		    ? "the core is cut off: it lacks the profiler's tables, at 0x%" PRIx64
		    : "the core lacks the memory at 0x%" PRIx64 ", where the profiler's tables are: they "
		    "were in a box, which is a file of its own (or coredump_filter left them out)", at);
	}
	image->at = at;
	if (!has_block) {
		root_search(image);
	}
	return image->at != 0 ? 0 : has_block ? image_fail(image, ENOENT,
	    "nothing had started the profiler") : fail_no_tables(image);
}

/* ---- a stream ---- */

/* What was kept of a stream. */
typedef struct keeper_s {
	image_array_t kept;          /* image_range_t */
	uint64_t total;              /* bytes of all that was kept */
	uint64_t left;               /* next bytes of the stream that belong to the last of `kept` */
} keeper_t;

/* Begins to keep `size` bytes from this address on. 0 or ENOMEM. */
static int
keep_begin(keeper_t *k, uint64_t address, uint64_t size) {
	image_range_t *r = image_append(&k->kept, sizeof(*r));
	if (r == NULL) {
		return ENOMEM;
	}
	*r = (image_range_t){.address = address, .flags = "rw-p"};
	k->left = size;
	return 0;
}

/*
 * Keeps n bytes, at most `left`; the memory for them doubles as they come. 0, ENOMEM, or EFBIG
 * above KEPT_MAX.
 */
static int
keep_add(keeper_t *k, const unsigned char *bytes, size_t n) {
	image_range_t *r = (image_range_t *)k->kept.items + k->kept.n - 1;
	n = n < k->left ? n : (size_t)k->left;
	if (k->total + n > KEPT_MAX) {
		return EFBIG;
	}
	if (r->size + n > r->offset) { /* offset: the room so far */
		size_t room = (size_t)(r->size + n) * 2;
		unsigned char *more = realloc(r->bytes, room);
		if (more == NULL) {
			return ENOMEM;
		}
		r->bytes = more;
		r->offset = room;
	}
	memcpy(r->bytes + r->size, bytes, n);
	r->size += n;
	k->total += n;
	k->left -= n;
	return 0;
}

/* Keeps what is wanted of a chunk; sets image->at at the root. 0, ENOMEM or EFBIG. */
static int
chunk_look(jeprof_image_t *image, keeper_t *k, uint64_t address, const unsigned char *bytes,
    size_t n, bool is_first) {
	int error = 0;
	for (size_t at = 0; at < n && error == 0; at += PAGE_SIZE_MIN) {
		size_t page = n - at < PAGE_SIZE_MIN ? n - at : PAGE_SIZE_MIN;
		image_head_t h;
		if (k->left == 0 && page >= sizeof(h) && is_head(bytes + at, address + at, &h)) {
			image->at = h.root == h.self ? h.self : image->at;
			error = keep_begin(k, h.self, h.bytes);
		} else if (k->left == 0 && is_first && at == 0 && page > SELFMAG
		    && memcmp(bytes, ELFMAG, SELFMAG) == 0) {
			error = keep_begin(k, address, OBJECT_BYTES);
		}
		if (error == 0 && k->left != 0) {
			error = keep_add(k, bytes + at, page);
		}
	}
	return error;
}

static int
compare_offsets(const void *a, const void *b) {
	uint64_t x = ((const image_range_t *)a)->offset, y = ((const image_range_t *)b)->offset;
	return x < y ? -1 : x > y;
}

/*
 * Moves image->ranges to core->loads and reads these ranges in the order of the file; image->ranges
 * becomes what is kept. Adds what the stream lacks of them to image->cut. 0, ENOMEM or EFBIG with
 * its sentence.
 */
static int
stream_loads(jeprof_image_t *image, core_t *core) {
	unsigned char bytes[CHUNK];
	keeper_t k = {.total = 0};
	int error = 0;
	core->loads = image->ranges;
	image_range_t *r = core->loads.items;
	if (core->loads.n > 0) {
		qsort(r, core->loads.n, sizeof(*r), compare_offsets);
	}
	for (size_t i = 0; i < core->loads.n && error == 0; i++) {
		k.left = 0;
		for (uint64_t at = 0; at < r[i].size && error == 0; at += CHUNK) {
			size_t n = r[i].size - at < CHUNK ? (size_t)(r[i].size - at) : CHUNK;
			if (!image_read_file(image, r[i].offset + at, bytes, n)) {
				image->cut += r[i].size - at;
				break;
			}
			error = chunk_look(image, &k, r[i].address + at, bytes, n, at == 0);
		}
	}
	image->ranges = k.kept;
	return error == 0 ? 0 : error == EFBIG ? image_fail(image, error, "its tables take more than "
	    "the %d MiB that are read of a pipe; give a file", KEPT_MAX >> 20)
	    : image_fail(image, error, "no memory for the profiler's tables in this core");
}

/* The offset in the file of the range of memory that comes first there. */
static uint64_t
loads_at(const jeprof_image_t *image) {
	const image_range_t *r = image->ranges.items;
	uint64_t at = UINT64_MAX;
	for (size_t i = 0; i < image->ranges.n; i++) {
		at = r[i].offset < at ? r[i].offset : at;
	}
	return at;
}

/* Reads the notes and the memory of a stream, in the order in which they come. 0 or an errno. */
static int
stream_read(jeprof_image_t *image, core_t *core) {
	uint64_t notes_at = core->notes_at;
	int error = notes_at < loads_at(image) ? notes_read(image, core) : 0;
	error = error != 0 ? error : stream_loads(image, core);
	if (error != 0) {
		return error;
	}
	if (notes_at >= image->stream_at) {
		error = notes_read(image, core);
	}
	uint64_t end = notes_at + core->notes_size;
	if (!image_read_file(image, end, NULL, 0) && image->stream_at < end) {
		image->cut += end - image->stream_at;
	}
	return error != 0 || image->at != 0 ? error : fail_no_tables(image);
}

int
image_of_core(jeprof_image_t *image) {
	core_t core = {.notes_size = 0};
	uint64_t block = 0;
	image->kind = "core";
	int error = header_read(image, &core);
	error = error != 0 ? error : headers_read(image, &core);
	if (error == 0) {
		error = image->is_stream ? stream_read(image, &core) : notes_read(image, &core);
	}
	image_sort_ranges(&image->ranges);
	image_sort_ranges(&core.loads);
	error = error != 0 ? error : files_to_map(image, &core);
	if (error == 0 && image_find_objects(image, &block) != 0) {
		error = image_fail(image, ENOMEM, "no memory");
	}
	if (error == 0 && !image->is_stream) {
		error = root_find(image, block);
	}
	free(core.files);
	free(core.loads.items);
	return error;
}
