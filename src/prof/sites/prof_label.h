/*
 * Labels: texts by which the program tells what a thread works on (thread.prof.label): the name of
 * a tenant, a request, a phase. A text is interned once and stays for good under its number; a word
 * of the thread's TLS (tls_s.label) has the number of its label, and the record of each sample
 * keeps it (meta/edata.h). The texts that samples have are copied to where readers outside the
 * process find them (meta/image.h). Only prof_label_show() takes a lock: the others use a mapping
 * of their own, to which they add by atomic operations. Called by ctl_thread.c and ctl_prof.c, by
 * prof.c for samples, and by prof_label_sums.c and prof_dump_label.c for profiles.
 */
#pragma once

#include "meta/edata.h"

/* The greatest number, and so the most labels; numbers begin at 1, 0 is no label. */
#define PROF_LABELS_MAX 65535u
/* Most bytes of a text, without its NUL. */
#define PROF_LABEL_TEXT_MAX 255u
/*
 * Most bytes of all texts together. Each counts with its NUL, 8 bytes for two words of its entry,
 * and up to 3 bytes to make the sum a multiple of 4.
 */
#define PROF_LABEL_TEXTS ((size_t)4 << 20)

cassert(PROF_LABELS_MAX == SAMPLE_LABEL_MASK);

/* A copy of a text for readers outside the process; it is never freed. */
typedef struct {
	const void *next; /* in the list of the root */
	uint32_t bytes; /* of this object; in the second word, as in all objects of the region */
	uint32_t id;    /* the number of the text */
	char text[];    /* with its NUL */
} prof_label_shown_t;

/*
 * *id becomes the number of the text, a new one if it has none; "" is 0. Returns 0; EINVAL, with
 * *id unchanged: NULL, or too long; EAGAIN, with *id 0: no memory, or a new text would exceed a
 * limit. May be called anywhere, also in a signal handler: it waits for nobody.
 */
int prof_label_intern(const char *text, uint32_t *id);

/* The text of a number; "" for 0 and for one that was not given. It is never freed. */
const char *prof_label_text(uint32_t id);

/*
 * Copies the text of a label for readers outside the process, unless it has none, or any thread has
 * copied it already or is doing so. Called inside the gate (os/gate.h: fork waits until no thread
 * is inside), before a sample with the label gets its record; may take the lock of the region, or
 * of other metadata. Without memory the next sample tries again. Only the low 16 bits of id are
 * used, as in the record of a sample: a program may write any value to tls_s.label.
 */
void prof_label_show(uint32_t id);

/*
 * How many numbers have been given. That may be more than there are labels: if two threads intern
 * the same text at once, both get one number, and the other one is not used again.
 */
unsigned prof_label_count(void);
