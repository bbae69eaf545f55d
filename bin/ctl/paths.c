/*
 * Translates paths between the process and this shell, and checks that the process sees a
 * directory: see paths.h. The process may have another root directory, mount namespace or working
 * directory, so two paths are taken for the same only if both lead to one device and inode.
 * path_there() takes them for the same also if it may not look at what the process sees. It ends
 * the program if the process sees another directory or none there, check_directory() if it sees
 * none. No locks, no state. Called by answer.c, dump.c, session.c and status.c.
 */
#include "ctl.h"

#include "paths.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/removed.h"
#include "talk.h"

/*
 * path_here() for a relative path. The process tells one if its prefix is relative and would be too
 * long with the working directory in front. Sets buf to the absolute path if that leads to the
 * file, else to the one below /proc/PID/cwd, PID being p->task.
 */
static void
relative_here(const jeprof_target_t *p, const char *path, char *buf, size_t size) {
	char link[64], directory[PATH_MAX];
	struct stat st;
	snprintf(link, sizeof(link), "/proc/%d/cwd", p->task);
	client_read_link(link, directory, sizeof(directory));
	snprintf(buf, size, "%s/%s", link, path);
	/* What snprintf() has cut is as long as buf, so above PATH_MAX, and stat() fails. */
	if (path[0] == '\0' || stat(buf, &st) != 0) {
		snprintf(buf, size, "%s", path);
		return;
	}
	snprintf(buf, size, "%s/%s", directory, path);
	if (!jeprof_leads_to(buf, &st)) {
		snprintf(buf, size, "%s/%s", link, path);
	}
}

/*
 * Sets buf to the first of these that leads us to the file which the process has at this path: the
 * path as it is; the path with the root directory of the process (chroot) in front; the same with
 * the links in the path resolved; else to the path below /proc/PID/root, PID being p->task, which
 * is valid only while the process lives. If we see no such file of the process, the path is
 * unchanged.
 */
void
path_here(const jeprof_target_t *p, const char *path, char *buf, size_t size) {
	char root[64], jail[PATH_MAX], inside[TEXT_BYTES];
	struct stat st;
	if (path[0] != '/') {
		relative_here(p, path, buf, size);
		return;
	}
	snprintf(buf, size, "%s", path);
	if (jeprof_find_below(p, path, inside, sizeof(inside), &st) != 0
	    || jeprof_leads_to(path, &st)) {
		return;
	}
	int length = snprintf(root, sizeof(root), "/proc/%d/root", p->task);
	client_read_link(root, jail, sizeof(jail));
	const char *front = strcmp(jail, "/") != 0 ? jail : "";
	snprintf(buf, size, "%s%s", front, path);
	if (!jeprof_leads_to(buf, &st)) {
		snprintf(buf, size, "%s%s", front, inside + length);
	}
	if (!jeprof_leads_to(buf, &st)) {
		snprintf(buf, size, "%s", inside);
	}
}

/* Whether the process has no file at a path, by the errno of jeprof_find_below(). */
static bool
is_missing(int error) {
	return error == ENOENT || error == ENOTDIR;
}

void
path_there(const jeprof_target_t *p, const char *path, char *buf, size_t size) {
	char here[PATH_MAX], seen[TEXT_BYTES];
	struct stat theirs;
	if (path[0] == '/') {
		print_to(buf, size, "%s", path);
		return;
	}
	if (getcwd(here, sizeof(here)) == NULL) { /* the process would take it from its own directory */
		leave(EXIT_USAGE, "%s: this directory has no path any more (%s): give an absolute path",
		    path, strerror(errno));
	}
	int error = jeprof_find_below(p, here, seen, sizeof(seen), &theirs);
	if (error == 0 ? !jeprof_leads_to(here, &theirs) : is_missing(error)) {
		leave(EXIT_USAGE, "%d %s sees other files than this shell: give an absolute path, as it "
		    "sees it", p->pid, p->name);
	}
	print_to(buf, size, "%s%s%s", here, strcmp(here, "/") != 0 ? "/" : "", path);
}

void
check_directory(const jeprof_target_t *p, const char *path) {
	char directory[TEXT_BYTES], there[TEXT_BYTES];
	struct stat st;
	const char *slash = strrchr(path, '/');
	if (slash == NULL) {
		return;
	}
	print_to(directory, sizeof(directory), "%.*s", (int)(slash - path + 1), path);
	int error = jeprof_find_below(p, directory, there, sizeof(there), &st);
	if (is_missing(error)) {
		leave(EXIT_USAGE, "--prefix: %d %s sees no directory %s", p->pid, p->name, directory);
	}
}
