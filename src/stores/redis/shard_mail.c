#include "redis/shard_mail.h"

#include "base/clock.h"
#include "redis/id.h"
#include "redis/shard_parts.h"

#include <stdlib.h>

enum { MAIL_HOLD_US = 200 * 1000, RETRY_US = 100 * 1000 };

/* Something that is carried: first to another shard, then confirmed in its own. */
struct redis_letter {
    struct list list; /* mail.letters */
    struct redis_part_call call;
    struct redis_shard *shard; /* NULL: it has been freed */
    char kind;                 /* as in scripts/mail.lua */
    uint64_t number, version;  /* of the batch; of the report, or the number of the join */
    uint32_t place;            /* of an order or a join: the other shard */
    uint8_t orders;            /* of an order */
    size_t name_bytes;         /* topic NUL id of the waiting job, as stored */
    char name[JOB_TOPIC_BYTES_MAX + 1 + JOB_ID_BYTES_MAX];
};

static struct slice letter_name(const struct redis_letter *letter)
{
    return slice_make(letter->name, letter->name_bytes);
}

/* ---- replies that wait ---- */

void redis_mail_init(struct redis_shard *shard)
{
    list_init(&shard->mail.letters);
    list_init(&shard->mail.held);
    list_init(&shard->mail.leaving);
}

static void release(struct redis_shard *shard, struct list *held)
{
    while (!list_is_empty(held)) {
        struct redis_soon *soon = list_entry(held->next, struct redis_soon, list);
        list_remove(&soon->list);
        redis_soon_add(shard, soon);
    }
}

void redis_mail_hold(struct redis_shard *shard, struct redis_soon *soon)
{
    struct redis_mail *mail = &shard->mail;
    if (list_is_empty(&mail->held))
        mail->held_since_us = clock_boot_us();
    mail->is_due = true; /* a round that began before may have ended */
    list_add_last(&mail->held, &soon->list);
}

static void round_over(struct redis_shard *shard)
{
    struct redis_mail *mail = &shard->mail;
    if (mail->is_asking || !list_is_empty(&mail->letters))
        return;
    release(shard, &mail->leaving);
    if (mail->dropped && !mail->arrived)
        mail->retry_us = clock_boot_us() + RETRY_US;
    reactor_iterate_again(shard->options.reactor);
}

/* ---- letters ---- */

static void letter_end(struct redis_letter *letter)
{
    struct redis_shard *shard = letter->shard;
    list_remove(&letter->list);
    free(letter);
    if (shard)
        round_over(shard);
}

static void letter_confirmed(struct redis_part_call *call, enum queue_status status,
                             const struct redis_part_answer *answer)
{
    (void)status; /* what was not confirmed is carried again */
    (void)answer;
    letter_end(list_entry(call, struct redis_letter, call));
}

/* Confirms a letter in its own shard. */
static void letter_confirm(struct redis_letter *letter, const struct redis_part_answer *answer)
{
    struct redis_part_text text;
    if (letter->kind == 'r') {
        text = redis_part_begin(REDIS_PART_FOLLOW);
        redis_part_number(&text, letter->number, 6);
        redis_part_number(&text, letter->version, 6);
        redis_part_number(&text, answer->orders, 1);
        redis_part_name(&text, letter_name(letter));
    } else if (letter->kind == 'o') {
        text = redis_part_begin(REDIS_PART_FOLLOWED);
        redis_part_number(&text, letter->place, 2);
        redis_part_number(&text, letter->number, 6);
        redis_part_number(&text, letter->orders, 1);
        redis_part_number(&text, answer->version, 6);
        redis_part_name(&text, letter_name(letter));
    } else {
        text = redis_part_begin(REDIS_PART_LEAVE);
        redis_part_number(&text, letter->version, 6);
        redis_part_number(&text, answer->version, 6);
    }
    letter->call.done = letter_confirmed;
    if (!redis_part_send(letter->shard, &letter->call, &text))
        letter_end(letter);
}

static void letter_arrived(struct redis_part_call *call, enum queue_status status,
                           const struct redis_part_answer *answer)
{
    struct redis_letter *letter = list_entry(call, struct redis_letter, call);
    struct redis_shard *shard = letter->shard;
    if (status == QUEUE_OK && shard && !shard->freeing) {
        shard->mail.arrived++;
        letter_confirm(letter, answer);
        return;
    }
    if (shard)
        shard->mail.dropped++;
    letter_end(letter);
}

