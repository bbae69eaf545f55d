/*
 * The readers of images (bin/client/image_*.c) against a model (image_model.h): random tables as a
 * box, as core files of all kinds and through a pipe give the profile that the model gives, byte
 * for byte, damaged ones too; and a box whose process changes it between any two reads loses only
 * what was changed. Each request for memory is refused in turn. TAP. `image KIND FILE` writes an
 * image of that kind instead, and what it lacks to standard output: torn no_room cut bare lacking;
 * `image N FILE` writes a core of N mappings; `image alive -` is a process with damaged tables.
 */
#include "image_model.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static unsigned tests;

/* Our mailbox, which our note names. */
__attribute__((used, aligned(PROF_MAILBOX_BYTES))) static prof_mailbox_t own_mailbox
    __asm__("image_mailbox");
__asm__(".pushsection .note.jemalloc,\"a\",%note\n"
    ".balign 4\n.long 9, 16, 0x6a706d62\n.asciz \"jemalloc\"\n.balign 4\n"
    ".long 2, 65536\n1: .quad image_mailbox - 1b\n"
    ".popsection");

static void
check(bool is_good, const char *what, uint64_t seed) {
	tests++;
	printf("%sok %u - %s, %" PRIu64 "\n", is_good ? "" : "not ", tests, what, seed);
}

static bool is_stream;           /* files are taken for pipes */

off_t __real_lseek64(int fd, off_t offset, int whence);
off_t __wrap_lseek64(int fd, off_t offset, int whence);

off_t
__wrap_lseek64(int fd, off_t offset, int whence) {
	return is_stream ? -1 : __real_lseek64(fd, offset, whence);
}

/* A file of these bytes: always the same one, as the pages of a new one cost more than all else. */
static int
file_of(const void *bytes, size_t size) {
	static int file = -1;
	is_stream = false;
	file = file < 0 ? memfd_create("image", MFD_CLOEXEC) : file;
	if (ftruncate(file, (off_t)size) != 0 || pwrite(file, bytes, size, 0) != (ssize_t)size) {
		abort();
	}
	return dup(file);
}

/* The profile of a file, to be freed; the sentence if it cannot be read. */
static char *
profile_of(int fd, jeprof_image_facts_t *facts) {
	char why[JEPROF_WHY] = "", *text = NULL;
	size_t size;
	jeprof_image_t *image;
	if (jeprof_image_of_file(&image, fd, why) != 0) {
		return strdup(why);
	}
	FILE *f = open_memstream(&text, &size);
	int error = jeprof_image_write(image, f);
	fclose(f);
	*facts = jeprof_image_facts(image);
	jeprof_image_close(image);
	if (error != 0) {
		free(text);
		return strdup(why);
	}
	return text;
}

/* Whether the texts are the same; prints where they begin to differ. */
static bool
is_same(const char *got, const char *want) {
	const char *g = got, *w = want;
	while (*g == *w && *g != '\0') {
		g++;
		w++;
	}
	if (*g == *w) {
		return true;
	}
	while (g > got && g[-1] != '\n') {
		g--;
		w--;
	}
	printf("# got  %.*s\n# want %.*s\n", (int)strcspn(g, "\n"), g, (int)strcspn(w, "\n"), w);
	return false;
}

static bool
is_profile(int fd, const source_t *from, jeprof_image_facts_t *facts) {
	char *got = profile_of(fd, facts), *want = expected(&model, from);
	bool is_good = is_same(got, want);
	free(got);
	free(want);
	return is_good;
}

static source_t
source_box(void) {
	return (source_t){.kind = "blackbox",
	    .end = model.root.state == image_ended ? "ended" : "replaced by exec"};
}

/* Damages some sites and counts of the model, before its bytes are made. */
static void
draw_damage(void) {
	for (unsigned i = 0; i < model.nsites; i++) {
		site_t *s = &model.sites[i];
		unsigned broken = 0;
		s->is_damaged = draw(6) == 0;
		for (unsigned k = 0; k < s->ncounts; k++) {
			s->counts[k].is_damaged = draw(6) == 0;
			broken += s->counts[k].is_damaged;
		}
		model.torn += s->is_damaged || broken != 0;
	}
}

static void
test_facts(const jeprof_image_facts_t *f, const source_t *from, uint64_t seed) {
	const image_root_t *r = &model.root;
	totals_t t = totals_of(&model, from);
	check(f->pid == r->pid && f->session_id == r->session
	    && f->session_start_ns == r->session_start_ns && f->rate == r->rate && f->time_ns == NOW
	    && f->allocated == 101 && f->active == 102 && f->resident == 103 && f->retained == 104
	    && f->rss == 107 && f->limit == r->figures.limit && f->samples == t.all.cur.objs
	    && f->sites == t.sites && f->torn == model.torn && f->no_room == r->no_room
	    && f->lacking == 0 && f->cut == 0 && f->ended_ns == r->ended_ns, "facts", seed);
}

static void
test_boxes(void) {
	for (uint64_t seed = 1; seed <= 48; seed++) {
		jeprof_image_facts_t facts;
		draw_model(&model, seed);
		if (seed % 2 == 0) {
			draw_damage();
		}
		make_box(&model);
		source_t from = source_box();
		int fd = file_of(box, sizeof(box));
		check(is_profile(fd, &from, &facts), "a box", seed);
		test_facts(&facts, &from, seed);
		close(fd);
	}
}

/* ---- cores ---- */

enum {
	PAGE = 4096, OBJECT = 0x400000, MAILBOX = 0x600000, MAILBOX_BYTES = 4 * PAGE, VDSO = 0x7ff000,
	HEADERS = PARTS + 4,
};

typedef struct core_options_s {
	bool has_mailbox;        /* the library's note leads to it, and it to the root */
	bool is_behind;          /* the notes are behind the memory, as in a core of gcore */
	bool is_stream;
	bool is_lacking;         /* the tables are not in it */
	bool is_numbered;        /* the number of headers stands in a section header */
	bool has_no_files;       /* the notes do not say which files were mapped */
	uint32_t more;           /* zeros behind what they say of that; it is the last note */
} core_options_t;

static struct {
	unsigned char bytes[BOX_BYTES + 16 * PAGE];
	size_t size;
} core;

static size_t
add(const void *bytes, size_t size) {
	size_t at = core.size;
	memcpy(core.bytes + at, bytes, size);
	core.size += (size + 3) / 4 * 4;
	return at;
}

/* An ELF object with a build id and, if it is to, the library's note. */
static void
make_object(unsigned char *page, bool has_mailbox) {
	struct {
		Elf64_Ehdr e;
		Elf64_Phdr p[2];
		Elf64_Nhdr id;
		char gnu[4];
		unsigned char id_bytes[20];
		Elf64_Nhdr own;
		char owner[12];
		prof_note_t note;
	} __attribute__((packed, aligned(4))) o = {.e = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64,
	    __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB, EV_CURRENT},
	    .e_type = ET_DYN, .e_phnum = 2, .e_phoff = sizeof(Elf64_Ehdr),
	    .e_phentsize = sizeof(Elf64_Phdr)},
	    .p = {{.p_type = PT_LOAD, .p_filesz = PAGE, .p_memsz = 2 * PAGE},
	    {.p_type = PT_NOTE, .p_align = 4}},
	    .id = {4, 20, NT_GNU_BUILD_ID}, .gnu = "GNU",
	    .own = {sizeof(PROF_NOTE_OWNER), sizeof(prof_note_t), PROF_NOTE_TYPE},
	    .owner = PROF_NOTE_OWNER, .note = {1, PROF_MAILBOX_BYTES, 0}};
	size_t id_at = (size_t)((char *)&o.id - (char *)&o);
	memset(o.id_bytes, 0xee, 20);
	o.p[1].p_vaddr = id_at;
	o.p[1].p_filesz = (has_mailbox ? sizeof(o) : (size_t)((char *)&o.own - (char *)&o)) - id_at;
	o.note.distance = MAILBOX
	    - (OBJECT + (int64_t)((char *)&o.note - (char *)&o)
	    + (int64_t)offsetof(prof_note_t, distance));
	memset(page, 0, PAGE);
	memcpy(page, &o, sizeof(o));
}

static size_t last_note; /* bytes of the one added last */

static void
add_note(uint32_t type, const void *body, size_t size) {
	Elf64_Nhdr h = {5, (uint32_t)size, type};
	last_note = core.size;
	add(&h, sizeof(h));
	add("CORE\0\0\0", 8);
	add(body, size);
	last_note = core.size - last_note;
}

