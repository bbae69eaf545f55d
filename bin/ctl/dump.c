/*
 * The verb dump. Without -o the process writes the profile into a file itself; with -o jeprofctl
 * fetches it and writes it; with --outside or --core, or if the process does not answer, jeprofctl
 * reads an image, that is, the profiler's tables in the memory of the process, in a core file or in
 * a box (a file in which the profiler keeps its tables), and makes the profile of that.
 * Invariant: if jeprofctl writes it, the profile is fetched, or all tables are read, before the
 * output is opened; a regular file is written under a temporary name and renamed when it is
 * complete, or in place if it cannot be replaced. No locks. Called by main.c.
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
#include "client/input.h"
#include "paths.h"
#include "talk.h"
#include "verbs.h"
#include "words.h"

/*
 * The descriptor of this program that a path stands for, such as /proc/self/fd/3, where /dev/stderr
 * may lead; -1: it is another path.
 */
static int
descriptor_of(const char *path) {
	char own[64];
	snprintf(own, sizeof(own), "/proc/%d/fd/", (int)getpid());
	const char *const fronts[] = {"/dev/fd/", "/proc/self/fd/", "/proc/thread-self/fd/", own};
	for (size_t i = 0; i < sizeof(fronts) / sizeof(fronts[0]); i++) {
		size_t length = strlen(fronts[i]);
		if (strncmp(path, fronts[i], length) == 0 && is_number(path + length)) {
			return atoi(path + length);
		}
	}
	return -1;
}

/* Whether the path is that of a descriptor of a process. */
static bool
is_descriptor(const char *path) {
	const char *fd = strncmp(path, "/proc/", 6) == 0 ? strstr(path, "/fd/") : NULL;
	return descriptor_of(path) >= 0 || (fd != NULL && is_number(fd + 4));
}

/* Bytes of the path up to its last slash, with that; 0: it has none. */
static int
length_of_directory(const char *path) {
	const char *slash = strrchr(path, '/');
	return slash != NULL ? (int)(slash + 1 - path) : 0;
}

/*
 * Sets path to `name`, or, as long as that is a symbolic link, to what the link names, whether or
 * not a file is there, so that the rename replaces the file and not the link. Stops at a path of an
 * open descriptor, as what that is open on is not to be replaced.
 */
static void
follow(const char *name, char *path, size_t size) {
	char target[TEXT_BYTES];
	ssize_t n;
	print_to(path, size, "%s", name);
	for (int i = 0; !is_descriptor(path) && (n = readlink(path, target, sizeof(target) - 1)) >= 0;
	    i++) {
		target[n] = '\0';
		size_t kept = target[0] == '/' ? 0 : (size_t)length_of_directory(path);
		print_to(path + kept, size - kept, "%s", target);
		if (i == 40) {
			leave(EXIT_FAILED, "%s: %s", name, strerror(ELOOP));
		}
	}
}

/*
 * Whether the file is there and must be written in place: a descriptor, a device, a fifo, a file
 * in a directory that we may not write, or one that only a link of /proc reaches, as the path in
 * the link leads to another file or to none. path is the result of follow().
 */
static bool
is_kept_file(const char *name, const char *path) {
	struct stat st;
	char directory[TEXT_BYTES];
	print_to(directory, sizeof(directory), "%.*s.", length_of_directory(path), path);
	return stat(name, &st) == 0 && (is_descriptor(path) || !S_ISREG(st.st_mode)
	    || !jeprof_leads_to(path, &st) || access(directory, W_OK) != 0);
}

/* The descriptor as a file that is written; exits if that is -1, or memory is lacking. */
static FILE *
file_of(const char *name, int fd) {
	FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
	if (file == NULL) {
		leave(EXIT_FAILED, "%s: %s", name, strerror(errno));
	}
	return file;
}

/*
 * Opens the file that is there for writing from its beginning, or exits. A pipe that nobody reads
 * is waited for as long as an answer: open() alone would wait for ever.
 */
static FILE *
open_in_place(const char *name) {
	struct stat st;
	int64_t end_ms = client_now_ms() + (int64_t)words.values[o_wait].number;
	int fd;
	while ((fd = open(name, O_WRONLY | O_CLOEXEC | O_TRUNC | O_NONBLOCK | O_NOCTTY)) < 0
	    && errno == ENXIO && stat(name, &st) == 0 && S_ISFIFO(st.st_mode)) {
		if (client_now_ms() >= end_ms || interrupted) {
			leave(EXIT_FAILED, "%s: nobody reads this pipe", name);
		}
		client_sleep_ms(10);
	}
	if (fd < 0) {
		leave(EXIT_FAILED, "%s: %s", name, errno == ENXIO
		    ? "a socket, or a device that is not there" : strerror(errno));
	}
	fcntl(fd, F_SETFL, O_WRONLY); /* without O_NONBLOCK: a slow reader is waited for */
	return file_of(name, fd);
}

