/*
 * Pushes profiles (push.h): sends them as gzipped OTLP requests to a receiver. push_tick() starts
 * jobs in scrape.c that make them: in each --push-interval one for each process that --push-select
 * admits, but at most BEGIN_MAX in a tick. push_done() queues a profile that is made. A thread of
 * this file, the sender, sends what is queued, by libcurl.
 *
 * Invariant: `queue` holds at most QUEUE_MAX bytes; where a new profile does not fit, the oldest
 * ones are dropped and counted. Only the sending thread waits for the receiver, so that scrapes
 * never do. It sends the oldest profile until the receiver takes or refuses it; one that failed is
 * dropped if newer ones have filled the queue meanwhile. After an attempt in vain it waits: as long
 * as the receiver asks (at most ASKED_MAX_MS), else its own wait. That is WAIT_FIRST_MS at first,
 * and again once a profile is taken or refused; each attempt in vain doubles it, up to
 * WAIT_MAX_MS, also one after which the receiver's wait was used.
 *
 * Locks: `lock` protects the queue and the figures; functions named *_locked run under it. One of
 * two locks may be held when it is taken: scrape.c's of jobs (push_done) or the table's
 * (metrics.c). No other lock is taken under it, and it is not held while sending. push_tick() takes
 * `lock`, releases it, and then takes the table's. Called by main.c, and by metrics.c for the
 * figures.
 */
#include "push.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "scrape.h"
#include "table.h"

#if HAVE_CURL
#include <curl/curl.h>
#endif

enum {
	QUEUE_MAX = 8 << 20,     /* bytes of the profiles that wait, as they are sent */
	BEGIN_MAX = 4,           /* profiles begun in one tick */
	TICK_MS = 1000,           /* between two ticks, at least */
	WAIT_FIRST_MS = 1000,     /* before the second attempt */
	WAIT_MAX_MS = 60000,     /* longest wait for which the receiver did not ask */
	ASKED_MAX_MS = 600000,   /* longest wait, however long the receiver asks for */
	SEND_MS = 20000,          /* time limit of one attempt */
	END_SECONDS = 3,          /* push_stop() waits this long for the sender to give up an attempt */
	ANSWER_MAX = 64 << 10,   /* bytes of an answer that are kept */
};

/* A profile that waits, in the list from the oldest to the newest. */
typedef struct parcel_s {
	char *body;
	size_t length;
	struct parcel_s *next;
} parcel_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed; /* on the monotonic clock: a parcel came, or the end */

static struct {
	parcel_t *oldest, **newest_next; /* newest_next: where the next parcel is linked */
	push_figures_t figures; /* figures.queued: bytes of the list */
	bool is_ending;         /* push_stop() was called */
} queue = {.newest_next = &queue.oldest};

/*
 * How an attempt ended. push_sent: the receiver took the parcel; push_later: it did not, and
 * another attempt may succeed; push_never: no other attempt would.
 */
typedef enum { push_sent, push_later, push_never } verdict_t;

void
push_read(push_figures_t *f) {
	pthread_mutex_lock(&lock);
	*f = queue.figures;
	pthread_mutex_unlock(&lock);
}

void
push_loss(const push_figures_t *f, char text[PUSH_LOSS]) {
	snprintf(text, PUSH_LOSS, "--push: %" PRIu64 " profiles were dropped: %" PRIu64 " were larger "
	    "than %dM, for the others the queue of %dM had no room", f->dropped, f->large,
	    QUEUE_MAX >> 20, QUEUE_MAX >> 20);
}

/* Tells that profiles were dropped: the first time, and when there are twice as many as then. */
static void
tell_loss(void) {
	static uint64_t told;
	char text[PUSH_LOSS];
	push_figures_t f;
	push_read(&f);
	if (f.dropped > 2 * told) {
		told = f.dropped;
		push_loss(&f, text);
		talk("%s", text);
	}
}

/* ---- the queue ---- */

/* Takes the oldest parcel out of a queue that has one; the caller holds the lock. */
static parcel_t *
take_oldest_locked(void) {
	parcel_t *p = queue.oldest;
	queue.oldest = p->next;
	if (queue.oldest == NULL) {
		queue.newest_next = &queue.oldest;
	}
	queue.figures.queued -= p->length;
	return p;
}

static void
parcel_free(parcel_t *p) {
	free(p->body);
	free(p);
}

/*
 * Queues a body, which it takes, and drops the oldest parcels that no longer fit. A body that is
 * larger than QUEUE_MAX, or for which there is no memory, is dropped itself.
 */
