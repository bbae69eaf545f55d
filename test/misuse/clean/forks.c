/* Children of a program with threads: each allocates, frees its parent's blocks, and ends. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int is_over;

static void *
work(void *arg) {
	void *p[50] = {NULL};

	for (unsigned i = 0; !is_over; i++) {
		free(p[i % 50]);
		p[i % 50] = malloc(i % 5000);
	}
	for (int i = 0; i < 50; i++)
		free(p[i]);
	return arg;
}

int
main(void) {
	pthread_t t;
	void *p[100];
	int bad = 0, status;

	pthread_create(&t, NULL, work, NULL);
	for (int i = 0; i < 100; i++)
		p[i] = malloc((size_t)i * 50);
	for (int k = 0; k < 20; k++) {
		pid_t pid = fork();

		if (pid == 0) {
			for (int i = 0; i < 100; i++) {
				p[i] = realloc(p[i], (size_t)i * 60 + 1);
				memset(p[i], 1, (size_t)i * 60 + 1);
				free(p[i]);
			}
			_exit(0);
		}
		waitpid(pid, &status, 0);
		bad += status != 0;
	}
	is_over = 1;
	pthread_join(t, NULL);
	for (int i = 0; i < 100; i++)
		free(p[i]);
	printf("%d bad\n", bad);
	return 0;
}