/* The notes: something, the auxiliary vector, the files; of `more` the file gets the zeros. */
static Elf64_Phdr
add_notes(core_options_t o) {
	static const char paths[] = "/bin/prog (deleted)\0/bin/prog (deleted)\0/etc/data\x01";
	struct {
		uint64_t head[2], rows[3][3];
		char paths[sizeof(paths)];
	} files = {{3, 256}, {{OBJECT, OBJECT + PAGE, 0}, {OBJECT + PAGE, OBJECT + 2 * PAGE, 16},
	    {0x500000, 0x501000, 0}}, {0}};
	uint64_t auxv[] = {AT_PAGESZ, 4096, AT_PHDR, OBJECT + 64, AT_SYSINFO_EHDR, VDSO, AT_NULL, 0};
	Elf64_Phdr h = {.p_type = PT_NOTE, .p_offset = core.size};
	memcpy(files.paths, paths, sizeof(paths));
	add_note(NT_PRSTATUS, "odd", 3);
	add_note(NT_AUXV, auxv, sizeof(auxv));
	size_t size = offsetof(__typeof__(files), paths) + sizeof(paths);
	if (o.has_no_files) {
		add_note(NT_FPREGSET, "odd", 3);
	} else {
		add_note(NT_FILE, &files, size);
		size += o.more;
		memcpy(core.bytes + core.size - last_note + offsetof(Elf64_Nhdr, n_descsz),
		    &(uint32_t){(uint32_t)size}, 4);
	}
	h.p_filesz = core.size - h.p_offset + o.more;
	return h;
}

static Elf64_Phdr
add_load(uint64_t address, const void *bytes, size_t size, unsigned flags) {
	return (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = flags, .p_vaddr = address, .p_filesz = size,
	    .p_memsz = size, .p_offset = add(bytes, size)};
}

static void
make_core(core_options_t o) {
	static unsigned char page[PAGE], mailbox[MAILBOX_BYTES];
	Elf64_Ehdr e = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64,
	    __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB, EV_CURRENT},
	    .e_type = ET_CORE, .e_version = EV_CURRENT, .e_ehsize = sizeof(e),
	    .e_phentsize = sizeof(Elf64_Phdr), .e_phoff = sizeof(e),
	    .e_phnum = o.is_numbered ? PN_XNUM : HEADERS};
	Elf64_Phdr h[HEADERS] = {{0}};
	Elf64_Shdr s = {.sh_info = HEADERS};
	unsigned n = 0;
	core.size = sizeof(e) + sizeof(h);
	if (o.is_numbered) {
		e.e_shoff = add(&s, sizeof(s));
	}
	n += !o.is_behind;
	h[0] = o.is_behind ? h[0] : add_notes(o);
	/* The order of the headers is not that of the bytes. */
	for (unsigned i = PARTS; i-- > 0;) {
		h[n] = add_load(AT + i * APART, box + i * PART_BYTES, PART_BYTES, PF_R | PF_W);
		h[n].p_filesz = o.is_lacking ? 0 : PART_BYTES;
		n++;
	}
	make_object(page, o.has_mailbox);
	h[n++] = add_load(OBJECT, page, PAGE, PF_R);
	memcpy(mailbox + offsetof(prof_mailbox_t, root), &model.root.head.self, 8);
	h[n++] = add_load(MAILBOX, mailbox, MAILBOX_BYTES, PF_R | PF_W);
	h[n++] = (Elf64_Phdr){.p_type = PT_LOAD, .p_vaddr = 0x500000, .p_memsz = PAGE};
	if (o.is_behind) {
		h[n++] = add_notes(o);
	}
	memcpy(core.bytes, &e, sizeof(e));
	memcpy(core.bytes + sizeof(e), h, sizeof(h));
}

/* The core as a file, or as what the reader takes for a pipe. */
static int
core_file(bool as_stream) {
	int fd = file_of(core.bytes, core.size);
	lseek(fd, 0, SEEK_SET);
	is_stream = as_stream;
	return fd;
}

static source_t
source_core(void) {
	return (source_t){.kind = "core", .exe = "/bin/prog (deleted)",
	    .map = "400000-401000 r--p 00000000 00:00 0 /bin/prog (deleted)\n"
	    "401000-402000 r-xp 00001000 00:00 0 /bin/prog (deleted)\n"
	    "500000-501000 r-xp 00000000 00:00 0 /etc/data?\n"
	    "7ff000-800000 r-xp 00000000 00:00 0 [vdso]\n",
	    .objects = "# module 400000-402000 400000 eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee "
	    "/bin/prog\n", .loaded_start = OBJECT, .loaded_end = OBJECT + 2 * PAGE,
	    .has_elsewhere = true};
}

static void
test_core(core_options_t o, uint64_t seed) {
	jeprof_image_facts_t facts = {.lacking = 0};
	source_t from = source_core();
	make_core(o);
	int fd = core_file(o.is_stream);
	check(is_profile(fd, &from, &facts), o.is_stream ? "a core in a pipe" : "a core", seed);
	/* The data file and the vdso have no header in the core. */
	check(facts.lacking == 2 && facts.cut == 0 && facts.torn == model.torn && !facts.lacks_files,
	    "what it lacks", seed);
	close(fd);
}

static void
test_cores(void) {
	for (uint64_t seed = 101; seed <= 124; seed++) {
		draw_model(&model, seed);
		model.root.box_bytes = BOX_BYTES;
		if (seed % 2 == 0) {
			draw_damage();
		}
		make_box(&model);
		core_options_t o = {.has_mailbox = seed & 1, .is_behind = seed & 2,
		    .is_stream = (seed & 4) != 0, .is_numbered = (seed & 4) == 0 && (seed & 8) != 0};
		test_core(o, seed);
	}
}

/*
 * The profile of a core without its last bytes, which says how many those are. 0: all of the last
 * note but 4.
 */
static void
test_cut_by(size_t bytes, core_options_t o, uint64_t least, uint64_t most) {
	jeprof_image_facts_t facts = {.cut = 0};
	make_core(o);
	core.size -= bytes != 0 ? bytes : last_note - 4;
	int fd = core_file(o.is_stream);
	char *text = profile_of(fd, &facts);
	check(strncmp(text, "heap_v2/", 8) == 0 && facts.cut >= least && facts.cut <= most,
	    "a core that is cut", facts.cut);
	check(facts.lacks_files == o.is_behind, "its files, which the last note tells", facts.cut);
	free(text);
	close(fd);
}

/* A core in a pipe that is whole, though the notes tell no files, or too many to be kept. */
static void
test_no_files(core_options_t o) {
	jeprof_image_facts_t facts = {.cut = 1};
	o.is_stream = true;
	make_core(o);
	int fd = core_file(true);
	if (ftruncate(fd, (off_t)(core.size + o.more)) != 0) {
		abort();
	}
	char *text = profile_of(fd, &facts);
	check(strncmp(text, "heap_v2/", 8) == 0 && facts.cut == 0 && facts.lacks_files,
	    "a whole core in a pipe, without its files", facts.cut);
	free(text);
	close(fd);
}

static void
test_cut(void) {
	/* The last bytes are those of the mailbox, of which a stream has all or nothing. */
	test_cut_by(100, (core_options_t){.is_stream = false}, 100, 100);
	test_cut_by(100, (core_options_t){.is_stream = true}, MAILBOX_BYTES, MAILBOX_BYTES);
	/* Notes behind the memory. */
	test_cut_by(10, (core_options_t){.is_stream = true, .is_behind = true}, 11, PAGE);
	test_cut_by(0, (core_options_t){.is_stream = true, .is_behind = true}, 11, PAGE);
	test_cut_by(10, (core_options_t){.is_behind = true}, 10, 10);
	test_cut_by(0, (core_options_t){.is_behind = true}, last_note - 4, last_note - 4);
	test_no_files((core_options_t){.has_no_files = true});
	test_no_files((core_options_t){.has_no_files = true, .is_behind = true});
	test_no_files((core_options_t){.more = 33 << 20, .is_behind = true});
}

