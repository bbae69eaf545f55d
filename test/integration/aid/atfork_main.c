/* Forks many times while threads allocate; linked with atfork_lib before or after the library. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern int atfork_lib_here(void);
static volatile int stop;

static void *
busy(void *arg) {
	while (!stop) {
		free(malloc(500));
		free(malloc(50000));
	}
	return arg;
}

int
main(void) {
	pthread_t t[3];
	int bad = 0;

	alarm(400);
	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, busy, NULL);
	for (int i = 0; i < 200; i++) {
		int status = -1;
		pid_t pid = fork();

		if (pid == 0) {
			alarm(400);
			for (int j = 1; j < 100; j++)
				free(malloc((size_t)j * 1000));
			_exit(0);
		}
		waitpid(pid, &status, 0);
		bad += status != 0;
	}
	stop = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	printf("bad %d\n", bad);
	return bad != 0 || !atfork_lib_here();
}