/*
 * Opens the output for writing, or exits. What is not replaced is written in place: a descriptor of
 * ours as it was opened (> or >>), anything else from its beginning. For a file that is replaced,
 * `temporary` becomes the name that is written (mode 0600), and path the one to which that is
 * renamed; until then it is `unfinished`. "-" and our descriptor 1 are stdout.
 */
static FILE *
open_output(const char *name, char *path, char *temporary, size_t size) {
	follow(name, path, size);
	int own = strcmp(name, "-") == 0 ? STDOUT_FILENO : descriptor_of(path);
	if (own == STDOUT_FILENO) {
		return stdout;
	}
	if (own >= 0) {
		return file_of(name, dup(own));
	}
	if (is_kept_file(name, path)) {
		return open_in_place(name);
	}
	/* Without the file's own name, which may be as long as a name may be. */
	print_to(temporary, size, "%.*sjeprofctl.%016" PRIx64 ".part", length_of_directory(path), path,
	    client_random_word());
	int fd = open(temporary, O_WRONLY | O_CLOEXEC | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	unfinished = fd >= 0 ? temporary : NULL;
	return file_of(name, fd);
}

/* Writes a profile to `to`; 0 or an errno. */
typedef int write_t(void *profile, FILE *to);

static int
write_reply(void *profile, FILE *to) {
	const jeprof_reply_t *r = profile;
	return fwrite(r->profile, 1, r->profile_bytes, to) == r->profile_bytes && fflush(to) == 0 ? 0
	    : errno;
}

static int
write_image(void *profile, FILE *to) {
	return jeprof_image_write(profile, to);
}

/* Prints the name of the file that was written; with --json as an absolute path. */
static void
put_name(unsigned pid, const char *name) {
	char here[PATH_MAX], path[TEXT_BYTES];
	bool is_known = !is_on(o_json) || name[0] == '/' || getcwd(here, sizeof(here)) == NULL;
	print_to(path, sizeof(path), "%s%s%s", is_known ? "" : here, is_known
	    || strcmp(here, "/") == 0 ? "" : "/", name);
	put_path(pid, "path", path);
}

/* Writes the profile into the file and closes that, unless it is stdout; or exits. */
static void
write_profile(FILE *to, write_t *write, void *profile) {
	int error = write(profile, to);
	if (error == 0 && to != stdout && fclose(to) != 0) {
		error = errno;
	}
	if (error != 0) {
		leave(EXIT_FAILED, "cannot write the profile: %s", strerror(error));
	}
}

/*
 * Writes the profile of a process (p: if it is there) into the file `name` and prints that name,
 * unless it is stdout; returns EXIT_DONE or exits. The file is opened when the whole profile is
 * here, because the output may be slow.
 */
static int
put_profile(const jeprof_target_t *p, unsigned pid, const char *name, write_t *write,
    void *profile) {
	static char path[TEXT_BYTES], temporary[TEXT_BYTES];
	FILE *to = open_output(name, path, temporary, sizeof(temporary));
	write_profile(to, write, profile);
	if (unfinished != NULL && rename(temporary, path) != 0) {
		if (errno != EBUSY) {
			leave(EXIT_FAILED, "%s: %s", name, strerror(errno));
		}
		remove_unfinished();
		write_profile(open_in_place(name), write, profile); /* something is mounted on it */
	}
	unfinished = NULL;
	if (to != stdout) {
		put_name(pid, name);
	}
	if (to != stdout && descriptor_of(path) < 0) {
		hint_top(name, p);
	}
	return EXIT_DONE;
}

/* ---- from outside ---- */

/*
 * The file, as this program sees it, for a profile that is made from outside: that of -o, else the
 * word FILE, else a name in the working directory like those of the library's dumps, with the
 * letter o. pid is for that name: as the process sees itself.
 */
static const char *
outside_name(unsigned pid, char *buf, size_t size) {
	char stamp[32];
	if (is_on(o_output) || words.file != NULL) {
		return is_on(o_output) ? words.values[o_output].text : words.file;
	}
	print_to(buf, size, "jeprof.%u.%s.0.o0.heap", pid, client_stamp(client_clock_ns(CLOCK_REALTIME),
	    stamp));
	return buf;
}

/* Says what the image of a file (is_file) or of a process lacks: of a process, what is damaged. */
static void
tell_lacks(const jeprof_image_facts_t *f, bool is_file) {
	if (f->torn != 0) {
		talk("%" PRIu64 " damaged objects of the tables were left out%s", f->torn, f->is_broken
		    ? "; the list of stacks ends at one of them: those behind it are missing" : "");
	}
	if (!is_file) {
		return;
	}
	if (f->no_room != 0) {
		talk("%" PRIu64 " samples have no stack: the box was full", f->no_room);
	}
	if (f->cut != 0) {
		talk("the file is cut off: it lacks %" PRIu64 " bytes", f->cut);
	}
	if (f->lacks_files) {
		talk("the core does not tell all files that were mapped: its note of them (NT_FILE) is not "
		    "there, is cut off or takes more than 32M");
	}
	if (f->lacking != 0) {
		talk("the core lacks the headers of %" PRIu64 " loaded files: their build ids are not "
		    "known", f->lacking);
	}
}

/*
 * Writes the profile of an image and closes the image; returns the exit code. p: whose memory it
 * is; NULL: it is of a file.
 */
static int
put_image(jeprof_image_t *image, const jeprof_target_t *p) {
	char name[TEXT_BYTES];
	jeprof_image_facts_t f = jeprof_image_facts(image);
	tell_lacks(&f, p == NULL);
	int code = put_profile(p, p != NULL ? (unsigned)p->pid : f.pid, outside_name(f.pid, name,
	    sizeof(name)), write_image, image);
	jeprof_image_close(image);
	return code;
}

/* dump --outside: reads the memory of the process, which does not notice. */
static int
dump_outside(jeprof_target_t *p) {
	jeprof_image_t *image;
	need(p, jeprof_image_of_process(&image, p));
	return put_image(image, p);
}

/*
 * After a dump request that failed with `error`: if there was no answer, makes the profile from
 * outside, if the memory can be read and has tables, and not with --since-mark. Else exits with the
 * reason why the request failed.
 */
static int
dump_unanswered(jeprof_target_t *p, int error) {
	jeprof_image_t *image;
	if (is_on(o_since_mark) || jeprof_image_unanswered(&image, p, error, 0) != 0) {
		leave_failed(p, error);
	}
	talk("%s; the profile was read from outside instead", p->why);
	return put_image(image, p);
}

int
verb_dump_core(void) {
	static char why[JEPROF_WHY];
	const char *name = words.values[o_core].text, *reason = NULL;
	uint64_t wait_ms = words.values[o_wait].number;
	jeprof_image_t *image;
	int fd = strcmp(name, "-") == 0 ? STDIN_FILENO
	    : client_open_input(name, wait_ms < INT_MAX ? (int)wait_ms : INT_MAX, &reason);
	if (fd < 0) {
		leave(EXIT_FAILED, "%s: %s", name, reason);
	}
	if (jeprof_image_of_file(&image, fd, why) != 0) {
		leave(EXIT_FAILED, "%s: %s", name, why);
	}
	return put_image(image, NULL);
}

/* ---- by the process ---- */

/*
 * Suggests another way to the profile after the process has answered a dump with this errno, unless
 * there is none to get: ENOENT (nothing is sampled yet), ENODATA (there is no mark). is_here: it
 * was to be streamed; else the process was to write it.
 */
static void
hint_other_way(const jeprof_target_t *p, int error, bool is_here) {
	bool is_readable = p->way == jeprof_way_memory || p->way == jeprof_way_calls;
	if (error == ENOENT || error == ENODATA || p->way == jeprof_way_dir) {
		return;
	}
	if (!is_here && error != ENOMEM) {
		hint("the profile can be written here instead: jeprofctl dump %d -o FILE\n", p->pid);
	} else if (is_readable && !is_on(o_since_mark)) {
		hint("the profile can be read from its memory instead: jeprofctl dump %d --outside -o "
		    "FILE\n", p->pid);
	}
}

/* dump -o: fetches the profile and writes it; returns the exit code. */
static int
dump_here(jeprof_target_t *p, const char *name) {
	static jeprof_reply_t r;
	if (p->way == jeprof_way_dir) {
		leave(EXIT_NO_WAY, "%d %s can be reached through its control directory only: no stream; "
		    "dump without -o", p->pid, p->name);
	}
	jeprof_request_t request = request_of(is_on(o_since_mark) ? "dump-delta-stream" : "dump-stream",
	    jeprof_manner_wait);
	int error = jeprof_ask(p, &request, &r);
	if (error != 0) {
		return dump_unanswered(p, error);
	}
	if (r.error != 0) {
		int code = fail(p, &r);
		if (code == EXIT_FAILED) {
			hint_other_way(p, r.error, true);
		}
		return code;
	}
	int code = put_profile(p, (unsigned)p->pid, name, write_reply, &r);
	free(r.profile);
	return code;
}

int
verb_dump(jeprof_target_t *p) {
	char path[TEXT_BYTES], text[JEPROF_TEXT];
	static jeprof_reply_t r;
	if (is_on(o_outside)) {
		return dump_outside(p);
	}
	if (is_on(o_output)) {
		return dump_here(p, words.values[o_output].text);
	}
	const char *verb = is_on(o_since_mark) ? "dump-delta" : "dump";
	print_to(text, sizeof(text), "%s", verb);
	if (words.file != NULL) {
		path_there(p, words.file, path, sizeof(path));
		print_to(text, sizeof(text), "%s %s", verb, path);
	}
	jeprof_request_t request = request_of(text, jeprof_manner_wait);
	int error = jeprof_ask(p, &request, &r);
	if (error != 0) {
		return dump_unanswered(p, error);
	}
	int code = r.error != 0 ? fail(p, &r) : print_path(p, r.text, "path");
	if (code == EXIT_FAILED) {
		hint_other_way(p, r.error, false);
	}
	return code;
}
