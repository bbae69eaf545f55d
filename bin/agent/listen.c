/*
 * Opens the listening socket, of TCP or a Unix socket, and remembers its name (listen.h).
 * Invariant: a Unix socket is accessible to its owner and group only, and replaces no file but a
 * socket that nobody listens on. No locks: server.c opens the socket before there are other
 * threads; afterwards `name` and `is_local` are only read. On failure each open_*() exits with the
 * reason. Called by server.c; try_split_address() also by options.c.
 */
#include "agent.h"

#include "listen.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define DEFAULT_LISTEN "127.0.0.1:7071"

static char name[320];       /* see listener_name() */
static bool is_local = true; /* see is_listener_local() */

/* Whether the path is a Unix socket that refuses connections, because nobody listens on it. */
static bool
is_left_over(const struct sockaddr_un *address) {
	struct stat st;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool is_refused = fd >= 0
	    && connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0
	    && errno == ECONNREFUSED;
	if (fd >= 0) {
		close(fd);
	}
	return is_refused && lstat(address->sun_path, &st) == 0 && S_ISSOCK(st.st_mode);
}

static int
open_unix(const char *path) {
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(address.sun_path)) {
		leave(2, "--unix: %s is longer than %zu bytes", path, sizeof(address.sun_path) - 1);
	}
	strcpy(address.sun_path, path);
	if (is_left_over(&address)) {
		unlink(path);
	}
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	mode_t mask = umask(0117);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
		leave(1, "--unix: %s: %s", path, strerror(errno));
	}
	umask(mask);
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
		leave(2, "--listen: \"%s\" is no ADDR:PORT with an address in digits", text);
	}
	int one = 1, fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	}
	if (fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) != 0) {
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
warn_open(void) {
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
	if (listen(fd, SOMAXCONN) != 0) {
		leave(1, "%s: %s", name, strerror(errno));
	}
	warn_open();
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
	if (options.unix_path != NULL) {
		unlink(options.unix_path);
	}
}
