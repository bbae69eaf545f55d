/*
 * The HTTP server: authorizes requests, dispatches them by path and limits what one client may use.
 * Called by main.c.
 */
#pragma once
#include "agent.h"

/*
 * Opens the socket that the options name, before rights are dropped; leaves with the reason if it
 * cannot.
 */
void server_listen(void);

/* Starts to serve; leaves with the reason if it cannot. */
void server_start(void);

/* Ends connections that are too slow. Called by main each second. */
void server_tick(int64_t now_ms);

/* Stops serving and removes a Unix socket. scrape_tick() has answered all jobs before. */
void server_stop(void);
