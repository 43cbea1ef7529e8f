/* The program `tarry`; tests link all files except this one. */
#include "cli/cli.h"

#include <signal.h>

int main(int argc, char **argv)
{
    /* Ignores SIGXFSZ: a write beyond `ulimit -f` fails instead of killing the process. */
    (void)signal(SIGXFSZ, SIG_IGN);
    return cli_main(argc, argv);
}
