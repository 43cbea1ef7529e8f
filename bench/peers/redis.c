#include "peers/redis.h"

#include "base/clock.h"
#include "load/socket.h"

#include <stdio.h>
#include <stdlib.h>

enum { SHA_DIGITS = 40, LEASE_MS = 120000, LINE_BYTES_MAX = 65536, BULK_BYTES_MAX = 1 << 28 };

static const char push_script[] = /* KEYS delayed, bodies; ARGV id, due, body, id, due, body … */
    "for i = 1, #ARGV, 3 do "
    "redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 2]) "
    "redis.call('ZADD', KEYS[1], ARGV[i + 1], ARGV[i]) "
    "end return #ARGV / 3";

static const char
    take_script[] = /* KEYS delayed, bodies, leased; ARGV now, max, end of the lease */
    "local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2]) "
    "if #ids == 0 then return ids end "
    "redis.call('ZREM', KEYS[1], unpack(ids)) "
    "local leased, out = {}, {} "
    "for i = 1, #ids do leased[2 * i - 1] = ARGV[3] leased[2 * i] = ids[i] end "
    "redis.call('ZADD', KEYS[3], unpack(leased)) "
    "local bodies = redis.call('HMGET', KEYS[2], unpack(ids)) "
    "for i = 1, #ids do out[2 * i - 1] = ids[i] out[2 * i] = bodies[i] end "
    "return out";

static const char ack_script[] = /* KEYS bodies, leased; ARGV ids */
    "redis.call('ZREM', KEYS[2], unpack(ARGV)) "
    "return redis.call('HDEL', KEYS[1], unpack(ARGV))";

struct load_speech {
    bool own_ids;
    uint32_t run;
    unsigned take_max;
    struct buffer push, take,
        ack; /* EVALSHA and all that does not change, after the number of words */
    struct load_body body;
    size_t body_bytes;
};

static void append_word(struct buffer *out, const char *bytes, size_t len)
{
    buffer_append_byte(out, '$');
    buffer_append_u64(out, len);
    buffer_append(out, "\r\n", 2);
    buffer_append(out, bytes, len);
    buffer_append(out, "\r\n", 2);
}

static void append_number(struct buffer *out, uint64_t number)
{
    char text[24];
    struct buffer digits = {.at = text, .cap = sizeof text, .bytes_max = sizeof text};
    buffer_append_u64(&digits, number);
    append_word(out, digits.at, digits.len);
}

static void append_count(struct buffer *out, uint64_t words)
{
    buffer_append_byte(out, '*');
    buffer_append_u64(out, words);
    buffer_append(out, "\r\n", 2);
}

/* ---- opening: the scripts go to the server, their hashes into the requests ---- */

static bool is_whole(struct slice answer)
{
    return answer.len >= 3 && memcmp(answer.at + answer.len - 2, "\r\n", 2) == 0 &&
           (*answer.at != '$' || answer.len >= SHA_DIGITS + 7);
}

static bool load_script(const struct load_plan *plan, const char *script, char sha[SHA_DIGITS],
                        char problem[LOAD_TEXT_BYTES_MAX])
{
    struct buffer request, answer;
    buffer_init(&request, LINE_BYTES_MAX);
    buffer_init(&answer, LINE_BYTES_MAX);
    append_count(&request, 3);
    append_word(&request, "SCRIPT", 6);
    append_word(&request, "LOAD", 4);
    append_word(&request, script, strlen(script));
    bool done = load_socket_call(plan, buffer_slice(&request), &answer, is_whole, problem);
    if (done && (answer.len != SHA_DIGITS + 7 || memcmp(answer.at, "$40\r\n", 5) != 0)) {
        snprintf(problem, LOAD_TEXT_BYTES_MAX, "the server does not take scripts: %.*s",
                 (int)(answer.len < 100 ? answer.len : 100), answer.at);
        done = false;
    }
    if (done)
        memcpy(sha, answer.at + 5, SHA_DIGITS);
    buffer_fini(&request);
    buffer_fini(&answer);
    return done;
}

