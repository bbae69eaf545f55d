/*
 * A process with a mailbox but without a profiler: the library's side of
 * src/prof/control/prof_mailbox.h, as small as it can be, for the tests of jeprofctl. Its one
 * thread looks at the doorbell every 2 ms, or not (idle, until SIGUSR1). Sessions, thresholds and
 * dumps are only pretended; a dump is a file of three lines.
 * usage: fake MODE [ARGUMENT]; prints "ready PID" once it can be asked, ends with its standard
 * input, or after a quarter of an hour.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "prof/control/prof_mailbox.h"

#ifndef FAKE_VERSION
#define FAKE_VERSION 2
#endif
#ifndef FAKE_BYTES
#define FAKE_BYTES 131072
#endif
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

__attribute__((used, aligned(PROF_MAILBOX_BYTES))) static union {
	prof_mailbox_t m;
	char room[PROF_MAILBOX_BYTES * 2];
} block __asm__("fake_block");

__asm__(".pushsection .note.jemalloc,\"a\",%note\n"
    ".balign 4\n.long 9, 16, 0x6a706d62\n.asciz \"jemalloc\"\n.balign 4\n"
    ".long " TEXT(FAKE_VERSION) ", " TEXT(FAKE_BYTES) "\n"
    "1: .quad fake_block - 1b\n"
    ".popsection");

static prof_mailbox_t *box = &block.m;
static const char *mode = "normal";
static const char *argument = "";
static uint64_t rejected, dumps, allocated = 1000000;
static char prefix[512] = "/tmp/fake", settings[1024], last_dump[1024];
static int64_t stop_at;
static bool is_torn_once;

static uint64_t
clock_ns(clockid_t id) {
	struct timespec ts;
	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

__attribute__((format(printf, 3, 4))) static int
answer(char *to, int error, const char *format, ...) {
	va_list args;
	va_start(args, format);
	vsnprintf(to, PROF_MAILBOX_TEXT, format, args);
	va_end(args);
	return error;
}

static int
write_profile(const char *path, char *out) {
	FILE *f = fopen(path, "w");
	if (f == NULL) {
		/* As the library: ENOENT would say that nothing has started the profiler. */
		return answer(out, errno == ENOENT ? EFAULT : errno, "cannot write %s", path);
	}
	fprintf(f, "heap_v2/524288\n# jemalloc.session=%d\n# end 42\n", (int)box->session_id);
	fclose(f);
	dumps++;
	snprintf(last_dump, sizeof(last_dump), "%s", path);
	return answer(out, 0, "%s", path);
}

static int
start(const char *options, char *out) {
	if (box->state == prof_mailbox_active) {
		rejected++;
		return answer(out, EALREADY, "session %d runs", (int)box->session_id);
	}
	if (strstr(options, "highwater_metric:moon") != NULL) {
		return answer(out, EINVAL, "highwater_metric: no such metric \"moon\"");
	}
	snprintf(settings, sizeof(settings), "%s", options);
	const char *p = strstr(options, "prefix:");
	if (p != NULL) {
		snprintf(prefix, sizeof(prefix), "%.*s", (int)strcspn(p + 7, ","), p + 7);
	}
	p = strstr(options, "max_seconds:");
	stop_at = p != NULL ? (int64_t)clock_ns(CLOCK_MONOTONIC) + atoll(p + 12) * 1000000000 : 0;
	box->state = prof_mailbox_active;
	box->session_start_ns = clock_ns(CLOCK_REALTIME);
	box->session_id++;
	return answer(out, 0, "%d", (int)box->session_id);
}

static int
stop(const char *number, char *out) {
	char path[1024];
	if (box->state == prof_mailbox_idle) {
		rejected++;
		return answer(out, EALREADY, "no session");
	}
	if (strcmp(mode, "stopping") == 0) {
		return answer(out, EBUSY, "a profile is being written");
	}
	if (strcmp(mode, "wordy") == 0) {
		char most[PROF_MAILBOX_TEXT];
		memset(most, 'Z', sizeof(most) - 1);
		most[sizeof(most) - 1] = '\0';
		return answer(out, EBUSY, "%s", most);
	}
	if (*number != '\0' && strtoull(number, NULL, 10) != box->session_id) {
		rejected++;
		return answer(out, EPERM, "the session is another one");
	}
	box->state = prof_mailbox_idle;
	snprintf(path, sizeof(path), "%s.%d.%d.s%d.heap", prefix, (int)getpid(), (int)dumps,
	    (int)box->session_id - 1);
	return write_profile(path, out);
}

