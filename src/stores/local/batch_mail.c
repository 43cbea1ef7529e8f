#include "local/batch_mail.h"

#include <stdlib.h>

enum { RETRY_MS = 50 };

struct batch_mail {
    struct list list;
    struct shard *shard;
    uint64_t needs; /* durable sequence */
    uint32_t to;
    struct queue_batch_call call;
};

static struct batch_mail *mail_first(const struct shard *shard)
{
    return list_is_empty(&shard->mail) ? NULL
                                       : list_entry(shard->mail.next, struct batch_mail, list);
}

static void mail_failed(struct shard *shard, const struct queue_batch_call *call, uint32_t to,
                        enum queue_status status)
{
    engine_batch_answered(shard->engine, call, to, status);
    shard->mail_retry_ms = clock_inner_ms() + RETRY_MS;
}

void batch_mail_collect(struct shard *shard, uint64_t sequence)
{
    struct queue_batch_call call;
    uint32_t to;
    if (shard->stopping || shard->broken || shard->mail_retry_ms)
        return;
    while (engine_batch_next(shard->engine, &call, &to)) {
        struct batch_mail *mail = malloc(sizeof *mail);
        if (!mail) {
            mail_failed(shard, &call, to, QUEUE_NO_MEMORY);
            return;
        }
        *mail = (struct batch_mail){.shard = shard, .needs = sequence, .to = to, .call = call};
        list_add_last(&shard->mail, &mail->list);
    }
}

static void mail_answered(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct batch_mail *mail = owner;
    struct shard *shard = mail->shard;
    enum queue_status status = reply->result_count ? reply->results[0].status : reply->status;
    (void)tag;
    shard->mail_under_way--;
    if (status == QUEUE_OK || status == QUEUE_NOT_FOUND)
        engine_batch_answered(shard->engine, &mail->call, mail->to, status);
    else
        mail_failed(shard, &mail->call, mail->to, status);
    free(mail);
}

void batch_mail_send(struct shard *shard)
{
    struct batch_mail *mail;
    while ((mail = mail_first(shard)) && (mail->needs <= shard->durable || shard->stopping)) {
        const struct command command = {.kind = COMMAND_BATCH, .count = 1, .batches = &mail->call};
        list_remove(&mail->list);
        if (shard->stopping || shard->broken) {
            free(mail);
            continue;
        }
        shard->mail_under_way++;
        if (!shard->options.call(shard->options.ctx, mail->to, &command,
                                 (struct queue_reply_to){.done = mail_answered, .owner = mail})) {
            shard->mail_under_way--;
            free(mail);
        }
    }
}

bool batch_mail_step(struct shard *shard, int64_t process_ms)
{
    const struct batch_mail *first;
    if (shard->mail_retry_ms <= process_ms)
        shard->mail_retry_ms = 0;
    if (engine_batch_has_next(shard->engine) && !shard->mail_retry_ms &&
        wal_open_is_empty(shard->wal))
        batch_mail_collect(shard, wal_open_sequence(shard->wal) - 1);
    first = mail_first(shard);
    return first && first->needs <= shard->durable && !shard->broken;
}

int64_t batch_mail_next_ms(const struct shard *shard)
{
    return shard->mail_retry_ms && !shard->broken && !shard->stopping ? shard->mail_retry_ms
                                                                      : INT64_MAX;
}

bool batch_mail_is_busy(const struct shard *shard)
{
    return !list_is_empty(&shard->mail) || shard->mail_under_way ||
           engine_batch_has_next(shard->engine);
}

void batch_mail_fini(struct shard *shard)
{
    struct batch_mail *mail;
    while ((mail = mail_first(shard))) {
        list_remove(&mail->list);
        free(mail);
    }
}
