/* The socket that jeprofd listens on. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* The descriptor of a socket at --listen or --unix; leaves with the reason if there can be none. */
int open_listener(void);

/* Where it listens: "127.0.0.1:7071", or the path. */
const char *listener_name(void);

/*
 * Nobody from another machine reaches it, so a name other than of this machine in a request is a
 * trick.
 */
bool is_listener_local(void);

/* Removes the Unix socket. */
void remove_listener(void);
