/*
 * complete: the words that can follow in a command line and are not in its help: names of topics,
 * profiles and settings, and values of options. The completion scripts of the shells ask for them.
 */
#ifndef TARRY_CLI_COMPLETE_H
#define TARRY_CLI_COMPLETE_H

/* Prints the candidates for the last of the words after "tarry", one per line. Names of topics come
 * from the server that the words select; there are none if it does not answer within two seconds.
 * Returns CLI_OK. */
int complete_print(int count, char **words);

#endif
