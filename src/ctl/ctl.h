/*
 * mallctl: the tree of named values.  The three entries below are the bodies of mallctl(),
 * mallctlnametomib() and mallctlbymib(); they return 0 or an errno and never touch errno.
 * The tree is data (node.h); this room walks it and makes every check that nodes share.
 */
#ifndef CTL_CTL_H
#define CTL_CTL_H

#include "util/compiler.h"

/* Index text and MIB values that do not name one arena. */
#define CTL_ARENAS_ALL 4096
#define CTL_ARENAS_DESTROYED 4097

int ctl_byname(const char *name, void *oldp, size_t *oldlenp, void *newp, size_t newlen);
int ctl_nametomib(const char *name, size_t *mibp, size_t *miblenp);
int ctl_bymib(const size_t *mib, size_t miblen, void *oldp, size_t *oldlenp, void *newp,
    size_t newlen);

/* After fork, in the child: nobody holds the lock of the snapshot (os/gate.h); its history starts anew. */
void ctl_postfork_child(void);

#endif /* CTL_CTL_H */
