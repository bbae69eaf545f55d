/*
 * jeprof-symbolize --table: writes a table of names (bin/agent/names/table.h) for some addresses of
 * one object. jeprofd does not trust the objects of other processes, so it has this program read
 * them. Invariant: ELF and DWARF are parsed only after table_main() has limited CPU time and (but
 * with AddressSanitizer) memory, dropped all capabilities and closed all descriptors above the
 * highest one that is named. No locks: one thread.
 *
 *   --table KEY PATH   key of the table, which begins with the object's build-id in hex, up to a
 *                      '-', or with 'x' if it has none; and the object's path as its process
 *                      sees it
 *   --root FD          root directory of that process; without it ours
 *   --object FD        a file that may be the object; may stand up to 4 times: the first one with
 *                      the build-id is used; with a key of 'x' the first ELF file
 *   --old FD           an older table, whose rows are copied; without effect if its key is another
 *   --servers          debug files may come from the servers of debuginfod
 *   --symbols          DWARF is not read
 *   stdin              the addresses, as words of 64 bits of this machine; a regular file, which is
 *                      read from its start; at most 2^20 of them
 *   stdout             the table
 *   exit               0 written, even without any name (no object found); 1 failed; 2 usage;
 *                      SIGKILL after 60 s of CPU time or at the end of the thread that started it
 * Called by main.c.
 */
#include "symbolize.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tables.h"

enum {
	CPU_SECONDS = 60,		/* limit of CPU time */
	ROOM = 1 << 30,			/* bytes of address space beside the files */
	/* bytes of address space that object and debug file may take, for each byte of the object */
	DEBUG_FACTOR = 12,
	ADDRESSES_MAX = 1 << 20,	/* on stdin */
	OBJECTS_MAX = 4,		/* options --object */
};

/* What is to be done: the parsed command line, as the opening describes it. */
typedef struct {
	const char *key, *path;
	int root, old;			/* descriptors; -1: not given */
	int objects[OBJECTS_MAX];
	size_t count;			/* of objects */
	bool with_servers, without_dwarf;
} order_t;

/* ---- limits ---- */
/* Sets the soft and the hard limit. May fail only if the hard one is lower; then both stay. */
static void
limit_set(int what, rlim_t value) {
	struct rlimit limit = {value, value};

	(void)setrlimit(what, &limit);
}

/*
 * Limits the address space: mapped files take as much as they are long, and the debug file, not
 * known yet, is estimated from the object; the sizes of all --object are added. Not with
 * AddressSanitizer, which reserves terabytes.
 */
static void
space_limit(const order_t *order) {
#if !defined(__SANITIZE_ADDRESS__)
	struct stat st;
	rlim_t space = ROOM;

	for (size_t i = 0; i < order->count; i++)
		space += fstat(order->objects[i], &st) == 0 ? DEBUG_FACTOR * (rlim_t)st.st_size : 0;
	limit_set(RLIMIT_AS, space);
#else
	(void)order;
#endif
}

/*
 * Drops all capabilities, forbids core files and limits time and file size (not with servers). From
 * here on only files can be opened that the user may read without capabilities. Results are not
 * checked: rights can be dropped without any, and under a filter of system calls that refused it
 * jeprofd would have ended at its start (bin/agent/rights.c).
 */
static void
privileges_drop(bool with_servers) {
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct none[2] = {{0}, {0}};

	limit_set(RLIMIT_CORE, 0);
	limit_set(RLIMIT_CPU, CPU_SECONDS);
	/* libdebuginfod writes files from servers to its cache. */
	limit_set(RLIMIT_FSIZE, with_servers ? RLIM_INFINITY : NAMES_TABLE_MAX);
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	(void)syscall(SYS_capset, &head, none);
}

/* Closes all descriptors above the highest one that the command line names. */
static void
others_close(const order_t *order) {
	int last = order->root > order->old ? order->root : order->old;

	for (size_t i = 0; i < order->count; i++)
		last = order->objects[i] > last ? order->objects[i] : last;
	last = last > STDERR_FILENO ? last : STDERR_FILENO;
	(void)syscall(SYS_close_range, (unsigned)last + 1, UINT_MAX, 0);
}

/* ---- the command line ---- */
/* A decimal number from 0 to INT_MAX; -1 for another text. */
static int
number_read(const char *text) {
	char *end;
	long number = strtol(text, &end, 10);

	return *text == '\0' || *end != '\0' || number < 0 || number > INT_MAX ? -1 : (int)number;
}

