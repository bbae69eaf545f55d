/*
 * os/room.h with files of /proc and /sys of our own: which limits are found, and the least of them.
 */
#include "core.h"

#include "os/room.h"
#include "os/sys.h"

#include <sys/resource.h>

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

static void
test_below(void) {
	is_uint(room_below(1000, 0), 900, "nine tenths of a limit");
	is_uint(room_below(1000, 899), 1, "less what is used");
	is_uint(room_below(1000, 900), 0, "none from there on");
	is_uint(room_below(0, 0), 0, "none in no memory");
	is_uint(room_below(UINT64_MAX, UINT64_MAX), 0, "no overflow");
}

static void
test_groups(void) {
	no_files();
	is_uint(room_now(), SIZE_MAX, "nothing can be read: no limit");
	file("/proc/self/cgroup", "4:memory:/old\n0::/a/b\n");
	is_uint(room_now(), SIZE_MAX, "a group without files");
	file("/sys/fs/cgroup/a/b/memory.max", "max\n");
	file("/sys/fs/cgroup/a/b/memory.current", "1000\n");
	is_uint(room_now(), SIZE_MAX, "a group without a limit");
	file("/sys/fs/cgroup/a/memory.max", "104857600\n");
	is_uint(room_now(), SIZE_MAX, "a limit whose use is not known");
	file("/sys/fs/cgroup/a/memory.current", "73400320\n");
	is_uint(room_now(), 20 * MIB, "the limit of the group above");
	file("/sys/fs/cgroup/memory.max", "52428800\n");
	file("/sys/fs/cgroup/memory.current", "36700160\n");
	is_uint(room_now(), 10 * MIB, "a lower one at the top");
	no_files();
	file("/proc/self/cgroup", "0::/\n");
	file("/sys/fs/cgroup/memory.max", "1000\n");
	file("/sys/fs/cgroup/memory.current", "2000\n");
	is_uint(room_now(), 0, "in a container, over its limit");
	no_files();
	file("/proc/self/cgroup", "4:memory:/old");
	is_uint(room_now(), SIZE_MAX, "only groups of the first version");
	file("/sys/fs/cgroup/memory.max", "1000\n");
	is_uint(room_now(), SIZE_MAX, "which are not looked at");
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
		skip(3, "there is a limit already");
		return;
	}
	is_uint(room_now(), 89400 * os_page_size, "RLIMIT_DATA and the sixth field");
	is_uint((unsigned)errno, (unsigned)saved, "errno stays");
	is_uint(room_limit(), 100000 * os_page_size, "which is told too");
	setrlimit(RLIMIT_DATA, &was);
}

int
main(void) {
	hooks = os_hooks_real;
	hooks.open = fake_open;
	hooks.read = fake_read;
	hooks.close = fake_close;
	os_page_size = os_page_size == 0 ? 4096 : os_page_size;
	os_hooks = &hooks;
	test_below();
	test_limit();
	test_groups();
	test_rlimit();
	os_hooks = &os_hooks_real;
	return done_testing();
}
