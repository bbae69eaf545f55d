/*
 * Pages of memory from the system: map, commit, purge, advise, guard.
 * PAGE is the allocator's page size: the system's, or a larger one (configured minimum, or set by a
 * test of a debug build). It is a constant if the build fixes it, otherwise a variable that does
 * not change after boot. Sizes are bytes, multiples of PAGE; addresses are aligned to it. An int
 * result is 0 or an errno value; a pointer is NULL after a failure. The functions preserve errno
 * and take no lock; any thread may call them. Callers are the owners of mappings: meta/ (base,
 * region, emap, freepool), extent/ (ehooks, guard, pac*, piece, ahead, dss, purge_batch), hpa,
 * arena/ (arenas, holes, shut), thread/ (shelter, deferred), unwind/frame_scan and the profiler;
 * jemalloc_init.c and unwind_fp.c call functions of boot, stats.c asks for a mode.
 */
#pragma once

#include "os/sys.h"
#include "util/bits.h"
#include "util/compiler.h"

#if LG_PAGE_FIXED_P
#define LG_PAGE ((unsigned)LG_PAGE_MIN)
#else
#define LG_PAGE lg_page
#endif
/* Bytes of the allocator's page, and the most that it may have. */
#define PAGE (ZU(1) << LG_PAGE)
#define PAGE_MASK (PAGE - 1)
#define PAGE_MAX (ZU(1) << LG_PAGE_MAX)
/* Bytes of the allocator's huge page, set by configure; pages_huge_size() is the system's. */
#define HUGEPAGE (ZU(1) << LG_HUGEPAGE)
#define HUGEPAGE_MASK (HUGEPAGE - 1)
#define PAGE_CEILING(s) (((s) + PAGE_MASK) & ~PAGE_MASK)
#define PAGE_FLOOR(s) ((s) & ~PAGE_MASK)
#define HUGEPAGE_CEILING(s) (((s) + HUGEPAGE_MASK) & ~HUGEPAGE_MASK)

/* log2 of the page size, and the page size in bytes; set by pages_boot_size(). */
extern HIDDEN unsigned lg_page;
extern HIDDEN size_t page_size;

/* Use of transparent huge pages: the option "thp" (first three values), or the system's setting. */
typedef enum {
	thp_mode_default, /* option: no advice is given; system: "madvise", only where advised */
	thp_mode_always,
	thp_mode_never,
	thp_mode_not_supported /* the system's setting cannot be read */
} thp_mode_t;

/* The option trust_madvise: MADV_DONTNEED is assumed to zero pages, without a test at run time. */
extern HIDDEN bool opt_trust_madvise;
/*
 * The option process_madvise_max_batch: most extents that purge_batch.c passes to one call of
 * process_madvise(2), up to PAGES_BATCH_MAX; hpa.c always passes up to that. 0: no such calls.
 */
extern HIDDEN size_t opt_process_madvise_max_batch;
extern HIDDEN thp_mode_t opt_thp;

/* Sets only the page size. ENOTSUP if it is not supported. pages_boot() calls it too. */
int pages_boot_size(void);
/*
 * Sets the page size and reads the system's modes of overcommit and huge pages. Called at boot
 * before any other function here but pages_boot_size(). Calls after a success do nothing.
 */
int pages_boot(void);

/*
 * Maps size zeroed bytes aligned to `alignment` (a power of two >= PAGE): readable and writable if
 * commit is NULL or *commit, otherwise without access. If the system overcommits, *commit is set,
 * as if it had been so. With an addr other than NULL the mapping is exactly there, or, if that
 * place is not free, the result is NULL. opt_thp is not applied.
 */
void *pages_map(void *addr, size_t size, size_t alignment, bool *commit);
/* Maps the first bytes of a file for reading and writing, shared with all who map it, or NULL. */
void *pages_map_file(int fd, size_t size);
/*
 * Puts another mapping in place of one by a single system call: bytes of a file from `offset` on,
 * shared, or with fd -1 private zeroed pages. Other threads may read there meanwhile. After an
 * error, what was there may be gone.
 */
int pages_map_over(void *addr, size_t size, int fd, uint64_t offset);
/*
 * Puts private zeroed pages in place of a readable mapping. An errno value: the mapping is as it
 * was. Ends the process if the mapping is gone and a second try to map pages fails too.
 */
int pages_map_anew(void *addr, size_t size);
/*
 * Moves private pages to the address `to`, in place of what is there, as one mapping of new_size
 * bytes, whose rest reads as zero; takes no memory. `from`, which need be aligned only to the
 * kernel's page, is then no longer mapped. After an error `from` is as it was, but what was at `to`
 * may be gone.
 */
int pages_move_over(void *from, size_t size, void *to, size_t new_size);
/*
 * As pages_move_over() with new_size equal to size, but `from` stays mapped, as pages that read as
 * zero. If that fails and may_go is set, it does what pages_move_over() does.
 */
