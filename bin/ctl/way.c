/* Ways into a process, and why there is none: see way.h. */
#include "ctl.h"

#include "way.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "foreign.h"
#include "memory.h"
#include "talk.h"
#include "value.h"
#include "words.h"

int
open_memory(process_t *p, bool is_reader) {
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/mem", p->pid);
	p->way = way_mem;
	p->fd = open(path, (is_reader ? O_RDONLY : O_RDWR) | O_CLOEXEC);
	if (p->fd < 0 && errno == EROFS) {
		char byte;
		p->way = way_vm; /* a /proc mounted read-only */
		return !read_memory(p, 0, &byte, 1) && errno == EPERM ? EPERM : 0;
	}
	return p->fd < 0 ? errno : 0;
}

bool
open_memfd(process_t *p) {
	char path[320], link[128];
	snprintf(path, sizeof(path), "/proc/%d/fd", p->pid);
	DIR *dir = opendir(path);
	if (dir == NULL) {
		return false;
	}
	p->fd = -1;
	p->way = way_fd;
	p->block = 0;
	static const char want[] = "/memfd:" PROF_MAILBOX_FD_NAME;
	for (struct dirent *e = readdir(dir); e != NULL && p->fd < 0; e = readdir(dir)) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%s", p->pid, e->d_name);
		ssize_t n = readlink(path, link, sizeof(link) - 1);
		link[n > 0 ? n : 0] = '\0';
		if (strncmp(link, want, sizeof(want) - 1) != 0 || (link[sizeof(want) - 1] != ' ' && link[sizeof(want) - 1] != '\0')) {
			continue;
		}
		p->fd = open(path, O_RDWR | O_CLOEXEC);
		if (p->fd >= 0 && (!read_head(p) || p->head.pid != p->own_pid)) {
			close(p->fd); /* of a parent, kept over fork */
			p->fd = -1;
		}
	}
	closedir(dir);
	return p->fd >= 0;
}

/* The control directory that the process's own MALLOC_CONF names. */
static bool
find_dir(process_t *p) {
	static char text[262144];
	static const char key[] = "prof_ctl_dir:";
	ssize_t length = read_proc(p->pid, "environ", text, sizeof(text));
	for (char *at = text; length > 0 && at < text + length; at += strlen(at) + 1) {
		char *value = strncmp(at, "MALLOC_CONF=", 12) == 0 ? strstr(at, key) : NULL;
		if (value == NULL || (value[-1] != '=' && value[-1] != ',')) {
			continue;
		}
		value += sizeof(key) - 1;
		int end = (int)strcspn(value, ",");
		const char *from = value[0] == '/' ? "root" : "cwd/";
		struct stat st;
		int n = snprintf(p->dir, sizeof(p->dir), "/proc/%d/%s%.*s", p->pid, from, end, value);
		if (n > 0 && n < (int)sizeof(p->dir) && stat(p->dir, &st) == 0) {
			return true;
		}
		n = snprintf(p->dir, sizeof(p->dir), "%.*s", end, value);
		return value[0] == '/' && n < (int)sizeof(p->dir) && stat(p->dir, &st) == 0;
	}
	return false;
}

const char *
denial_reason(const denial_t *d, char *buf, size_t size) {
	if (d->yama >= 3) {
		return "Yama's ptrace_scope is 3: nobody may attach until the next boot; start it with MALLOC_CONF=prof_ctl_fd:true "
		    "or prof_ctl_dir:DIR";
	}
	if (d->our_uid == 0 && !d->may_trace) {
		return "root without CAP_SYS_PTRACE, as in a container: add it (docker run --cap-add SYS_PTRACE), or start it with "
		    "MALLOC_CONF=prof_ctl_dir:DIR";
	}
	if (d->may_trace) {
		return "we may attach, but a security module or a user namespace forbids it: ask from the machine itself, or start it "
		    "with MALLOC_CONF=prof_ctl_dir:DIR";
	}
	if (d->is_other_user) {
		snprintf(buf, size, "it belongs to uid %u, we are uid %u: use sudo, or start it with MALLOC_CONF=prof_ctl_dir:DIR", d->uid,
		    d->our_uid);
		return buf;
	}
	if (!d->is_dumpable || d->has_more_caps) {
		return "it is not dumpable (set-user-id or with capabilities, or it called prctl(PR_SET_DUMPABLE, 0)): use sudo, or start "
		    "it with MALLOC_CONF=prof_ctl_dir:DIR";
	}
	if (d->yama > 0) {
		snprintf(buf, size, "Yama's ptrace_scope is %d: use sudo, or start it with MALLOC_CONF=prof_ctl_fd:true, or once: "
		    "sysctl kernel.yama.ptrace_scope=0", d->yama);
		return buf;
	}
	return NULL;
}

