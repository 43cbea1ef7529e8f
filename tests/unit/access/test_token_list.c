#include "unit/access/access_rig.h"
#include "unit/claim.h"

#include <errno.h>

#define HASH_A "0000000000000000000000000000000000000000000000000000000000000001"
#define HASH_B "0000000000000000000000000000000000000000000000000000000000000002"

static int read_list(const char *text, struct token_list *list, char *error)
{
    return token_list_read(slice_of(text), "f", list, error);
}

CLAIM(lines_are_read_in_any_order_of_their_keys)
{
    struct token_list list;
    char error[ACCESS_ERROR_BYTES];
    assert_int_equal(
        read_list("# a comment\n\n  \t\r\n"
                  "token shop sha256=" HASH_A "  topics=a,b-* scope=read,push # Ann\r\n"
                  "certificate b.internal scope=admin topics=* expires=2030-01-01T00:00:00Z",
                  &list, error),
        0);
    assert_int_equal(list.count, 2);
    const struct token *shop = token_list_find(&list, slice_of("shop"));
    assert_non_null(shop);
    assert_int_equal(shop->scopes, ACCESS_PUSH | ACCESS_READ);
    assert_int_equal(shop->secret_count, 1);
    assert_int_equal(shop->expires_ms, INT64_MAX);
    assert_true(slice_is(shop->comment, "# Ann\r"));
    assert_int_equal(list.tokens[1].kind, ACCESS_CERTIFICATE);
    assert_int_equal(list.tokens[1].expires_ms, INT64_C(1893456000000));
    assert_null(token_list_find(&list, slice_of("sho")));
    token_list_fini(&list);
}

CLAIM(line_that_is_wrong_is_refused_by_its_place)
{
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"tokn a", "f:1: unknown word 'tokn'"},
        {"\n\ntoken", "f:3: bad name ''"},
        {"token a=b scope=push", "f:1: bad name 'a=b'"},
        {"token -a scope=push", "f:1: bad name '-a'"},
        {"token a topics=* sha256=" HASH_A, "f:1: 'scope' is missing"},
        {"token a scope=push sha256=" HASH_A, "f:1: 'topics' is missing"},
        {"token a scope=push topics=*", "f:1: 'sha256' is missing"},
        {"token a scope=push topics=* sha256=" HASH_A " x=1", "f:1: unknown key 'x'"},
        {"token a scope=push topics=* sha256", "f:1: bad value for 'sha256'"},
        {"token a scope=push topics=* sha256=" HASH_A "0", "f:1: bad value for 'sha256'"},
        {"token a scope=push topics=* sha256=00", "f:1: bad value for 'sha256'"},
        {"token a scope=push topics=* sha256="
         "000000000000000000000000000000000000000000000000000000000000000A",
         "f:1: bad value for 'sha256'"},
        {"token a scope=push scope=read topics=* sha256=" HASH_A, "f:1: 'scope' is given twice"},
        {"token a scope=all topics=* sha256=" HASH_A, "f:1: bad value for 'scope'"},
        {"token a scope=push topics=a*b sha256=" HASH_A, "f:1: bad value for 'topics'"},
        {"token a scope=push topics=* rate=9 sha256=" HASH_A, "f:1: bad value for 'rate'"},
        {"token a scope=push topics=* max-jobs=0 sha256=" HASH_A, "f:1: bad value for 'max-jobs'"},
        {"token a scope=push topics=* expires=soon sha256=" HASH_A, "f:1: bad value for 'expires'"},
        {"token a scope=push topics=* sha256=" HASH_A " old-sha256=" HASH_B,
         "f:1: 'old-until' is missing"},
        {"token a scope=push topics=* sha256=" HASH_A " old-until=2030-01-01T00:00:00Z",
         "f:1: 'old-sha256' is missing"},
        {"certificate a scope=push topics=* sha256=" HASH_A, "f:1: a certificate has no 'sha256'"},
        {"access-key a scope=push topics=*", "f:1: 'secret' is missing"},
        {"access-key a scope=push topics=* secret=short", "f:1: bad value for 'secret'"},
        {"access-key a scope=push topics=* sha256=" HASH_A, "f:1: 'secret' is missing"},
        {"access-key a scope=push topics=* secret=0123456789abcdef sha256=" HASH_A,
         "f:1: an access-key has no 'sha256'"},
        {"access-key a scope=push topics=* secret=0123456789abcdef old-secret=0123456789abcdeg",
         "f:1: 'old-until' is missing"},
        {"token a scope=push topics=* secret=0123456789abcdef sha256=" HASH_A,
         "f:1: only an access-key has a 'secret'"},
        {"certificate a scope=push topics=*\ncertificate a scope=read topics=*",
         "f:2: 'a' is given twice"},
        {"token a scope=push topics=* sha256=" HASH_A
         "\ntoken b scope=push topics=* sha256=" HASH_A,
         "f:2: the secret of 'b' is given twice"},
    };
    struct token_list list;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char error[ACCESS_ERROR_BYTES] = "";
        CASE_HOLDS(rows[i].error, read_list(rows[i].text, &list, error) == -EINVAL);
        if (strncmp(error, rows[i].error, strlen(rows[i].error)) != 0)
            fail_msg("'%s' instead of '%s'", error, rows[i].error);
        CASE_HOLDS("no hash in an error", !strstr(error, HASH_A));
    }
}

