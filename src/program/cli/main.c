/* The program `tarry`; tests link all files except this one. */
#include "cli/cli.h"

#include <signal.h>

int main(int argc, char **argv)
{
    /* Makes exceeding a file size limit (ulimit -f) a write error instead of killing the
     * process. */
    (void)signal(SIGXFSZ, SIG_IGN);
    return cli_main(argc, argv);
}
