/*
 * os/room.h with files of /proc and /sys of our own: which limits are found at the start, the least
 * of them, and what the allocator takes of it later.
 */
#include "core.h"

#include "os/room.h"
#include "os/room_group.h"
#include "os/sys.h"
#include "thread/tcache_budget.h"

#include <sys/resource.h>
#include <sys/wait.h>

#define MIB (UINT64_C(1) << 20)
#define FD 900

static struct os_hooks_s hooks;
static struct {
	const char *path;
	const char *text;
} files[10];
static struct {
	unsigned at; /* the file that is open */
	bool is_read;
	unsigned opened;
} now;

static int
fake_open(const char *path, int flags UNUSED, unsigned mode UNUSED) {
	now.opened++;
	for (unsigned i = 0; i < ARRAY_LEN(files) && files[i].path != NULL; i++) {
		if (strcmp(files[i].path, path) == 0) {
			now.at = i;
			now.is_read = false;
			return FD;
		}
	}
	errno = ENOENT;
	return -1;
}

static ssize_t
fake_read(int fd UNUSED, void *buf, size_t size) {
	size_t n = now.is_read ? 0 : min_zu(strlen(files[now.at].text), size);
	memcpy(buf, files[now.at].text, n);
	now.is_read = true;
	return (ssize_t)n;
}

static int
fake_close(int fd UNUSED) {
	return 0;
}

static void
no_files(void) {
	memset(files, 0, sizeof(files));
}

static void
file(const char *path, const char *text) {
	unsigned i = 0;
	while (files[i].path != NULL) {
		i++;
	}
	files[i].path = path;
	files[i].text = text;
}

/* The room that there is for a process that starts now. */
static size_t
room_found(void) {
	atomic_store_zu(&room_mapped, 0, MO_RELAXED);
	room_boot();
	return room_now();
}

static void
test_below(void) {
	is_uint(room_below(1000, 0), 900, "nine tenths of a limit");
	is_uint(room_below(1000, 899), 1, "less what is used");
	is_uint(room_below(1000, 900), 0, "none from there on");
	is_uint(room_below(0, 0), 0, "none in no memory");
	is_uint(room_below(UINT64_MAX, UINT64_MAX), 0, "no overflow");
}

static void
test_group(void) {
	no_files();
	is_uint(room_found(), SIZE_MAX, "nothing can be read: no limit");
	file("/sys/fs/cgroup/memory.current", "1000\n");
	file("/sys/fs/cgroup/memory.max", "max\n");
	is_uint(room_found(), SIZE_MAX, "a container without a limit");
	no_files();
	file("/sys/fs/cgroup/memory.max", "104857600\n");
	is_uint(room_found(), SIZE_MAX, "a limit whose use is not known");
	file("/sys/fs/cgroup/memory.current", "73400320\n");
	is_uint(room_found(), 20 * MIB, "a limit");
	is_uint(tcache_budget(), 20 * MIB / 8, "an eighth of it is for grants of thread caches");
	no_files();
	file("/sys/fs/cgroup/memory.max", "1000\n");
	file("/sys/fs/cgroup/memory.current", "2000\n");
	is_uint(room_found(), 0, "more is used already");
}

static void
test_limit(void) {
	no_files();
	is_uint(room_limit(), 0, "nothing can be read: no limit to tell");
	file("/proc/self/cgroup", "12:pids:/x\n4:memory:/old/a\n1:name=systemd:/\n0::/a/b\n");
	file("/sys/fs/cgroup/memory/old/a/memory.limit_in_bytes", "9223372036854771712\n");
	file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	file("/sys/fs/cgroup/a/b/memory.max", "max\n");
	is_uint(room_limit(), 0, "groups without a limit");
	file("/sys/fs/cgroup/memory/old/memory.limit_in_bytes", "209715200\n");
	is_uint(room_limit(), 200 * MIB, "version 1: the limit of the group above");
	file("/sys/fs/cgroup/a/memory.max", "104857600\n");
	is_uint(room_limit(), 100 * MIB, "version 2: a lower one");
}

