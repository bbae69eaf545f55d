/*
 * mallctl: the tree of named values.
 * The first three functions are the bodies of mallctl(), mallctlnametomib() and mallctlbymib().
 * They return 0 or an errno value. They keep errno, except that experimental.batch_alloc and
 * functions of the user, which some leaves call, may change it. The tree is data (node.h); ctl.c
 * walks it and makes every check that nodes share. The only lock of ctl/ is that of the snapshot
 * (ctl_snapshot.h).
 * Called in any thread, without a lock of the allocator, by jemalloc.c and stats.c (ctl_byname);
 * ctl_postfork_child() by jemalloc_fork.c.
 */
#pragma once

#include "util/compiler.h"

/*
 * Reads and writes the leaf of this name; arguments as for mallctl(). 0; ENOENT: no such leaf, or
 * not in this build; EINVAL: name NULL, or a wrong length (of the old value: as much of it as fits
 * is stored, and *oldlenp becomes that length); EPERM: the leaf does not allow these arguments;
 * EAGAIN: in a lost child (os/gate.h); or what the leaf returns.
 */
int ctl_byname(const char *name, void *oldp, size_t *oldlenp, void *newp, size_t newlen);
/*
 * Translates a name into its MIB, or only the first *miblenp numbers of it; *miblenp becomes how
 * many were stored. The name of a directory has a MIB too. After an error nothing is stored:
 * ENOENT, or EINVAL if an argument is NULL (but mibp may be if *miblenp is 0).
 */
int ctl_nametomib(const char *name, size_t *mibp, size_t *miblenp);
/*
 * Reads and writes the leaf of this MIB; results as of ctl_byname(). EINVAL also if mib is NULL and
 * miblen is not 0; miblen 0 is ENOENT.
 */
int ctl_bymib(const size_t *mib, size_t miblen, void *oldp, size_t *oldlenp, void *newp,
    size_t newlen);

/*
 * In a forked child that is not lost: frees the lock of the snapshot and zeroes its statistics.
 * It is taken inside the gate, so no other thread held it at the fork (os/gate.h).
 */
void ctl_postfork_child(void);
