/* file_mode: what others than its owner may do with a file that holds secrets. */
#ifndef TARRY_BASE_FILE_MODE_H
#define TARRY_BASE_FILE_MODE_H

#include <sys/types.h>

/*
 * The bits of group and others of `mode`, as fstat gave it. Where an access control list stands
 * behind them, those of everybody but root and this user, in the place of others: systemd hands
 * credentials to a unit's user so, and they show as readable by the group.
 */
mode_t file_mode_of_others(int fd, mode_t mode);

#endif
