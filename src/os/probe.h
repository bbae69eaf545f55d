/*
 * Two static probes for tracers outside of the process: provider otel_memory, `alloc` and `free`.
 *
 * A probe is one nop whose address stands in a note of the ELF file (.note.stapsdt); a tracer puts
 * a breakpoint there, by uprobes. While a tracer is attached the kernel keeps the probe's
 * semaphore, a word in the data of each process, above zero, so a probe that nobody traces costs
 * one comparison.
 * Only for recorded samples and their frees: prof.c fires the probes, in the thread that allocates
 * or frees, and prof_listen.c makes the process sample while a tracer is attached to `alloc`. No
 * locks; the kernel alone writes the semaphores.
 *
 * The probes exist on x86-64 and aarch64, in builds with the profiler without --disable-prof-probes
 * (CONFIG_PROF_PROBES); elsewhere they are never attached, and firing does nothing.
 */
#pragma once

#include "util/compiler.h"

#if CONFIG_PROF_PROBES
/* How many tracers are attached to the probe (fewer than 65536); written by the kernel. */
extern HIDDEN volatile uint16_t otel_memory_alloc_semaphore;
extern HIDDEN volatile uint16_t otel_memory_free_semaphore;
#define PROBE_IS_ATTACHED(name) (unlikely(otel_memory_##name##_semaphore != 0))
#else
#define PROBE_IS_ATTACHED(name) false
#endif

/* A stack frame as a function with a frame pointer leaves it in memory. */
struct probe_frame_s {
	const struct probe_frame_s *next; /* the frame of the caller; NULL: this is the outermost */
	const void *pc; /* return address */
};

/*
 * The probe alloc: address, bytes requested, bytes that this sample stands for. At the nop the
 * frame pointer is `frames` (not NULL), so a tracer that follows frame pointers reads that stack. A
 * tracer that reads unwind tables sees the real stack of the thread instead, from this function
 * outwards.
 */
void probe_alloc_fire(const void *ptr, size_t size, uint64_t weighted_bytes,
    const struct probe_frame_s *frames);
/* The probe free: address of an object that was a sample. */
void probe_free_fire(const void *ptr);

static inline bool
probe_alloc_is_attached(void) {
	return PROBE_IS_ATTACHED(alloc);
}

static inline bool
probe_free_is_attached(void) {
	return PROBE_IS_ATTACHED(free);
}
