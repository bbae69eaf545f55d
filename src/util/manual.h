/*
 * Texts for the manual stand in the rows that they are about (options, nodes of mallctl, fields of
 * statistics).  Only doc/manual.c reads them: it compiles those tables once more with MANUAL_TEXTS.
 * In the library they do not exist.
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
