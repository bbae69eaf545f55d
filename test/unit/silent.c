/*
 * os/gate.h, meta/region.h: children that share the file of the profiler's tables with their parent
 * at an instant that is hard to hit: a silent one, made while the tables move into the file, or by
 * a signal handler that interrupts a fork which waits; and one of fork() that gets a signal before
 * it has left the file. test/models/gate.pml is about the same instants.
 */
#include "core.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "jemalloc_fork.h"
#include "meta/region.h"
#include "os/gate.h"
#include "os/sys.h"

static struct os_hooks_s hooks;
static char *piece;

/* A child of which the library is not told. It ends in any case. */
static pid_t
silent_fork(void) {
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid == 0) {
		alarm(60);
	}
	return pid;
}

static int
status_of(pid_t pid) {
	int status = -1;
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

static int
to_box(void) {
	int fd = memfd_create("box", MFD_CLOEXEC);
	int err = fd < 0 || ftruncate(fd, 4 << 20) != 0 ? errno : region_ahead_box(fd, 4 << 20);
	if (err == 0 && gate_try_stop()) {
		err = region_to_box(fd);
		gate_let_go();
	}
	region_ahead_end();
	close(fd);
	return err;
}

/* In a child of fork(), which may move the tables. */
static void
run(int (*fn)(void), int expected, const char *name) {
	pid_t pid = fork();
	if (pid == 0) {
		alarm(120);
		hooks = os_hooks_real;
		os_hooks = &hooks;
		region_root();
		piece = region_alloc(64);
		memset(piece, 'p', 64);
		_exit(fn());
	}
	is_int(status_of(pid), expected, "%s", name);
}

/* ---------------------------------------------------------------- a move */

static pid_t silent_pid;

/* Behind the first part that is the file's: a child, which works inside as a lost one may. */
static void *
mmap_then_fork(void *addr, size_t size, int prot, int flags, int fd, off_t off) {
	void *p = os_hooks_real.mmap(addr, size, prot, flags, fd, off);
	if (fd < 0 || (flags & MAP_FIXED) == 0 || silent_pid != 0) {
		return p;
	}
	silent_pid = silent_fork();
	if (silent_pid == 0) {
		gate_enter(tls_get());
		memset(piece, 'c', 64);
		gate_exit(tls_get());
		_exit(gate_is_lost() ? 7 : 1);
	}
	return p;
}

static int
moves(void) {
	hooks.mmap = mmap_then_fork;
	int err = to_box();
	return err != 0 || silent_pid == 0 || status_of(silent_pid) != 7 ? 1
	    : is_filled(piece, 'p', 64) ? 0 : 2;
}

/* ---------------------------------------------------------------- a fork that waits */

static volatile sig_atomic_t is_waited_for;

static void
handler_forks(int sig UNUSED) {
	silent_pid = silent_fork();
}

/* Is inside, or has closed the gate, until a handler has interrupted the other thread. */
static void *
thread_holds(void *arg) {
	pthread_t *other = arg;
	bool is_inside = is_waited_for == 1;
	if (is_inside) {
		gate_enter(tls_get());
	} else {
		gate_prefork();
	}
	is_waited_for = 0;
	for (unsigned ms = 0; ms < 60000 && !gate_is_closed(); ms++) {
		usleep(1000);
	}
	usleep(20000);
	pthread_kill(*other, SIGUSR1);
	usleep(20000);
	if (is_inside) {
		gate_exit(tls_get());
	} else {
		gate_postfork_parent();
	}
	return NULL;
}

/* The child goes back into the fork that the handler has interrupted, and through it. */
static int
interrupted(int what) {
	pthread_t t, self = pthread_self();
	silent_pid = -1;
	if (to_box() != 0) {
		return 1;
	}
	free(keep(malloc(1)));
	signal(SIGUSR1, handler_forks);
	is_waited_for = what;
	pthread_create(&t, NULL, thread_holds, &self);
	while (is_waited_for != 0) {
		usleep(1000);
	}
	gate_prefork();
	if (silent_pid == 0) {
		gate_postfork_parent();
		_exit(gate_is_lost() && keep(malloc(1)) != NULL ? 7 : 1);
	}
	gate_postfork_parent();
	pthread_join(t, NULL);
	return status_of(silent_pid);
}

static int
interrupted_alone(void) {
	return interrupted(1);
}

static int
interrupted_before(void) {
	return interrupted(2);
}

/* ---------------------------------------------------------------- a signal in fork()'s child */

static pid_t parent_pid;

static void
handler_allocates(int sig UNUSED) {
	free(keep(malloc(3000)));
	silent_pid = 1;
}

static void *
mremap_signalled(void *from, size_t size, size_t new_size, int flags, void *to) {
	if (getpid() != parent_pid) {
		raise(SIGUSR1);
	}
	return os_hooks_real.mremap(from, size, new_size, flags, to);
}

static int
signalled(void) {
	int err = to_box();
	parent_pid = getpid();
	signal(SIGUSR1, handler_allocates);
	hooks.mremap = mremap_signalled;
	pid_t pid = err == 0 ? fork() : -1;
	if (pid == 0) {
		memset(piece, 'c', 64);
		_exit(silent_pid != 1 ? 2 : gate_is_lost() ? 3 : 0);
	}
	int status = pid > 0 ? status_of(pid) : 1;
	return status != 0 ? status : is_filled(piece, 'p', 64) ? 0 : 4;
}

int
main(void) {
	free(keep(malloc(1)));
	run(moves, 0, "a silent child made amid a move leaves the part that is the file's already");
	run(interrupted_alone, 7, "one made by a handler in a fork that waits for threads inside ends");
	run(interrupted_before, 7, "and one in a fork that waits for another fork");
	run(signalled, 0, "a child of fork() that gets a signal before it has left the file is whole");
	return done_testing();
}