/* The n-th answer of those that the argument has, with | between them; from then on the last. */
static int
told(unsigned n, char *out) {
	const char *at = argument, *next;
	while (n-- > 0 && (next = strchr(at, '|')) != NULL) {
		at = next + 1;
	}
	return answer(out, 0, "%.*s", (int)strcspn(at, "|"), at);
}

static int
status(char *out) {
	static unsigned n_asked;
	if (strcmp(mode, "told") == 0) {
		return told(n_asked++, out);
	}
	allocated += 500000;
	return answer(out, 0,
	    "state=%s\nsession=%d\nstart_time_ns=%llu\nsample_interval=524288\nsettings=%s\n"
	    "allocated=%llu\n"
	    "active=4194304\nblackbox=%s\ndumps=%llu\nsuppressed=0\nlast_dump=%s\n"
	    "last_error=a \"quoted\" \033[31mtext\nunwinder=fp\nversion=fake\n"
	    "pid=%d\nrejected=%llu", box->state == prof_mailbox_active ? "active" : "idle",
	    (int)box->session_id, (unsigned long long)box->session_start_ns, settings,
	    (unsigned long long)allocated, strcmp(mode, "chroot") == 0 ? last_dump : "",
	    (unsigned long long)dumps, last_dump, (int)getpid(),
	    (unsigned long long)rejected);
}

/*
 * A profile of 100 000 bytes in parts of uneven length, or in a memory file; of a reader who is
 * late nothing is left.
 */
static int
stream(unsigned place, uint64_t nonce, char *out) {
	enum { total = 100000, part = 777 };
	static char text[total], parts[total / part + 1][sizeof(prof_part_t) + part];
	prof_stream_t *s = &box->streams[place];
	prof_part_t *p = NULL;
	s->fd = -1;
	s->bytes = total;
	s->first = (uintptr_t)parts[0];
	if (strcmp(mode, "stream-fails") == 0) {
		return answer(out, ENOMEM, "the profile could not be made");
	} else if (strcmp(mode, "stream-dies") == 0) {
		_exit(0);
	} else if (strcmp(mode, "stream-late") == 0) {
		return answer(out, 0, "-");
	}
	for (size_t i = 0; i < total; i++) {
		text[i] = i % 10 == 9 ? '\n' : (char)('a' + i / 10 % 26);
		if (i % part == 0) {
			p = (prof_part_t *)(void *)parts[i / part];
			*p = (prof_part_t){i + part < total ? (uintptr_t)parts[i / part + 1] : 0, 0};
		}
		((char *)(p + 1))[p->bytes++] = text[i];
	}
	if (strcmp(mode, "memfd") == 0) {
		s->first = 0;
		s->fd = (int)syscall(SYS_memfd_create, PROF_MAILBOX_PROFILE_NAME, 1u);
		if (write(s->fd, text, total) != total) {
			return answer(out, ENOMEM, "no file");
		}
	} else if (strcmp(mode, "stream-lies") == 0) {
		p->next = (uintptr_t)parts[0]; /* parts without an end, and empty ones */
		s->bytes = UINT64_MAX / 4;
		((prof_part_t *)(void *)parts[1])->bytes = 0;
	} else if (strcmp(mode, "stream-wraps") == 0) {
		s->bytes = UINT64_MAX; /* and a byte more is none */
	}
	s->is_taken = 0;
	__atomic_store_n(&s->nonce, nonce, __ATOMIC_RELEASE);
	return answer(out, 0, "-");
}

static int
carry_out(const char *text, unsigned place, uint64_t nonce, char *out) {
	char path[1024];
	for (const char *c = text; *c != '\0'; c++) {
		if ((unsigned char)*c < ' ' || (unsigned char)*c > 126) {
			return answer(out, EINVAL, "not printable");
		}
	}
	if (strcmp(text, "start") == 0 || strncmp(text, "start ", 6) == 0) {
		return start(text + 5 + (text[5] == ' '), out);
	} else if (strcmp(text, "stop") == 0 || strncmp(text, "stop ", 5) == 0) {
		return stop(text + 4 + (text[4] == ' '), out);
	} else if (strncmp(text, "dump ", 5) == 0) {
		return write_profile(text + 5, out);
	} else if (strcmp(text, "dump") == 0) {
		snprintf(path, sizeof(path), "%s.%d.%d.m0.heap", prefix, (int)getpid(), (int)dumps);
		return write_profile(path, out);
	} else if (strcmp(text, "dump-stream") == 0) {
		return stream(place, nonce, out);
	} else if (strcmp(text, "status") == 0) {
		return status(out);
	} else if (strncmp(text, "set ", 4) == 0) {
		snprintf(settings, sizeof(settings), "%s", text + 4);
		return answer(out, 0, "%s", "");
	} else if (strcmp(text, "rearm") == 0) {
		return answer(out, 0, "%s", "");
	}
	return answer(out, EBADMSG, "no such request");
}