/* The edited line reads back as written, and the rest of the text stays. */
CLAIM(one_line_is_edited_and_no_other)
{
    static const char before[] =
        "# one\n token b scope=push topics=* sha256=" HASH_B "  # kept\nend";
    struct token_list list;
    struct buffer out;
    char error[ACCESS_ERROR_BYTES];
    const char *all = "token a scope=push,admin topics=a-*,b rate=90/m requests=5/s max-jobs=7 "
                      "max-waiting=9 max-connections=10 "
                      "created=2026-11-23T05:00:00.001Z expires=2030-01-01T00:00:00.000Z "
                      "revoked=2027-01-01T00:00:00.000Z sha256=" HASH_A " old-sha256=" HASH_B
                      " old-until=2026-11-24T05:00:00.000Z\n";
    buffer_init(&out, 4096);
    assert_int_equal(read_list(all, &list, error), 0);
    token_list_put(slice_of("# one\n"), &list.tokens[0], &out);
    assert_true(slice_equals(slice_make(out.at + 6, out.len - 6), slice_of(all)));
    buffer_clear(&out);
    token_list_put(slice_of(before), &list.tokens[0], &out);
    assert_true(out.len > sizeof before && memcmp(out.at, before, sizeof before - 1) == 0);
    token_list_fini(&list);
    assert_int_equal(read_list("token b scope=read topics=x sha256=" HASH_A, &list, error), 0);
    buffer_clear(&out);
    token_list_put(slice_of(before), &list.tokens[0], &out);
    assert_true(slice_is(buffer_slice(&out),
                         "# one\ntoken b scope=read topics=x sha256=" HASH_A " # kept\nend\n"));
    token_list_fini(&list);
    const char *key = "access-key k scope=push topics=* secret=0123456789abcdef "
                      "old-secret=abcdefghijklmnop/+ old-until=2026-11-24T05:00:00.000Z\n";
    assert_int_equal(read_list(key, &list, error), 0);
    buffer_clear(&out);
    token_list_put(slice_of(""), &list.tokens[0], &out);
    assert_true(slice_is(buffer_slice(&out), key));
    token_list_fini(&list);
    buffer_fini(&out);
}

CLAIM(a_token_has_a_prefix_and_a_checksum)
{
    char token[TOKEN_BYTES + 1];
    for (int i = 0; i < 100; i++) {
        token_make(token);
        assert_true(token_is_formed(slice_of(token)));
        token[6 + i % 36] = token[6 + i % 36] == 'x' ? 'y' : 'x';
        assert_false(token_is_formed(slice_of(token)));
    }
    assert_false(token_is_formed(slice_of("tarry_")));
    assert_false(token_is_formed(slice_of("")));
}

CLAIMS_MAIN(NULL, NULL)
