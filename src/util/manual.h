/*
 * Texts of the manual, written in the rows of the tables that they describe.
 * Options, mallctl nodes and statistics fields are rows of tables, and the text of each stands in
 * its row. Only doc/manual.c sees the texts: it compiles those tables with MANUAL_TEXTS defined. In
 * the library the macros expand to nothing.
 */
#ifndef UTIL_MANUAL_H
#define UTIL_MANUAL_H

#ifdef MANUAL_TEXTS
#define MANUAL_MEMBER(member) const char *member;
#define MANUAL(member, text) .member = text,
#else
#define MANUAL_MEMBER(member)
#define MANUAL(member, text)
#endif

#endif /* UTIL_MANUAL_H */
