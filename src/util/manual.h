/*
 * Texts of the manual, written in the rows of the tables that they describe.
 * Options, mallctl nodes and statistics fields are rows of tables, and the text of each stands in
 * its row. "make manual" compiles those tables once more with MANUAL_TEXTS defined, for the program
 * doc/manual.c, which prints the texts. In the library the macros expand to nothing. (The help of
 * an option is an ordinary member of its row, because the library prints it after a bad value:
 * conf.c, "Hint".) No state, no lock.
 */
#pragma once

/*
 * The text of each node that the original jemalloc does not have begins with one of these two.
 * doc/STABILITY.md says what they promise; the manual shows them, and test/demo/manual.t fails if
 * one is missing. A new node begins as NODE_EXPERIMENTAL. Options have flags in their rows instead
 * (CONF_STABLE).
 */
#define NODE_STABLE "\1"
#define NODE_EXPERIMENTAL "\2"

#ifdef MANUAL_TEXTS
#define MANUAL_MEMBER(member) const char *member;
#define MANUAL(member, text) .member = text,
#else
#define MANUAL_MEMBER(member)
#define MANUAL(member, text)
#endif
