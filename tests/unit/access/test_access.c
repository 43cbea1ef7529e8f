#include "unit/access/access_rig.h"

static void token_is_admitted_as_what_its_line_says(void **state)
{
    struct access_rig rig;
    struct access_caller *caller;
    char secret[TOKEN_BYTES + 1], text[512], header[128];
    (void)state;
    token_make(secret);
    snprintf(text, sizeof text,
             "# who sends orders\ntoken shop scope=push,read topics=orders-*,mail rate=90/m "
             "max-jobs=1M %s\n",
             rig_hash("sha256", secret));
    rig_open(&rig, text);
    snprintf(header, sizeof header, "Bearer %s", secret);
    assert_int_equal(rig_ask(&rig, header, &caller), ACCESS_OK);
    assert_int_equal(caller->kind, ACCESS_TOKEN);
    assert_true(slice_is(caller->name, "shop"));
    assert_int_equal(caller->limits.push_rate.count, 90);
    assert_int_equal(caller->limits.push_rate.per_ms, 60000);
    assert_int_equal(caller->limits.jobs_max, 1000000);
    assert_true(access_may(caller, ACCESS_PUSH, slice_of("orders-eu")));
    assert_true(access_may(caller, ACCESS_PUSH | ACCESS_READ, slice_of("mail")));
    assert_false(access_may(caller, ACCESS_CONSUME, slice_of("mail")));
    assert_false(access_may(caller, ACCESS_PUSH | ACCESS_ADMIN, slice_of("mail")));
    assert_false(access_may(caller, ACCESS_PUSH, slice_of("mails")));
    assert_false(access_may(caller, ACCESS_PUSH, slice_of("")));
    assert_true(access_has_scope(caller, ACCESS_READ));
    access_caller_release(caller);
    rig_close(&rig);
}

static void one_byte_changed_is_nobody(void **state)
{
    struct access_rig rig;
    char secret[TOKEN_BYTES + 1], text[256], header[128];
    (void)state;
    token_make(secret);
    snprintf(text, sizeof text, "token t scope=push topics=* %s\n", rig_hash("sha256", secret));
    rig_open(&rig, text);
    int start = snprintf(header, sizeof header, "Bearer %s", secret) - TOKEN_BYTES;
    assert_int_equal(rig_refusal(&rig, header), ACCESS_OK);
    for (int i = start; header[i]; i++)
        for (int bit = 0; bit < 7; bit++) {
            header[i] ^= (char)(1 << bit);
            if (header[i])
                assert_int_not_equal(rig_refusal(&rig, header), ACCESS_OK);
            header[i] ^= (char)(1 << bit);
        }
    for (int len = start; len < start + TOKEN_BYTES; len++) {
        char cut[128];
        snprintf(cut, sizeof cut, "%.*s", len, header);
        assert_int_not_equal(rig_refusal(&rig, cut), ACCESS_OK);
    }
    static const char *const behind[] = {" ", "x", "\t", ",", "="};
    for (size_t i = 0; i < COUNT_OF(behind); i++) {
        char longer[140];
        snprintf(longer, sizeof longer, "%s%s", header, behind[i]);
        assert_int_not_equal(rig_refusal(&rig, longer), ACCESS_OK);
    }
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(token_is_admitted_as_what_its_line_says),
        cmocka_unit_test(one_byte_changed_is_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
