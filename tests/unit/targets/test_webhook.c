/*
 * Signatures, held against the specification's example and against Python's hmac.
 *
 * test_webhook --sign POLICY KEY TOPIC ID SEQUENCE TIMESTAMP   signs what it reads, and writes the
 * headers: for tests of those who verify.
 */
#include "targets/http/webhook.h"

#include "base/clock.h"
#include "unit/guard/guard_rig.h"

#include <inttypes.h>

/* The example of Standard Webhooks' own test suites. */
#define EXAMPLE_KEY "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define OTHER_KEY "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
#define LONG_KEY                                                                                   \
    "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw" \
    "=="

static struct guard_key key_of(const char *text)
{
    char policy[256];
    struct guard_key keys[GUARD_KEYS_MAX];
    snprintf(policy, sizeof policy, "sign = a %s\n", text);
    struct guard *guard = guard_rig_open(policy);
    assert_int_equal(guard_find_keys(guard, slice_of("a"), keys), 1);
    guard_free(guard);
    return keys[0];
}

/* Signatures, except the first, were made by base64.b64encode(hmac.new(key, f"{id}.{time}.".encode() + body,
 * hashlib.sha256).digest()) */
static void signatures_match_other_implementations(void **state)
{
    static const struct {
        const char *key, *id;
        int64_t timestamp_s;
        const char *body;
        size_t body_bytes;
        const char *signature, *sentence;
    } rows[] = {
        {EXAMPLE_KEY, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, "{\"test\": 2432232314}", 20,
         "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", "the specification's example"},
        {OTHER_KEY, "msg_1", 0, "", 0, "v1,7KQKbkrcYd5b9ynRqa9UF2RsXI3TOQ1Thl++uYFdWNs=",
         "an empty body, at the beginning of time"},
        {EXAMPLE_KEY, "msg_1", 1700000000, "\000\001\377", 3,
         "v1,O2ySvnH7vY3Ewd1PQLK1QvYmpGTZ6USvuqxTPkak654=", "bytes that are no text"},
        {LONG_KEY, "msg_0123456789abcdef", 4102444800, "gr\303\274\303\237e.1.2\012", 12,
         "v1,zee6jFcU7qct/r6pevRfncSgl7RacmuRPNPTuaP4whc=",
         "a key as long as a block, a body with dots"},
        {OTHER_KEY, "msg_1", -1, "x", 1,
         "v1,Sc/LdgkW38UYDM0NhNySIgiZROzuyFMmnYozIid9n38=", "before 1970"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char signature[WEBHOOK_SIGNATURE_BYTES];
        struct guard_key key = key_of(rows[i].key);
        CASE_HOLDS(rows[i].sentence,
                   webhook_sign_with(&key, slice_of(rows[i].id), rows[i].timestamp_s,
                                     slice_make(rows[i].body, rows[i].body_bytes), signature));
        if (strcmp(signature, rows[i].signature) != 0)
            fail_msg("%s: %s", rows[i].sentence, signature);
    }
}

/* ---- a message ---- */

static struct job a_job(void)
{
    return (struct job){.topic = slice_of("orders"),
                        .id = slice_of("42"),
                        .body = slice_of("{\"total\":12}"),
                        .sequence = 7,
                        .attempt = 1};
}

/* Verifies the headers with only the key. */
static void assert_signed_by(const char *key_text, const struct webhook_headers *headers,
                             struct slice body, const char *signature)
{
    char expected[WEBHOOK_SIGNATURE_BYTES];
    struct guard_key key = key_of(key_text);
    assert_true(
        webhook_sign_with(&key, slice_of(headers->id), headers->timestamp_s, body, expected));
    assert_string_equal(signature, expected);
}

static void all_keys_of_the_name_sign(void **state)
{
    struct guard *guard =
        guard_rig_open("sign = shop " EXAMPLE_KEY "\nsign = default " LONG_KEY "\n"
                       "sign = shop " OTHER_KEY "\n");
    struct webhook *webhook = webhook_new(guard, NULL, NULL);
    struct target_setting setting = {.sign = (char[]){"shop"}};
    struct webhook_headers headers;
    struct job job = a_job();
    (void)state;
    for (int time = 1; time <= 3; time++) {
        assert_int_equal(webhook_sign(webhook, &setting, &job, time, &headers), WEBHOOK_SIGNED);
        assert_int_equal(headers.timestamp_s, time);
        char *second = strchr(headers.signature, ' ');
        assert_non_null(second);
        *second++ = 0;
        assert_null(strchr(second, ' '));
        assert_signed_by(EXAMPLE_KEY, &headers, job.body, headers.signature);
        assert_signed_by(OTHER_KEY, &headers, job.body, second);
    }
    webhook_free(webhook);
    guard_free(guard);
}

static const char *name_of(void *store)
{
    return store;
}

static void messages_of_two_stores_have_two_ids(void **state)
{
    static char names[][33] = {"", "00112233445566778899aabbccddeeff",
                               "ffeeddccbbaa99887766554433221100"};
    struct target_setting setting = {.never_signs = true};
    struct guard *guard = guard_rig_open("");
    char ids[COUNT_OF(names)][WEBHOOK_ID_BYTES];
    (void)state;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct webhook *webhook = webhook_new(guard, name_of, names[i]);
        struct webhook_headers headers;
        struct job job = a_job();
        for (job.attempt = 1; job.attempt <= 3; job.attempt++) {
            assert_int_equal(webhook_sign(webhook, &setting, &job, 1, &headers), WEBHOOK_UNSIGNED);
            if (job.attempt == 1)
                strcpy(ids[i], headers.id);
            assert_string_equal(headers.id, ids[i]);
        }
        for (size_t other = 0; other < i; other++)
            assert_string_not_equal(ids[i], ids[other]);
        webhook_free(webhook);
    }
    guard_free(guard);
}

