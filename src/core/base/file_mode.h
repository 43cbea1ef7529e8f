/* file_mode: the access that users other than the owner have to a file with secrets. */
#ifndef TARRY_BASE_FILE_MODE_H
#define TARRY_BASE_FILE_MODE_H

#include <sys/types.h>

/*
 * Returns the group and other bits of `mode`, as returned by fstat. If the file has an access
 * control list, the permissions of all users except root and this user are returned in the "other"
 * bits: systemd passes credentials to a unit's user with such a list, and they appear to be
 * readable by the group.
 */
mode_t file_mode_of_others(int fd, mode_t mode);

#endif
