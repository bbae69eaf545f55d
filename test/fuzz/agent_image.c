/*
 * A black box that somebody has forged, read and written as a profile. The input is a list of
 * changes to a small box that is made here, or, with the first bit of its first byte, the file
 * itself; with the second bit all sites and counts are proven anew after the changes, so that the
 * reader believes them; with the third the box lies in a core file; with the fourth that comes as a
 * stream.
 *
 * A change is an offset of two bytes, in words of 8 bytes, a kind of one byte, a value of two.
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/jeprof_client.h"
#include "meta/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	BOX = 32768,
	OBJECTS_AT = (sizeof(image_root_t) + 63) / 64 * 64,
	SITES = 12, COUNTS = 24, THREADS = 4, MODULES = 3, FRAMES = 5,
	SITE = 128, COUNT = 192, THREAD = 64, MODULE = 128,
	COUNTS_AT = OBJECTS_AT + SITES * SITE,
	THREADS_AT = COUNTS_AT + COUNTS * COUNT,
	MODULES_AT = THREADS_AT + THREADS * THREAD,
	BLOCK = 32, RECORD = 48, RECORDS = 24,
	BLOCKS_AT = MODULES_AT + MODULES * MODULE,
	RECORDS_AT = BLOCKS_AT + 2 * BLOCK,
	LABEL = 64, LABELS = 6,
	LABELS_AT = (RECORDS_AT + RECORDS * RECORD + 63) / 64 * 64,
	LINES_AT = LABELS_AT + LABELS * LABEL,
	AS_FILE = 1, BELIEVED = 2, IN_CORE = 4, STREAM = 8,
};

#define AT UINT64_C(0x7f0000000000)

/* Where the fields of our objects are, in the order of IMAGE_FIELDS. */
static const image_field_t fields[IMAGE_NFIELDS] = {
	{0, 8}, {8, 4}, {12, 4}, {16, 8}, {24, 8}, {32, 4}, {36, 4}, {40, 1},
	{0, 8}, {8, 4}, {12, 4}, {16, 8}, {24, 8}, {32, 8}, {40, 8}, {48, 8}, {56, 8}, {64, 8}, {72, 8},
	{80, 8}, {88, 8}, {96, 8}, {104, 8},
	{0, 8}, {8, 8}, {16, 1}, {20, 16},
	{0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, 4}, {36, 1}, {40, 20}, {64, 1},
	{112, 80},
	{0, 8}, {16, 8}, {24, 8},
	{0, 8}, {8, 8}, {16, 8}, {24, 8},
	{0, 8}, {8, 4}, {12, 4}, {16, 1},
};

static unsigned char box[BOX];

static void
put(size_t object, unsigned field, uint64_t value) {
	memcpy(box + object + fields[field].offset, &value, fields[field].width);
}

static uint64_t
get(size_t object, unsigned field) {
	uint64_t value = 0;
	memcpy(&value, box + object + fields[field].offset, fields[field].width);
	return value;
}

/* Sets the hashes as the library would have. */
static void
prove(void) {
	for (size_t s = OBJECTS_AT; s < COUNTS_AT; s += SITE) {
		uint64_t n = get(s, image_site_nframes), hash = n;
		for (uint64_t i = 0; i < n && s + 40 + 6 * i + 6 <= BOX; i++) {
			uint64_t frame = 0;
			memcpy(&frame, box + s + 40 + 6 * i, 6);
			hash = image_hash_frame(hash, frame);
		}
		put(s, image_site_hash, hash_mix64(hash));
	}
	for (size_t c = COUNTS_AT; c < THREADS_AT; c += COUNT) {
		uint64_t site = get(c, image_count_site) - AT;
		site = site < BOX - SITE ? site : OBJECTS_AT;
		put(c, image_count_hash, image_hash_count(get(site, image_site_hash),
		    get(c, image_count_thread), (uint32_t)get(c, image_count_epoch),
		    get(c, image_count_rate)));
	}
}

