/*
 * The HTTP server: checks who may ask, answers by path, and limits what clients may use
 * (server.c). Called by main.c: listen, start, tick, drain and stop, in this order.
 */
#pragma once
#include "agent.h"

/*
 * Reads the token file and opens the socket that the options name, before rights are dropped; exits
 * with the reason if it cannot.
 */
void server_listen(void);

/* Starts the thread that serves; exits with the reason if it cannot. */
void server_start(void);

/*
 * Ends connections that take more than 30 s to send a request (idle ones too) or 60 s to read the
 * answer. now_ms: client_now_ms(), not later than now. Called by main() about every second.
 */
void server_tick(int64_t now_ms);

/* Takes no new connection, and waits up to a second until the answers that are due are sent. */
void server_drain(void);

/*
 * Stops serving and removes a Unix socket. To be called after a scrape_tick() that has answered all
 * jobs, because libmicrohttpd must not be stopped while connections are suspended.
 */
void server_stop(void);