/* Returns the home of a batch; NULL: the name is malformed. */
static struct redis_shard *home_of(const struct redis_letter *letter)
{
    const struct redis_shard_options *options = &letter->shard->options;
    const char *nul = memchr(letter->name, 0, letter->name_bytes);
    char room[REDIS_ID_ROOM_BYTES];
    struct slice id;
    if (!nul)
        return NULL;
    size_t topic_bytes = (size_t)(nul - letter->name);
    if (!redis_id_show(slice_make(nul + 1, letter->name_bytes - topic_bytes - 1), room, &id))
        return NULL;
    return options->peer_of(options->learned_ctx, slice_make(letter->name, topic_bytes), id);
}

/* Reads the numbers of a report, and packs the call to the home. */
static struct redis_shard *read_report(struct redis_letter *letter, struct slice *rest,
                                       struct redis_part_text *text)
{
    enum { COUNTS_BYTES = 4 * BATCH_OUTCOMES };
    uint8_t is_stopped;
    if (!redis_unpack_u48(rest, &letter->number) || !redis_unpack_u48(rest, &letter->version) ||
        !redis_unpack_u8(rest, &is_stopped) || rest->len < COUNTS_BYTES)
        return NULL;
    *text = redis_part_begin(REDIS_PART_REPORT);
    redis_part_number(text, letter->shard->options.place, 2);
    redis_part_number(text, letter->number, 6);
    redis_part_number(text, letter->version, 6);
    redis_part_number(text, is_stopped, 1);
    redis_part_name(text, slice_make(rest->at, COUNTS_BYTES));
    *rest = slice_make(rest->at + COUNTS_BYTES, rest->len - COUNTS_BYTES);
    return letter->shard;
}

static bool read_place(struct redis_letter *letter, struct slice *rest)
{
    uint8_t high, low;
    if (!redis_unpack_u48(rest, &letter->number) || !redis_unpack_u8(rest, &high) ||
        !redis_unpack_u8(rest, &low))
        return false;
    letter->place = (uint32_t)high << 8 | low;
    return true;
}

/* Reads an order, or the end of a join, and packs the call to the shard with the members. */
static struct redis_shard *read_order(struct redis_letter *letter, struct slice *rest,
                                      struct redis_part_text *text)
{
    const struct redis_shard_options *options = &letter->shard->options;
    bool is_order = letter->kind == 'o';
    if ((!is_order && !redis_unpack_u48(rest, &letter->version)) || !read_place(letter, rest) ||
        (is_order && !redis_unpack_u8(rest, &letter->orders)))
        return NULL;
    if (is_order) {
        *text = redis_part_begin(REDIS_PART_FOLLOW);
        redis_part_number(text, letter->number, 6);
        redis_part_number(text, 0, 6);
        redis_part_number(text, letter->orders, 1);
    } else {
        *text = redis_part_begin(REDIS_PART_FENCE);
        redis_part_number(text, options->place + 1, 2);
        redis_part_number(text, letter->version, 6);
        redis_part_number(text, letter->number, 6);
    }
    return options->peer_at(options->learned_ctx, letter->place);
}

enum sending { SENDING_BEGUN, SENDING_MALFORMED, SENDING_DROPPED };

/* Reads a letter and sends it. Drops it if its shard is unreachable, or memory runs out: it is
 * stored, so a later round carries it. */
static enum sending letter_send(struct redis_letter *letter, struct slice rest)
{
    struct redis_part_text text;
    struct redis_shard *to =
        letter->kind == 'r' ? read_report(letter, &rest, &text) : read_order(letter, &rest, &text);
    if (!to || rest.len > sizeof letter->name)
        return SENDING_MALFORMED;
    memcpy(letter->name, rest.at, letter->name_bytes = rest.len);
    redis_part_name(&text, rest);
    if (letter->kind == 'r')
        to = home_of(letter);
    if (!to)
        return SENDING_MALFORMED;
    letter->call.done = letter_arrived;
    return to->up && redis_part_send(to, &letter->call, &text) ? SENDING_BEGUN : SENDING_DROPPED;
}

