/*
 * The box that an earlier program of this process has left. exec ends a box without a word, since
 * no code of the library runs then: its file would stay, and would tell of a process that was
 * killed. So a program whose box opens at its start first looks in the directory of its prefix for
 * the file of a process with its own pid and start, which no process has mapped any more.
 */
#ifndef PROF_EARLIER_H
#define PROF_EARLIER_H

/*
 * Ends these boxes as a clean end would: removes the files, or with prof_blackbox_keep notes there
 * that exec has replaced the program. Outside the gate, at the start of the process only.
 */
void prof_earlier_end(void);

#endif /* PROF_EARLIER_H */
