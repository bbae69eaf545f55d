/* The verb dump: a profile written by the process, or handed over to here. See verbs.h. */
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
#include "talk.h"
#include "value.h"
#include "verbs.h"
#include "words.h"

static FILE *
open_output(const char *name, char *temporary, size_t size) {
	struct stat st;
	bool is_special = stat(name, &st) == 0 && !S_ISREG(st.st_mode);
	if (strcmp(name, "-") == 0) {
		return stdout;
	}
	if (is_special) {
		print_to(temporary, size, "%s", name);
	} else {
		print_to(temporary, size, "%s.%016" PRIx64 ".part", name, random_word());
	}
	int fd = open(temporary, O_WRONLY | O_CLOEXEC | (is_special ? 0 : O_CREAT | O_EXCL | O_NOFOLLOW), 0600);
	FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
	if (file == NULL) {
		leave(EXIT_FAILED, "%s: %s", temporary, strerror(errno));
	}
	unfinished = is_special ? NULL : temporary;
	return file;
}

static int
dump_here(process_t *p, const char *name) {
	static char temporary[TEXT_BYTES];
	static reply_t r;
	if (p->way == way_dir) {
		leave(EXIT_NO_WAY, "%d %s can be reached through its control directory only: no stream; dump without -o", p->pid, p->name);
	}
	FILE *to = open_output(name, temporary, sizeof(temporary));
	profile_t profile = {0};
	ask(p, "dump-stream", manner_wait, &profile, &r);
	if (r.error != 0) {
		return fail(p, &r);
	}
	/* Only now, when the process has nothing more to do with it: where it goes may be slow. */
	bool is_written = fwrite(profile.text, 1, profile.bytes, to) == profile.bytes && fflush(to) == 0;
	free(profile.text);
	if (!is_written || (to != stdout && fclose(to) != 0)) {
		leave(EXIT_FAILED, "cannot write the profile: %s", strerror(errno));
	}
	if (unfinished != NULL && rename(temporary, name) != 0) {
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
verb_dump(process_t *p) {
	char path[TEXT_BYTES], text[PROF_MAILBOX_TEXT];
	static reply_t r;
	if (is_on(o_output)) {
		return dump_here(p, words.values[o_output].text);
	}
	print_to(text, sizeof(text), "dump");
	if (words.file != NULL) {
		path_there(p, words.file, path, sizeof(path));
		print_to(text, sizeof(text), "dump %s", path);
	}
	ask(p, text, manner_wait, NULL, &r);
	int code = r.error != 0 ? fail(p, &r) : print_path(p, r.text, "path");
	if (code == EXIT_FAILED && r.error != ENOENT && p->way != way_dir) { /* ENOENT: nothing is sampled yet */
		hint("the profile can be written here instead: jeprofctl dump %d -o FILE\n", p->pid);
	}
	return code;
}