int pages_move_bytes(void *from, size_t size, void *to, bool may_go);
/*
 * Moves private pages to an address of the system's choice, aligned only to the kernel's page. The
 * range stays mapped, and what has moved reads as zero. *size: bytes of the range; then those that
 * have moved. mremap moves one mapping, and nothing says where it ends: if the range consists of
 * several, what moves is the most sixteenths, at least 9, that are a part of the first one. NULL:
 * nothing was done, because the first mapping is shorter than that, it is locked, there is no
 * memory, or the system is older than 5.7.
 */
void *pages_move_out(void *from, size_t *size);
/* Returns 0 or the errno value of munmap(2); ENOMEM: the range is still mapped. */
int pages_unmap(void *addr, size_t size);
/*
 * Unmaps a range that the caller does not need any more. If the system refuses, its memory is given
 * up and the range is kept in a list; later calls that map or unmap try again. If the list is full
 * (256 ranges), the address space of the range is lost.
 */
void pages_unmap_in_time(void *addr, size_t size);
/* Memory of its own mapping that grows, and may move when it does; all zeros: none. */
typedef struct {
	void *at;
	size_t bytes;
} pages_store_t;
/*
 * Makes it at least so long, twice as long at least if it grows; what is new reads as zero.
 * False: there is no memory, and it is as it was.
 */
bool pages_store_try_reserve(pages_store_t *s, size_t bytes);
/* Unmaps it (pages_unmap_in_time()); it is all zeros then. */
void pages_store_free(pages_store_t *s);
/* For tests: tries again to unmap the kept ranges; returns the bytes of those still mapped. */
size_t pages_left(void);
/*
 * pages_commit() makes a range readable and writable; pages_decommit() gives its memory up and
 * makes it inaccessible. EAGAIN: nothing was done, because the system overcommits, so decommitting
 * saves nothing.
 */
int pages_commit(void *addr, size_t size);
int pages_decommit(void *addr, size_t size);
/* What may be done with pages whose contents stay: nothing (guard pages), read, read and write. */
typedef enum { PAGES_CLOSED = 0, PAGES_READABLE = 1, PAGES_OPEN = 3 } pages_access_t;
int pages_protect(void *addr, size_t size, pages_access_t access);
/* MADV_FREE: the kernel may take pages later; their contents are undefined. ENOTSUP: not done. */
int pages_purge_lazy(void *addr, size_t size);
/* MADV_DONTNEED: gives the pages up at once; they read as zero afterwards. ENOTSUP: not done. */
int pages_purge_forced(void *addr, size_t size);
/*
 * pages_purge_forced() of up to PAGES_BATCH_MAX ranges in one system call. An errno value means
 * that some or all ranges were not purged; ENOTSUP that none was: the option is 0, MADV_DONTNEED
 * does not zero pages, or the kernel or a filter refuses the call, which then is not tried again.
 */
#define PAGES_BATCH_MAX 128u
int pages_purge_forced_many(const struct iovec *ranges, unsigned n);
/* For tests: whether MADV_FREE may work: false once the kernel has rejected it. */
bool pages_can_purge_lazy(void);
/*
 * Whether MADV_DONTNEED zeroes pages; the first call tests it on a page of its own, unless
 * opt_trust_madvise is set. Returns false also if the test was not possible; then the next call
 * tests again.
 */
bool pages_can_purge_forced(void);
/* Whether pages_commit() and pages_decommit() have an effect. */
bool pages_can_decommit(void);
/*
 * What pages_advise() tells the kernel, by the kernel's numbers. The kernel returns EINVAL for an
 * advice that it does not know yet.
 */
typedef enum {
	PAGES_HUGE = 14,    /* use huge pages for the range */
	PAGES_NO_HUGE = 15, /* do not */
	/* private pages read as zero in each child that has a copy of them (Linux 4.14) */
	PAGES_WIPE_IN_CHILD = 18,
	/*
	 * make the pages present and writable, as if each were written; what they contain stays. The
	 * kernel may stop in the middle. (5.14)
	 */
	PAGES_POPULATE = 23,
	/*
	 * copy the pages into huge ones now, which takes some 100 us for 2 MiB; EAGAIN or ENOMEM: there
	 * is no huge page at present (6.1)
	 */
	PAGES_COLLAPSE = 25
} pages_advice_t;
int pages_advise(void *addr, size_t size, pages_advice_t advice);
/* Advises the kernel as opt_thp says, where that changes what the system's setting gives. */
void pages_set_thp_state(void *addr, size_t size);
/* Reads the system's setting of huge pages; pages_boot() calls it. */
void pages_boot_thp(void);
/* That setting, as it was at boot: default means only where madvise() asks for it. */
thp_mode_t pages_system_thp_mode(void);
/*
 * Bytes of the huge page for anonymous memory, where the system has huge pages; 0: not known. Reads
 * a file on machines where it does not follow from the size of a page.
 */
size_t pages_huge_size(void);
/*
 * Whether the process may have huge pages, that is, PR_SET_THP_DISABLE is not set for it. To be
 * called at boot only, because a filter may forbid prctl(2) later.
 */
bool pages_has_thp(void);
/* Names the mapping in /proc/PID/maps, if the kernel supports that. */
void pages_set_name(void *addr, size_t size, const char *name);