/* Tables in a pipe that take more than is kept of one: a part of 2 GiB, all zeros but its head. */
static void
test_kept(void) {
	static const size_t bytes = (size_t)1 << 30;
	image_head_t head = {.magic = IMAGE_MAGIC, .self = AT, .root = AT, .bytes = 2 * bytes};
	jeprof_image_facts_t facts;
	if ((uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) < 3 * bytes) {
		check(true, "too little memory for a core of 1 GiB in a pipe", 0);
		return;
	}
	make_core((core_options_t){.is_lacking = true});
	Elf64_Phdr h = add_load(AT, &head, sizeof(head), PF_R | PF_W);
	h.p_filesz = h.p_memsz = bytes + PAGE;
	memcpy(core.bytes + sizeof(Elf64_Ehdr) + sizeof(h), &h, sizeof(h));
	int fd = core_file(true);
	if (ftruncate(fd, (off_t)(h.p_offset + h.p_filesz)) != 0) {
		abort();
	}
	char *text = profile_of(fd, &facts);
	check(strcmp(text, "its tables take more than the 1024 MiB that are read of a pipe; give a "
	    "file") == 0, "tables that are too large for a pipe", bytes);
	free(text);
	close(fd);
}

/* Cores without tables, and with the mailbox that leads to them. */
static const core_options_t none = {.is_lacking = true};
static const core_options_t lacking = {.has_mailbox = true, .is_lacking = true};

/* What is said of such a core, of which so many bytes at the end are cut off. */
static void
test_said(core_options_t options, size_t cut, bool as_stream, const char *want) {
	jeprof_image_facts_t facts;
	make_core(options);
	core.size -= cut;
	int fd = core_file(as_stream);
	char *text = profile_of(fd, &facts);
	check(strcmp(text, want) == 0, want, cut);
	free(text);
	close(fd);
}

/* ---- without memory ---- */

static unsigned long requests, refuse_at;

static bool
is_refused(void) {
	return refuse_at != 0 && ++requests == refuse_at;
}

#define REFUSING(type, name, params, args) \
	type __real_##name params; \
	type __wrap_##name params; \
	type __wrap_##name params { \
		return is_refused() ? NULL : __real_##name args; \
	}
REFUSING(void *, malloc, (size_t n), (n))
REFUSING(void *, calloc, (size_t n, size_t size), (n, size))
REFUSING(void *, realloc, (void *p, size_t n), (p, n))
REFUSING(char *, strdup, (const char *text), (text))
REFUSING(char *, strndup, (const char *text, size_t n), (text, n))

static size_t
bytes_in_use(void) {
	return mallinfo2().uordblks;
}

/*
 * Each request for memory is refused in turn: the reader says that, and frees all.
 */
static void
test_no_memory(bool is_core, bool as_stream) {
	unsigned long n = 1, wrong = 0, said = 0, lost = 0;
	make_core((core_options_t){.is_behind = as_stream});
	for (bool is_over = false; !is_over; n++) {
		jeprof_image_facts_t facts = {.torn = 0};
		int fd = is_core ? core_file(as_stream) : file_of(box, sizeof(box));
		size_t before = bytes_in_use();
		requests = 0;
		refuse_at = n;
		char *text = profile_of(fd, &facts);
		refuse_at = 0;
		is_over = requests < n;
		bool is_whole = strncmp(text, "heap_v2/", 8) == 0 && facts.torn == 0;
		bool is_said = strstr(text, "no memory") != NULL;
		wrong += is_over ? !is_whole : !is_said;
		said += is_said;
		free(text);
		lost += bytes_in_use() != before;
		close(fd);
	}
	check(wrong == 0 && said > 20, "each request for memory is refused", wrong);
	check(lost == 0, "and all is freed", lost);
}

/* ---- objects at the edge of what is believed ---- */

/* What the reader says of the box after the change of one field of an object. */
static void
test_field(uint64_t object, unsigned field, uint64_t value, uint64_t sites, uint64_t torn,
    const char *what) {
	jeprof_image_facts_t facts = {.sites = 0};
	unsigned char before[8], *bytes = place(object) + fields[field].offset;
	memcpy(before, bytes, sizeof(before));
	put_field(object, field, value);
	int fd = file_of(box, sizeof(box));
	char *text = profile_of(fd, &facts);
	/* Fewer sites than all but those left out: the list ended at a damaged one. */
	bool is_broken = strstr(text, "\n# jemalloc.torn_list=true\n") != NULL;
	bool is_good = strncmp(text, "heap_v2/", 8) == 0 && facts.sites == sites && facts.torn == torn
	    && facts.is_broken == (torn != 0 && sites < model.nsites - 1)
	    && is_broken == facts.is_broken;
	if (!is_good) {
		printf("# %.60s: %" PRIu64 " sites, %" PRIu64 " torn\n", text, facts.sites, facts.torn);
	}
	check(is_good, what, value);
	free(text);
	close(fd);
	memcpy(bytes, before, sizeof(before));
}

/* A model of some sites with one sample each. */
static void
make_plain(unsigned nsites) {
	draw_model(&model, 7);
	model.root.epoch = 0;
	model.root.rate = 4096;
	model.root.flags = IMAGE_ACCUM;
	model.nsites = nsites;
	model.nlabels = 3;
	model.root.label_last = 3;
	for (unsigned i = 0; i < 3; i++) {
		model.labels[i].is_elsewhere = false;
	}
	for (unsigned i = 0; i < nsites; i++) {
		site_t *s = &model.sites[i];
		*s = (site_t){.nframes = 7 + i, .ncounts = 2};
		for (unsigned k = 0; k < s->nframes; k++) {
			s->frames[k] = 0x1000 * i + k + 1;
		}
		for (unsigned k = 0; k < 2; k++) {
			s->counts[k] = (count_t){.thread = k % model.nthreads, .nsamples = 1, .rate = 4096,
			    .has_accum = true, .samples = {{100, IMAGE_WEIGHT_ONE * 10, 1, 1 + (i + k) % 3}},
			    .freed = {1, 100, IMAGE_WEIGHT_ONE * 10, 1000}, .life = {[2] = 1000}};
		}
	}
	make_box(&model);
}

static void
test_edges(void) {
	make_plain(8);
	uint64_t s = model.sites[3].at;
	uint64_t c = model.sites[3].counts[0].at, d = model.sites[3].counts[1].at;
	uint64_t frames = SITE_FIXED + 6 * model.sites[3].nframes;
	uint64_t end = AT + PART_BYTES;
	test_field(s, image_site_bytes, frames, 8, 0, "a site without padding");
	test_field(s, image_site_bytes, frames + 63, 8, 0, "a site with the largest padding");
	/* What has no size of a site leads nowhere. */
	test_field(s, image_site_bytes, frames - 1, 3, 1, "a site that is too small");
	test_field(s, image_site_bytes, frames + 64, 3, 1, "a site that is too large");
	test_field(s, image_site_bytes, 0, 3, 1, "a site that was freed");
	test_field(s, image_site_nframes, 4097, 3, 1, "a site of too many frames");
	test_field(s, image_site_hash, 1, 7, 1, "a site without proof");
	test_field(s, image_site_next, model.sites[5].at, 7, 0, "a site is passed by");
	test_field(s, image_site_next, model.sites[1].at, 4, 1, "sites in a circle");
	test_field(s, image_site_next, s, 4, 1, "a site that follows itself");
	test_field(s, image_site_next, model.sites[4].at + 8, 4, 1, "a site at no place of an object");
	test_field(s, image_site_next, end, 4, 1, "a site behind a part");
	test_field(s, image_site_counts, 0, 7, 0, "a site without counts");
	test_field(s, image_site_counts, d, 8, 0, "a site with its second count");
	test_field(s, image_site_counts, end - 64, 7, 1, "counts where nothing is");
	test_field(s, image_site_counts, c + 8, 7, 1, "a count at no place of an object");
	test_field(c, image_count_bytes, COUNT_PLAIN, 8, 0, "a count without sums");
	test_field(c, image_count_bytes, COUNT_WHOLE - 1, 7, 1, "a count of another size");
	test_field(d, image_count_bytes, 8191, 8, 0, "a count of the largest size");
	test_field(d, image_count_bytes, 8192, 8, 1, "a count that is too large");
	test_field(c, image_count_next, c, 8, 1, "a count that follows itself");
	test_field(d, image_count_next, c, 8, 1, "counts in a circle");
	test_field(c, image_count_next, model.sites[4].counts[0].at, 8, 1, "a count of another site");
	test_field(d, image_count_site, model.sites[4].at, 8, 1, "it says so itself");
	test_field(d, image_count_thread, c, 8, 1, "a count of another thread");
	test_field(d, image_count_epoch, 1, 8, 1, "a count of another time");
	test_field(d, image_count_rate, 1, 8, 1, "a count of another rate");
}

