/*
 * mallctl: the tree of named values.
 * The three functions are the bodies of mallctl(), mallctlnametomib() and mallctlbymib(). They
 * return 0 or an errno value and never change errno. The tree is data (node.h); ctl.c walks it and
 * makes every check that nodes share. The only lock of ctl/ is that of the snapshot
 * (ctl_snapshot.h). Callers hold no lock of the allocator: jemalloc.c, stats.c (ctl_byname) and
 * jemalloc_fork.c.
 */
#ifndef CTL_CTL_H
#define CTL_CTL_H

#include "util/compiler.h"

/* Reads and writes the leaf of this name; arguments as for mallctl(). */
int ctl_byname(const char *name, void *oldp, size_t *oldlenp, void *newp, size_t newlen);
/*
 * Translates a name into its MIB, or only the first *miblenp numbers of it; *miblenp becomes how
 * many were stored.
 */
int ctl_nametomib(const char *name, size_t *mibp, size_t *miblenp);
/* Reads and writes the leaf of this MIB. */
int ctl_bymib(const size_t *mib, size_t miblen, void *oldp, size_t *oldlenp, void *newp,
    size_t newlen);

/*
 * In a forked child: makes the lock of the snapshot free, with counters of zero. It is taken inside
 * the gate, so no other thread held it at the fork (os/gate.h).
 */
void ctl_postfork_child(void);

#endif /* CTL_CTL_H */