static void
make_root(void) {
	image_root_t r = {.head = {IMAGE_MAGIC, AT, BOX, AT}, .version = IMAGE_VERSION,
	    .byte_order = IMAGE_BYTE_ORDER, .root_bytes = sizeof(r), .page = 4096, .nparts = 1,
	    .flags = IMAGE_ACCUM, .state = image_ended, .nfields = IMAGE_NFIELDS,
	    .nstructs = IMAGE_NSTRUCTS, .struct_bytes = {40, 80, 40, 64, BLOCK, RECORD, 16},
	    .rate = 4096, .box_bytes = BOX, .sites = AT + OBJECTS_AT, .threads = AT + THREADS_AT,
	    .modules = AT + MODULES_AT, .blocks = {AT + LINES_AT},
	    .records = AT + BLOCKS_AT, .records_elsewhere = AT + BLOCKS_AT + BLOCK, .nlines = 40,
	    .labels = AT + LABELS_AT, .labels_elsewhere = AT + LABELS_AT + LABELS / 2 * LABEL,
	    .label_last = LABELS, .nstops = 3,
	    .unwinder_stops = "end full none"};
	r.parts[0] = (image_part_t){AT, BOX, 0, BOX};
	memcpy(r.fields, fields, sizeof(fields));
	memcpy(box, &r, sizeof(r));
}

static void
make_site(size_t i) {
	size_t s = OBJECTS_AT + i * SITE, c = COUNTS_AT + 2 * i * COUNT;
	put(s, image_site_next, i + 1 < SITES ? AT + s + SITE : 0);
	put(s, image_site_bytes, 128);
	put(s, image_site_nframes, FRAMES + i % 5);
	put(s, image_site_counts, AT + c);
	put(s, image_site_stamp, i % 2);
	put(s, image_site_then, i % 4);
	for (size_t k = 0; k < FRAMES + i % 5; k++) {
		uint64_t frame = 0x400000 + 0x1000 * i + k;
		memcpy(box + s + 40 + 6 * k, &frame, 6);
	}
	for (size_t k = 0; k < 2; k++, c += COUNT) {
		put(c, image_count_next, k == 0 ? AT + c + COUNT : 0);
		put(c, image_count_bytes, i % 3 == 0 ? COUNT : 80);
		for (size_t a = 0; a < 10; a++) {
			memcpy(box + c + 112 + 8 * a, &a, 8);
		}
		put(c, image_count_site, AT + s);
		put(c, image_count_thread, AT + THREADS_AT + THREAD * ((i + k) % THREADS));
		put(c, image_count_rate, 4096);
		put(c, image_count_live, 1); /* as many samples as records: so there are ages */
		put(c, image_count_live_bytes, 100 * (i + 1));
		put(c, image_count_c16, IMAGE_WEIGHT_ONE * (i + 1));
		put(c, image_count_est, 4096 * (i + 1));
	}
}

static void
make_box(void) {
	memset(box, 0, sizeof(box));
	make_root();
	for (size_t i = 0; i < SITES; i++) {
		make_site(i);
	}
	for (size_t i = 0; i < THREADS; i++) {
		size_t t = THREADS_AT + i * THREAD;
		put(t, image_thread_next, i + 1 < THREADS ? AT + t + THREAD : 0);
		put(t, image_thread_uid, i);
		put(t, image_thread_attached, 1);
		memcpy(box + t + 20, "worker", 6);
	}
	for (size_t i = 0; i < MODULES; i++) {
		size_t m = MODULES_AT + i * MODULE;
		put(m, image_module_next, i + 1 < MODULES ? AT + m + MODULE : 0);
		put(m, image_module_start, 0x400000 + 0x4000 * (i % 2));
		put(m, image_module_end, 0x404000 + 0x4000 * (i % 2));
		put(m, image_module_number, i + 1);
		put(m, image_module_build_id_len, 20);
		memcpy(box + m + 64, "/usr/lib/a.so", 13);
	}
	for (size_t i = 0; i < 2; i++) {
		size_t b = BLOCKS_AT + i * BLOCK;
		put(b, image_block_n, RECORDS / 2);
		put(b, image_block_records, AT + RECORDS_AT + i * RECORDS / 2 * RECORD);
	}
	for (size_t i = 0; i < RECORDS; i++) {
		size_t r = RECORDS_AT + i * RECORD;
		put(r, image_record_count, AT + COUNTS_AT + i * COUNT);
		put(r, image_record_weight, IMAGE_WEIGHT_ONE);
		put(r, image_record_time_ns, i * i * 1000000000);
		put(r, image_record_sized, 4096 | (uint64_t)(i % (LABELS + 2)) << IMAGE_USIZE_BITS);
	}
	for (size_t i = 0; i < LABELS; i++) {
		size_t l = LABELS_AT + i * LABEL;
		put(l, image_label_next, (i + 1) % (LABELS / 2) != 0 ? AT + l + LABEL : 0);
		put(l, image_label_bytes, 24);
		put(l, image_label_id, i + 1);
		memcpy(box + l + 16, "tenant", 6);
	}
	for (size_t i = 0; i < 40; i++) {
		image_line_t line = {1000000000 * (i + 1), 1000 * i, 2000 * i, 3000 * i, 4000 * i, 0, i, i};
		memcpy(box + LINES_AT + i * sizeof(line), &line, sizeof(line));
	}
}