/* What a record of a loaded object says of its build id. */
static void
test_build_id(uint64_t length, const char *want) {
	jeprof_image_facts_t facts;
	char line[128];
	const module_t *o = &model.modules[0];
	put_field(o->at, image_module_build_id_len, length);
	snprintf(line, sizeof(line), "\n# module %" PRIx64 "-%" PRIx64 " %" PRIx64 " %s /lib/o0.so?\n",
	    o->start, o->end, o->bias, want);
	int fd = file_of(box, sizeof(box));
	char *text = profile_of(fd, &facts);
	check(strstr(text, line) != NULL, "a build id of bytes", length);
	free(text);
	close(fd);
}

static void
test_build_ids(void) {
	make_plain(1);
	model.nmodules = 1;
	model.modules[0] = (module_t){.start = 0x1000, .end = 0x3000, .number = 1, .id_len = 20,
	    .path = "/lib/o0.so\n"};
	make_box(&model);
	test_build_id(0, "-");
	test_build_id(1, "a0");
	test_build_id(20, "a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0");
	test_build_id(21, "-");
	/* The numbers of records rise, else the list ends. */
	model.nmodules = 2;
	model.modules[1] = model.modules[0];
	strcpy(model.modules[1].path, "/lib/o1.so");
	for (unsigned number = 0; number < 3; number++) {
		jeprof_image_facts_t facts;
		model.modules[1].number = number;
		model.root.modules = 0;
		make_box(&model);
		int fd = file_of(box, sizeof(box));
		char *text = profile_of(fd, &facts);
		check((strstr(text, " /lib/o1.so\n") != NULL) == (number == 2), "the second record is",
		    number);
		check(facts.torn == (number < 2), "and if not, the list is torn", number);
		free(text);
		close(fd);
	}
}

/* ---- labels ---- */

/*
 * After the change of one field of an object: for each of the labels 1 to 3 whether its text is
 * told (t), only its number (n), or nothing (-).
 */
static void
test_label(uint64_t object, unsigned field, uint64_t value, const char *want, const char *what) {
	char got[4] = "---", line[64];
	unsigned char before[8], *bytes = place(object) + fields[field].offset;
	jeprof_image_facts_t facts;
	memcpy(before, bytes, sizeof(before));
	put_field(object, field, value);
	int fd = file_of(box, sizeof(box));
	char *text = profile_of(fd, &facts);
	for (unsigned i = 0; i < 3; i++) {
		snprintf(line, sizeof(line), "\n# label %u ", i + 1);
		const char *at = strstr(text, line);
		got[i] = at == NULL ? '-' : at[strlen(line)] == '[' ? 'n' : 't';
	}
	check(strcmp(got, want) == 0, what, value);
	if (strcmp(got, want) != 0) {
		printf("# got %s, want %s: %.40s\n", got, want, text);
	}
	free(text);
	close(fd);
	memcpy(bytes, before, sizeof(before));
}

static void
test_labels(void) {
	make_plain(8);
	uint64_t one = model.labels[0].at, two = model.labels[1].at;
	/* The list begins with the third. */
	test_label(two, image_label_id, 2, "ttt", "labels");
	test_label(two, image_label_id, 0, "t-t", "a label without a number");
	test_label(two, image_label_id, IMAGE_LABELS, "t-t", "a number too large");
	test_label(two, image_label_id, 3, "t-t", "a number that was there");
	test_label(two, image_label_bytes, LABEL, "t-t", "a label without a text");
	test_label(two, image_label_bytes, LABEL + 1, "t-t", "an empty text");
	test_label(two, image_label_bytes, LABEL + 2, "ttt", "a text of one byte");
	test_label(two, image_label_bytes, LABEL + 256, "ttt", "the longest text");
	test_label(two, image_label_bytes, LABEL + 257, "t-t", "a text too long");
	test_label(two, image_label_next, 0, "-tt", "a list that ends");
	test_label(two, image_label_next, two, "-tt", "a label that follows itself");
	test_label(two, image_label_next, AT + PART_BYTES, "ntt", "a label behind a part");
	test_label(one, image_label_next, AT - 8, "ttt", "nothing behind the last label");
	model.root.label_last = 0;
	memcpy(box, &model.root, sizeof(model.root));
	test_label(two, image_label_next, AT - 8, "-tt", "a number that no text has had");
}

/* ---- the root ---- */

/* want: the sentence; "!LINE" or "LINE", which begins with a new line, that is not or is there. */
static void
test_root_word(size_t offset, const void *value, size_t size, const char *want) {
	static const char read[] = "heap_v2/";
	unsigned char before[8];
	jeprof_image_facts_t facts;
	memcpy(before, box + offset, size);
	memcpy(box + offset, value, size);
	int fd = file_of(box, sizeof(box));
	char *text = profile_of(fd, &facts);
	bool is_read = strncmp(text, read, sizeof(read) - 1) == 0;
	bool is_good = want == NULL ? is_read : want[0] == '!' || want[0] == '\n'
	    ? is_read && (strstr(text, want + (want[0] == '!')) != NULL) == (want[0] == '\n')
	    : strcmp(text, want) == 0;
	if (!is_good) {
		printf("# got %.80s\n", text);
	}
	check(is_good, want == NULL ? "read" : want + strspn(want, "!\n# "), offset);
	free(text);
	close(fd);
	memcpy(box + offset, before, size);
}

#define ROOT(member, value, want) \
	test_root_word(offsetof(image_root_t, member), &(__typeof__(model.root.member)){value}, \
	    sizeof(model.root.member), want)

static void
test_root(void) {
	static const char root[] = "the tables are damaged: the root is not whole";
	static const char parts[] = "the tables are damaged: their parts make no sense";
	static const char part[] = "the tables are damaged: a part makes no sense";
	static const char size[] = "the tables are damaged: a size makes no sense";
	static const char zero[] = "the tables are damaged: field 0 makes no sense";
	static const char last[] = "the tables are damaged: field 46 makes no sense";
	static const char old[] = "its library is older than this program, which needs 35 fields of "
	    "its tables; it has 34";
	make_plain(4);
	ROOT(version, 2, "its tables are of version 2, this program reads 1; use the jeprofctl of that "
	    "library");
	ROOT(version, 0, "nothing has started the profiler yet");
	ROOT(root_bytes, offsetof(image_root_t, records), NULL);
	ROOT(root_bytes, offsetof(image_root_t, records) - 1, root);
	ROOT(root_bytes, UINT32_MAX, NULL);
	ROOT(head.self, AT + 1, "there are no tables of the profiler");
	ROOT(nparts, 0, "there are no tables of the profiler");
	ROOT(nparts, IMAGE_PARTS, NULL);
	ROOT(nparts, IMAGE_PARTS + 1, parts);
	ROOT(parts[1].used, PART_BYTES, NULL);
	ROOT(parts[1].used, PART_BYTES + 1, part);
	ROOT(parts[1].bytes, UINT64_C(1) << 40, NULL);
	ROOT(parts[1].bytes, (UINT64_C(1) << 40) + 1, part);
	ROOT(parts[1].address, UINT64_MAX - PART_BYTES, NULL);
	ROOT(parts[1].address, UINT64_MAX - PART_BYTES + 2, part);
	ROOT(nfields, image_count_life - 1, old);
	ROOT(nfields, image_count_life, "\n# age none: ");
	ROOT(page, 65536, "\n# life 1 ");
	ROOT(fields[image_count_life].width, 8, "!\n# life ");
	ROOT(nfields, image_record_sized, "!\n# age 1 ");
	ROOT(nfields, image_record_sized + 1, "\n# age 1 ");
	ROOT(nstructs, image_struct_record, "!\n# age 1 ");
	ROOT(nstructs, image_struct_record + 1, "\n# age 1 ");
	ROOT(root_bytes, offsetof(image_root_t, labels) - 1, "!\n# age 1 ");
	ROOT(root_bytes, offsetof(image_root_t, labels), "\n# age 1 ");
	ROOT(nfields, image_label_text, "!\n# label 1 ");
	ROOT(nfields, image_label_text + 1, "\n# label 1 ");
	ROOT(nstructs, image_struct_label, "!\n# label 1 ");
	ROOT(nstructs, image_struct_label + 1, "\n# label 1 ");
	ROOT(root_bytes, offsetof(image_root_t, label_last) + 7, "!\n# label 1 ");
	ROOT(root_bytes, offsetof(image_root_t, label_last) + 8, "\n# label 1 ");
	ROOT(nfields, IMAGE_FIELDS_ROOM, NULL);
	ROOT(nstructs, image_struct_block, NULL);
	ROOT(fields[0].width, 0, zero);
	ROOT(fields[0].offset, 4096 - 8, NULL);
	ROOT(fields[0].offset, 4096 - 7, zero);
	ROOT(fields[image_label_text].width, 0, last);
	ROOT(fields[image_label_text + 1].width, 0, NULL);
	ROOT(struct_bytes[0], 4096, NULL);
	ROOT(struct_bytes[0], 4097, size);
	ROOT(struct_bytes[0], 0, size);
	ROOT(struct_bytes[image_struct_module], 0, size);
	ROOT(struct_bytes[image_struct_label + 1], 5000, NULL);
	/* Labels and ages of a later layout are left out. */
	ROOT(fields[image_record_sized].width, 4, "!\n# age 1 ");
	ROOT(struct_bytes[image_struct_record], 32, "!\n# age 1 "); /* another step of the array */
	ROOT(struct_bytes[image_struct_record], 31, "!\n# age 1 ");
	ROOT(struct_bytes[image_struct_block], 32, "\n# age 1 ");
	ROOT(struct_bytes[image_struct_block], 31, "!\n# age 1 ");
	ROOT(struct_bytes[image_struct_block], 4097, "!\n# age 1 ");
	ROOT(struct_bytes[image_struct_label], 64, "\n# label 1 ");
	ROOT(struct_bytes[image_struct_label], 65, "!\n# label 1 ");
	ROOT(struct_bytes[image_struct_label], 15, "!\n# label 1 ");
}

