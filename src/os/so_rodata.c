/*
 * The first object in the link of the shared library: makes its constants begin at a multiple of 64
 * KiB. A system reads a file in around a page fault by aligned windows of that size, so all
 * constants (less than one window) cost one fault, whichever of them a program reads. Without it
 * they lie across a border of windows. No state; nothing reads the array.
 */
#include "util/compiler.h"

#define WINDOW 65536

extern HIDDEN const char so_rodata[1];
const char so_rodata[1] __attribute__((aligned(WINDOW), used)) = {1};
