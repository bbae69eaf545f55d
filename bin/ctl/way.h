/*
 * Ways into a process: its memory, the memfd of prof_ctl_fd:true, the control directory; and the reason if none is open.
 * Invariant: the descriptor is opened before the start time of the process is checked, and belongs to that process for good.
 */
#pragma once
#include "process.h"

/* What decides a refusal. */
typedef struct denial_s {
	unsigned our_uid;
	unsigned uid;
	bool is_other_user;
	bool is_dumpable;
	bool may_trace;     /* we hold CAP_SYS_PTRACE */
	bool has_more_caps; /* it holds capabilities that we do not */
	int yama;           /* ptrace_scope, 0 if there is no Yama */
} denial_t;

/* The reason and the remedy; NULL if there is none that we know. */
const char *denial_reason(const denial_t *d, char *buf, size_t size);

/* 0, or the errno of the kernel's refusal. */
int open_memory(process_t *p, bool is_reader);

/* The memfd that prof_ctl_fd:true keeps open: the right to read the process suffices. */
bool open_memfd(process_t *p);

/* A process that has the library loaded, and another malloc in its program, is no idle one: leaves and says so. */
void check_allocator(const process_t *p);

/* Gets in, or leaves with the reason. */
void open_process(process_t *p);
