#include "base/file_mode.h"

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/*
 * An entry of an access control list, as in linux/posix_acl_xattr.h. If a file has such a list, the
 * group bits of its mode are the mask of the list and no longer describe the access of others:
 * systemd passes credentials that only the service's user may read, with mode 0440.
 */
struct acl_entry {
    uint16_t tag, may;
    uint32_t id;
};
enum {
    ACL_USER = 2,
    ACL_GROUP_OBJ = 4,
    ACL_GROUP = 8,
    ACL_MASK = 16,
    ACL_OTHER = 32,
    ACL_ENTRIES_MAX = 64
};

static bool is_of_others(const struct acl_entry *entry)
{
    uint32_t id = le32toh(entry->id);
    switch (le16toh(entry->tag)) {
    case ACL_USER:
        return id != 0 && id != geteuid();
    case ACL_GROUP_OBJ:
    case ACL_GROUP:
        return true;
    default:
        return false;
    }
}

mode_t file_mode_of_others(int fd, mode_t mode)
{
    struct {
        uint32_t version;
        struct acl_entry entries[ACL_ENTRIES_MAX];
    } acl;
    unsigned mask = 7, grouped = 0, other = 0;
    ssize_t bytes = fgetxattr(fd, "system.posix_acl_access", &acl, sizeof acl);
    if (bytes < (ssize_t)sizeof acl.version || le32toh(acl.version) != 2)
        return mode;
    size_t count = ((size_t)bytes - sizeof acl.version) / sizeof acl.entries[0];
    for (size_t i = 0; i < count; i++) {
        unsigned may = le16toh(acl.entries[i].may);
        if (le16toh(acl.entries[i].tag) == ACL_MASK)
            mask = may;
        else if (le16toh(acl.entries[i].tag) == ACL_OTHER)
            other = may;
        else if (is_of_others(&acl.entries[i]))
            grouped |= may;
    }
    return (mode_t)((grouped & mask) | other) & 7;
}
