/*
 * sim_fs: a disk in memory that forgets like a real one.
 *
 * A file has what reading shows now and what a power cut would leave; fdatasync makes the second
 * the first, sector by sector where dirty. A directory has its names now and after a power cut;
 * fsync_dir makes them equal. In between the disk may write back sectors and names on its own.
 * Every operation of the table counts as one I/O but close and reads, which are counted apart.
 *
 * A punched range reads as zeros and its whole sectors take no space. It is a change like a write:
 * a power cut before the next sync keeps it for some sectors and not for others.
 *
 * Faults: the n-th I/O or read fails, once or from then on, with an errno of choice; a failed sync
 * marks its pages clean, as Linux does; no space beyond a number of bytes; the power goes at the
 * n-th I/O (which may be half done): everything fails until sim_fs_crash. One thread only, unless
 * only reads run beside.
 *
 * A disk can be cloned at any moment, with all that is not synced, at the price of what is changed
 * on either afterwards: a crash can be tried out at every I/O without doing the run again
 * (`at_io`).
 */
#ifndef TARRY_TESTS_SIM_FS_H
#define TARRY_TESTS_SIM_FS_H

#include "base/random.h"
#include "store/fs.h"

enum { SIM_SECTOR_BYTES = 512, SIM_FILES_MAX = 256, SIM_NAME_BYTES = 200, SIM_FDS_MAX = 512 };

enum sim_damage {
    SIM_DROP_UNSYNCED = 1, /* nothing but what was synced */
    SIM_KEEP_ALL,          /* as after kill -9: what is not synced is still to come */
    SIM_SOME_SECTORS,      /* any of the unsynced ones */
    SIM_SOME_PAGES,        /* the same, eight sectors at a time */
    SIM_GROWN_BUT_ZERO,    /* sizes are new, unsynced bytes are zero where they lie beyond the old
                              size, else old */
    SIM_DAMAGES = SIM_GROWN_BUT_ZERO,
    SIM_PREFIX, /* of each file the first so many of the unsynced sectors */
    SIM_DAMAGES_ALL = SIM_PREFIX
};

/* Its three blocks may be shared with clones; they are copied before they are written to. */
struct sim_inode {
    char *now, *durable;
    int64_t size, durable_size;
    bool *dirty;               /* by sector, of `now` */
    bool *hole, *durable_hole; /* by sector: takes no space, and reads as zeros */
    int64_t holes;             /* of `hole` */
    bool lost; /* a sync that failed: `now` shows what is neither durable nor dirty */
    int64_t cap;
    int links, opens, durable_links;
    struct sim_inode *clone; /* while a disk is being cloned */
};

struct sim_entry {
    char name[SIM_NAME_BYTES];
    struct sim_inode *inode;
};

struct sim_dir_names {
    struct sim_entry entries[SIM_FILES_MAX];
    int count;
};

/* A change of names that no fsync_dir has made durable yet. A power cut keeps the first so many of
 * them. */
struct sim_change {
    char gone[SIM_NAME_BYTES], made[SIM_NAME_BYTES]; /* "": no name */
    struct sim_inode *inode;                         /* of `made` */
};

struct sim_fs {
    struct fs fs;
    struct sim_dir_names now, durable;
    struct sim_change changes[SIM_FILES_MAX];
    int change_count;
    struct sim_inode *fds[SIM_FDS_MAX];
    struct random random;
    uint64_t ios; /* done so far */
    /* NULL, or called in every I/O before it counts: of a write after its bytes are there, of
     * anything else before it has happened. */
    void (*at_io)(void *ctx);
    void *at_io_ctx;
    uint64_t reads, fail_read_at; /* as fail_at */
    uint64_t fail_at;             /* 0: never; else this I/O fails (the first is 1) */
    bool fail_for_ever;           /* and all that follow */
    int fail_errno;
    uint64_t crash_at; /* 0: never */
    bool is_down;      /* the power went */
    bool is_cold;      /* the page cache is empty: pread_cached returns -EAGAIN */
    bool no_punch;     /* the file system cannot: -EOPNOTSUPP */
    bool no_writeback; /* the disk writes nothing on its own */
    int64_t bytes_max; /* 0: no limit on the space all files take together */
    uint64_t syncs;
};

void sim_fs_init(struct sim_fs *sim, uint64_t seed);
void sim_fs_fini(struct sim_fs *sim);

/* Cuts the power. Open descriptors are gone; faults are switched off. */
void sim_fs_crash(struct sim_fs *sim, enum sim_damage damage);

/* Returns the bytes of a file, or NULL if it does not exist. They may be changed: such a change is a synced
 * one. */
char *sim_fs_bytes(struct sim_fs *sim, const char *path, int64_t *size);
void sim_fs_damage(struct sim_fs *sim, const char *path, int64_t at, unsigned char xor_with);
/* Clones the present state, including unsynced changes, without open files, faults and `at_io`. */
void sim_fs_clone(struct sim_fs *to, const struct sim_fs *from, uint64_t seed);
/* Makes a whole copy of `from`. No file may be open on either. */
void sim_fs_copy(struct sim_fs *to, const struct sim_fs *from);

#endif
