/*
 * The verb dump. Without -o the process writes the profile into a file itself; with -o jeprofctl
 * fetches it and writes it. Invariant: with -o the whole profile is fetched before anything is
 * written; a regular file is written under a temporary name and renamed when it is complete. No
 * locks. Called by main.c.
 */
#include "ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "answer.h"
#include "client/clock.h"
#include "paths.h"
#include "talk.h"
#include "value.h"
#include "verbs.h"
#include "words.h"

/*
 * Sets path to the name behind all symbolic links of `name`, whether or not a file is there, so
 * that the rename replaces the file and not the link.
 */
static void
follow(const char *name, char *path, size_t size) {
	char target[TEXT_BYTES];
	ssize_t n;
	print_to(path, size, "%s", name);
	for (int i = 0; (n = readlink(path, target, sizeof(target) - 1)) >= 0; i++) {
		target[n] = '\0';
		const char *slash = strrchr(path, '/');
		size_t kept = target[0] == '/' || slash == NULL ? 0 : (size_t)(slash + 1 - path);
		print_to(path + kept, size - kept, "%s", target);
		if (i == 40) {
			leave(EXIT_FAILED, "%s: %s", name, strerror(ELOOP));
		}
	}
}

/*
 * Whether the file must be written in place, because it cannot be replaced: a device, a fifo, or an
 * open file without a name (/dev/fd/N). path is the result of follow().
 */
static bool
is_special_file(const char *name, const char *path) {
	struct stat st, followed;
	return stat(name, &st) == 0
	    && (!S_ISREG(st.st_mode) || stat(path, &followed) != 0 || st.st_dev != followed.st_dev
	    || st.st_ino != followed.st_ino);
}

/*
 * Opens the file for writing, or exits. Sets `temporary` to the name that is written, and path to
 * the one to which it is renamed. "-" is stdout.
 */
static FILE *
open_output(const char *name, char *path, char *temporary, size_t size) {
	if (strcmp(name, "-") == 0) {
		return stdout;
	}
	follow(name, path, size);
	bool is_special = is_special_file(name, path);
	if (is_special) {
		print_to(temporary, size, "%s", name);
	} else {
		print_to(temporary, size, "%s.%016" PRIx64 ".part", path, client_random_word());
	}
	int fd = open(temporary, O_WRONLY | O_CLOEXEC | (is_special ? 0
	    : O_CREAT | O_EXCL | O_NOFOLLOW), 0600);
	FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
	if (file == NULL) {
		leave(EXIT_FAILED, "%s: %s", name, strerror(errno));
	}
	unfinished = is_special ? NULL : temporary;
	return file;
}

/* dump -o: fetches the profile and writes it; returns the exit code. */
static int
dump_here(jeprof_target_t *p, const char *name) {
	static char path[TEXT_BYTES], temporary[TEXT_BYTES];
	static jeprof_reply_t r;
	if (p->way == jeprof_way_dir) {
		leave(EXIT_NO_WAY, "%d %s can be reached through its control directory only: no stream; "
		    "dump without -o", p->pid, p->name);
	}
	FILE *to = open_output(name, path, temporary, sizeof(temporary));
	ask(p, "dump-stream", jeprof_manner_wait, &r);
	if (r.error != 0) {
		return fail(p, &r);
	}
	/* Written after the process has handed it over, because the output may be slow. */
	bool is_written = fwrite(r.profile, 1, r.profile_bytes, to) == r.profile_bytes
	    && fflush(to) == 0;
	free(r.profile);
	if (!is_written || (to != stdout && fclose(to) != 0)) {
		leave(EXIT_FAILED, "cannot write the profile: %s", strerror(errno));
	}
	if (unfinished != NULL && rename(temporary, path) != 0) {
		leave(EXIT_FAILED, "%s: %s", name, strerror(errno));
	}
	unfinished = NULL;
	if (to != stdout) {
		printf("%s\n", name);
		hint_top(name);
	}
	return EXIT_DONE;
}

int
verb_dump(jeprof_target_t *p) {
	char path[TEXT_BYTES], text[JEPROF_TEXT];
	static jeprof_reply_t r;
	if (is_on(o_output)) {
		return dump_here(p, words.values[o_output].text);
	}
	print_to(text, sizeof(text), "dump");
	if (words.file != NULL) {
		path_there(p, words.file, path, sizeof(path));
		print_to(text, sizeof(text), "dump %s", path);
	}
	ask(p, text, jeprof_manner_wait, &r);
	int code = r.error != 0 ? fail(p, &r) : print_path(p, r.text, "path");
	/* ENOENT: nothing is sampled yet */
	if (code == EXIT_FAILED && r.error != ENOENT && p->way != jeprof_way_dir) {
		hint("the profile can be written here instead: jeprofctl dump %d -o FILE\n", p->pid);
	}
	return code;
}