/*
 * Parses an option whose value is a descriptor; false if it is no such option, the value is no
 * number, or there are too many objects.
 */
static bool
try_descriptor(order_t *order, const char *name, const char *value) {
	int fd = number_read(value);

	if (fd < 0)
		return false;
	if (strcmp(name, "--root") == 0)
		order->root = fd;
	else if (strcmp(name, "--old") == 0)
		order->old = fd;
	else if (strcmp(name, "--object") == 0 && order->count < OBJECTS_MAX)
		order->objects[order->count++] = fd;
	else
		return false;
	return true;
}

static bool
order_try_read(order_t *order, int count, char **words) {
	*order = (order_t){.root = -1, .old = -1};
	if (count < 2 || strlen(words[0]) > NAMES_KEY_MAX)
		return false;
	order->key = words[0];
	order->path = words[1];
	for (int i = 2; i < count; i++) {
		if (strcmp(words[i], "--servers") == 0)
			order->with_servers = true;
		else if (strcmp(words[i], "--symbols") == 0)
			order->without_dwarf = true;
		else if (i + 1 >= count || !try_descriptor(order, words[i], words[i + 1]))
			return false;
		else
			i++;
	}
	return true;
}

/*
 * Reads the addresses on stdin, sorts them and drops duplicates; *count is the number of those
 * left, 0 if the file is empty. NULL if stdin is no regular file, is too long or cannot be read
 * whole, or there is no memory; table_main() reports all of these as EINVAL.
 */
static uint64_t *
addresses_read(size_t *count) {
	struct stat st;
	uint64_t *all;

	if (fstat(STDIN_FILENO, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > ADDRESSES_MAX * 8)
		return NULL;
	all = malloc((size_t)st.st_size + 8);
	if (all == NULL || pread(STDIN_FILENO, all, (size_t)st.st_size, 0) != st.st_size) {
		free(all);
		return NULL;
	}
	*count = addresses_sort(all, (size_t)st.st_size / 8);
	return all;
}

/* ---- the object ---- */
/*
 * Opens the first of the files (descriptors; -1: not opened) whose build-id is that of the key;
 * with a key that begins with 'x', which stands for no build-id, the first ELF file. False: none is
 * open.
 */
static bool
object_try_find(object_t *object, const order_t *order, const int *files) {
	char id[2 * ID_BYTES_MAX + 1];
	size_t len = strcspn(order->key, "-");

	for (size_t i = 0; i < order->count; i++) {
		if (files[i] < 0)
			continue;
		if (object_open_fd(object, files[i], order->root, order->path) == NULL) {
			object_id(object, id);
			if (order->key[0] == 'x' || (strlen(id) == len && memcmp(id, order->key, len) == 0))
				return true;
		}
		object_close(object);
	}
	return false;
}

/* Makes the table, without frames if no object is found, and writes it: 0 or ENOMEM, EFBIG, EIO. */
static int
table_run(const order_t *order, const int *files, const uint64_t *addresses, size_t count) {
	object_t object = {.alt_fd = -1};
	int own_root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	bool has_object = object_try_find(&object, order, files);
	tables_t t = { .key = order->key, .old = order->old, .own_root = own_root, .with_servers =
	    order->with_servers,
		.without_dwarf = order->without_dwarf };
	int error = tables_make(&t, has_object ? &object : NULL, addresses, count);

	if (error == 0)
		error = tables_write(&t, STDOUT_FILENO);
	tables_free(&t);
	if (has_object)
		object_close(&object);
	close(own_root);
	return error;
}

int
table_main(int count, char **words) {
	order_t order;
	int files[OBJECTS_MAX];
	size_t naddresses;
	uint64_t *addresses;
	int error;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (!order_try_read(&order, count, words)) {
		fputs("usage: jeprof-symbolize --table KEY PATH [--object FD]... [--root FD] [--old FD] "
		    "[--servers] [--symbols]\n", stderr);
		return 2;
	}
	others_close(&order);
	for (size_t i = 0; i < order.count; i++)
		files[i] = file_reopen(order.objects[i]);
	if (order.root < 0)
		order.root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	space_limit(&order);
	privileges_drop(order.with_servers);
	addresses = addresses_read(&naddresses);
	error = addresses == NULL ? EINVAL : table_run(&order, files, addresses, naddresses);
	free(addresses);
	if (error != 0)
		fprintf(stderr, "jeprof-symbolize: %s: %s\n", order.path, strerror(error));
	return error != 0;
}
