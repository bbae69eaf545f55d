/* The socket that jeprofd listens on. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* Opens the socket that --listen or --unix names; exits with the reason if it cannot. */
int open_listener(void);

/* The address it listens on: "127.0.0.1:7071", or the path of the Unix socket. */
const char *listener_name(void);

/*
 * Whether other machines cannot connect. Then a Host header that does not name this machine comes
 * from a web page that tries DNS rebinding.
 */
bool is_listener_local(void);

/* Removes the file of the Unix socket, if there is one. */
void remove_listener(void);
