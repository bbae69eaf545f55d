/*
 * Many threads at once, for many_threads.t: each makes a few small allocations and stays. Prints
 * the resident memory before, with all alive, when they are gone, and after others came and went,
 * twice; with other numbers at each stage if the process runs on the library.
 *
 * usage: many THREADS ROUNDS [PROFILE]     ROUNDS: of a thousand that come and go, each time; the
 * profile is written while all are alive, and again in each of the rounds
 * exit status 3: the machine does not allow so many threads.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define STACK 32768
#define A_ROUND 1000

static int (*ctl)(const char *, void *, size_t *, void *, size_t);
static pthread_barrier_t here, leave;
static const char *profile;
static int errors;

static size_t
resident_kb(void) {
	static char text[4096];
	int fd = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	char *at;

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	at = strstr(text, "\nRss:");
	return at == NULL ? 0 : (size_t)strtoull(at + 5, NULL, 10);
}

static size_t
ctl_kb(const char *name) {
	uint64_t epoch = 1;
	size_t value = 0, len = sizeof(value), epoch_len = sizeof(epoch);

	if (ctl == NULL)
		return 0;
	ctl("epoch", &epoch, &epoch_len, &epoch, sizeof(epoch));
	return ctl(name, &value, &len, NULL, 0) == 0 ? value / 1024 : 0;
}

static void
say(const char *stage) {
	printf("%s rss %zu metadata %zu\n", stage, resident_kb(), ctl_kb("stats.metadata"));
	fflush(stdout);
}

static void
bad(void) {
	__atomic_fetch_add(&errors, 1, __ATOMIC_RELAXED);
}

/* A few small blocks: two stay until the thread ends, the others go at once. */
static void *
live(void *arg) {
	static const size_t sizes[] = {24, 100, 48, 24, 200, 64};
	char *p[6];

	for (int i = 0; i < 6; i++) {
		p[i] = malloc(sizes[i]);
		if (p[i] == NULL)
			bad();
		else
			memset(p[i], (char)i, sizes[i]);
	}
	for (int i = 2; i < 6; i++)
		free(p[i]);
	if (arg != NULL) {
		pthread_barrier_wait(&here);
		pthread_barrier_wait(&leave);
	}
	for (int i = 0; i < 2; i++) {
		if (p[i] == NULL || p[i][23] != (char)i)
			bad();
		free(p[i]);
	}
	return NULL;
}

static void
dump(void) {
	if (profile != NULL && (ctl == NULL || ctl("prof.dump", NULL, NULL, &profile, sizeof(profile))
	    != 0))
		bad();
}

static void
start(pthread_t *t, int n, const pthread_attr_t *attr, void *arg) {
	for (int i = 0; i < n; i++) {
		int err = pthread_create(&t[i], attr, live, arg);

		if (err != 0) {
			printf("thread %d: %s\n", i, strerror(err));
			fflush(stdout);
			_exit(3);
		}
	}
}

static void
all_at_once(int n, const pthread_attr_t *attr, pthread_t *t) {
	pthread_barrier_init(&here, NULL, (unsigned)n + 1);
	pthread_barrier_init(&leave, NULL, (unsigned)n + 1);
	start(t, n, attr, &here);
	pthread_barrier_wait(&here);
	say("alive");
	dump();
	pthread_barrier_wait(&leave);
	for (int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
}

/* A round of a thousand, some of which end while others begin. */
static void
come_and_go(int rounds, const pthread_attr_t *attr, pthread_t *t) {
	for (int r = 0; r < rounds; r++) {
		start(t, A_ROUND, attr, NULL);
		dump();
		for (int i = 0; i < A_ROUND; i++)
			pthread_join(t[i], NULL);
	}
}

int
main(int argc, char **argv) {
	int n = argc > 1 ? atoi(argv[1]) : A_ROUND;
	int rounds = argc > 2 ? atoi(argv[2]) : 0;
	size_t bytes = (size_t)(n > A_ROUND ? n : A_ROUND) * sizeof(pthread_t);
	pthread_t *t = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attr;

	if (t == MAP_FAILED)
		return 2;
	ctl = (int (*)(const char *, void *, size_t *, void *, size_t))dlsym(RTLD_DEFAULT, "mallctl");
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	come_and_go(1, &attr, t);
	say("begin");
	profile = argc > 3 ? argv[3] : NULL;
	all_at_once(n, &attr, t);
	say("gone");
	if (rounds > 0) {
		come_and_go(rounds, &attr, t);
		say("later");
		come_and_go(rounds, &attr, t);
		say("end");
	}
	printf("errors %d\n", errors);
	return errors != 0;
}
