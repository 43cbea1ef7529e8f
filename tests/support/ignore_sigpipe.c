/* Linked into unit tests of rooms that write to sockets: as the programs that these are for do, they ignore SIGPIPE, and a peer that is
 * gone shows as an error of the write. */
#include <signal.h>

__attribute__((constructor)) static void ignore_sigpipe(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
}