__attribute__((noreturn)) static void
leave_denied(const process_t *p, int error) {
	enum { ptrace_bit = 19 };
	char text[4096], buf[512], path[64];
	denial_t d = {.our_uid = geteuid(), .uid = p->uids[1], .is_dumpable = true};
	for (int i = 0; i < 3; i++) {
		d.is_other_user = d.is_other_user || p->uids[i] != d.our_uid;
	}
	struct stat st;
	snprintf(path, sizeof(path), "/proc/%d/maps", p->pid); /* the directory itself always belongs to the user */
	if (stat(path, &st) == 0) {
		d.is_dumpable = st.st_uid == p->uids[1];
	}
	uint64_t caps = read_proc(getpid(), "status", text, sizeof(text)) > 0
	    ? strtoull(status_line(text, "\nCapEff:"), NULL, 16) : 0;
	d.may_trace = (caps >> ptrace_bit) & 1;
	d.has_more_caps = (p->caps & ~caps) != 0;
	FILE *yama = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
	if (yama != NULL) {
		d.yama = fgets(text, sizeof(text), yama) != NULL ? atoi(text) : 0;
		fclose(yama);
	}
	const char *reason = denial_reason(&d, buf, sizeof(buf));
	leave(EXIT_NO_WAY, "%d %s: no way in (%s): %s", p->pid, p->name, strerror(error),
	    reason != NULL ? reason : "the kernel does not say why; use sudo, or start it with MALLOC_CONF=prof_ctl_dir:DIR");
}

/* 0, or why its memory may not be looked at. */
static int
look_inside(process_t *p, finding_t *f) {
	int error = open_memory(p, false);
	check_same(p); /* after the open: from here on the descriptor holds on to this process */
	if (error == 0) {
		errno = 0;
		bool is_readable = find_block(p, f);
		error = is_readable ? 0 : errno != 0 ? errno : EACCES;
	}
	return error;
}

/*
 * Begun no longer ago than we would wait for an answer: it may not have come to its exec or to its first allocation, as in
 * "prog & jeprofctl start $!".
 */
static bool
is_young(const process_t *p) {
	struct timespec now;
	long ticks = sysconf(_SC_CLK_TCK);
	if (clock_gettime(CLOCK_BOOTTIME, &now) != 0 || ticks <= 0) {
		return false;
	}
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000 < p->start * 1000 / (uint64_t)ticks + words.values[o_wait].number;
}

void
check_allocator(const process_t *p) {
	char whose[PATH_MAX + 128];
	if (linked_allocator(p, whose, sizeof(whose)) != NULL) {
		leave(EXIT_NO_WAY, "%d %s has the library loaded, but does not use it: its malloc is that of %s", p->pid, p->name, whose);
	}
}

/* Says whose malloc it is, and how it would be started on this library. */
__attribute__((noreturn)) static void
leave_foreign(const process_t *p) {
	char whose[PATH_MAX + 128], line[TEXT_BYTES];
	if (linked_allocator(p, whose, sizeof(whose)) != NULL) {
		leave(EXIT_NO_WAY, "%d %s does not run the library: its malloc is that of %s, which no preloaded library replaces", p->pid,
		    p->name, whose);
	}
	restart_line(p, line, sizeof(line));
	if (loaded_allocator(p, whose, sizeof(whose)) != NULL) {
		leave(EXIT_NO_WAY, "%d %s does not run the library, but another allocator (%s); this would start it on ours: %s", p->pid,
		    p->name, whose, line);
	}
	leave(EXIT_NO_WAY, "%d %s does not run the library; jeprofctl list shows who does; this would start it on ours: %s", p->pid,
	    p->name, line);
}

void
open_process(process_t *p) {
	finding_t f;
	if (is_on(o_dir)) {
		p->way = way_dir;
		print_to(p->dir, sizeof(p->dir), "%s", words.values[o_dir].text);
		return;
	}
	int error = look_inside(p, &f);
	while (error == 0 && p->block == 0 && f.other_version == 0 && (!f.is_without || f.closed > 0) && is_young(p) && !interrupted) {
		if (p->fd >= 0) {
			close(p->fd);
		}
		sleep_ms(20);
		if (!read_process(p, p->pid)) { /* by its name of now */
			leave(EXIT_NO_WAY, "%d has ended", p->pid);
		}
		error = look_inside(p, &f);
	}
	if (error != 0) {
		if (open_memfd(p)) {
			return;
		}
		if (find_dir(p)) {
			p->way = way_dir;
			return;
		}
		leave_denied(p, error);
	}
	if (p->block == 0 && f.other_version != 0) {
		leave(EXIT_NO_WAY, "%d %s: its library speaks mailbox protocol %u, this jeprofctl %u; use the jeprofctl of that library",
		    p->pid, p->name, f.other_version, PROF_MAILBOX_VERSION);
	}
	if (p->block == 0 && f.is_without && f.closed == 0) {
		leave(EXIT_NO_WAY, "%d %s: its library was built without the profiler (--disable-prof)", p->pid, p->name);
	}
	if (p->block == 0 && f.closed > 0) {
		check_allocator(p);
		leave(EXIT_NO_WAY, "%d %s: its library keeps the mailbox closed: a set-user-id program, or nothing was allocated yet",
		    p->pid, p->name);
	}
	if (p->block == 0 || !read_head(p)) {
		leave_foreign(p);
	}
}
