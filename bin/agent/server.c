/*
 * The HTTP server, with libmicrohttpd (server.h). One thread of libmicrohttpd reads and writes all
 * connections and calls the functions on_*() here, except on_done(). It answers from the table of
 * processes and from the dead, processes that ended (dead.h), itself; requests that take time
 * become jobs (scrape.h), whose connections are suspended until on_done() has the answer.
 *
 * Invariant: what a client can use is bounded: bytes of headers (the memory pool of a connection),
 * of the path and of a body; the time to send a request and to read the answer (server_tick); the
 * number of connections: when a new one exceeds options.connections_max, make_room() ends the one
 * that has been sending its request for longest, else reading its answer for longest, but never the
 * newest; and the bytes of answers that are not read yet: when a new one exceeds UNREAD_MAX,
 * set_phase() ends those that have been read for longest.
 * Locks: conns_lock protects the list of connections. Between begin_job() and the resume in
 * on_done() only on_done() may touch the request. answers_lock, never held together with
 * conns_lock, is held where a connection is suspended, and where its answer is stored and the
 * connection is resumed: so tools that see only our locks (ThreadSanitizer) know that order too.
 * on_request() reads the answer without it, because libmicrohttpd calls it again only after the
 * connection was resumed.
 * on_done() runs under scrape.c's lock of the list of jobs, unless begin_job() calls it. Called by
 * main.c.
 */
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/input.h"
#include "listen.h"
#include "route.h"
#include "table.h"
#include "tell.h"

enum {
	POOL_BYTES = 16384,      /* of one connection: request line, headers, buffers */
	PATH_LEN_MAX = 512,         /* bytes */
	BODY_MAX = 4096,        /* bytes, which are discarded; the answer to a longer one is 413 */
	/*
	 * bytes of a body that are read. A body whose headers say more gets 413 at once; if more come
	 * without a length (chunked), the connection is closed. This is more than BODY_MAX, because a
	 * client may lose the answer 413 if the connection is closed while it still sends the body.
	 */
	DISCARDED_MAX = 1 << 20,
	TOKEN_MAX = 512,        /* bytes: at most 511 of the token file are read, and a NUL */
	TOKEN_MS = 5000,         /* the file of the token may be a pipe whose writer takes so long */
	READING_MS = 30000,      /* time for a client to send a request, idle time before it included */
	SENDING_MS = 60000,      /* time for a client to read the answer */
	DRAIN_MS = 1000,         /* server_drain() waits so long for clients to read their answers */
	/* bytes of all answers together whose clients still read them, beside twice --max-profile */
	UNREAD_MAX = 128 << 20,
	SPARE_CONNECTIONS = 64,  /* above connections_max, for those shut down but not yet closed */
};

/* A connection waits for a request, for a job or the table, or for the client to read. */
typedef enum { phase_reading, phase_working, phase_sending } phase_t;

/* Under conns_lock. */
typedef struct conn_s {
	int fd;
	phase_t phase;
	bool is_ended;         /* shut down; libmicrohttpd closes it next */
	int64_t since_ms;      /* start of the phase, of the monotonic clock */
	size_t unread;         /* bytes of its answer, if phase_sending and not is_ended */
	struct conn_s *next;
	struct conn_s *previous;
} conn_t;

/*
 * A request, to the end of its answer. Only the server's thread uses it, but from begin_job() to
 * the resume only on_done().
 */
typedef struct request_s {
	struct MHD_Connection *connection;
	route_t route;
	size_t body_bytes;     /* received so far */
	answer_t answer;       /* status 0: none yet; on_done() stores that of a job */
} request_t;

static int listener = -1;
static struct MHD_Daemon *daemon_;
static _Atomic bool is_up;    /* libmicrohttpd has started */
static char token[TOKEN_MAX]; /* set by server_listen(), before there are threads */
static size_t token_length;    /* 0: requests need no token */

static pthread_mutex_t conns_lock = PTHREAD_MUTEX_INITIALIZER;
static conn_t conns = {.next = &conns, .previous = &conns}; /* ring; by since_ms, oldest first */
static unsigned conn_count; /* in the list; under conns_lock */
static size_t unread;       /* sum of theirs; under conns_lock */

static pthread_mutex_t answers_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- connections ---- */

