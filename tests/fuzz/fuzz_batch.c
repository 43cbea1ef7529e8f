/* Batches: every item is a push that points into memory that is there, or a fault; in order. The
 * first byte picks the content type. */
#include "claim.h"

#include "api/batch.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

/* Reads every byte of a slice, for the sanitizer to see. */
static unsigned touch(struct slice slice)
{
    unsigned sum = 0;
    for (size_t i = 0; i < slice.len; i++)
        sum += (unsigned char)slice.at[i];
    return sum;
}

static unsigned check_push(const struct queue_push *push)
{
    struct slice name, value;
    size_t at = 0, pairs = 0;
    while (job_meta_next(push->meta, &at, &name, &value))
        pairs++;
    CLAIM("meta is well-formed", at == push->meta.len && pairs <= JOB_META_PAIRS_MAX);
    CLAIM("the due time is set", push->when.due >= QUEUE_DUE_NOW && push->when.due <= QUEUE_DUE_AT);
    return touch(push->topic) + touch(push->id) + touch(push->content_type) + touch(push->body);
}

static bool take_callback(void *ctx, struct slice url, char *error)
{
    (void)ctx;
    (void)touch(url);
    *error = 0;
    return true;
}

static const struct http_hooks hooks = {.check_callback = take_callback};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static const char *const types[] = {"application/json", "application/x-ndjson", "",
                                        "text/plain"};
    static struct queue_push pushes[QUEUE_BATCH_MAX];
    static __attribute__((unused)) unsigned sum;
    struct buffer faults, arena, meta;
    struct http_fault fault = {0};
    if (len == 0)
        return 0;
    buffer_init(&faults, QUEUE_BATCH_MAX * sizeof(struct api_item_fault));
    buffer_init(&arena, 1 << 24);
    buffer_init(&meta, JOB_META_BYTES_MAX);
    struct api_batch batch = {
        .pushes = pushes, .faults = &faults, .arena = &arena, .meta = &meta, .hooks = &hooks};
    if (api_batch_parse(slice_make(bytes + 1, len - 1), slice_of(types[bytes[0] & 3]), &batch,
                        &fault)) {
        size_t fault_count = faults.len / sizeof(struct api_item_fault);
        const struct api_item_fault *items = (const void *)faults.at;
        CLAIM("every item is good or bad", batch.push_count + fault_count == batch.item_count);
        CLAIM("a batch has a limit", batch.item_count <= QUEUE_BATCH_MAX);
        for (uint32_t i = 0; i < batch.push_count; i++)
            sum += check_push(&pushes[i]);
        for (size_t i = 0; i < fault_count; i++) {
            CLAIM("faults are in order", i == 0 || items[i].index > items[i - 1].index);
            CLAIM("and of an item", items[i].index < batch.item_count);
            CLAIM("and say what to do", items[i].fault.detail[0]);
        }
    } else {
        CLAIM("a refusal has its problem", fault.problem > PROBLEM_NONE && fault.detail[0]);
    }
    buffer_fini(&faults);
    buffer_fini(&arena);
    buffer_fini(&meta);
    return 0;
}
