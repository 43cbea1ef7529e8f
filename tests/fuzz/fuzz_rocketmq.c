/* Answers of RocketMQ: whatever a peer sends is read within its bounds, cut anywhere or whole, and a
 * body that is a route names masters whose texts end. */
#include "targets/rocketmq/frame.h"

#include "frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void check_route(struct slice json)
{
    static struct rocketmq_master masters[ROCKETMQ_BROKERS_MAX];
    size_t count = SIZE_MAX;
    if (!rocketmq_route_parse(json, masters, &count))
        return;
    CLAIM("masters are bounded", count <= ROCKETMQ_BROKERS_MAX);
    for (size_t i = 0; i < count; i++) {
        CLAIM("it takes messages", masters[i].queues > 0);
        CLAIM("its name ends", memchr(masters[i].name, 0, sizeof masters[i].name));
        CLAIM("it has an address",
              masters[i].address[0] && memchr(masters[i].address, 0, sizeof masters[i].address));
    }
}

static void check_answer(const struct rocketmq_answer *answer, const char *at, size_t used)
{
    char output[40];
    CLAIM("the body lies in the frame", lies_in(answer->body, at, used));
    CLAIM("so does the remark", lies_in(answer->remark, at, used));
    rocketmq_emit_remark(answer->remark, output, sizeof output);
    for (const char *c = output; *c; c++)
        CLAIM("a remark is printable", *c >= ' ' && *c <= '~');
    check_route(answer->body);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    char *text = malloc(len + 1);
    size_t at = 0, used = 0;
    struct rocketmq_answer answer;
    const char *why = NULL;
    enum rocketmq_read read;
    if (!text)
        abort();
    if (len)
        memcpy(text, bytes, len);
    while ((read = rocketmq_frame_read(text + at, len - at, &answer, &used, &why)) ==
           ROCKETMQ_FRAME) {
        CLAIM("something was used, no more than there is", used >= 8 && used <= len - at);
        check_answer(&answer, text + at, used);
        for (size_t part = used > 64 ? used - 64 : 0; part < used; part++)
            CLAIM("a part of it is not enough",
                  rocketmq_frame_read(text + at, part, &answer, &used, &why) == ROCKETMQ_MORE);
        at += used;
    }
    CLAIM("what cannot be read is explained", read != ROCKETMQ_BROKEN || (why && *why));
    check_route(slice_make(text, len));
    free(text);
    return 0;
}