static void letter_read(struct redis_shard *shard, struct slice text)
{
    struct redis_letter *letter = text.len ? calloc(1, sizeof *letter) : NULL;
    if (!letter)
        return; /* the next second's look finds it */
    letter->shard = shard;
    letter->kind = text.at[0];
    list_add_last(&shard->mail.letters, &letter->list);
    enum sending sending = letter_send(letter, slice_make(text.at + 1, text.len - 1));
    if (sending == SENDING_BEGUN)
        return;
    list_remove(&letter->list);
    free(letter);
    shard->mail.dropped++;
    if (sending == SENDING_MALFORMED)
        redis_shard_log_malformed(shard, REDIS_MAIL);
}

/* ---- a round ---- */

struct asking {
    struct redis_call call;
    struct redis_shard *shard;
};

static void on_mail(struct redis_call *call, enum redis_call_end end, const struct redis_head *head,
                    const redisReply *reply)
{
    struct asking *asking = list_entry(call, struct asking, call);
    struct redis_shard *shard = asking->shard;
    struct slice text;
    buffer_fini(&call->args);
    free(asking);
    if (end == REDIS_CALL_OK)
        redis_shard_note_head(shard, head);
    for (size_t i = 1; end == REDIS_CALL_OK && !shard->freeing && i < reply->elements; i++)
        if (redis_element(reply, i, &text))
            letter_read(shard, text);
    shard->mail.is_asking = false;
    round_over(shard);
}

static void round_begin(struct redis_shard *shard)
{
    struct redis_mail *mail = &shard->mail;
    struct asking *asking = calloc(1, sizeof *asking);
    if (!asking)
        return;
    asking->shard = shard;
    redis_shard_call_init(&asking->call, REDIS_MAIL, true, on_mail);
    mail->is_due = false;
    mail->is_asking = true;
    mail->arrived = mail->dropped = 0;
    if (!list_is_empty(&mail->held))
        mail->leaving_since_us = mail->held_since_us;
    while (!list_is_empty(&mail->held)) {
        struct list *first = mail->held.next;
        list_remove(first);
        list_add_last(&mail->leaving, first);
    }
    if (!redis_shard_send(shard, &asking->call, 0))
        on_mail(&asking->call, REDIS_CALL_UNAVAILABLE, NULL, NULL);
}

bool redis_mail_is_busy(const struct redis_shard *shard)
{
    const struct redis_mail *mail = &shard->mail;
    return mail->is_due || mail->is_asking || !list_is_empty(&mail->letters);
}

/* Begins a round if one is due. Returns how long it must wait for its time; INT64_MAX: not for that. */
static int64_t round_step(struct redis_shard *shard, int64_t now_us)
{
    struct redis_mail *mail = &shard->mail;
    if (!mail->is_due || mail->is_asking || !list_is_empty(&mail->letters) || !shard->up ||
        shard->stopping)
        return INT64_MAX;
    if (mail->retry_us > now_us)
        return mail->retry_us - now_us;
    round_begin(shard);
    return INT64_MAX;
}

/* Releases replies that have waited for long enough. Returns how long they may still wait, in us;
 * INT64_MAX: none waits. */
static int64_t held_step(struct redis_shard *shard, struct list *held, int64_t since_us,
                         int64_t now_us)
{
    int64_t left_us = since_us + MAIL_HOLD_US - now_us;
    if (list_is_empty(held))
        return INT64_MAX;
    if (left_us > 0 && !shard->stopping)
        return left_us;
    release(shard, held);
    reactor_iterate_again(shard->options.reactor);
    return INT64_MAX;
}

int64_t redis_mail_step(struct redis_shard *shard, int64_t now_ms)
{
    struct redis_mail *mail = &shard->mail;
    int64_t now_us = clock_boot_us();
    int64_t first_us = round_step(shard, now_us);
    int64_t held_us = held_step(shard, &mail->held, mail->held_since_us, now_us);
    int64_t leaving_us = held_step(shard, &mail->leaving, mail->leaving_since_us, now_us);
    if (held_us < first_us)
        first_us = held_us;
    if (leaving_us < first_us)
        first_us = leaving_us;
    return first_us == INT64_MAX ? INT64_MAX : now_ms + (first_us + 999) / 1000;
}

void redis_mail_fini(struct redis_shard *shard)
{
    struct redis_mail *mail = &shard->mail;
    while (!list_is_empty(&mail->letters)) {
        struct redis_letter *letter = list_entry(mail->letters.next, struct redis_letter, list);
        list_remove(&letter->list);
        letter->shard = NULL;
    }
    release(shard, &mail->leaving);
    release(shard, &mail->held);
}
