/*
 * Opens the listening socket, of TCP or a Unix socket, and remembers its name (listen.h).
 * Invariant: a Unix socket is accessible to its owner and group only, and replaces no file but a
 * socket that nobody listens on; so that of two that start at once none takes the other's for such
 * a one, each finds out, binds and listens under a lock of the directory (flock). No locks of
 * threads: server.c opens the socket before there are others; afterwards the static data are only
 * read. On failure each open_*() exits with the reason. Called by server.c; try_split_address()
 * also by options.c.
 */
#include "agent.h"

#include "listen.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/clock.h"

enum { LOCK_MS = 1000 }; /* how long the lock of the directory is waited for */

#define DEFAULT_LISTEN "127.0.0.1:7071"

static char name[320];       /* see listener_name() */
static bool is_local = true; /* see is_listener_local() */

static struct stat own;       /* the file of the Unix socket */

/* Binds the socket and listens; false and errno if it cannot. */
static bool
try_listen(int fd, const struct sockaddr *address, socklen_t length) {
	return fd >= 0 && bind(fd, address, length) == 0 && listen(fd, SOMAXCONN) == 0;
}

/*
 * Whether the path is a Unix socket that an earlier process left: it refuses connections. It does
 * not wait: a full backlog gives EAGAIN, and somebody listens there, though stopped.
 */
static bool
is_left_over(const struct sockaddr_un *address) {
	struct stat st;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool is_refused = fd >= 0
	    && connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0
	    && errno == ECONNREFUSED;
	if (fd >= 0) {
		close(fd);
	}
	return is_refused && lstat(address->sun_path, &st) == 0 && S_ISSOCK(st.st_mode);
}

/*
 * Takes the lock of the directory of this path. Returns a descriptor, which holds it until it is
 * closed; -1 if the directory cannot be read, or if another process keeps the lock.
 */
static int
lock_directory(const char *path) {
	char directory[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];
	const char *slash = strrchr(path, '/');
	snprintf(directory, sizeof(directory), "%.*s", slash == NULL ? 1 : (int)(slash - path + 1),
	    slash == NULL ? "." : path);
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int64_t end = client_now_ms() + LOCK_MS;
	while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
		if (errno != EWOULDBLOCK || client_now_ms() >= end) {
			close(fd);
			return -1;
		}
		client_sleep_ms(10);
	}
	return fd;
}

static int
open_unix(const char *path) {
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(address.sun_path)) {
		leave(2, "--unix: %.120s... is longer than %zu bytes", path, sizeof(address.sun_path) - 1);
	}
	strcpy(address.sun_path, path);
	int lock = lock_directory(path);
	if (lock >= 0 && is_left_over(&address)) {
		unlink(path);
	}
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	mode_t mask = umask(0117);
	if (!try_listen(fd, (struct sockaddr *)&address, sizeof(address)) || lstat(path, &own) != 0) {
		leave(1, "--unix: %s: %s", path, strerror(errno));
	}
	umask(mask);
	if (lock >= 0) {
		close(lock);
	}
	snprintf(name, sizeof(name), "%s", path);
	return fd;
}

bool
try_split_address(const char *text, size_t length, address_t *a) {
	bool has_brackets = text[0] == '[';
	const char *end = text + length, *host = text + has_brackets;
	const char *host_end = memchr(host, has_brackets ? ']' : ':', (size_t)(end - host));
	host_end = host_end == NULL && !has_brackets ? end : host_end;
	if (host_end == NULL || host_end == host
	    || (has_brackets && memchr(host, ':', (size_t)(host_end - host)) == NULL)) {
		return false;
	}
	*a = (address_t){host, (size_t)(host_end - host), -1};
	const char *colon = host_end + has_brackets;
	if (colon == end) {
		return true;
	}
	size_t digits = *colon == ':' ? strspn(colon + 1, "0123456789") : 0;
	unsigned long port = digits <= 5 ? strtoul(colon + 1, NULL, 10) : ULONG_MAX;
	a->port = (int)port;
	return digits > 0 && colon + 1 + digits == end && port <= 65535;
}

static bool
is_loopback(const struct sockaddr *address) {
	if (address->sa_family == AF_INET) {
		return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
	}
	return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

/* Sets `name` to the address and port that the socket is bound to. */
static void
name_address(int fd) {
	struct sockaddr_storage address;
	socklen_t length = sizeof(address);
	char host[256], port[16];
	getsockname(fd, (struct sockaddr *)&address, &length);
	getnameinfo((struct sockaddr *)&address, length, host, sizeof(host), port, sizeof(port),
	    NI_NUMERICHOST | NI_NUMERICSERV);
	snprintf(name, sizeof(name), address.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

static int
open_address(const char *text) {
	char host[256], port[16];
	address_t a;
	struct addrinfo *found = NULL;
	struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICHOST};
	bool is_good = try_split_address(text, strlen(text), &a) && a.port >= 0
	    && a.length < sizeof(host);
	if (is_good) {
		snprintf(host, sizeof(host), "%.*s", (int)a.length, a.host);
		snprintf(port, sizeof(port), "%d", a.port);
	}
	if (!is_good || getaddrinfo(host, port, &want, &found) != 0) {
		leave(2, "--listen: \"%s\" is no ADDR:PORT with an address and a port in digits", text);
	}
	int one = 1, fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	}
	if (!try_listen(fd, found->ai_addr, found->ai_addrlen)) {
		leave(1, "--listen: %s: %s", text, strerror(errno));
	}
	is_local = is_loopback(found->ai_addr);
	freeaddrinfo(found);
	name_address(fd);
	return fd;
}

/*
 * Warns if other machines can connect and no token is required, because profiles show names of
 * functions and amounts of memory.
 */
static void
warn_if_open_to_others(void) {
	if (!is_local && options.token_file == NULL) {
		talk("warning: whoever reaches %s may %s: there is no --token-file", name,
		    options.may_control ? "read profiles, start and stop sessions"
		    : options.is_passive ? "read profiles" : "read profiles and start sessions");
	}
}

int
open_listener(void) {
	int fd = options.unix_path != NULL ? open_unix(options.unix_path)
	    : open_address(options.listen != NULL ? options.listen : DEFAULT_LISTEN);
	warn_if_open_to_others();
	return fd;
}

const char *
listener_name(void) {
	return name;
}

bool
is_listener_local(void) {
	return is_local;
}

void
remove_listener(void) {
	struct stat st;
	if (options.unix_path != NULL && lstat(options.unix_path, &st) == 0 && st.st_dev == own.st_dev
	    && st.st_ino == own.st_ino) {
		unlink(options.unix_path);
	}
}