/* ---- the ring ---- */

enum { RING = IMAGE_BLOCKS * IMAGE_BLOCK_LINES };

/* The address of line n. */
static uint64_t
line_at(uint64_t n) {
	return model.root.blocks[n / IMAGE_BLOCK_LINES % IMAGE_BLOCKS]
	    + n % IMAGE_BLOCK_LINES * sizeof(image_line_t);
}

/* Makes the box one with so many lines. */
static void
make_ring(uint64_t nlines) {
	memset(place(AT + APART) + 64, 0, PART_BYTES - 64);
	for (unsigned i = 0; i < IMAGE_BLOCKS; i++) {
		/* Half of them in one part, half in the next. */
		model.root.blocks[i] = AT + (1 + i % 2) * APART + 64 + i / 2 * 60 * sizeof(image_line_t);
	}
	for (uint64_t n = nlines > RING ? nlines - RING : 0; n < nlines; n++) {
		image_line_t line = line_of(n);
		memcpy(place(line_at(n)), &line, sizeof(line));
	}
	model.root.nlines = nlines;
	memcpy(box, &model.root, sizeof(model.root));
}

/* The box in fd has the lines from first on, and no others. */
static void
check_course(int fd, uint64_t nlines, size_t most, uint64_t first, const char *what) {
	static jeprof_image_line_t lines[JEPROF_COURSE_MAX + 1];
	char why[JEPROF_WHY];
	jeprof_image_t *image;
	if (jeprof_image_of_file(&image, fd, why) != 0) {
		abort();
	}
	size_t n = jeprof_image_course(image, lines, most), wrong = 0;
	for (size_t i = 0; i < n; i++) {
		image_line_t l = line_of(first + i);
		wrong += lines[i].time_ns != l.time_ns || lines[i].faults != l.faults;
	}
	check(n == nlines - first && wrong == 0, what, nlines);
	jeprof_image_close(image);
	close(fd);
}

static void
test_course(uint64_t nlines, size_t most, uint64_t first) {
	make_ring(nlines);
	check_course(file_of(box, sizeof(box)), nlines, most, first, "seconds");
}

static void
test_courses(void) {
	draw_model(&model, 3);
	model.nsites = 0;
	make_box(&model);
	test_course(0, 3600, 0);
	test_course(1, 3600, 0);
	test_course(60, 3600, 0);
	test_course(61, 3600, 0);
	test_course(3599, 3600, 0);
	test_course(3600, 3600, 0);
	test_course(3601, 3600, 1);
	test_course(9000, 3600, 5400);
	test_course(9000, 100, 8900);
	test_course(9000, 0, 9000);
	set_back = 8000;
	test_course(9000, 3600, 5400);
	set_back = UINT64_MAX;
}

/* ---- a process that runs on ---- */

static unsigned long reads, change_at;
static uint64_t change_before;  /* the first read from here */
static void (*change)(int fd);

/* Reads of files, for the change of one between two of them. */
ssize_t __real_pread64(int fd, void *buf, size_t size, off_t offset);
ssize_t __wrap_pread64(int fd, void *buf, size_t size, off_t offset);

ssize_t
__wrap_pread64(int fd, void *buf, size_t size, off_t offset) {
	if (++reads == change_at) {
		change(fd);
	}
	if (change_before != 0 && (uint64_t)offset == change_before) {
		change_before = 0;
		change(fd);
	}
	return __real_pread64(fd, buf, size, offset);
}

static uint64_t removed_first, removed_last; /* sites */

static void
poke(int fd, uint64_t address, uint64_t value, size_t size) {
	off_t at = (off_t)(place(address) - box);
	if (pwrite(fd, &value, size, at) != (ssize_t)size) {
		abort();
	}
}

/* Removes sites as the library does: out of the list, then their second word is 0. */
static void
remove_sites(int fd) {
	uint64_t next = removed_last + 1 < model.nsites ? model.sites[removed_last + 1].at : 0;
	if (removed_first == 0) {
		poke(fd, AT + offsetof(image_root_t, sites), next, 8);
	} else {
		poke(fd, model.sites[removed_first - 1].at + fields[image_site_next].offset, next, 8);
	}
	for (uint64_t i = removed_first; i <= removed_last; i++) {
		for (unsigned k = 0; k < model.sites[i].ncounts; k++) {
			poke(fd, model.sites[i].counts[k].at + 8, 0, 8);
		}
		poke(fd, model.sites[i].at + 8, 0, 8);
		poke(fd, model.sites[i].at, 0, 8);
	}
}

/* Removes the first count of a site. */
static void
remove_count(int fd) {
	const site_t *s = &model.sites[removed_first];
	poke(fd, s->at + fields[image_site_counts].offset, s->counts[1].at, 8);
	poke(fd, s->counts[0].at + 8, 0, 8);
	poke(fd, s->counts[0].at, 0, 8);
}

/* The same, before it is freed: it has a size that is none, and leads nowhere. */
static void
retire_count(int fd) {
	const site_t *s = &model.sites[removed_first];
	poke(fd, s->at + fields[image_site_counts].offset, s->counts[1].at, 8);
	poke(fd, s->counts[0].at + 8, COUNT_WHOLE | UINT32_C(1) << 31, 4);
	poke(fd, s->counts[0].at, 0, 8);
}

/* Removes all, and puts another site with one sample where the first one was. */
static void
replace_sites(int fd) {
	static unsigned char saved[BOX_BYTES];
	static model_t other;
	memcpy(saved, box, sizeof(box));
	remove_sites(fd);
	other = model;
	site_t *s = &other.sites[0];
	s->nframes = s->ncounts = 1;
	make_site(&other, s, 0);
	uint64_t at = (uint64_t)(place(s->at) - box), c = (uint64_t)(place(s->counts[0].at) - box);
	if (pwrite(fd, &other.root, sizeof(other.root), 0) != sizeof(other.root)
	    || pwrite(fd, box + at, 64, (off_t)at) != 64
	    || pwrite(fd, box + c, COUNT_WHOLE, (off_t)c) != COUNT_WHOLE) {
		abort();
	}
	memcpy(box, saved, sizeof(box));
}

/*
 * The change comes before each read in turn. Each time all that was not removed is there, nothing
 * is torn, and nothing is there twice; or there are `others` samples that came instead.
 */
