/*
 * completion: the scripts by which bash, zsh and fish complete the words of a command line. They are
 * generated from the tables of the commands, and ask the server for names of topics.
 */
#ifndef TARRY_CLI_COMPLETION_H
#define TARRY_CLI_COMPLETION_H

/* Prints the script for a shell. Returns an exit code. */
int completion_print(const char *shell);

#endif
