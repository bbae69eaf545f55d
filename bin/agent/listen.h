/*
 * The socket that jeprofd listens on; there is one. Called by server.c; try_split_address() also by
 * options.c. No locks: it is opened before there are other threads, and afterwards its name is only
 * read.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* The parts of "HOST:PORT" or "HOST"; an IPv6 address, and nothing else, stands in brackets. */
typedef struct address_s {
	const char *host; /* in the text, without brackets */
	size_t length;    /* of the host; at least 1 */
	int port;         /* 0 to 65535; -1: there is none */
} address_t;

/*
 * Splits the first `length` bytes of a string, which a NUL ends. False if they are malformed; *a is
 * undefined then.
 */
bool try_split_address(const char *text, size_t length, address_t *a);

/*
 * Opens the socket that --listen or --unix names, else 127.0.0.1:7071, and returns its descriptor;
 * exits with the reason if it cannot (code 2: the option is malformed, else 1). Warns on stderr if
 * other machines may ask without a token. The functions below are about this socket: call them
 * afterwards.
 */
int open_listener(void);

/*
 * The address it listens on: "127.0.0.1:7071" (with the port that the kernel chose for port 0), or
 * the path of the Unix socket. The text is static.
 */
const char *listener_name(void);

/*
 * Whether only this machine can connect: the socket is a Unix socket or bound to a loopback
 * address. On a loopback address and without --token-file, server.c refuses a request whose Host
 * header names another machine. It comes from a web page that tries DNS rebinding: the name of the
 * page was given our address.
 */
bool is_listener_local(void);

/*
 * Removes the file of the Unix socket, if there is one, and if no other file has taken its name; to
 * be called before the socket is closed.
 */
void remove_listener(void);