static void
test_running(void (*how)(int), uint64_t first, uint64_t last, unsigned counts, unsigned others,
    const char *what) {
	unsigned long n = 1, wrong = 0;
	uint64_t most = 0;
	for (unsigned i = 0; i < model.nsites; i++) {
		most += model.sites[i].ncounts;
	}
	change = how;
	removed_first = first;
	removed_last = last;
	for (bool is_over = false; !is_over; n++) {
		jeprof_image_facts_t facts = {.torn = 99};
		int fd = file_of(box, sizeof(box));
		char path[64];
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		int other = open(path, O_RDONLY | O_CLOEXEC); /* has the lock that says: it is in use */
		flock(other, LOCK_EX);
		reads = 0;
		change_at = n;
		char *text = profile_of(fd, &facts);
		bool is_good = strstr(text, "# jemalloc.end=running\n") != NULL && facts.torn == 0
		    && facts.samples <= most
		    && (facts.samples + counts >= most || (facts.samples == others
		    && strstr(text, "\n# label 2 ") == NULL));
		if (!is_good && wrong++ == 0) {
			printf("# before read %lu: %" PRIu64 " samples, %" PRIu64 " torn: %.60s\n", n,
			    facts.samples, facts.torn, text);
		}
		is_over = reads < n;
		free(text);
		close(other);
		close(fd);
	}
	change_at = 0;
	check(wrong == 0 && n > model.nsites, what, wrong);
}

/* A box that nobody has locked, of a process that is not there. */
static void
test_killed(void) {
	jeprof_image_facts_t facts;
	int fd = file_of(box, sizeof(box));
	errno = EWOULDBLOCK;
	char *text = profile_of(fd, &facts);
	check(strstr(text, "\n# jemalloc.end=killed\n") != NULL, "killed", 0);
	free(text);
	close(fd);
}

/* Ten seconds pass: the oldest lines are overwritten. */
static void
add_lines(int fd) {
	for (uint64_t n = 9000; n < 9010; n++) {
		image_line_t line = line_of(n);
		off_t at = (off_t)(place(line_at(n)) - box);
		if (pwrite(fd, &line, sizeof(line), at) != (ssize_t)sizeof(line)) {
			abort();
		}
	}
	poke(fd, AT + offsetof(image_root_t, nlines), 9010, 8);
}

/* A box of a process that runs, which has 9000 lines. *other holds its lock. */
static int
running_ring(int *other) {
	char path[64];
	make_plain(0);
	model.root.state = image_open;
	model.root.flags |= IMAGE_REALTIME;
	model.root.pid = 0;
	make_ring(9000);
	int fd = file_of(box, sizeof(box));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	*other = open(path, O_RDONLY | O_CLOEXEC);
	flock(*other, LOCK_EX);
	return fd;
}

/*
 * They pass before line `before` is read. Lines that are overwritten while those of their block are
 * read are left out, and the next one to be overwritten too. The number of lines is not read for
 * each line.
 */
static void
test_course_runs(uint64_t before, uint64_t first) {
	int other, fd = running_ring(&other);
	change = add_lines;
	change_before = (uint64_t)(place(line_at(before)) - box);
	reads = 0;
	check_course(fd, 9000, 3600, first, "seconds of a process that runs");
	check(reads > RING && reads < RING + 2 * IMAGE_BLOCKS, "reads", reads);
	close(other);
}

/* Makes the box one of a process that runs. */
static void
make_running(void) {
	model.root.state = image_open;
	model.root.flags |= IMAGE_REALTIME;
	model.root.pid = 0;
	memcpy(box, &model.root, sizeof(model.root));
}

static void
test_runs(void) {
	test_course_runs(5400, 5411);
	test_course_runs(5405, 5411);
	test_course_runs(5460, 5401);
	make_plain(8);
	make_running();
	test_killed();
	test_running(remove_sites, 0, 0, 2, 0, "the first site goes");
	test_running(remove_sites, 3, 3, 2, 0, "a site goes");
	test_running(remove_sites, 7, 7, 2, 0, "the last site goes");
	test_running(remove_sites, 2, 5, 8, 0, "four sites go");
	test_running(remove_sites, 0, 4, 10, 0, "the first five sites go");
	test_running(remove_sites, 0, 7, 16, 0, "all sites go");
	test_running(replace_sites, 0, 7, 2, 1, "all sites go, another one comes");
	model.sites[3].counts[2] = model.sites[3].counts[1];
	model.sites[3].ncounts = 3;
	make_box(&model);
	make_running();
	test_running(remove_count, 3, 3, 1, 0, "a count goes");
	test_running(retire_count, 3, 3, 1, 0, "a count is about to go");
}

/* ---- the edge of what is read ---- */

/* The box, taken for that of a process that runs, with its root read, for a caller's limit. */
static jeprof_image_t *
box_opened(int fd, char *why, uint64_t objects_most) {
	jeprof_image_t *image = calloc(1, sizeof(*image));
	image->fd = fd;
	image->why = why;
	image->objects_most = objects_most;
	if (image_of_box(image) != 0) {
		abort();
	}
	image->is_live = true;
	if (image_read_root(image) != 0) {
		abort();
	}
	return image;
}

/* Whatever the number of objects that may be read, what was not read is counted, and once. */
static void
test_budgets(void) {
	char why[JEPROF_WHY];
	uint64_t wrong = 0, samples = 0, n;
	make_plain(8);
	for (n = 0; samples < 16 && n < 1000; n++) {
		int fd = file_of(box, sizeof(box));
		jeprof_image_t *image = box_opened(fd, why, UINT64_MAX);
		image->budget = n;
		int error = image_read_tables(image);
		samples = image->cur.objs;
		if (error != 0 || image->torn != (samples < 16)) {
			wrong++;
			printf("# %" PRIu64 " objects: %" PRIu64 " samples, %" PRIu64 " torn\n", n, samples,
			    image->torn);
		}
		jeprof_image_close(image);
		close(fd);
	}
	check(wrong == 0 && n > 24 && n < 1000, "an end of the budget is torn, once", wrong);
}

/* A caller's limit of objects bounds what is read, and frames to four for each of them. */
static void
test_limits(void) {
	char why[JEPROF_WHY];
	const uint64_t frames = BOX_BYTES / IMAGE_FRAME_BYTES;
	const uint64_t limits[] = {0, 1, 2, 3, 7, 30, 1000, frames / 4 - 1, frames / 4,
	    frames / 4 + 1, frames, UINT64_MAX / 4 + 1, UINT64_MAX};
	uint64_t wrong = 0, sites = 0, budget = 0;
	make_plain(8);
	for (size_t i = sizeof(limits) / sizeof(limits[0]); i-- > 0;) {
		uint64_t n = limits[i], most = n > frames / 4 ? frames : 4 * n;
		int fd = file_of(box, sizeof(box));
		jeprof_image_t *image = box_opened(fd, why, n);
		budget = budget == 0 ? image->budget : budget;
		if (image->frames_most != most || image->budget != (n < budget ? n : budget)) {
			wrong++;
			printf("# limit %" PRIu64 ": %" PRIu64 " frames, %" PRIu64 " objects\n", n,
			    image->frames_most, image->budget);
		}
		wrong += image_read_tables(image) != 0 || image->frames.n > most;
		sites = n == 1000 ? image->sites.n : sites;
		jeprof_image_close(image);
		close(fd);
	}
	check(wrong == 0 && sites == 8, "limits of objects and frames", wrong);
}

/* A profile as a text has at most as many bytes as the caller wants. */
static void
test_text_size(void) {
	char why[JEPROF_WHY] = "", *text;
	size_t size = 0;
	uint64_t most = 1 << 20;
	make_plain(8);
	for (int i = 0; i < 4; i++) {
		jeprof_image_t *image;
		int fd = file_of(box, sizeof(box));
		if (jeprof_image_of_file(&image, fd, why) != 0) {
			abort();
		}
		bool is_more = i == 2;
		int error = jeprof_image_text(image, most, &text, &size);
		check(is_more ? error == EFBIG && text == NULL : error == 0 && strlen(text) == size,
		    is_more ? "a byte more than is wanted" : "as large as is wanted", most);
		most = i == 0 ? size : i == 1 ? size - 1 : most + 1;
		free(text);
		jeprof_image_close(image);
		close(fd);
	}
}

/* Of a root without lists of records and labels, what lies behind it is not taken for them. */
static void
test_short_root(void) {
	char why[JEPROF_WHY];
	make_plain(8);
	model.root.root_bytes = offsetof(image_root_t, records);
	memcpy(box, &model.root, sizeof(model.root));
	int fd = file_of(box, sizeof(box));
	jeprof_image_t *image = box_opened(fd, why, UINT64_MAX);
	image->root.sites = 0;
	image_read_parts(image);
	check(image->root.sites == model.root.sites && image->root.records == 0
	    && image->root.labels == 0 && image->root.label_last == 0, "a root of an older library", 0);
	jeprof_image_close(image);
	close(fd);
}

