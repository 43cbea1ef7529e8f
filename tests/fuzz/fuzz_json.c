/* JSON: ours and jansson agree on validity and on the value; strings survive being written
 * and read. */
#include "base/json_levels.h"
#include "base/json_read.h"
#include "base/json_write.h"

#include "claim.h"
#include "unit/base/judge_jansson.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void claim_agreement(struct slice text)
{
    struct json_value value = {0};
    size_t error_at = 0;
    json_t *tree;

    enum decision decision = judge_json(text, &tree);
    bool ours = json_check(text, &value, &error_at);
    CLAIM("what jansson accepts is accepted", decision != DECISION_YES || ours);
    CLAIM("what jansson refuses is refused", decision != DECISION_NO || !ours);
    CLAIM("both read the same", decision != DECISION_YES || judge_same(value, tree));
    CLAIM("a fault lies within the text", ours || error_at <= text.len);
    json_decref(tree);
}

static void claim_round_trip(struct slice text)
{
    struct buffer written, scratch;
    struct json_value value;
    struct slice again;

    buffer_init(&written, text.len * 6 + 2);
    buffer_init(&scratch, text.len * 6 + 2);
    json_write_string(&written, text);
    CLAIM("no string is longer than six times its bytes and quotes", !written.failed);
    CLAIM("what is written is valid", json_check(buffer_slice(&written), &value, NULL));
    CLAIM("it can be read", json_string_bytes(value.raw, &scratch, &again));
    CLAIM("UTF-8 is not changed", !json_utf8_is_valid(text) || slice_equals(text, again));
    CLAIM("what is read is UTF-8", json_utf8_is_valid(again));
    buffer_fini(&written);
    buffer_fini(&scratch);
}

/* The first byte gives the length of the pieces. */
static void claim_pieces(struct slice text)
{
    struct json_scan scan = {0};
    size_t whole_end, end, piece = text.len ? 1 + (size_t)((unsigned char)text.at[0] & 15) : 1;
    enum json_finding finding, whole = json_check_first(text, 4, &whole_end);
    do
        finding = json_scan_some(&scan, text, 4, piece, &end);
    while (finding == JSON_UNFINISHED);
    CLAIM("a check in pieces finds the same", finding == whole && end == whole_end);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct slice text = slice_make(bytes, len);

    claim_agreement(text);
    claim_pieces(text);
    claim_round_trip(text);
    return 0;
}