static void
enqueue(char *body, size_t length) {
	parcel_t *p = length <= QUEUE_MAX ? malloc(sizeof(*p)) : NULL;
	pthread_mutex_lock(&lock);
	if (p == NULL) {
		free(body);
		queue.figures.dropped++;
		queue.figures.large += length > QUEUE_MAX;
	} else {
		while (queue.figures.queued + length > QUEUE_MAX) {
			parcel_free(take_oldest_locked());
			queue.figures.dropped++;
		}
		*p = (parcel_t){body, length, NULL};
		*queue.newest_next = p;
		queue.newest_next = &p->next;
		queue.figures.queued += length;
		pthread_cond_signal(&changed);
	}
	pthread_mutex_unlock(&lock);
}

/* ---- making profiles ---- */

/*
 * The done() of a job, called under scrape.c's lock of jobs: queues a profile. Frees the body of
 * any other answer, which tells that a job failed; such failures are not counted here.
 */
static void
push_done(void *arg, const answer_t *answer) {
	(void)arg;
	if (answer->status == 200 && answer->body != NULL) {
		enqueue(answer->body, answer->length);
	} else {
		free(answer->body);
	}
}

/*
 * Whether the process has the label and value of --push-select (comm, exe, unit, user,
 * service_name); true without that option. The caller holds the table's lock.
 */
static bool
is_selected(const proc_t *p) {
	const char *select = options.push_select;
	label_t labels[PROC_LABELS];
	size_t n = proc_labels(p, labels), length = select != NULL ? strcspn(select, "=") : 0;
	for (size_t i = 0; select != NULL && i < n; i++) {
		if (strlen(labels[i].key) == length && memcmp(labels[i].key, select, length) == 0) {
			return strcmp(labels[i].value, select + length + 1) == 0;
		}
	}
	return select == NULL;
}

/*
 * The process of the list that is selected and due for longest; NULL: none is due. The caller holds
 * the table's lock.
 */
static proc_t *
find_due(proc_t *const *list, int64_t now_ms) {
	proc_t *due = NULL;
	for (proc_t *const *p = list; *p != NULL; p++) {
		if ((*p)->push_again_ms <= now_ms && is_selected(*p)
		    && (due == NULL || (*p)->push_again_ms < due->push_again_ms)) {
			due = *p;
		}
	}
	return due;
}

/*
 * The time from one push of a process to the next, in ms: --push-interval, or longer if there are
 * more processes of the list that are selected than BEGIN_MAX pushes a second can serve. The
 * caller holds the table's lock.
 */
static uint64_t
turn_ms(proc_t *const *list) {
	uint64_t selected = 0;
	for (proc_t *const *p = list; *p != NULL; p++) {
		selected += is_selected(*p);
	}
	uint64_t needed = selected * TICK_MS / BEGIN_MAX;
	return needed > options.push_ms ? needed : options.push_ms;
}

typedef struct due_s {
	int pid;
	int64_t since_ms; /* when its profile became due, on the monotonic clock */
} due_t;

/*
 * Collects up to BEGIN_MAX processes that are due, sets their next time; returns how many. Sets
 * *again_ms to turn_ms().
 */
static size_t
collect_due(int64_t now_ms, due_t *due, uint64_t *again_ms) {
	size_t n = 0;
	proc_t *p;
	table_lock();
	proc_t *const *list = table_sorted();
	*again_ms = turn_ms(list);
	while (n < BEGIN_MAX && (p = find_due(list, now_ms)) != NULL) {
		due[n++] = (due_t){p->pid, p->push_again_ms};
		p->push_again_ms = now_ms + (int64_t)options.push_ms;
	}
	table_unlock();
	return n;
}

/*
 * After a job that was not started: the process is due again, since the same time as before. If
 * another process has got its pid meanwhile, that one is due.
 */
static void
make_due_again(const due_t *due) {
	table_lock();
	proc_t *p = table_find(due->pid);
	if (p != NULL) {
		p->push_again_ms = due->since_ms;
	}
	table_unlock();
}

void
push_tick(int64_t now_ms) {
	due_t due[BEGIN_MAX];
	uint64_t again_ms = 0;
	tell_loss();
	size_t n = options.push_url != NULL ? collect_due(now_ms, due, &again_ms) : 0;
	for (size_t i = 0; i < n; i++) {
		order_t order = {.kind = job_heap, .pid = due[i].pid, .is_otlp = true, .is_packed = true,
		    .push_again_ms = again_ms};
		if (!scrape_begin(&order, push_done, NULL)) {
			make_due_again(&due[i]);
		}
	}
}

#if HAVE_CURL

/* ---- sending ---- */

/* What the receiver answered. */
typedef struct reply_s {
	unsigned char body[ANSWER_MAX];
	size_t length;
} reply_t;

