/*
 * The black box (prof_box.h) that an earlier program of this process, before an exec, has left. No
 * code of the library runs at exec, so the box is not marked as ended: its file would stay, and
 * would look like that of a process that was killed. So a program whose box opens at its start
 * first looks in the directory of its prefix for a box with its own pid and start time that no
 * process has mapped any more.
 */
#pragma once

/*
 * Ends these boxes: marks them as replaced by exec, and removes the files unless prof_blackbox_keep
 * is set. Does nothing unless prof_blackbox is true (not fd), or where /proc or the locks of files,
 * by which it knows them, are missing. Called by prof.c, once, at the start of the process, outside
 * the fork gate (os/gate.h) and before the process opens a box of its own.
 */
void prof_earlier_end(void);
