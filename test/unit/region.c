/* meta/region.h: memory of the profiler's tables, its parts, and what a reader outside sees. */
#include "core.h"

#include "meta/base.h"
#include "meta/region.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define N_PIECES 500

struct piece {
	char *p;
	size_t size;
	unsigned char fill;
};

/* Random pieces come and go; returns the number of errors. */
static unsigned
churn(uint64_t seed, unsigned rounds, bool is_alone) {
	static __thread struct piece held[N_PIECES];
	unsigned bad = 0;
	memset(held, 0, sizeof(held));
	for (unsigned i = 0; i < rounds; i++) {
		struct piece *h = &held[draw_below(&seed, N_PIECES)];
		if (h->p != NULL) {
			bad += !is_filled(h->p, h->fill, h->size);
			region_free(h->p, h->size);
			uint64_t mark;
			memcpy(&mark, h->p + sizeof(mark), sizeof(mark));
			bad += wrong_if(is_alone && mark != 0);
			h->p = NULL;
			continue;
		}
		h->size = 1 + draw_below(&seed, i % 100 == 0 ? 100000 : 2000);
		h->fill = (unsigned char)(1 + draw_below(&seed, 255));
		h->p = region_alloc(h->size);
		size_t align = region_good_size(h->size) >= 64 ? 64 : 16;
		bad += wrong_if(h->p == NULL) || wrong_if(((uintptr_t)h->p & (align - 1)) != 0)
		    || wrong_if(!is_filled(h->p, 0, h->size));
		memset(h->p, h->fill, h->size);
	}
	for (unsigned i = 0; i < N_PIECES; i++) {
		region_free(held[i].p, held[i].size);
	}
	return bad;
}

/* Whether the parts say that this address was handed out. */
static bool
is_in_parts(const image_root_t *root, const void *at) {
	for (unsigned i = 0; i < root->nparts; i++) {
		if ((uintptr_t)at - root->parts[i].address < root->parts[i].used) {
			return true;
		}
	}
	return false;
}

static void
test_root(void) {
	image_root_t *root = region_root();
	unsigned bad = 0;
	ok(root != NULL && region_root() == root, "one root");
	is_uint(root->head.self, (uintptr_t)root, "which knows where it is");
	is_uint(root->version, 0, "and is not complete before the profiler's tables are");
	for (unsigned i = 0; i < 200; i++) {
		char *p = region_alloc(i * 1000 + 1);
		bad += wrong_if(p == NULL) || wrong_if(!is_in_parts(root, p));
	}
	is_uint(bad, 0, "each piece lies in a part that the root names");
	ok(root->nparts > 1, "%u parts", root->nparts);
	uint64_t offset = 0, used = 0, mapped = 0;
	for (unsigned i = 0; i < root->nparts; i++) {
		const image_part_t *p = &root->parts[i];
		const image_head_t *h = (const image_head_t *)(uintptr_t)p->address;
		bad += wrong_if(h->magic != IMAGE_MAGIC) || wrong_if(h->self != p->address)
		    || wrong_if(h->bytes != p->bytes) || wrong_if(h->root != (uintptr_t)root)
		    || wrong_if(p->offset != offset) || wrong_if(p->used > p->bytes);
		offset += p->bytes;
		mapped += p->bytes;
		used += p->used;
	}
	is_uint(bad, 0, "each part has a head, and they follow each other in a box");
	is_uint(region_mapped(), mapped, "mapped bytes are those of the parts");
	ok(region_resident() >= used && region_resident() <= mapped, "touched ones are what was used");
	ok(region_alloc(SIZE_MAX) == NULL && region_alloc((size_t)1 << 40) == NULL, "no monsters");
	region_free(NULL, 100);
	pass("freeing NULL does nothing");
}

static void
test_churn(void) {
	size_t in_use = region_in_use();
	is_uint(churn(1, 20000, true), 0,
	    "20000 pieces: zeroed, aligned, content kept, marked when freed");
	is_uint(region_in_use(), in_use, "all counted back");
	size_t resident = region_resident();
	for (uint64_t seed = 1; seed <= 5; seed++) {
		churn(1, 20000, true);
	}
	is_uint(region_resident(), resident, "the same again takes nothing new");
}

static void *
churn_thread(void *arg) {
	return (void *)(uintptr_t)churn((uintptr_t)arg, 20000, false);
}

