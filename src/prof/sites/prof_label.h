/*
 * Labels: what a thread works for, as the program says (thread.prof.label): a tenant, a request, a
 * phase. A text is interned once and stays for good under its number; a thread's TLS word has the
 * number of its label, and each sample takes it along (meta/edata.h). Texts that samples have are
 * shown to readers outside, too (meta/image.h).
 */
#ifndef PROF_LABEL_H
#define PROF_LABEL_H

#include "meta/edata.h"

/* Numbers that there can be, from 1 on; 0 is no label. */
#define PROF_LABELS_MAX 65535u
/* Bytes of a text at most, without its NUL. */
#define PROF_LABEL_TEXT_MAX 255u
/* Bytes of all texts at most, with 8 to 11 more each. */
#define PROF_LABEL_TEXTS ((size_t)4 << 20)

cassert(PROF_LABELS_MAX == SAMPLE_LABEL_MASK);

/* A text as readers outside find it; it stays. */
typedef struct {
	const void *next;
	uint32_t bytes; /* of all of it: in the second word, as in all objects of the region */
	uint32_t id;
	char text[];
} prof_label_shown_t;

/*
 * *id becomes the number of the text; "" is 0. EINVAL: NULL, or too long; EAGAIN: no memory, or a
 * limit is reached. May be called anywhere, also in a signal handler: it waits for nobody.
 */
int prof_label_intern(const char *text, uint32_t *id);

/* The text of a number; "" for 0 and for one that no text has. It stays. */
const char *prof_label_text(uint32_t id);

/*
 * Shows a label to readers outside, if it is not yet; called inside the gate before a sample that
 * has it. Without memory it is not shown, and the next sample tries again.
 */
void prof_label_show(uint32_t id);

/* How many numbers have been given. */
unsigned prof_label_count(void);

#endif /* PROF_LABEL_H */
