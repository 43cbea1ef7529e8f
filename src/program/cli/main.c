/* The program `tarry`; tests link all but this file. */
#include "cli/cli.h"

#include <signal.h>

int main(int argc, char **argv)
{
    /* A file that may not grow (ulimit -f) is an error of the write, and no end without a word. */
    (void)signal(SIGXFSZ, SIG_IGN);
    return cli_main(argc, argv);
}
