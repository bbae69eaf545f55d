/* The socket that jeprofd listens on. Called by server.c. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* Opens the socket that --listen or --unix names; exits with the reason if it cannot. */
int open_listener(void);

/*
 * The address it listens on: "127.0.0.1:7071" (with the port that the kernel chose for port 0), or
 * the path of the Unix socket.
 */
const char *listener_name(void);

/*
 * Whether other machines cannot connect, because the socket is a Unix socket or bound to a loopback
 * address. Then a Host header that does not name this machine is that of a web page that tries DNS
 * rebinding.
 */
bool is_listener_local(void);

/* Removes the file of the Unix socket, if there is one. */
void remove_listener(void);