/*
 * Starts a phase of the connection, without an unread answer, and puts it last in the list. The
 * caller holds conns_lock.
 */
static void
conn_append(conn_t *c, phase_t phase) {
	unread -= c->unread;
	c->unread = 0;
	c->phase = phase;
	c->since_ms = client_now_ms();
	c->previous = conns.previous;
	c->next = &conns;
	conns.previous->next = c;
	conns.previous = c;
}

static void
conn_unlink(conn_t *c) {
	c->previous->next = c->next;
	c->next->previous = c->previous;
}

/*
 * Shuts the connection down, at which libmicrohttpd closes it. Moves it to the end of the list; it
 * is_ended, so find_oldest() does not find it again. The caller holds conns_lock.
 */
static void
conn_end(conn_t *c) {
	shutdown(c->fd, SHUT_RDWR);
	c->is_ended = true;
	conn_unlink(c);
	conn_append(c, c->phase);
}

/*
 * The connection that has been in this phase for longest, or NULL; never the last of the list. The
 * caller holds conns_lock.
 */
static conn_t *
find_oldest(phase_t phase) {
	for (conn_t *c = conns.next; c != conns.previous; c = c->next) {
		if (c->phase == phase && !c->is_ended) {
			return c;
		}
	}
	return NULL;
}

/*
 * Ends one connection because a new one has exceeded the limit: the oldest that has sent no whole
 * request, else the oldest that has not read its answer. Never the new one, otherwise idle
 * connections could keep all others out. The caller holds conns_lock.
 */
static void
make_room(void) {
	conn_t *c = find_oldest(phase_reading);
	c = c != NULL ? c : find_oldest(phase_sending);
	if (c != NULL) {
		conn_end(c);
	}
}

/* Called by libmicrohttpd when a connection begins and ends: keeps the list of connections. */
static void
on_connection(void *arg, struct MHD_Connection *connection, void **context,
    enum MHD_ConnectionNotificationCode code) {
	(void)arg;
	conn_t *c = *context;
	pthread_mutex_lock(&conns_lock);
	if (code == MHD_CONNECTION_NOTIFY_CLOSED && c != NULL) {
		conn_unlink(c);
		unread -= c->unread;
		conn_count--;
		free(c);
		*context = NULL;
	} else if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		c = calloc(1, sizeof(*c));
		*context = c;
	}
	if (code == MHD_CONNECTION_NOTIFY_STARTED && c != NULL) {
		c->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
		conn_append(c, phase_reading);
		if (++conn_count > options.connections_max) {
			make_room();
		}
	}
	pthread_mutex_unlock(&conns_lock);
}

/*
 * Starts a phase of the request's connection, if it is in the list. bytes: of its answer that is to
 * be sent now, else 0. If all such answers together are too many then (UNREAD_MAX), ends the
 * connections that have been sending for longest, but not this one. Takes conns_lock.
 */
static void
set_phase(struct MHD_Connection *connection, phase_t phase, size_t bytes) {
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection,
	    MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	conn_t *c = info != NULL ? info->socket_context : NULL;
	if (c != NULL) {
		pthread_mutex_lock(&conns_lock);
		conn_unlink(c);
		conn_append(c, phase);
		c->unread = c->is_ended ? 0 : bytes;
		unread += c->unread;
		size_t most = bytes > 0 ? UNREAD_MAX + 2 * (size_t)options.profile_max : SIZE_MAX;
		conn_t *old;
		while (unread > most && (old = find_oldest(phase_sending)) != NULL && old != c) {
			conn_end(old);
		}
		pthread_mutex_unlock(&conns_lock);
	}
}

void
server_tick(int64_t now_ms) {
	pthread_mutex_lock(&conns_lock);
	for (conn_t *c = conns.next, *next; c != &conns; c = next) {
		next = c->next; /* conn_end() appends c with a new since_ms: it comes again, and stays */
		int64_t age = now_ms - c->since_ms;
		if (!c->is_ended && ((c->phase == phase_reading && age > READING_MS)
		    || (c->phase == phase_sending && age > SENDING_MS))) {
			conn_end(c);
		}
	}
	pthread_mutex_unlock(&conns_lock);
}

/* ---- authorization ---- */

