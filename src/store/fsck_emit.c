#include "base/json_write.h"
#include "store/fsck.h"

#include <inttypes.h>

/* ---- for people ---- */

static void emit_shard(struct buffer *out, uint32_t number, const struct fsck_shard *shard)
{
    if (shard->files == 0) {
        buffer_append_format(out, "shard %02" PRIu32 ": no log yet\n", number);
        return;
    }
    buffer_append_format(out,
                         "shard %02" PRIu32 ": %" PRIu32 " log files from %" PRIu32 ", %" PRIu64
                         " batches, %" PRIu64 " records, %" PRIu64 " bytes\n",
                         number, shard->files, shard->first_file, shard->batches, shard->records,
                         shard->bytes);
    buffer_append_format(out,
                         "shard %02" PRIu32 ": %" PRIu64 " topics; jobs: %" PRIu64
                         " delayed or ready, %" PRIu64 " leased, %" PRIu64 " dead\n",
                         number, shard->topics, shard->delayed, shard->leased, shard->dead);
    if (shard->torn_bytes)
        buffer_append_format(out,
                             "shard %02" PRIu32 ": %" PRIu64
                             " bytes of a half-written tail, as a crash leaves it; the next start "
                             "goes on before it\n",
                             number, shard->torn_bytes);
    if (shard->manifest_copies_bad)
        buffer_append_format(
            out,
            "shard %02" PRIu32
            ": one of the two copies of the log's MANIFEST is half-written; the other one counts\n",
            number);
}

void fsck_emit_text(struct buffer *out, const struct fsck_report *report)
{
    if (*report->error) {
        buffer_append_format(out, "%s\n", report->error);
        return;
    }
    for (uint32_t i = 0; i < report->shards; i++)
        emit_shard(out, i, &report->shard[i]);
    for (uint64_t i = 0; i < report->finding_count && i < FSCK_FINDINGS_MAX; i++) {
        const struct fsck_finding *finding = &report->finding[i];

        buffer_append_format(out, "shard %02" PRIu32, finding->shard);
        if (finding->file)
            buffer_append_format(out, ", log file %" PRIu32 ", byte %" PRIu32, finding->file,
                                 finding->at);
        buffer_append_format(out, ": %s\n", finding->text);
    }
    if (report->finding_count == 0)
        buffer_append_text(out, "clean\n");
    else
        buffer_append_format(out, "%" PRIu64 " findings\n", report->finding_count);
}

/* ---- for programs ---- */

static void number(struct buffer *out, const char *key, uint64_t value)
{
    if (out->len && out->at[out->len - 1] != '{')
        buffer_append_byte(out, ',');
    json_write_key(out, key);
    buffer_append_u64(out, value);
}

static void emit_shard_json(struct buffer *out, uint32_t index, const struct fsck_shard *shard)
{
    buffer_append_byte(out, '{');
    number(out, "shard", index);
    number(out, "first_file", shard->first_file);
    number(out, "files", shard->files);
    number(out, "manifest_copies_bad", shard->manifest_copies_bad);
    number(out, "batches", shard->batches);
    number(out, "records", shard->records);
    number(out, "bytes", shard->bytes);
    number(out, "torn_bytes", shard->torn_bytes);
    number(out, "topics", shard->topics);
    number(out, "delayed", shard->delayed);
    number(out, "leased", shard->leased);
    number(out, "dead", shard->dead);
    buffer_append_byte(out, '}');
}

static void emit_finding_json(struct buffer *out, const struct fsck_finding *finding)
{
    buffer_append_byte(out, '{');
    number(out, "shard", finding->shard);
    if (finding->file) {
        number(out, "file", finding->file);
        number(out, "at", finding->at);
    }
    buffer_append_byte(out, ',');
    json_write_key(out, "text");
    json_write_string(out, slice_of(finding->text));
    buffer_append_byte(out, '}');
}

void fsck_emit_json(struct buffer *out, const struct fsck_report *report)
{
    buffer_append_byte(out, '{');
    json_write_key(out, "clean");
    buffer_append_text(out, report->finding_count || *report->error ? "false" : "true");
    if (*report->error) {
        buffer_append_byte(out, ',');
        json_write_key(out, "error");
        json_write_string(out, slice_of(report->error));
    }
    number(out, "finding_count", report->finding_count);
    buffer_append_byte(out, ',');
    json_write_key(out, "findings");
    buffer_append_byte(out, '[');
    for (uint64_t i = 0; i < report->finding_count && i < FSCK_FINDINGS_MAX; i++) {
        if (i)
            buffer_append_byte(out, ',');
        emit_finding_json(out, &report->finding[i]);
    }
    buffer_append_text(out, "],");
    json_write_key(out, "shards");
    buffer_append_byte(out, '[');
    for (uint32_t i = 0; i < report->shards; i++) {
        if (i)
            buffer_append_byte(out, ',');
        emit_shard_json(out, i, &report->shard[i]);
    }
    buffer_append_text(out, "]}\n");
}