/* ---- a process: this one ---- */

/* The lines of a profile that say what is held. */
static char *
body_of(const char *text) {
	char *body = strdup(text), *to = body;
	const char *stop = strstr(text, "\nMAPPED_LIBRARIES:");
	for (const char *from = text; from < stop; from += strcspn(from, "\n") + 1) {
		if (from[0] != '#') {
			to = stpncpy(to, from, strcspn(from, "\n") + 1);
		}
	}
	*to = '\0';
	return body;
}

static bool
is_same_body(const char *got, const char *want) {
	char *g = body_of(got), *w = body_of(want);
	bool is_good = is_same(g, w);
	free(g);
	free(w);
	return is_good;
}

/* Reads the tables from our own memory. */
static void
test_own(jeprof_target_t *t, const char *what) {
	char *text = NULL, exe[PATH_MAX] = "", line[PATH_MAX + 32];
	size_t size;
	jeprof_image_t *image;
	int error = jeprof_image_of_process(&image, t);
	if (error != 0) {
		check(false, t->why, (uint64_t)error);
		return;
	}
	FILE *f = open_memstream(&text, &size);
	jeprof_image_write(image, f);
	fclose(f);
	jeprof_image_facts_t facts = jeprof_image_facts(image);
	jeprof_image_close(image);
	source_t from = source_core();
	char *want = expected(&model, &from);
	snprintf(line, sizeof(line), "\n# jemalloc.exe=%s\n",
	    readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0 ? exe : "?");
	check(is_same_body(text, want) && facts.torn == 0, what, facts.torn);
	check(strstr(text, "\n# jemalloc.kind=outside\n") != NULL && strstr(text, line) != NULL
	    && strstr(text, "\n# jemalloc.end=") == NULL, "its program", 0);
	check(strstr(text, " r-xp ") != NULL && strstr(text, "/image\n# module ") != NULL
	    && strstr(text, " linux-vdso.so.1\n") != NULL, "its objects", 0);
	free(text);
	free(want);
}

/* The lines of ages and labels. */
static char *
ages_of(const char *text) {
	char *ages = strdup(text), *to = ages;
	for (const char *from = strstr(text, "\n# age"); *from != '\0';) {
		from++;
		size_t n = strcspn(from, "\n");
		if (strncmp(from, "# age ", 6) == 0 || strncmp(from, "# l", 3) == 0) {
			to = stpncpy(to, from, n + 1);
		}
		from += n;
	}
	*to = '\0';
	return ages;
}

static void
put_root(int fd) {
	(void)fd;
	memcpy((void *)(uintptr_t)AT, &model.root, sizeof(model.root));
}

/* Lists that get their first objects while the sites, or the records, are read. */
static void
test_late(jeprof_target_t *t, uint64_t before, bool has_records, const char *what) {
	char *text = NULL;
	size_t size;
	jeprof_image_t *image;
	source_t from = source_core();
	image_root_t *root = (image_root_t *)(uintptr_t)AT;
	root->labels = root->labels_elsewhere = root->label_last = 0;
	if (!has_records) {
		root->records = root->records_elsewhere = 0;
	}
	change = put_root;
	change_before = before;
	if (jeprof_image_of_process(&image, t) != 0) {
		abort();
	}
	FILE *f = open_memstream(&text, &size);
	jeprof_image_write(image, f);
	fclose(f);
	jeprof_image_close(image);
	char *want = expected(&model, &from), *got = ages_of(text), *ages = ages_of(want);
	check(change_before == 0 && is_same(got, ages) && strstr(ages, "# labeled ") != NULL, what, 0);
	free(text);
	free(want);
	free(got);
	free(ages);
	change_before = 0;
	put_root(0);
}

/* The image of a process that did not answer, which has our own tables. */
static void
test_unanswered(jeprof_target_t *t) {
	char *text, *less;
	size_t size = 0, none;
	jeprof_image_t *image;
	strcpy(t->why, "asked");
	check(jeprof_image_unanswered(&image, t, EFBIG, 0) == EFBIG && strcmp(t->why, "asked") == 0,
	    "a request that failed otherwise", 0);
	/* there are more than a profile of 64 bytes shows */
	check(jeprof_image_unanswered(&image, t, EBUSY, 64) == EBUSY && strcmp(t->why, "asked") == 0,
	    "more objects than the caller wants", 0);
	if (jeprof_image_unanswered(&image, t, ETIMEDOUT, 64 << 20) != 0) {
		check(false, t->why, 0);
		return;
	}
	check(strcmp(t->why, "asked") == 0, "the sentence stays that of the request", 0);
	check(jeprof_image_text(image, 64 << 20, &text, &size) == 0 && strlen(text) == size
	    && strstr(text, "\n# jemalloc.kind=outside\n") != NULL && strstr(text, "\n# end ") != NULL,
	    "a text in memory", size);
	/* some numbers of it, such as rss, may have grown by digits */
	check(jeprof_image_text(image, size - 64, &less, &none) == EFBIG && less == NULL
	    && strstr(t->why, "bytes allowed") != NULL, "that is larger than the caller wants", size);
	free(text);
	check(jeprof_image_text(image, size + 64, &text, &size) == 0 && text != NULL, "that is not", 0);
	free(text);
	jeprof_image_close(image);
}

/* Puts the model's tables where their addresses say. */
static void
map_own_tables(void) {
	make_box(&model);
	for (unsigned i = 0; i < PARTS; i++) {
		void *at = mmap((void *)(uintptr_t)(AT + i * APART), PART_BYTES, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (at != (void *)(uintptr_t)(AT + i * APART)) {
			abort();
		}
		memcpy(at, box + i * PART_BYTES, PART_BYTES);
	}
}

static void
test_process(void) {
	static jeprof_target_t t;
	jeprof_image_t *image;
	draw_model(&model, 15);
	model.root.state = image_open;
	model.root.flags |= IMAGE_REALTIME;
	for (unsigned i = 0; i < model.nsites; i++) {
		model.sites[i].is_elsewhere = i % 3 == 0;
		for (unsigned k = 0; k < COUNTS * SAMPLES; k++) {
			model.sites[i].counts[k / SAMPLES].samples[k % SAMPLES].time_ns = 1;
		}
	}
	map_own_tables();
	t = (jeprof_target_t){.pid = getpid(), .task = getpid(), .block = (uintptr_t)&own_mailbox,
	    .own_pid = model.root.pid, .name = "me", .way = jeprof_way_calls,
	    .fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC)};
	check(jeprof_image_of_process(&image, &t) == ENOENT && strstr(t.why, "nothing has started")
	    != NULL, "a process without tables", 0);
	check(jeprof_box_opened(&t) == 0, "has no box", 0);
	own_mailbox.root = model.root.head.self;
	test_own(&t, "our own tables, by calls");
	check(jeprof_box_opened(&t) == model.root.opened_ns, "its box", 0);
	t.way = jeprof_way_memory;
	test_own(&t, "our own tables, by the file of the memory");
	check(jeprof_box_opened(&t) == model.root.opened_ns, "its box", 1);
	test_unanswered(&t);
	test_late(&t, model.sites[0].at, false, "records and labels that come late");
	test_late(&t, model.root.records, true, "labels that come later");
	t.way = jeprof_way_memfd;
	check(jeprof_image_of_process(&image, &t) == EACCES && strstr(t.why, "sudo") != NULL,
	    "memory that may not be read", 0);
	check(jeprof_box_opened(&t) == 0, "nor the box", 0);
	t.way = jeprof_way_calls;
	image_root_t *root = (image_root_t *)(uintptr_t)AT;
	root->state = image_ended;
	check(jeprof_box_opened(&t) == 0, "a box that has ended", 0);
	*root = model.root;
	root->pid++;
	check(jeprof_box_opened(&t) == 0, "of another process", 0);
	root->pid = 0;
	check(jeprof_box_opened(&t) == root->opened_ns, "of one that does not know its pid", 0);
	*root = model.root;
	root->version++;
	check(jeprof_box_opened(&t) == 0, "of another version", 0);
	*root = model.root;
	root->head.magic++;
	check(jeprof_box_opened(&t) == 0, "no root", 0);
	*root = model.root;
	root->box_bytes = 0;
	check(jeprof_box_opened(&t) == 0, "tables in no box", 0);
	close(t.fd);
}