/* Compares all bytes of the token, so that the time does not depend on how many are right. */
static bool
is_token(const char *given) {
	size_t length = strlen(given);
	unsigned char differs = length != token_length;
	for (size_t i = 0; i < token_length; i++) {
		differs |= (unsigned char)(token[i] ^ given[length > 0 ? i % length : 0]);
	}
	return differs == 0;
}

static bool
is_host(const address_t *a, const char *host, size_t length) {
	return a->length == length && strncasecmp(a->host, host, length) == 0;
}

/*
 * Whether the host of a Host header, "host:port", is a loopback name or the address that this
 * server listens on.
 */
static bool
is_local_name(const char *text) {
	static const char *const names[] = {"localhost", "127.0.0.1", "::1"};
	const char *name = listener_name();
	address_t a, own;
	if (!try_split_address(text, strlen(text), &a)) {
		return false;
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (is_host(&a, names[i], strlen(names[i]))) {
			return true;
		}
	}
	return try_split_address(name, strlen(name), &own) && is_host(&a, own.host, own.length);
}

/* The value of a header of the request, or "". */
static const char *
header(request_t *q, const char *name) {
	const char *value = MHD_lookup_connection_value(q->connection, MHD_HEADER_KIND, name);
	return value != NULL ? value : "";
}

/* Whether the request carries the token: "Bearer TOKEN", or the password of any user (Basic). */
static bool
has_token(request_t *q) {
	const char *given = header(q, "Authorization");
	if (strncasecmp(given, "Bearer ", 7) == 0) {
		return is_token(given + 7);
	}
	char *password = NULL;
	char *user = MHD_basic_auth_get_username_password(q->connection, &password);
	bool is_right = user != NULL && password != NULL && is_token(password);
	MHD_free(user);
	MHD_free(password);
	return is_right;
}

/*
 * Whether a page of another server makes this request for a job. Any such page counts if the path
 * is for POST. The other jobs may start a session too; there the page counts only if it asks
 * without a click of the user, as by an image, because a user may follow a link from elsewhere. A
 * page of another port of this host is "same-site". Browsers do not tell a server by plain HTTP
 * where a GET comes from, unless its host is a loopback name: others are kept out by the token.
 */
static bool
is_of_foreign_page(request_t *q) {
	const char *origin = header(q, "Origin"), *host = strstr(origin, "://");
	const char *site = header(q, "Sec-Fetch-Site");
	if (q->route.place != place_job) {
		return false;
	}
	if (q->route.is_post) {
		return origin[0] != '\0' && (host == NULL || strcmp(host + 3, header(q, "Host")) != 0);
	}
	return site[0] != '\0' && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0
	    && header(q, "Sec-Fetch-User")[0] == '\0';
}

/*
 * Checks the token, and that no foreign web page in a local browser makes the request. A page may
 * do so by a host name that its owner lets resolve to this machine (DNS rebinding); this is checked
 * only if no token is needed and the server listens on a loopback address. is_of_foreign_page()
 * finds the other ways. On a path for POST also checks --allow-control, whatever the method is. If
 * a check fails, sets q->answer to the refusal and returns false.
 */
static bool
try_admit(request_t *q) {
	const char *host = header(q, "Host");
	if (token_length > 0 && !has_token(q)) {
		answer_line(&q->answer, 401, "this jeprofd wants its token: Authorization: Bearer TOKEN, "
		    "or in a browser as the password of any user");
		return false;
	}
	if (token_length == 0 && options.unix_path == NULL && is_listener_local()
	    && !is_local_name(host)) {
		answer_line(&q->answer, 403, "the Host of the request is not this machine");
		return false;
	}
	if (is_of_foreign_page(q)) {
		answer_line(&q->answer, 403, "a page from elsewhere may not change anything here");
		return false;
	}
	if (q->route.is_post && !options.may_control) {
		answer_line(&q->answer, 403, "this jeprofd only reads; jeprofd --allow-control would start "
		    "and stop");
		return false;
	}
	return true;
}

/* ---- answers ---- */

/* The name under which a browser saves the profile that the order asks for. */
static const char *
file_disposition(const order_t *o) {
	return o->is_otlp ? "attachment; filename=\"heap.otlp.pb\"" : o->kind == job_allocs
	    ? "attachment; filename=\"allocs.pb.gz\"" : "attachment; filename=\"heap.pb.gz\"";
}