static size_t
on_body(char *data, size_t one, size_t n, void *arg) {
	reply_t *r = arg;
	size_t room = sizeof(r->body) - r->length, take = n < room ? n : room;
	memcpy(r->body + r->length, data, take);
	r->length += take;
	return one * n; /* what is longer is read and forgotten */
}

/* Reads a varint at *at and moves *at behind it; 0 if it is not complete. */
static uint64_t
varint_read(const unsigned char **at, const unsigned char *end) {
	uint64_t value = 0;
	for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
		unsigned char c = *(*at)++;
		value |= (uint64_t)(c & 127) << shift;
		if (c < 128) {
			return value;
		}
	}
	return 0;
}

/*
 * How many profiles the answer of a receiver that took the request says it rejected: field 1 of the
 * message that is field 1 of its answer.
 */
static uint64_t
rejected_read(const reply_t *r) {
	const unsigned char *at = r->body, *end = r->body + r->length;
	if (varint_read(&at, end) != (1 << 3 | 2)) {
		return 0;
	}
	uint64_t length = varint_read(&at, end);
	end = length < (uint64_t)(end - at) ? at + length : end;
	return varint_read(&at, end) == 1 << 3 ? varint_read(&at, end) : 0;
}

/* Called by libcurl about once a second in an attempt; true: it is given up. */
static int
on_progress(void *arg, curl_off_t down, curl_off_t has_down, curl_off_t up, curl_off_t has_up) {
	(void)arg, (void)down, (void)has_down, (void)up, (void)has_up;
	pthread_mutex_lock(&lock);
	bool is_ending = queue.is_ending;
	pthread_mutex_unlock(&lock);
	return is_ending;
}

/* Adds a header to the list; false without memory: then the list stays as it is. */
static bool
try_header(struct curl_slist **headers, const char *line) {
	struct curl_slist *more = curl_slist_append(*headers, line);
	*headers = more != NULL ? more : *headers;
	return more != NULL;
}

/* Makes the handle for all requests; NULL without memory. The caller frees *headers in any case. */
static CURL *
handle_make(reply_t *reply, struct curl_slist **headers) {
	char url[2048];
	size_t length = strlen(options.push_url);
	while (length > 0 && options.push_url[length - 1] == '/') {
		length--;
	}
	snprintf(url, sizeof(url), "%.*s/v1development/profiles", (int)length, options.push_url);
	CURL *c = curl_easy_init();
	*headers = NULL;
	bool has_headers = try_header(headers, "Content-Type: application/x-protobuf")
	    && try_header(headers, "Content-Encoding: gzip")
	    && try_header(headers, "Expect:") /* no extra round trip */
	    && (options.push_header == NULL || try_header(headers, options.push_header));
	if (c == NULL || !has_headers || curl_easy_setopt(c, CURLOPT_URL, url) != CURLE_OK) {
		curl_easy_cleanup(c);
		return NULL;
	}
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, *headers);
	curl_easy_setopt(c, CURLOPT_USERAGENT, "jeprofd/" JEPROFD_VERSION);
	curl_easy_setopt(c, CURLOPT_POST, 1L);
	curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)SEND_MS);
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
	if (options.push_ca != NULL) {
		curl_easy_setopt(c, CURLOPT_CAINFO, options.push_ca);
		curl_easy_setopt(c, CURLOPT_CAPATH, NULL); /* the system's authorities do not count then */
	}
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, reply);
	return c;
}

/* Whether another attempt may succeed; status: of HTTP, if code is CURLE_OK. */
static bool
may_help(CURLcode code, long status) {
	return code != CURLE_OK ? code != CURLE_URL_MALFORMAT && code != CURLE_UNSUPPORTED_PROTOCOL
	    : status == 429 || status == 502 || status == 503 || status == 504;
}

/*
 * Prints a failure on stderr, unless the last one that was printed had the same code or status;
 * after a success the next failure is printed in any case.
 */
static void
tell_trouble(CURLcode code, long status) {
	static long told;
	long kind = code != CURLE_OK ? -(long)code : status;
	bool is_good = kind >= 200 && kind < 300;
	if (code == CURLE_ABORTED_BY_CALLBACK) { /* jeprofd ends */
		return;
	}
	if (is_good || kind == told) {
		told = is_good ? 0 : told;
		return;
	}
	told = kind;
	if (code != CURLE_OK) {
		talk("--push %s: %s%s", options.push_url, curl_easy_strerror(code),
		    may_help(code, 0) ? "; profiles wait" : "");
	} else {
		talk("--push %s: the receiver answers %ld", options.push_url, status);
	}
}

