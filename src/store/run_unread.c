/* What of a run nobody reads. Its sums are made over what was written there, so they are checked
 * with that in its place: a changed bit there costs no job, and fsck tells of it. */
#include "store/run_private.h"

static const char zeros[RUN_BLOCK_BYTES];

struct looking {
    const struct run *run;
    void (*each)(void *ctx, uint64_t at);
    void *ctx;
    int result; /* of the first block that could not be read */
};

/* Whether the block's bytes [from, to) are those of `is`. */
static void look(struct looking *looking, uint64_t offset, const char *is, size_t from, size_t to)
{
    const struct run *run = looking->run;
    char block[RUN_BLOCK_BYTES];
    int result = from == to ? 0
                            : fs_pread_whole(run->fs, run->fd, true, block, RUN_BLOCK_BYTES,
                                             (int64_t)offset);

    if (result < 0) {
        looking->result = looking->result < 0 ? looking->result : result;
        return;
    }
    for (; from < to; from++)
        if (block[from] != is[from]) {
            looking->each(looking->ctx, offset + from);
            return;
        }
}

static void look_at_ends(struct looking *looking)
{
    const struct run_footer *footer = &looking->run->footer;
    char header[RUN_BLOCK_BYTES], end[RUN_BLOCK_BYTES];

    run_header_encode(looking->run->seed, footer->info.number, header);
    look(looking, 0, header, 0, RUN_BLOCK_BYTES);
    run_footer_encode(looking->run->seed, footer, end);
    look(looking, footer->info.file_bytes - RUN_BLOCK_BYTES, end, 0, RUN_BLOCK_ROOM);
}

static void look_at_padding(struct looking *looking)
{
    const struct run_footer *footer = &looking->run->footer;
    const uint32_t slots = footer->info.slots % RUN_BLOCK_SLOTS;
    const uint32_t topics = footer->topic_bytes % RUN_BLOCK_ROOM;

    if (footer->record_end < footer->directory_at)
        look(looking, footer->directory_at - RUN_BLOCK_BYTES, zeros,
             (size_t)(footer->record_end % RUN_BLOCK_BYTES), RUN_BLOCK_BYTES);
    if (slots)
        look(looking, footer->topics_at - RUN_BLOCK_BYTES, zeros, slots * (size_t)RUN_ENTRY_BYTES,
             RUN_ENTRIES_BYTES);
    if (topics)
        look(looking, footer->info.file_bytes - 2 * RUN_BLOCK_BYTES, zeros, topics, RUN_BLOCK_ROOM);
}

int run_check_unread(const struct run *run, void (*each)(void *ctx, uint64_t at), void *ctx)
{
    struct looking looking = {.run = run, .each = each, .ctx = ctx};

    look_at_ends(&looking);
    look_at_padding(&looking);
    return looking.result;
}

bool run_block_holds(uint64_t seed, uint32_t number, uint64_t offset, const char *block,
                     size_t from, size_t to)
{
    char written[RUN_BLOCK_BYTES];

    if (run_block_is_whole(seed, number, offset, block))
        return true;
    if (from == to)
        return false;
    memcpy(written, block, sizeof written);
    memset(written + from, 0, to - from);
    return run_block_is_whole(seed, number, offset, written);
}