/*
 * Queues q->answer as the response, which then owns its body. MHD_NO closes the connection. Without
 * memory for a header it is sent without that.
 */
static enum MHD_Result
send_answer(request_t *q) {
	answer_t *a = &q->answer;
	struct MHD_Response *response = MHD_create_response_from_buffer(a->length, a->body,
	    MHD_RESPMEM_MUST_FREE);
	if (response == NULL) {
		return MHD_NO;
	}
	a->body = NULL; /* the response frees it */
	MHD_add_response_header(response, "Content-Type", a->type);
	MHD_add_response_header(response, "Cache-Control", "no-store");
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(response, "Content-Security-Policy",
	    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src "
	    "'self'; form-action 'self'; frame-ancestors 'none'");
	if (a->status == 401) {
		MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
		MHD_add_response_header(response, "WWW-Authenticate",
		    "Basic realm=\"jeprofd\", charset=\"UTF-8\"");
	}
	if (a->status == 301) {
		char page[DEAD_KEY + 1];
		const order_t *o = &q->route.order;
		if (o->key[0] != '\0') {
			snprintf(page, sizeof(page), "%s/", o->key);
		} else {
			snprintf(page, sizeof(page), "%d/", o->pid);
		}
		MHD_add_response_header(response, "Location", page);
	}
	if (a->status == 405) {
		MHD_add_response_header(response, "Allow", q->route.is_post ? "POST" : "GET, HEAD");
	}
	if (a->status == 200 && q->route.place == place_job && !q->route.is_post
	    && !q->route.order.is_raw) {
		MHD_add_response_header(response, "Content-Disposition", file_disposition(&q->route.order));
	}
	set_phase(q->connection, phase_sending, a->length);
	enum MHD_Result result = MHD_queue_response(q->connection, a->status, response);
	MHD_destroy_response(response);
	return result;
}

/*
 * The done() of a job: stores the answer, whose body it takes, and resumes the connection. Called
 * by scrape.c, in the thread of the job or in main's, and by begin_job() if no job was started.
 */
static void
on_done(void *arg, const answer_t *answer) {
	request_t *q = arg;
	pthread_mutex_lock(&answers_lock);
	q->answer = *answer;
	MHD_resume_connection(q->connection);
	pthread_mutex_unlock(&answers_lock);
}

/* Suspends the connection and starts the job; on_done() resumes it. Answers 503 if none starts. */
static enum MHD_Result
begin_job(request_t *q) {
	pthread_mutex_lock(&answers_lock);
	MHD_suspend_connection(q->connection);
	pthread_mutex_unlock(&answers_lock);
	if (scrape_begin(&q->route.order, on_done, q)) {
		return MHD_YES;
	}
	answer_t full = {0};
	answer_line(&full, 503, "no room for one more request of this kind now: try again");
	on_done(q, &full);
	return MHD_YES;
}