/* A number: small, large, an address in the box, as it was with some bits changed. */
static uint64_t
value_of(unsigned kind, uint16_t value, uint64_t old) {
	switch (kind % 6) {
	case 0:
		return value;
	case 1:
		return AT + (uint64_t)value * 8 % BOX;
	case 2:
		return AT + (uint64_t)value * 64 % BOX;
	case 3:
		return old ^ UINT64_C(1) << value % 64;
	case 4:
		return (old & ~UINT64_C(0xffffffff)) | value;
	default:
		return (uint64_t)value << (kind / 6 % 8 * 8);
	}
}

static void
change(const uint8_t *data, size_t size) {
	for (; size >= 5; data += 5, size -= 5) {
		size_t at = (size_t)(data[0] | data[1] << 8) * 8 % (LINES_AT + 512);
		uint64_t old;
		memcpy(&old, box + at, sizeof(old));
		old = value_of(data[2], (uint16_t)(data[3] | data[4] << 8), old);
		memcpy(box + at, &old, sizeof(old));
	}
	memset(box + offsetof(image_root_t, pid), 0, sizeof(uint32_t)); /* no process is looked for */
}

/* The head of a core file with the box as its only memory; the box follows. */
static void
write_core_head(int fd) {
	struct {
		Elf64_Ehdr e;
		Elf64_Phdr p;
	} head = {.e = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
	    .e_type = ET_CORE, .e_machine = EM_X86_64, .e_version = EV_CURRENT, .e_phnum = 1,
	    .e_phoff = sizeof(Elf64_Ehdr), .e_ehsize = sizeof(Elf64_Ehdr),
	    .e_phentsize = sizeof(Elf64_Phdr)},
	    .p = {.p_type = PT_LOAD, .p_flags = PF_R | PF_W, .p_vaddr = AT, .p_filesz = BOX,
	    .p_memsz = BOX, .p_offset = sizeof(head)}};
	if (write(fd, &head, sizeof(head)) != sizeof(head)) {
		abort();
	}
}

static void
read_it(int fd) {
	static FILE *null;
	char why[JEPROF_WHY] = "";
	jeprof_image_t *image;
	null = null != NULL ? null : fopen("/dev/null", "w");
	if (jeprof_image_of_file(&image, fd, why) != 0) {
		if (why[0] == '\0' || strchr(why, '\n') != NULL) {
			abort(); /* one sentence */
		}
		return;
	}
	(void)jeprof_image_facts(image);
	(void)jeprof_image_write(image, null);
	jeprof_image_close(image);
}

static void
write_all(int fd, const void *bytes, size_t size) {
	if (write(fd, bytes, size) != (ssize_t)size) {
		abort();
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	int pair[2] = {-1, -1};
	if (size == 0) {
		return 0;
	}
	unsigned way = data[0];
	make_box();
	prove();
	if ((way & AS_FILE) == 0) {
		change(data + 1, size - 1);
	}
	if ((way & BELIEVED) != 0) {
		prove();
	}
	bool is_stream = (way & STREAM) != 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0;
	int fd = is_stream ? pair[1] : memfd_create("image", MFD_CLOEXEC);
	if ((way & IN_CORE) != 0) {
		write_core_head(fd);
	}
	write_all(fd, (way & AS_FILE) != 0 ? data + 1 : box, (way & AS_FILE) != 0 ? size - 1 : BOX);
	if (is_stream) {
		close(pair[1]);
	}
	read_it(is_stream ? pair[0] : fd);
	close(is_stream ? pair[0] : fd);
	return 0;
}
