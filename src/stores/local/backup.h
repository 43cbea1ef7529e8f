/*
 * backup: the backups that keep the shards' files in place, and for how long. Private to this room;
 * local_backup in local.h documents the guarantees.
 *
 * The list of backups belongs to the first reactor. It exchanges letters with each shard, which
 * runs on its own thread.
 */
#ifndef TARRY_LOCAL_BACKUP_H
#define TARRY_LOCAL_BACKUP_H

#include "local/local.h"

struct backups;

/* Creates the list, on the first reactor's thread or before it runs. Returns NULL when out of
 * memory. */
struct backups *backups_new(struct local *local, struct reactor *home);
/* Frees the list, after all reactors have ended. */
void backups_free(struct backups *backups);

#endif
