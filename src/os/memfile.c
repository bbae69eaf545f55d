/*
 * Memory files by raw system calls, because not every C library has wrappers for them.
 * memfile.h has the contract. No state besides the caller's memfile_t, no lock. Invariant: a
 * descriptor is closed here only if its device and inode are still those of the memory file.
 * Called by prof_control.c, prof_handover.c and prof_box.c.
 */
#include "os/memfile.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/sys.h"
#include "os/sys_call.h"

/* Sets the size and seals the file: it can neither shrink nor grow, and no seal can be added. */
static int
fix_size(int fd, size_t size) {
	int err = sys_ftruncate(fd, size);
	if (err == 0
	    && sys_call(SYS_fcntl, fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
		err = errno;
	}
	return err;
}

int
memfile_open(memfile_t *f, const char *name, size_t size) {
	struct stat st;
	int fd = (int)sys_call(SYS_memfd_create, name,
	    size == 0 ? MFD_CLOEXEC : MFD_CLOEXEC | MFD_ALLOW_SEALING);
	*f = (memfile_t){0};
	if (fd < 0) {
		return errno;
	}
	int err = size == 0 ? 0 : fix_size(fd, size);
	err = err != 0 ? err : sys_fstat(fd, &st);
	if (err != 0) {
		sys_close(fd);
		return err;
	}
	*f = (memfile_t){fd + 1, st.st_dev, st.st_ino};
	return 0;
}

bool
memfile_is_ours(const memfile_t *f) {
	struct stat st;
	return memfile_is_open(f) && sys_fstat(memfile_fd(f), &st) == 0 && st.st_dev == f->dev
	    && st.st_ino == f->ino;
}

void
memfile_close(memfile_t *f) {
	if (memfile_is_ours(f)) {
		sys_close(memfile_fd(f));
	}
	*f = (memfile_t){0};
}