/* Which of our descriptors is the box. */
static void
test_descriptor(void) {
	jeprof_target_t t = {.pid = getpid(), .task = getpid()};
	struct stat a, b;
	int fds[3];
	check(jeprof_box_open(&t) == -1, "no box", 0);
	fds[0] = memfd_create("jemalloc-blackboy", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	fds[1] = memfd_create(IMAGE_FD_NAME, MFD_ALLOW_SEALING | MFD_CLOEXEC);
	fcntl(fds[0], F_ADD_SEALS, F_SEAL_SHRINK);
	fcntl(fds[1], F_ADD_SEALS, F_SEAL_GROW);
	check(jeprof_box_open(&t) == -1, "one of another name, one that can shrink", 0);
	fds[2] = memfd_create(IMAGE_FD_NAME, MFD_ALLOW_SEALING | MFD_CLOEXEC);
	fcntl(fds[2], F_ADD_SEALS, F_SEAL_SHRINK);
	int fd = jeprof_box_open(&t);
	check(fd >= 0 && fstat(fd, &a) == 0 && fstat(fds[2], &b) == 0 && a.st_ino == b.st_ino
	    && write(fd, "x", 1) < 0, "the box, to be read", 0);
	close(fd);
	/* The directory of the descriptors takes the last one. */
	struct rlimit limit;
	int next = dup(fds[2]);
	close(next);
	getrlimit(RLIMIT_NOFILE, &limit);
	struct rlimit low = {(rlim_t)next + 1, limit.rlim_max};
	setrlimit(RLIMIT_NOFILE, &low);
	errno = 0;
	check(jeprof_box_open(&t) == -1 && errno == EMFILE, "a box, but no descriptor for it", 0);
	setrlimit(RLIMIT_NOFILE, &limit);
	for (unsigned i = 0; i < 3; i++) {
		close(fds[i]);
	}
	check(fcntl(next, F_GETFD) == -1, "no descriptor stays open", 0);
	t.pid = -1;
	check(jeprof_box_open(&t) == -1, "no process", 0);
}

/*
 * A core of n mappings for the count of what its reading costs: half of them are of one file and
 * without code, and each has an offset of 0, so that an object might begin there.
 */
static int
write_many(unsigned n, const char *path) {
	enum { FIRST = 0x10000000, PATH = 16 };
	size_t loads = PARTS + n, files = 16 + n * (24 + PATH), at = 64 + (loads + 1) * 56;
	Elf64_Ehdr e = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64,
	    __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB, EV_CURRENT},
	    .e_type = ET_CORE, .e_version = EV_CURRENT, .e_phoff = 64, .e_phentsize = 56,
	    .e_phnum = (uint16_t)(loads + 1)};
	Elf64_Nhdr note = {8, (uint32_t)files, NT_FILE};
	char *bytes = calloc(1, at + 20 + files + sizeof(box)), *rows = bytes + at + 20;
	Elf64_Phdr *h = (void *)(bytes + 64);
	draw_model(&model, 2);
	model.root.box_bytes = BOX_BYTES;
	make_box(&model);
	h[0] = (Elf64_Phdr){.p_type = PT_NOTE, .p_offset = at, .p_filesz = 20 + files};
	memcpy(bytes, &e, sizeof(e));
	memcpy(bytes + at, &note, sizeof(note));
	memcpy(bytes + at + 12, "CORE\0\0\0", 8);
	memcpy(rows, (uint64_t[2]){n, 4096}, 16);
	for (unsigned i = 0; i < n; i++) {
		uint64_t begin = FIRST + (uint64_t)i * 2 * PAGE;
		memcpy(rows + 16 + i * 24, (uint64_t[3]){begin, begin + PAGE, 0}, 24);
		snprintf(rows + 16 + n * 24 + i * PATH, PATH, "/lib/object%04x", i < n / 2 ? 0u
		    : i & 0xffff);
		h[n - i] = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R, .p_vaddr = begin,
		    .p_filesz = 64, .p_offset = at + 20};
	}
	for (unsigned i = 0; i < PARTS; i++) {
		h[1 + n + i] = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R | PF_W,
		    .p_vaddr = AT + i * APART, .p_filesz = PART_BYTES,
		    .p_offset = at + 20 + files + i * PART_BYTES};
	}
	memcpy(rows + files, box, sizeof(box));
	FILE *to = fopen(path, "w");
	bool is_written = to != NULL && fwrite(bytes, 1, at + 20 + files + sizeof(box), to) != 0;
	free(bytes);
	return to == NULL || fclose(to) != 0 || !is_written;
}

/* A box or core that lacks something; for the sentences of jeprofctl. */
static int
write_image(const char *kind, const char *path) {
	jeprof_image_facts_t f;
	bool is_bare = strcmp(kind, "bare") == 0, is_core = is_bare || strcmp(kind, "core") == 0;
	draw_model(&model, 2);
	draw_damage();
	model.root.box_bytes = BOX_BYTES;
	model.root.no_room = strcmp(kind, "box") == 0 ? 37 : 0;
	make_box(&model);
	make_core((core_options_t){.has_mailbox = true, .has_no_files = is_bare});
	core.size -= 100;
	FILE *to = fopen(path, "w");
	if (to == NULL || fwrite(is_core ? core.bytes : box, 1, is_core ? core.size : sizeof(box), to)
	    == 0 || fclose(to) != 0) {
		return 1;
	}
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	free(profile_of(fd, &f));
	printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %d %" PRIu64 "\n", f.torn, f.no_room, f.cut,
	    f.lacks_files, f.lacking);
	return model.torn == 0 || f.torn != model.torn;
}

/* A process with damaged tables and code that is in no ELF file; it ends with its input. */
static int
be_process(void) {
	char byte;
	int fd = memfd_create("compiled", MFD_CLOEXEC);
	if (ftruncate(fd, PAGE) != 0
	    || mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0) == MAP_FAILED) {
		return 1;
	}
	draw_model(&model, 2);
	draw_damage();
	model.root.state = image_open;
	map_own_tables();
	own_mailbox = (prof_mailbox_t){.magic = PROF_MAILBOX_MAGIC, .version = PROF_MAILBOX_VERSION,
	    .bytes = sizeof(own_mailbox), .pid = (uint32_t)getpid(), .root = model.root.head.self};
	puts("ready");
	fflush(stdout);
	return read(0, &byte, 1) != 0;
}

int
main(int argc, char **argv) {
	if (argc == 3 && strcmp(argv[1], "alive") == 0) {
		return be_process();
	}
	if (argc == 3) {
		unsigned n = (unsigned)atoi(argv[1]);
		return n != 0 ? write_many(n, argv[2]) : write_image(argv[1], argv[2]);
	}
	/* Memory is used again: fresh pages cost more than all else, and the sum has all of it. */
	mallopt(M_MMAP_THRESHOLD, 16 << 20);
	mallopt(M_TRIM_THRESHOLD, 64 << 20);
	test_boxes();
	test_cores();
	test_cut();
	test_kept();
	test_said(lacking, 0, false, "the core lacks the memory at 0x7f0000000000, where the "
	    "profiler's tables are: they were in a box, which is a file of its own (or coredump_filter "
	    "left them out)");
	test_said(lacking, 100, false,
	    "the core is cut off: it lacks the profiler's tables, at 0x7f0000000000");
	draw_model(&model, 12);
	make_box(&model);
	test_no_memory(false, false);
	test_no_memory(true, false);
	test_no_memory(true, true);
	for (int i = 0; i < 2; i++) {
		test_said(none, 0, i, "the core has no tables of the profiler: the process did not run the "
		    "library, nothing had started the profiler, or the core lacks that memory, as that of "
		    "a box, which is a file of its own");
	}
	test_said(none, 100, false,
	    "the core has no tables of the profiler: it is cut off and lacks 100 bytes");
	test_said(none, 100, true,
	    "the core has no tables of the profiler: it is cut off and lacks 16384 bytes");
	test_edges();
	test_build_ids();
	test_labels();
	test_root();
	test_courses();
	test_runs();
	test_budgets();
	test_limits();
	test_text_size();
	test_short_root();
	test_process();
	test_descriptor();
	printf("1..%u\n", tests);
	return 0;
}
