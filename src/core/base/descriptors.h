/* descriptors: the files, sockets and pipes that a process has open. */
#ifndef TARRY_BASE_DESCRIPTORS_H
#define TARRY_BASE_DESCRIPTORS_H

/*
 * Marks every open descriptor except standard input, output and error close-on-exec. A program
 * calls it right before it starts another program: libraries open descriptors without that mark,
 * and a copy of a connection in another process keeps the connection open. May be called between
 * fork and exec.
 */
void descriptors_hide(void);

#endif
