/*
 * Pages of memory from the system: map, commit, purge, advise.
 *
 * PAGE is the allocator's page: the system's, or a larger one (configured minimum; pretended by a
 * debug build's test).  It is a constant where the build says so, else a variable that nothing
 * changes after boot.  Sizes are multiples of PAGE, addresses aligned to it.  Functions return an
 * errno value (0: done) or NULL, keep errno and take no lock.
 */
#ifndef OS_PAGES_H
#define OS_PAGES_H

#include "os/sys.h"
#include "util/bits.h"
#include "util/compiler.h"

#if LG_PAGE_FIXED_P
#define LG_PAGE ((unsigned)LG_PAGE_MIN)
#else
#define LG_PAGE lg_page
#endif
#define PAGE (ZU(1) << LG_PAGE)
#define PAGE_MASK (PAGE - 1)
#define PAGE_MAX (ZU(1) << LG_PAGE_MAX)
#define HUGEPAGE (ZU(1) << LG_HUGEPAGE)
#define HUGEPAGE_MASK (HUGEPAGE - 1)
#define PAGE_CEILING(s) (((s) + PAGE_MASK) & ~PAGE_MASK)
#define PAGE_FLOOR(s) ((s) & ~PAGE_MASK)
#define HUGEPAGE_CEILING(s) (((s) + HUGEPAGE_MASK) & ~HUGEPAGE_MASK)
#define PAGE_ADDR2BASE(a) ((void *)((uintptr_t)(a) & ~(uintptr_t)PAGE_MASK))

extern HIDDEN unsigned lg_page;
extern HIDDEN size_t page_size;

typedef enum {
	thp_mode_default,
	thp_mode_always,
	thp_mode_never,
	thp_mode_not_supported
} thp_mode_t;

extern HIDDEN bool opt_trust_madvise;
extern HIDDEN thp_mode_t opt_thp;

/* Reads the page size only; pages_boot() does it too if it was not done. */
int pages_boot_size(void);
/* To be called after the options were read: probes what memory can do. */
int pages_boot(void);

/*
 * Maps size bytes aligned to `alignment` (a power of two >= PAGE), readable and writable if
 * *commit, else without access; *commit tells what it became.  With addr: exactly there or NULL.
 */
void *pages_map(void *addr, size_t size, size_t alignment, bool *commit);
int pages_unmap(void *addr, size_t size);
/* For who has no further use for the range: what the system refuses now is tried again at later calls. */
void pages_unmap_in_time(void *addr, size_t size);
/* Bytes that still wait for that; tries once more. */
size_t pages_left(void);
/* pages_decommit takes the memory away and the access with it; EAGAIN: not worthwhile here. */
int pages_commit(void *addr, size_t size);
int pages_decommit(void *addr, size_t size);
/* Guard pages: no access, the range stays mapped. */
int pages_mark_guard(void *addr, size_t size);
int pages_unmark_guard(void *addr, size_t size);
/* The kernel may take the pages; contents undefined afterwards. */
int pages_purge_lazy(void *addr, size_t size);
/* The pages are gone and read as zero. */
int pages_purge_forced(void *addr, size_t size);
/*
 * The same for up to PAGES_BATCH_MAX ranges in one system call.  An errno: some or all are not gone; ENOTSUP: the
 * kernel cannot, and is not asked again.
 */
#define PAGES_BATCH_MAX 128u
int pages_purge_forced_many(const struct iovec *ranges, unsigned n);
bool pages_can_purge_lazy(void);
/* False also while it cannot be found out; it is asked again then. */
bool pages_can_purge_forced(void);
bool pages_can_decommit(void);
int pages_huge(void *addr, size_t size);
int pages_nohuge(void *addr, size_t size);
/* Applies opt_thp to a fresh mapping. */
void pages_set_thp_state(void *addr, size_t size);
/* What the system does by itself: default = only where advised; never; always. */
thp_mode_t pages_system_thp_mode(void);
/* Name of the mapping in /proc/PID/maps, where the kernel can. */
void pages_set_name(void *addr, size_t size, const char *name);

#endif
