/*
 * backup: who holds the shards' files back, and until when. This room only; the promise is
 * local_backup in local.h.
 *
 * The list of backups is the first reactor's; each shard is told and asked on its own thread, by
 * letters.
 */
#ifndef TARRY_LOCAL_BACKUP_H
#define TARRY_LOCAL_BACKUP_H

#include "local/local.h"

struct backups;

/* On the first reactor's thread or before it runs. NULL: out of memory. */
struct backups *backups_new(struct local *local, struct reactor *home);
/* After all reactors have ended. */
void backups_free(struct backups *backups);

#endif