/* Sends one parcel; *wait_ms: the time that the receiver asks to wait, 0: it asks for none. */
static verdict_t
send_once(CURL *c, reply_t *reply, const parcel_t *p, int64_t *wait_ms) {
	long status = 0;
	curl_off_t asked = 0;
	reply->length = 0;
	curl_easy_setopt(c, CURLOPT_POSTFIELDS, p->body);
	curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)p->length);
	CURLcode code = curl_easy_perform(c);
	*wait_ms = 0;
	if (code == CURLE_OK) {
		curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
		curl_easy_getinfo(c, CURLINFO_RETRY_AFTER, &asked);
		*wait_ms = asked > 0 && asked < ASKED_MAX_MS / 1000 ? asked * 1000
		    : asked > 0 ? ASKED_MAX_MS : 0;
	}
	tell_trouble(code, status);
	if (status >= 200 && status < 300) {
		return push_sent;
	}
	return may_help(code, status) ? push_later : push_never;
}

/* Waits that long, or until the end. The caller holds the lock, which is given up meanwhile. */
static void
wait_locked(int64_t ms) {
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ms / 1000;
	until.tv_nsec += ms % 1000 * 1000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	while (!queue.is_ending && pthread_cond_timedwait(&changed, &lock, &until) != ETIMEDOUT) {}
}

/* Makes a parcel the oldest again, for the next attempt; drops it if newer ones fill the queue. */
static void
put_back_locked(parcel_t *p) {
	if (queue.figures.queued + p->length > QUEUE_MAX) {
		parcel_free(p);
		queue.figures.dropped++;
		return;
	}
	p->next = queue.oldest;
	queue.newest_next = queue.oldest == NULL ? &p->next : queue.newest_next;
	queue.oldest = p;
	queue.figures.queued += p->length;
	queue.figures.retried++;
}

/*
 * Sends until push_stop(). The caller holds the lock, which is released while a parcel is sent; the
 * parcel is not in the queue then.
 */
static void
send_all_locked(CURL *c, reply_t *reply) {
	int64_t wait_ms = WAIT_FIRST_MS, asked_ms;
	while (!queue.is_ending) {
		if (queue.oldest == NULL) {
			pthread_cond_wait(&changed, &lock);
			continue;
		}
		parcel_t *p = take_oldest_locked();
		pthread_mutex_unlock(&lock);
		verdict_t verdict = send_once(c, reply, p, &asked_ms);
		pthread_mutex_lock(&lock);
		if (verdict == push_later) {
			put_back_locked(p);
			wait_locked(asked_ms > 0 ? asked_ms : wait_ms);
			wait_ms = wait_ms * 2 < WAIT_MAX_MS ? wait_ms * 2 : WAIT_MAX_MS;
			continue;
		}
		queue.figures.rejected += verdict == push_sent ? rejected_read(reply) : 0;
		queue.figures.sent += verdict == push_sent;
		queue.figures.refused += verdict == push_never;
		parcel_free(p);
		wait_ms = WAIT_FIRST_MS;
	}
}

static pthread_t sender;
static bool has_sender; /* the sender runs; only main's thread uses this and `sender` */

static void *
sender_main(void *arg) {
	(void)arg;
	static reply_t reply;
	struct curl_slist *headers;
	CURL *c = handle_make(&reply, &headers);
	if (c == NULL) {
		talk("--push: no memory; nothing is pushed");
	} else {
		pthread_mutex_lock(&lock);
		send_all_locked(c, &reply);
		pthread_mutex_unlock(&lock);
		curl_easy_cleanup(c);
	}
	curl_slist_free_all(headers);
	return NULL;
}

void
push_start(void) {
	pthread_condattr_t attributes;
	if (options.push_url == NULL) {
		return;
	}
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&changed, &attributes);
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0
	    || pthread_create(&sender, NULL, sender_main, NULL) != 0) {
		leave(1, "--push: no thread or no memory");
	}
	has_sender = true;
}

void
push_stop(void) {
	if (options.push_url == NULL) {
		return;
	}
	pthread_mutex_lock(&lock);
	queue.is_ending = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += END_SECONDS;
	/*
	 * If the sender has not ended by then, has_sender stays true and main() leaves by _exit(): exit
	 * handlers of the TLS library must not run while the sender may use it.
	 */
	has_sender = pthread_timedjoin_np(sender, NULL, &until) != 0;
}

bool
push_is_stopped(void) {
	return !has_sender;
}

#else

/* options.c refuses --push. */
void
push_start(void) {}

void
push_stop(void) {}

bool
push_is_stopped(void) {
	return true;
}

#endif