static void as_many_keys_as_there_may_be_have_room(void **state)
{
    char policy[1024] = "";
    struct target_setting setting = {0};
    struct webhook_headers headers;
    struct job job = a_job();
    (void)state;
    for (int i = 0; i < GUARD_KEYS_MAX; i++) {
        char line[128];
        snprintf(line, sizeof line, "sign = default whsec_dGFycnktZXhhbXBsZS1rZXktMjQtYn%c0\n",
                 'a' + i);
        strcat(policy, line);
    }
    struct guard *guard = guard_rig_open(policy);
    struct webhook *webhook = webhook_new(guard, NULL, NULL);
    assert_int_equal(webhook_sign(webhook, &setting, &job, INT64_MAX, &headers), WEBHOOK_SIGNED);
    assert_int_equal(strlen(headers.signature), WEBHOOK_SIGNATURE_BYTES - 1);
    webhook_free(webhook);
    guard_free(guard);
}

static void the_setting_selects_the_key(void **state)
{
    static const struct {
        const char *policy, *sign; /* NULL: not set */
        bool never;
        enum webhook_result result;
        const char *sentence;
    } rows[] = {
        {"sign = default " EXAMPLE_KEY "\n", NULL, false, WEBHOOK_SIGNED, "the default key"},
        {"sign = default " EXAMPLE_KEY "\n", "", false, WEBHOOK_SIGNED,
         "the same by an empty name"},
        {"sign = default " EXAMPLE_KEY "\n", NULL, true, WEBHOOK_UNSIGNED, "none is wanted"},
        {"sign = default " EXAMPLE_KEY "\n", "shop", false, WEBHOOK_NO_KEY, "a name without a key"},
        {"sign = shop " EXAMPLE_KEY "\n", "shop", false, WEBHOOK_SIGNED, "a name"},
        {"sign = shop " EXAMPLE_KEY "\n", NULL, false, WEBHOOK_UNSIGNED, "no default key"},
        {"sign = shop " EXAMPLE_KEY "\n", "", false, WEBHOOK_UNSIGNED, "no default key, either"},
        {"sign = shop " EXAMPLE_KEY "\n", "sho", false, WEBHOOK_NO_KEY, "half a name"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct guard *guard = guard_rig_open(rows[i].policy);
        struct webhook *webhook = webhook_new(guard, NULL, NULL);
        struct target_setting setting = {.never_signs = rows[i].never};
        struct webhook_headers headers;
        struct job job = a_job();
        char name[16];
        if (rows[i].sign)
            setting.sign = strcpy(name, rows[i].sign);
        CASE_HOLDS(rows[i].sentence,
                   webhook_sign(webhook, &setting, &job, 1, &headers) == rows[i].result);
        CASE_HOLDS(rows[i].sentence,
                   (headers.signature[0] != 0) == (rows[i].result == WEBHOOK_SIGNED));
        CASE_HOLDS(rows[i].sentence, strlen(headers.id) == WEBHOOK_ID_BYTES - 1);
        webhook_free(webhook);
        guard_free(guard);
    }
}

static void a_policy_that_is_read_again_changes_the_keys(void **state)
{
    char path[POLICY_PATH_BYTES], error[GUARD_ERROR_BYTES];
    struct guard *guard;
    struct target_setting setting = {0};
    struct webhook_headers headers;
    struct job job = a_job();
    (void)state;
    guard_rig_write(path, "sign = default " EXAMPLE_KEY "\n", 0600);
    assert_int_equal(guard_open(path, &guard, error), 0);
    struct webhook *webhook = webhook_new(guard, NULL, NULL);
    assert_int_equal(webhook_sign(webhook, &setting, &job, 1, &headers), WEBHOOK_SIGNED);
    assert_signed_by(EXAMPLE_KEY, &headers, job.body, headers.signature);
    guard_rig_rewrite(path, "sign = default " OTHER_KEY "\n", 0600);
    assert_int_equal(guard_reload(guard, error), 0);
    assert_int_equal(webhook_sign(webhook, &setting, &job, 1, &headers), WEBHOOK_SIGNED);
    assert_signed_by(OTHER_KEY, &headers, job.body, headers.signature);
    guard_rig_rewrite(path, "allow-host = *\n", 0600);
    assert_int_equal(guard_reload(guard, error), 0);
    assert_int_equal(webhook_sign(webhook, &setting, &job, 1, &headers), WEBHOOK_UNSIGNED);
    unlink(path);
    webhook_free(webhook);
    guard_free(guard);
}

/* ---- the id ---- */

static void the_id_names_the_push_and_not_the_attempt(void **state)
{
    static const struct {
        const char *topic, *id;
        uint64_t sequence;
        uint32_t attempt;
        bool is_same;
        const char *sentence;
    } rows[] = {
        {"orders", "42", 7, 2, true, "another attempt"},
        {"orders", "42", 8, 1, false, "the id pushed anew"},
        {"orders", "43", 7, 1, false, "another id"},
        {"order", "s42", 7, 1, false, "the same letters, shared out otherwise"},
        {"orders4", "2", 7, 1, false, "and otherwise again"},
        {"orders", "427", 0, 1, false, "the number is no part of the id"},
    };
    struct guard *guard = guard_rig_open("");
    struct webhook *webhook = webhook_new(guard, NULL, NULL);
    struct target_setting setting = {0};
    struct webhook_headers first, headers;
    struct job job = a_job();
    (void)state;
    assert_int_equal(webhook_sign(webhook, &setting, &job, 1, &first), WEBHOOK_UNSIGNED);
    /* hashlib.sha256(b"orders\0" b"42\0" b"7").hexdigest()[:32] */
    assert_string_equal(first.id, "msg_2122314fd9a413d2e250dce9ecd3a87c");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        job.topic = slice_of(rows[i].topic);
        job.id = slice_of(rows[i].id);
        job.sequence = rows[i].sequence;
        job.attempt = rows[i].attempt;
        job.due_ms = (int64_t)i;
        (void)webhook_sign(webhook, &setting, &job, (int64_t)i + 5, &headers);
        CASE_HOLDS(rows[i].sentence, (strcmp(first.id, headers.id) == 0) == rows[i].is_same);
        CASE_HOLDS(rows[i].sentence, !strchr(headers.id, '.'));
    }
    webhook_free(webhook);
    guard_free(guard);
}