/* The address for scrapers: the Host of the request if it is plain, else the listening address. */
static const char *
reached_by(request_t *q) {
	static const char plain[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-:[]";
	const char *host = header(q, "Host");
	return host[0] != '\0' && strspn(host, plain) == strlen(host) && strlen(host) < 256 ? host
	    : listener_name();
}

/* Sets the answer of a request that needs no job, from the table of processes or from the dead. */
static void
answer_from_table(request_t *q) {
	text_t t = {0};
	bool is_there = true, is_openmetrics = strstr(header(q, "Accept"),
	    "application/openmetrics-text") != NULL;
	const char *type = "text/html; charset=utf-8";
	const char *metrics = is_openmetrics ? "application/openmetrics-text; version=1.0.0; "
	    "charset=utf-8" : "text/plain; version=0.0.4; charset=utf-8";
	int pid = q->route.order.pid;
	switch (q->route.place) {
	case place_targets:
		type = "application/json";
		tell_targets(&t, reached_by(q));
		break;
	case place_metrics:
		type = metrics;
		tell_metrics(&t, is_openmetrics);
		break;
	case place_process_metrics:
		type = metrics;
		is_there = tell_process_metrics(&t, pid, is_openmetrics);
		break;
	case place_page:
		is_there = tell_page(&t, pid);
		break;
	case place_dead_list:
		tell_dead_list(&t);
		break;
	case place_dead:
		is_there = tell_dead(&t, q->route.order.key);
		break;
	default:
		tell_index(&t);
	}
	if (!is_there || t.is_cut || t.at == NULL) {
		free(t.at);
		if (is_there) {
			answer_line(&q->answer, 503, "jeprofd has no memory");
		} else if (q->route.place == place_dead) {
			answer_line(&q->answer, 404, "nothing is kept of a process %s", q->route.order.key);
		} else {
			answer_line(&q->answer, 404, "no process %d that runs the library", pid);
		}
		return;
	}
	q->answer = (answer_t){.status = 200, .type = type, .body = t.at, .length = t.length};
}

/* ---- requests ---- */

static enum MHD_Result
on_argument(void *arg, enum MHD_ValueKind kind, const char *key, const char *value) {
	(void)kind;
	request_t *q = arg;
	route_argument(key, value, &q->route);
	return MHD_YES;
}

static void
refuse_large_body(request_t *q) {
	answer_line(&q->answer, 413, "a body of more than %d bytes", BODY_MAX);
}

/*
 * Parses the request line, checks whether the client may make the request, and counts it. Sets
 * q->answer if the request is refused.
 */
static void
parse_request(request_t *q, const char *path, const char *method) {
	bool is_get = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
	bool is_post = strcmp(method, "POST") == 0;
	table_lock();
	counts.requests++;
	table_unlock();
	if (strlen(path) > PATH_LEN_MAX) {
		answer_line(&q->answer, 414, "the path is longer than %d bytes", PATH_LEN_MAX);
		return;
	}
	if (strtoull(header(q, "Content-Length"), NULL, 10) > DISCARDED_MAX) {
		refuse_large_body(q);
		return;
	}
	route_path(path, &q->route);
	MHD_get_connection_values(q->connection, MHD_GET_ARGUMENT_KIND, on_argument, q);
	route_finish(&q->route);
	if (!try_admit(q)) {
		return;
	}
	if (q->route.fault != 0) {
		answer_line(&q->answer, q->route.fault, "%s", q->route.why);
	} else if (!is_get && !is_post) {
		answer_line(&q->answer, 405, "%s is not served here", method);
	} else if (q->route.is_post != is_post) {
		answer_line(&q->answer, 405, "this path wants %s", q->route.is_post ? "POST" : "GET");
	}
}

/*
 * Sets q->answer to a refusal if the body of the request was too long, or if the path is for POST
 * and there was a body: the client may have put the arguments there, but only those behind the
 * path are read.
 */
static void
refuse_body(request_t *q) {
	if (q->body_bytes > BODY_MAX) {
		refuse_large_body(q);
	} else if (q->body_bytes > 0 && q->route.is_post) {
		answer_line(&q->answer, 400, "a body is not read: arguments stand behind the ? of the "
		    "path");
	}
}

/*
 * Called by libmicrohttpd with the request line and the headers, then with each piece of the body,
 * then with an empty piece, and once more after a suspended connection was resumed. MHD_NO closes
 * the connection.
 */
static enum MHD_Result
on_request(void *arg, struct MHD_Connection *connection, const char *path, const char *method,
    const char *version, const char *body, size_t *body_bytes, void **context) {
	(void)arg;
	(void)version;
	(void)body;
	request_t *q = *context;
	if (q == NULL) {
		q = calloc(1, sizeof(*q));
		*context = q;
		if (q == NULL) {
			return MHD_NO;
		}
		q->connection = connection;
		parse_request(q, path, method);
		return q->answer.status != 0 ? send_answer(q) : MHD_YES;
	}
	if (*body_bytes > 0) {
		q->body_bytes += *body_bytes;
		*body_bytes = 0;
		return q->body_bytes <= DISCARDED_MAX ? MHD_YES : MHD_NO;
	}
	if (q->answer.status == 0) { /* so no job was begun for it: the answer of a job has a status */
		refuse_body(q);
	}
	if (q->answer.status == 0) {
		set_phase(connection, phase_working, 0);
		if (q->route.place == place_job) {
			return begin_job(q);
		}
		answer_from_table(q);
	}
	return send_answer(q);
}

/* Called by libmicrohttpd at the end of a request, also of one that was not answered. */
static void
on_completed(void *arg, struct MHD_Connection *connection, void **context,
    enum MHD_RequestTerminationCode code) {
	(void)arg;
	(void)code;
	request_t *q = *context;
	if (q != NULL) {
		free(q->answer.body);
		free(q);
		*context = NULL;
	}
	set_phase(connection, phase_reading, 0);
}

/* Paths and arguments are not unescaped, because none of this server needs escapes. */
static size_t
leave_escaped(void *arg, struct MHD_Connection *connection, char *text) {
	(void)arg;
	(void)connection;
	return strlen(text);
}

/* ---- start and stop ---- */

/* Reads the first line of the file, 8 to 510 bytes, into `token`; else exits with the reason. */
static void
read_token(const char *path) {
	const char *why = NULL;
	int fd = client_open_input(path, TOKEN_MS, &why);
	ssize_t got = fd >= 0 ? 1 : -1;
	size_t n = 0;
	/* A pipe may give the line in parts. */
	while (got > 0 && n < sizeof(token) - 1 && memchr(token, '\n', n) == NULL) {
		got = read(fd, token + n, sizeof(token) - 1 - n);
		n += got > 0 ? (size_t)got : 0;
		got = got < 0 && errno == EINTR ? 1 : got;
	}
	if (got < 0) {
		leave(1, "--token-file: %s: %s", path, fd < 0 ? why : strerror(errno));
	}
	close(fd);
	token[n] = '\0';
	while (token_length < n && (unsigned char)token[token_length] >= ' ') {
		token_length++;
	}
	if (token_length < n && token[token_length] != '\r' && token[token_length] != '\n') {
		leave(1, "--token-file: %s: the token has control characters, which no request can have",
		    path);
	}
	if (token_length == sizeof(token) - 1) {
		leave(1, "--token-file: %s: the token has more than %zu bytes", path, sizeof(token) - 2);
	}
	token[token_length] = '\0';
	if (token_length < 8) {
		leave(1, "--token-file: %s: the token has less than 8 bytes", path);
	}
}

void
server_listen(void) {
	if (options.token_file != NULL) {
		read_token(options.token_file);
	}
	listener = open_listener();
}

/*
 * Takes the messages of libmicrohttpd: tells those from before the server runs, which say why it
 * does not; later ones are about clients that disconnect early, and not worth a line.
 */
static void
on_message(void *arg, const char *format, va_list args) {
	char line[256];
	(void)arg;
	if (!is_up) {
		vsnprintf(line, sizeof(line), format, args);
		talk("libmicrohttpd: %.*s", (int)strcspn(line, "\n"), line);
	}
}

void
server_start(void) {
	daemon_ = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL
	    | MHD_ALLOW_SUSPEND_RESUME
	    | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request, NULL,
	    MHD_OPTION_EXTERNAL_LOGGER, on_message, NULL,
	    MHD_OPTION_LISTEN_SOCKET, listener,
	    MHD_OPTION_CONNECTION_LIMIT, (unsigned)options.connections_max + SPARE_CONNECTIONS,
	    MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(SENDING_MS / 1000),
	    MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES,
	    MHD_OPTION_NOTIFY_CONNECTION, on_connection, NULL,
	    MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL,
	    MHD_OPTION_UNESCAPE_CALLBACK, leave_escaped, NULL,
	    MHD_OPTION_STRICT_FOR_CLIENT, 1,
	    MHD_OPTION_END);
	if (daemon_ == NULL) {
		leave(1, "libmicrohttpd does not start");
	}
	is_up = true;
	talk("listens on %s%s", options.unix_path != NULL ? "unix:" : "http://", listener_name());
}

/* Whether a request was received whole and its answer is not sent yet. */
static bool
is_answering(void) {
	bool is = false;
	pthread_mutex_lock(&conns_lock);
	for (const conn_t *c = conns.next; c != &conns && !is; c = c->next) {
		is = c->phase != phase_reading && !c->is_ended;
	}
	pthread_mutex_unlock(&conns_lock);
	return is;
}

void
server_drain(void) {
	int64_t end_ms = client_now_ms() + DRAIN_MS;
	MHD_quiesce_daemon(daemon_); /* no connection begins */
	while (is_answering() && client_now_ms() < end_ms) {
		client_sleep_ms(10);
	}
}

void
server_stop(void) {
	remove_listener();
	MHD_stop_daemon(daemon_);
}