/* What was answered to a nonce is answered to it again. */
static int
carry_out_once(const char *text, unsigned place, uint64_t nonce, char *out) {
	enum { kept = 64 };
	static struct {
		uint64_t nonce;
		int error;
		char answer[PROF_MAILBOX_TEXT];
	} answers[kept], *a;
	static unsigned count;
	for (a = answers; a < answers + kept && a->nonce != nonce; a++) {
	}
	if (a == answers + kept) {
		a = &answers[count++ % kept];
		a->error = carry_out(text, place, nonce, a->answer);
		a->nonce = strcmp(text, "status") == 0 || a->error == EBADMSG ? 0 : nonce;
	}
	memcpy(out, a->answer, sizeof(a->answer));
	return a->error;
}

static void
look(void) {
	if (__atomic_exchange_n(&box->doorbell, 0, __ATOMIC_ACQ_REL) == 0) {
		return;
	}
	for (unsigned i = 0; i < PROF_MAILBOX_SLOTS; i++) {
		prof_slot_t *s = &box->slots[i], copy;
		uint64_t sequence = __atomic_load_n(&s->sequence, __ATOMIC_ACQUIRE);
		if (sequence == 0 || s->answered == sequence) {
			continue;
		}
		copy = *s;
		bool is_whole = copy.length < PROF_MAILBOX_TEXT
		    && copy.checksum == prof_mailbox_sum(sequence, copy.nonce, copy.text, copy.length);
		copy.text[is_whole ? copy.length : 0] = '\0';
		__atomic_store_n(&s->answer_nonce, copy.nonce, __ATOMIC_RELEASE);
		if (strcmp(mode, "slow") == 0) {
			usleep(6000000);
		}
		if (strcmp(mode, "hanging") == 0) { /* has taken it, says so, and never answers */
			char byte;
			close(open(argument, O_WRONLY | O_CREAT, 0600));
			while (read(0, &byte, 1) > 0) {
			}
			_exit(0);
		}
		if (strcmp(mode, "torn") == 0 && !is_torn_once) {
			is_torn_once = strcmp(argument, "always") != 0;
			is_whole = false;
		}
		if (strcmp(mode, "stolen") == 0 && !is_torn_once) {
			is_torn_once = true;
			s->answer_nonce = 77; /* as if another one's request had lain there */
			copy.text[0] = '\0';
		}
		if (strcmp(mode, "lapsed") == 0) { /* the lease is over, and the client's time too */
			usleep(6000000);
			s->error = answer(s->answer, ESTALE, "now_ms=%llu: the client has ended",
			    (unsigned long long)(clock_ns(CLOCK_MONOTONIC) / 1000000));
			s->answer_length = (uint32_t)strlen(s->answer);
			__atomic_store_n(&s->answered, sequence, __ATOMIC_RELEASE);
			continue;
		}
		s->error = is_whole ? carry_out_once(copy.text, i, copy.nonce, s->answer) : EBADMSG;
		s->answer_length = (uint32_t)strlen(s->answer);
		__atomic_store_n(&s->answered, sequence, __ATOMIC_RELEASE);
	}
}