static void
test_threads(void) {
	pthread_t t[4];
	uintptr_t bad = 0;
	size_t in_use = region_in_use();
	for (uintptr_t i = 0; i < 4; i++) {
		pthread_create(&t[i], NULL, churn_thread, (void *)(i + 100));
	}
	for (unsigned i = 0; i < 4; i++) {
		void *ret;
		pthread_join(t[i], &ret);
		bad += (uintptr_t)ret;
	}
	is_uint(bad, 0, "four threads at once");
	is_uint(region_in_use(), in_use, "all counted back");
}

/* Mappings of the file of test_ahead(). */
static unsigned
n_mapped(void) {
	char line[1000];
	unsigned n = 0;
	FILE *in = fopen("/proc/self/maps", "r");
	while (in != NULL && fgets(line, sizeof(line), in) != NULL) {
		n += strstr(line, "memfd:ahead") != NULL;
	}
	if (in != NULL) {
		fclose(in);
	}
	return n;
}

/*
 * A thread forks while another one is about to move the tables into a file. Only with the system's
 * pages: files are mapped at any of these.
 */
static void
test_ahead(void) {
	if (PAGE != (size_t)sysconf(_SC_PAGESIZE)) {
		return;
	}
	int fd = memfd_create("ahead", MFD_CLOEXEC);
	is_int(fd < 0 ? errno : ftruncate(fd, 1 << 20), 0, "a file");
	is_int(region_ahead_box(fd, 1 << 20), 0, "is mapped");
	is_uint(n_mapped(), 1, "in this process");
	region_postfork_child();
	is_uint(n_mapped(), 0, "and no more in a child");
	is_int(region_ahead_box(fd, 1 << 20), 0, "which can have its own");
	region_ahead_end();
	is_uint(n_mapped(), 0, "and end it");
	close(fd);
}

static int
status_in_child(int (*run)(void)) {
	int status = -1;
	pid_t pid = fork();
	if (pid == 0) {
		_exit(run());
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

/* The box of so many bytes: 0 or an errno. */
static int
to_box(size_t bytes) {
	int fd = memfd_create("box", MFD_CLOEXEC);
	int err = fd < 0 || ftruncate(fd, (off_t)bytes) != 0 ? errno : region_ahead_box(fd, bytes);
	err = err == 0 ? region_to_box(fd) : err;
	region_ahead_end();
	close(fd);
	return err;
}

static const image_part_t *
newest_part(const image_root_t *root) {
	return &root->parts[root->nparts - 1];
}

/* In a child: a box exactly as large as the parts, the newest of which is full. */
static int
box_of_full_parts(void) {
	const image_root_t *root = region_root();
	while (newest_part(root)->bytes - newest_part(root)->used >= 1024) {
		region_alloc(1024);
	}
	return to_box(newest_part(root)->offset + newest_part(root)->bytes);
}

/* Bytes of address space that this process uses. */
static rlim_t
mapped_bytes(void) {
	unsigned long npages = 0;
	FILE *in = fopen("/proc/self/statm", "r");
	if (in == NULL || fscanf(in, "%lu", &npages) != 1) {
		return RLIM_INFINITY;
	}
	fclose(in);
	return (rlim_t)npages * PAGE;
}

/* In a child: as many parts as there may be, which a limit of memory makes small, and a box. */
static int
box_of_most_parts(void) {
	const image_root_t *root = region_root();
	struct rlimit old, low;
	getrlimit(RLIMIT_AS, &old);
	low = old;
	do {
		low.rlim_cur = mapped_bytes() + (400 << 10);
		setrlimit(RLIMIT_AS, &low);
	} while (root->nparts < IMAGE_PARTS && region_alloc(3000) != NULL);
	setrlimit(RLIMIT_AS, &old);
	uint64_t sites = root->sites, used = newest_part(root)->offset + newest_part(root)->bytes;
	int err = to_box(used + (1 << 20));
	for (unsigned i = 0; i < 400; i++) {
		region_alloc(3000);
	}
	return root->nparts != IMAGE_PARTS || root->sites != sites ? 1 : err;
}

static void
test_no_room(void) {
	if (PAGE != (size_t)sysconf(_SC_PAGESIZE)) {
		return;
	}
	is_int(status_in_child(box_of_full_parts), ENOSPC, "no room for the last pieces");
	is_int(status_in_child(box_of_most_parts), ENOSPC, "no room for a further part");
}

static void
body(void) {
	test_root();
	test_churn();
	test_threads();
	test_ahead();
	test_no_room();
}

int
main(int argc, char **argv) {
	return core_run_all_pages(argc, argv, body);
}