static bool prepare(struct buffer *out, const struct load_plan *plan, const char *script,
                    const char *const *keys, char problem[LOAD_TEXT_BYTES_MAX])
{
    char sha[SHA_DIGITS], key[LOAD_TEXT_BYTES_MAX + 16];
    size_t count = 0;
    if (!load_script(plan, script, sha, problem))
        return false;
    while (keys[count])
        count++;
    append_word(out, "EVALSHA", 7);
    append_word(out, sha, sizeof sha);
    append_number(out, count);
    for (size_t i = 0; i < count; i++) {
        int len = snprintf(key, sizeof key, "{%s}:%s", plan->topic, keys[i]);
        append_word(out, key, (size_t)len);
    }
    return true;
}

static void redis_close(struct load_speech *speech)
{
    if (!speech)
        return;
    buffer_fini(&speech->push);
    buffer_fini(&speech->take);
    buffer_fini(&speech->ack);
    load_body_fini(&speech->body);
    free(speech);
}

static struct load_speech *redis_open(const struct load_plan *plan, uint32_t run,
                                      char problem[LOAD_TEXT_BYTES_MAX])
{
    static const char *const push_keys[] = {"delayed", "bodies", NULL};
    static const char *const take_keys[] = {"delayed", "bodies", "leased", NULL};
    static const char *const ack_keys[] = {"bodies", "leased", NULL};
    struct load_speech *speech = calloc(1, sizeof *speech);
    if (!speech) {
        snprintf(problem, LOAD_TEXT_BYTES_MAX, "out of memory");
        return NULL;
    }
    speech->own_ids = plan->own_ids;
    speech->run = run;
    speech->take_max = plan->take_max;
    speech->body_bytes = plan->body_bytes;
    buffer_init(&speech->push, LINE_BYTES_MAX);
    buffer_init(&speech->take, LINE_BYTES_MAX);
    buffer_init(&speech->ack, LINE_BYTES_MAX);
    load_body_init(&speech->body, plan->body_bytes);
    if (prepare(&speech->push, plan, push_script, push_keys, problem) &&
        prepare(&speech->take, plan, take_script, take_keys, problem) &&
        prepare(&speech->ack, plan, ack_script, ack_keys, problem))
        return speech;
    redis_close(speech);
    return NULL;
}

/* ---- requests ---- */

/* Number of words of each prepared part: EVALSHA, the hash, the number of keys, the keys. */
enum { PUSH_WORDS = 5, TAKE_WORDS = 6, ACK_WORDS = 5 };

/* Appends a short id, because only the producer names the jobs; or one as long as others' ids. */
static void append_id(struct load_speech *speech, struct buffer *out, uint64_t index)
{
    char id[32];
    if (speech->own_ids) {
        load_stamp_id(id, speech->run, index);
        append_word(out, id, LOAD_ID_BYTES);
        return;
    }
    struct buffer text = {.at = id, .cap = sizeof id, .bytes_max = sizeof id};
    buffer_append_u64(&text, speech->run);
    buffer_append_byte(&text, '-');
    buffer_append_u64(&text, index);
    append_word(out, text.at, text.len);
}

static void redis_push(struct load_speech *speech, struct buffer *out,
                       const struct load_stamp *stamps, unsigned count)
{
    uint64_t now_ms =
        (uint64_t)clock_wall_ms() + 1; /* the clock rounds down, a due time must not */
    append_count(out, PUSH_WORDS + 3 * (uint64_t)count);
    buffer_append_slice(out, buffer_slice(&speech->push));
    for (unsigned i = 0; i < count; i++) {
        append_id(speech, out, stamps[i].index);
        append_number(out, now_ms + (uint64_t)stamps[i].delay_ms);
        buffer_append_byte(out, '$');
        buffer_append_u64(out, speech->body_bytes);
        buffer_append(out, "\r\n", 2);
        load_body_append(&speech->body, &stamps[i], out);
        buffer_append(out, "\r\n", 2);
    }
}

static unsigned redis_take(struct load_speech *speech, struct buffer *out, unsigned got_last_time)
{
    (void)got_last_time;
    uint64_t now_ms = (uint64_t)clock_wall_ms();
    append_count(out, TAKE_WORDS + 3);
    buffer_append_slice(out, buffer_slice(&speech->take));
    append_number(out, now_ms);
    append_number(out, speech->take_max);
    append_number(out, now_ms + LEASE_MS);
    return 1;
}

static unsigned redis_ack(struct load_speech *speech, struct buffer *out,
                          const struct load_item *items, unsigned count)
{
    append_count(out, ACK_WORDS + (uint64_t)count);
    buffer_append_slice(out, buffer_slice(&speech->ack));
    for (unsigned i = 0; i < count; i++)
        append_word(out, items[i].lease.at, items[i].lease.len);
    return 1;
}

