/*
 * The two probes and their notes (probe.h).
 *
 * A note of type 3 and owner "stapsdt" holds the addresses of the nop, of the section
 * .stapsdt.base and of the semaphore, then three strings: provider, name, and where each argument
 * is at the nop ("8@%rdi": 8 bytes, unsigned, in that register). The section .stapsdt.base has one
 * byte; by the difference between its address and the one in the note a tracer finds out whether a
 * program has moved the file's addresses after the link. Each file of a program that has probes
 * brings that section along, and the linker keeps one.
 *
 * Invariant: each function has one nop, and its arguments are in the registers that the note names.
 * No locks.
 */
#include "os/probe.h"

#if CONFIG_PROF_PROBES

__attribute__((section(".probes"), used)) volatile uint16_t otel_memory_alloc_semaphore;
__attribute__((section(".probes"), used)) volatile uint16_t otel_memory_free_semaphore;

__asm__(".pushsection .stapsdt.base, \"aG\", %progbits, .stapsdt.base, comdat\n"
	".weak _.stapsdt.base\n"
	".hidden _.stapsdt.base\n"
	".size _.stapsdt.base, 1\n"
	"_.stapsdt.base: .zero 1\n"
	".popsection\n");

/* The nop of a probe, and its note. */
#define PROBE(name, args) \
	"990: nop\n" \
	".pushsection .note.stapsdt, \"\", %note\n" \
	".balign 4\n" \
	".long 8, 992f - 991f, 3\n" \
	".asciz \"stapsdt\"\n" \
	"991: .quad 990b, _.stapsdt.base, otel_memory_" name "_semaphore\n" \
	".asciz \"otel_memory\", \"" name "\", \"" args "\"\n" \
	"992: .balign 4\n" \
	".popsection\n"

/* A function in assembler: the registers at the nop are then the same in each build. */
#define FUNCTION(name, body) \
	__asm__(".pushsection .text.unlikely, \"ax\", %progbits\n" \
		".balign 16\n" \
		".globl " name "\n" \
		".hidden " name "\n" \
		".type " name ", %function\n" \
		name ":\n" \
		".cfi_startproc\n" \
		body \
		".cfi_endproc\n" \
		".size " name ", . - " name "\n" \
		".popsection\n")

#if defined(__x86_64__)
FUNCTION("probe_alloc_fire",
	"push %rbp\n"
	".cfi_def_cfa_offset 16\n"
	".cfi_offset 6, -16\n"
	"mov %rcx, %rbp\n"
	PROBE("alloc", "8@%rdi 8@%rsi 8@%rdx")
	"pop %rbp\n"
	".cfi_def_cfa_offset 8\n"
	".cfi_restore 6\n"
	"ret\n");
FUNCTION("probe_free_fire", PROBE("free", "8@%rdi") "ret\n");
#else
FUNCTION("probe_alloc_fire",
	"stp x29, x30, [sp, -16]!\n"
	".cfi_def_cfa_offset 16\n"
	".cfi_offset 29, -16\n"
	".cfi_offset 30, -8\n"
	"mov x29, x3\n"
	PROBE("alloc", "8@x0 8@x1 8@x2")
	"ldp x29, x30, [sp], 16\n"
	".cfi_def_cfa_offset 0\n"
	".cfi_restore 29\n"
	".cfi_restore 30\n"
	"ret\n");
FUNCTION("probe_free_fire", PROBE("free", "8@x0") "ret\n");
#endif

#else

void
probe_alloc_fire(const void *ptr UNUSED, size_t size UNUSED, uint64_t weighted_bytes UNUSED,
    const struct probe_frame_s *frames UNUSED) {
}

void
probe_free_fire(const void *ptr UNUSED) {
}

#endif
