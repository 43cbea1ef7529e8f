/* bench: measures a running server with the load generator (load.h). */
#ifndef TARRY_CLI_BENCH_H
#define TARRY_CLI_BENCH_H

/* `tarry bench`. Exit codes as in cli.h; CLI_REFUSED also when a job was lost, came early, or was
 * refused. */
int cli_bench(int argc, char **argv);

#endif