/* ---- answers: RESP2 ---- */

struct value {
    char kind;          /* + - : $ * */
    int64_t number;     /* of : and *; length of $ */
    struct slice bytes; /* of + - and $ */
};

/* The value at *at, which moves behind it (behind the head, for an array). PARTIAL leaves *at where
 * it was. */
static enum load_outcome read_value(const char **at, const char *end, size_t *missing,
                                    struct value *value)
{
    const char *eol = memchr(*at, '\n', (size_t)(end - *at));
    *missing = 1;
    if (!eol)
        return end - *at > LINE_BYTES_MAX ? LOAD_BROKEN : LOAD_PARTIAL;
    if (eol - *at < 2 || eol[-1] != '\r')
        return LOAD_BROKEN;
    value->kind = **at;
    value->bytes = slice_make(*at + 1, (size_t)(eol - *at) - 2);
    if (value->kind == '+' || value->kind == '-') {
        *at = eol + 1;
        return LOAD_ANSWER;
    }
    const char *digit = *at + 1;
    bool negative = *digit == '-';
    digit += negative;
    int64_t number = 0;
    if (digit == eol - 1)
        return LOAD_BROKEN;
    for (; digit < eol - 1; digit++) {
        if (*digit < '0' || *digit > '9' || number > BULK_BYTES_MAX)
            return LOAD_BROKEN;
        number = number * 10 + *digit - '0';
    }
    value->number = negative ? -number : number;
    if (value->kind == ':' || value->kind == '*' || (value->kind == '$' && negative)) {
        *at = eol + 1;
        return LOAD_ANSWER;
    }
    if (value->kind != '$')
        return LOAD_BROKEN;
    size_t have = (size_t)(end - (eol + 1)), want = (size_t)number + 2;
    if (have < want) {
        *missing = want - have;
        return LOAD_PARTIAL;
    }
    value->bytes = slice_make(eol + 1, (size_t)number);
    *at = eol + 1 + want;
    return LOAD_ANSWER;
}

static enum load_outcome read_jobs(const char **at, const char *end, int64_t words, size_t *missing,
                                   struct load_answer *answer)
{
    struct value id, body;
    for (int64_t i = 0; i + 1 < words; i += 2) {
        enum load_outcome outcome = read_value(at, end, missing, &id);
        if (outcome == LOAD_ANSWER)
            outcome = read_value(at, end, missing, &body);
        if (outcome != LOAD_ANSWER)
            return outcome;
        if (id.kind != '$' || body.kind != '$' || body.number < 0 ||
            answer->item_count == LOAD_TAKE_MAX)
            return LOAD_BROKEN;
        answer->items[answer->item_count++] =
            (struct load_item){.lease = id.bytes, .body = body.bytes};
    }
    return LOAD_ANSWER;
}

static enum load_outcome redis_parse(struct load_speech *speech, enum load_kind kind,
                                     uint32_t count, struct slice bytes, struct load_answer *answer)
{
    (void)speech;
    const char *at = bytes.at, *end = bytes.at + bytes.len;
    struct value value;
    size_t missing = 1;
    answer->failed = 0;
    answer->item_count = 0;
    answer->problem = bytes;
    enum load_outcome outcome = read_value(&at, end, &missing, &value);
    if (outcome == LOAD_ANSWER && value.kind == '*' && kind == LOAD_TAKE)
        outcome = read_jobs(&at, end, value.number, &missing, answer);
    else if (outcome == LOAD_ANSWER && value.kind == ':' && value.number >= 0 &&
             value.number <= count)
        answer->failed = count - (uint64_t)value.number;
    else if (outcome == LOAD_ANSWER && value.kind == '-')
        answer->failed = count ? count : 1;
    else if (outcome == LOAD_ANSWER)
        outcome = LOAD_BROKEN;
    answer->need = bytes.len + missing;
    answer->bytes = (size_t)(at - bytes.at);
    return outcome;
}

const struct load_protocol load_redis = {
    .name = "redis",
    .port = "6379",
    .delay_unit_ms = 1,
    .batch_max = LOAD_BATCH_MAX,
    .poll_us = 1000,
    .open = redis_open,
    .close = redis_close,
    .push = redis_push,
    .take = redis_take,
    .ack = redis_ack,
    .parse = redis_parse,
};