/* Controllers that are mounted together are a list in one line. */
static void
test_controllers(void) {
	static const struct {
		const char *lines;
		const char *controller;
		const char *group;
	} rows[] = {
		{"4:memory:/a\n0::/b\n", "memory", "/a"},
		{"4:memory:/a\n0::/b\n", "", "/b"},
		{"4:memory,hugetlb:/a\n", "memory", "/a"},
		{"4:cpu,memory:/a/c\n", "memory", "/a/c"},
		{"4:cpu,memory,hugetlb:/\n", "memory", ""},
		{"5:memory2,xmemory:/x\n4:cpu:/:memory:/y\n", "memory", NULL},
		{"5:memory2,memory:/x:y\n", "memory", "/x:y"},
		{"4:memory:a\n4:memory\n\n:\n", "memory", NULL},
		{"1:name=systemd:/a\n4:cpu,memory:/c\n", "", NULL},
		{"", "", NULL},
	};
	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		char text[100];
		strcpy(text, rows[i].lines);
		const char *group = room_group(text, rows[i].controller);
		ok(group == NULL || rows[i].group == NULL ? group == rows[i].group
		    : strcmp(group, rows[i].group) == 0, "line %u: %s", i, group == NULL ? "none" : group);
	}
	no_files();
	file("/proc/self/cgroup", "4:cpu,memory:/a\n");
	file("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "104857600\n");
	file("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "1000\n");
	is_uint(room_limit(), 100 * MIB, "the limit of a group of two controllers");
	room_group_forget();
	is_uint(room_group_limit(), 100 * MIB, "which counts");
}

static void
test_statm(void) {
	uint64_t statm[STATM_FIELDS];
	no_files();
	file("/proc/self/statm", "1000 2 3 4\n");
	sys_read_statm(statm);
	is_uint(statm[STATM_SPACE], 1000 * os_page_size, "the first field is address space");
	is_uint(statm[STATM_RESIDENT], 2 * os_page_size, "the second is resident");
	is_uint(statm[STATM_SHARED], 3 * os_page_size, "the third is shared");
	is_uint(statm[STATM_DATA], 0, "a field that is not there is 0");
}

static void
test_rlimit(void) {
	struct rlimit was, lim;
	int saved = errno;
	no_files();
	file("/proc/self/statm", "1000 2 3 4 5 600 7\n");
	getrlimit(RLIMIT_DATA, &was);
	lim = was;
	lim.rlim_cur = 100000 * os_page_size;
	if (was.rlim_cur != RLIM_INFINITY || setrlimit(RLIMIT_DATA, &lim) != 0) {
		skip(8, "there is a limit already");
		return;
	}
	is_uint(room_found(), 89400 * os_page_size, "RLIMIT_DATA and the sixth field");
	is_uint((unsigned)errno, (unsigned)saved, "errno stays");
	is_uint(room_limit(), 100000 * os_page_size, "which is told too");
	is_uint(room_space.max, 50000 * os_page_size, "half of it may be address space without use");
	size_t max = room_space.max;
	atomic_store_zu(&room_space.mapped, max + 100, MO_RELAXED);
	atomic_store_zu(&room_space.used, 70, MO_RELAXED);
	is_uint(room_space_excess(0), 30, "what is mapped, less what is used and the bound");
	is_uint(room_space_excess(5), 35, "with what is to be mapped");
	atomic_store_zu(&room_space.used, 101, MO_RELAXED);
	is_uint(room_space_excess(0), 0, "no excess");
	atomic_store_zu(&room_space.used, max + 200, MO_RELAXED);
	is_uint(room_space_excess(50), 0, "nor if more is used than mapped for a moment");
	atomic_store_zu(&room_space.mapped, 0, MO_RELAXED);
	atomic_store_zu(&room_space.used, 0, MO_RELAXED);
	setrlimit(RLIMIT_DATA, &was);
	room_found();
	is_uint(room_space.max, SIZE_MAX, "without a limit it is not bounded");
}

static void
test_taken(void) {
	is_uint(room_now(), SIZE_MAX, "before the start nothing is known");
	no_files();
	file("/sys/fs/cgroup/memory.max", "104857600\n");
	file("/sys/fs/cgroup/memory.current", "73400320\n");
	is_uint(room_found(), 20 * MIB, "a limit");
	unsigned opened = now.opened;
	no_files();
	atomic_store_zu(&room_mapped, 5 * MIB, MO_RELAXED);
	is_uint(room_now(), 15 * MIB, "less what the allocator has taken since");
	atomic_store_zu(&room_mapped, 21 * MIB, MO_RELAXED);
	is_uint(room_now(), 0, "none if it has taken more");
	atomic_store_zu(&room_mapped, MIB, MO_RELAXED);
	is_uint(room_now(), 19 * MIB, "which counts again when it is given back");
	is_uint(now.opened, opened, "no file is read for that");
	is_uint(room_found(), SIZE_MAX, "no limit");
	atomic_store_zu(&room_mapped, MIB, MO_RELAXED);
	is_uint(room_now(), SIZE_MAX, "whatever was taken");
	atomic_store_zu(&room_mapped, 0, MO_RELAXED);
}

static void
test_own_group(void) {
	room_group_forget();
	no_files();
	ok(!room_group_is_known(), "nobody has looked");
	ok(!room_group_look() && room_group_current() == 0 && room_group_limit() == 0
	    && !room_group_is_known(), "nothing can be read: no group");
	room_group_forget();
	file("/proc/self/cgroup", "4:memory:/a/b\n0::/\n");
	file("/sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "1000000\n");
	file("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
	ok(room_group_look() && room_group_is_known(), "version 1, without a limit");
	ok(room_group_current() == 1000000 && room_group_limit() == 0, "its use");
	room_group_forget();
	file("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "3000000\n");
	file("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "5000000\n");
	ok(room_group_current() == 3000000 && room_group_limit() == 5000000,
	    "the group above has a limit: that one counts");
	no_files();
	file("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "6000000\n");
	is_uint(room_group_limit(), 6000000, "a limit that changes is seen");
	room_group_forget();
	no_files();
	file("/proc/self/cgroup", "0::/pod/c\n");
	file("/sys/fs/cgroup/memory.current", "99\n");
	file("/sys/fs/cgroup/memory.max", "max\n");
	ok(room_group_current() == 99 && room_group_limit() == 0,
	    "version 2, a container: the root is all it sees of its group");
	room_group_forget();
	file("/sys/fs/cgroup/pod/c/memory.current", "700\n");
	file("/sys/fs/cgroup/pod/c/memory.max", "900\n");
	file("/sys/fs/cgroup/pod/memory.current", "800\n");
	file("/sys/fs/cgroup/pod/memory.max", "2000\n");
	ok(room_group_current() == 700 && room_group_limit() == 900, "version 2: the least limit");
	room_group_forget();
	no_files();
	is_uint(room_machine(), 0, "a machine that tells nothing");
	file("/proc/meminfo", "MemTotal:       16384 kB\nMemFree:         1 kB\n");
	is_uint(room_machine(), 16 * MIB, "the memory of the machine");
}

static int child_status;

/* While the group is searched for, another thread forks: this one, as it were. */
static ssize_t
forking_read(int fd, void *buf, size_t size) {
	hooks.read = fake_read;
	pid_t pid = fork();
	if (pid == 0) {
		room_group_postfork_child();
		_exit(room_group_look() && room_group_current() == 700 ? 0 : 1);
	}
	waitpid(pid, &child_status, 0);
	return fake_read(fd, buf, size);
}

static void
test_forked(void) {
	no_files();
	file("/proc/self/cgroup", "0::/c\n");
	file("/sys/fs/cgroup/c/memory.current", "700\n");
	room_group_forget();
	child_status = -1;
	hooks.read = forking_read;
	ok(room_group_look() && room_group_current() == 700, "the group is found");
	is_int(child_status, 0, "also in a child that was forked meanwhile");
	room_group_postfork_child();
	ok(room_group_is_known(), "a child has what was found before");
	room_group_forget();
}

int
main(void) {
	hooks = os_hooks_real;
	hooks.open = fake_open;
	hooks.read = fake_read;
	hooks.close = fake_close;
	os_page_size = os_page_size == 0 ? 4096 : os_page_size;
	os_hooks = &hooks;
	test_taken();
	test_below();
	test_limit();
	test_group();
	test_statm();
	test_rlimit();
	test_own_group();
	test_controllers();
	test_forked();
	os_hooks = &os_hooks_real;
	return done_testing();
}
