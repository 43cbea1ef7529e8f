/* commands: the subcommands, each in the file of its noun. All take argv with their own name first
 * and return an exit code (cli.h). */
#ifndef TARRY_CLI_COMMANDS_H
#define TARRY_CLI_COMMANDS_H

#include "cli/cli.h"

int cli_serve(int argc, char **argv);               /* serve.c */
void cli_serve_describe(cli_help_printer *printer); /* its options are the configuration's */

int cli_fsck(int argc, char **argv);   /* fsck.c */
int cli_backup(int argc, char **argv); /* backup.c */
int cli_work(int argc, char **argv);   /* work.c */

int cli_export(int argc, char **argv); /* export.c */
int cli_import(int argc, char **argv); /* import.c */

int cli_push(int argc, char **argv); /* push.c */

int cli_take(int argc, char **argv); /* lease.c */
int cli_ack(int argc, char **argv);
int cli_nack(int argc, char **argv);
int cli_extend(int argc, char **argv);

int cli_get(int argc, char **argv); /* job.c */
int cli_list(int argc, char **argv);
int cli_cancel(int argc, char **argv);
int cli_reschedule(int argc, char **argv);
int cli_run(int argc, char **argv);

int cli_topics(int argc, char **argv); /* topic.c */
int cli_pause(int argc, char **argv);
int cli_resume(int argc, char **argv);

int cli_redrive(int argc, char **argv); /* dead.c */
int cli_purge(int argc, char **argv);

int cli_topic(int argc, char **argv);   /* topic_set.c */
int cli_deliver(int argc, char **argv); /* deliver.c */

#endif