/* The control directory's side. */
static void
look_at_dir(void) {
	char path[600], text[1024], out[PROF_MAILBOX_TEXT], temporary[620];
	unsigned long long nonce = 0;
	snprintf(path, sizeof(path), "%s/%d.cmd", argument, (int)getpid());
	int fd = open(path, O_RDONLY | O_NOFOLLOW), skip = 0;
	struct stat st;
	if (fd < 0) {
		return;
	}
	ssize_t n = read(fd, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	bool is_good = fstat(fd, &st) == 0 && st.st_nlink == 1 && (st.st_mode & 022) == 0
	    && strcmp(mode, "distrustful") != 0;
	close(fd);
	unlink(path);
	if (is_good) {
		sscanf(text, "nonce=%llx %n", &nonce, &skip);
	}
	int error = is_good ? carry_out(text + skip, 0, nonce, out)
	    : answer(out, EPERM, "not a file to trust");
	snprintf(path, sizeof(path), "%s/%d.status", argument, (int)getpid());
	snprintf(temporary, sizeof(temporary), "%s.tmp", path);
	FILE *f = fopen(temporary, "w");
	fprintf(f, "nonce=%llx error=%d\n%s\n", nonce, error, out);
	fclose(f);
	rename(temporary, path);
}

static void
open_box(void) {
	if (strcmp(mode, "memfd") == 0) {
		int fd = (int)syscall(SYS_memfd_create, PROF_MAILBOX_FD_NAME, 1u);
		if (fd < 0 || ftruncate(fd, sizeof(block)) != 0
		    || mmap(&block, sizeof(block), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
		    0) == MAP_FAILED) {
			_exit(1);
		}
	}
	*box = (prof_mailbox_t){.version = PROF_MAILBOX_VERSION, .bytes = sizeof(block),
	    .pid = (uint32_t)getpid(), .library_version = "fake"};
	if (strcmp(mode, "junk") == 0) { /* a memory file of that name, of something else */
		int fd = (int)syscall(SYS_memfd_create, PROF_MAILBOX_FD_NAME, 1u);
		if (fd < 0 || write(fd, "something else", 14) != 14) {
			_exit(1);
		}
	}
	if (strcmp(mode, "closed") != 0) {
		box->magic = PROF_MAILBOX_MAGIC;
	}
	if (strcmp(mode, "full") == 0 || strcmp(mode, "orphans") == 0) {
		for (unsigned i = 0; i < PROF_MAILBOX_SLOTS; i++) {
			prof_slot_t *s = &box->slots[i];
			strcpy(s->text, strcmp(mode, "full") == 0 ? "start" : "status");
			s->sequence = s->nonce = i + 1;
		}
	}
	if (strcmp(mode, "abandoned") == 0) {
		for (unsigned i = 0; i < PROF_MAILBOX_SLOTS; i++) {
			box->slots[i].sequence = box->slots[i].answered = i + 1;
		}
	}
}

static volatile sig_atomic_t is_woken;

static void
on_wake(int number) {
	(void)number;
	is_woken = 1;
}

int
main(int argc, char **argv) {
	mode = argc > 1 ? argv[1] : mode;
	argument = argc > 2 ? argv[2] : argument;
	if (strcmp(mode, "chroot") == 0 && (chroot(argument) != 0 || chdir("/") != 0)) {
		return 1;
	}
	alarm(900); /* whatever happens */
	open_box();
	if (strcmp(mode, "undumpable") == 0 || strcmp(mode, "memfd-undumpable") == 0) {
		prctl(PR_SET_DUMPABLE, 0);
	}
	if (strcmp(mode, "gone") == 0) {
		unlink(argv[0]);
	}
	if (strcmp(mode, "sampling") == 0) {
		box->state = prof_mailbox_sampling;
		box->session_id = 3;
	}
	if (strcmp(mode, "barred") == 0) {
		box->flags = PROF_MAILBOX_BARRED;
	}
	bool is_idle = strcmp(mode, "idle") == 0 || strcmp(mode, "sampling") == 0
	    || strcmp(mode, "full") == 0 || strcmp(mode, "orphans") == 0;
	bool is_deaf = strcmp(mode, "deaf") == 0;
	signal(SIGUSR1, on_wake);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	if (strcmp(mode, "waiting") == 0 && vfork() == 0) { /* state D until the child ends */
		char byte;
		while (read(0, &byte, 1) > 0) {
		}
		_exit(0);
	}
	for (;;) {
		struct pollfd in = {.fd = 0, .events = POLLIN};
		char byte;
		int n = poll(&in, 1, 2);
		if (n > 0 && read(0, &byte, 1) <= 0) {
			break;
		}
		is_idle = is_idle && !is_woken;
		if (strcmp(mode, "directory") == 0 || strcmp(mode, "distrustful") == 0) {
			look_at_dir();
		} else if (!is_idle) {
			box->heartbeats++;
			if (!is_deaf) {
				look();
			}
		}
		if (box->state == prof_mailbox_active && stop_at != 0 && (int64_t)clock_ns(CLOCK_MONOTONIC)
		    >= stop_at) {
			char out[PROF_MAILBOX_TEXT];
			stop("", out);
		}
	}
	return 0;
}