/* ---- the speed ---- */

/* The limit is a fraction of one core's speed, so that a slow machine also passes: an allocation for
 * each message would show. Only the time of the processor counts. */
static void many_are_signed_in_a_second(void **state)
{
    enum { MESSAGES = 5000 };
    struct guard *guard = guard_rig_open("sign = default " EXAMPLE_KEY "\n");
    struct webhook *webhook = webhook_new(guard, NULL, NULL);
    struct target_setting setting = {0};
    struct webhook_headers headers;
    struct job job = a_job();
    char body[200];
    (void)state;
    memset(body, 'x', sizeof body);
    job.body = slice_make(body, sizeof body);
    int64_t began_us = clock_thread_us();
    for (job.sequence = 0; job.sequence < MESSAGES; job.sequence++)
        assert_int_equal(webhook_sign(webhook, &setting, &job, 1, &headers), WEBHOOK_SIGNED);
    int64_t took_us = clock_thread_us() - began_us;
    printf("signed %d messages in %" PRId64 " us\n", MESSAGES, took_us);
    assert_true(took_us < 1000000);
    webhook_free(webhook);
    guard_free(guard);
}

/* ---- for tests of those who verify ---- */

static int sign_input(char **args)
{
    static char body[1 << 20];
    char error[GUARD_ERROR_BYTES];
    struct guard *guard;
    struct target_setting setting = {.sign = args[1]};
    struct webhook_headers headers;
    if (guard_open(args[0], &guard, error) != 0) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    struct job job = {.topic = slice_of(args[2]),
                      .id = slice_of(args[3]),
                      .sequence = strtoull(args[4], NULL, 10),
                      .body = slice_make(body, fread(body, 1, sizeof body, stdin))};
    struct webhook *webhook = webhook_new(guard, NULL, NULL);
    int64_t timestamp_s = strtoll(args[5], NULL, 10);
    bool is_signed =
        webhook && webhook_sign(webhook, &setting, &job, timestamp_s, &headers) == WEBHOOK_SIGNED;
    if (is_signed)
        printf("webhook-id: %s\nwebhook-timestamp: %" PRId64 "\nwebhook-signature: %s\n",
               headers.id, headers.timestamp_s, headers.signature);
    webhook_free(webhook);
    guard_free(guard);
    return is_signed ? 0 : 1;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signatures_match_other_implementations),
        cmocka_unit_test(all_keys_of_the_name_sign),
        cmocka_unit_test(messages_of_two_stores_have_two_ids),
        cmocka_unit_test(as_many_keys_as_there_may_be_have_room),
        cmocka_unit_test(the_setting_selects_the_key),
        cmocka_unit_test(a_policy_that_is_read_again_changes_the_keys),
        cmocka_unit_test(the_id_names_the_push_and_not_the_attempt),
        cmocka_unit_test(many_are_signed_in_a_second),
    };
    if (argc == 8 && strcmp(argv[1], "--sign") == 0)
        return sign_input(argv + 2);
    return cmocka_run_group_tests_name("webhook", tests, NULL, NULL);
}
