#include "guard_rig.h"
#include "unit/claim.h"

#include <errno.h>
#include <pthread.h>
#include <sys/xattr.h>

#define KEY_24 "dGFycnktZXhhbXBsZS1rZXktMjQtYnl0" /* 24 bytes */
#define KEY_23 "dGFycnktZXhhbXBsZS1rZXktMjMtYnk=" /* 23 */
#define KEY_64                                                                                     \
    "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw=="
#define KEY_65                                                                                     \
    "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+P0A="

/* ---- what is read ---- */

CLAIM(keys_of_a_name_come_in_the_files_order)
{
    struct guard *guard = guard_rig_open("sign = shop whsec_" KEY_24 "\n"
                                         "sign = other whsec_" KEY_64 "\n"
                                         "  sign=shop\twhsec_" KEY_64 "  \n");
    struct guard_key keys[GUARD_KEYS_MAX];
    assert_int_equal(guard_find_keys(guard, slice_of("shop"), keys), 2);
    assert_int_equal(keys[0].bytes, 24);
    assert_memory_equal(keys[0].key, "tarry-example-key-24-byt", 24);
    assert_int_equal(keys[1].bytes, 64);
    assert_int_equal(keys[1].key[63], 63);
    assert_int_equal(guard_find_keys(guard, slice_of("other"), keys), 1);
    assert_int_equal(guard_find_keys(guard, slice_of("sho"), keys), 0);
    assert_int_equal(guard_find_keys(guard, slice_of(""), keys), 0);
    guard_free(guard);
}

CLAIM(an_origin_has_one_spelling)
{
    static const struct {
        const char *url;
        size_t host;
        const char *origin; /* NULL: no error */
    } rows[] = {
        {"HTTPS://User:pw@Shop.Example./a?b", 0, "https://shop.example:443"},
        {"kafka://a,B:7", 0, "kafka://a:9092"},
        {"kafka://a,B:7", 1, "kafka://b:7"},
        {"kafka://a,B:7", 2, NULL},
        {"stomps://[::1]", 0, "stomps://[::1]:61614"},
        {"other://a", 0, NULL},
        {"other://a:9", 0, "other://a:9"},
        {"unix:///a", 0, NULL},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char origin[GUARD_ORIGIN_BYTES];
        struct url url;
        assert_int_equal(url_parse(slice_of(rows[i].url), &url), URL_OK);
        CASE_HOLDS(rows[i].url,
                   guard_origin(&url, rows[i].host, origin) == (rows[i].origin != NULL));
        if (rows[i].origin)
            assert_string_equal(origin, rows[i].origin);
    }
}

CLAIM(a_credential_is_found_by_its_origin)
{
    static const struct {
        const char *origin, *user; /* NULL: no error */
        const char *sentence;
    } rows[] = {
        {"amqp://mq.internal:5672", "one", "as it is written"},
        {"amqp://mq.internal", "one", "the port is the scheme's"},
        {"AMQP://MQ.Internal.:5672", "one", "in capitals and with a final dot"},
        {"amqp://mq.internal:5672/vhost", "one", "with a path"},
        {"amqp://mq.internal:5673", NULL, "another port"},
        {"amqps://mq.internal:5672", NULL, "another scheme"},
        {"amqp://mq.internal.evil", NULL, "another host"},
        {"amqp://mq.interna", NULL, "a letter less"},
        {"kafka://a:9092,b:9092", "two", "the first of a list"},
        {"stomps://[::1]", "three", "an address in brackets"},
        {"stomps://[::1]:61614/x", "three", "with the port"},
        {"stomps://[::2]:61614", NULL, "another address"},
        {"stomps://::1", NULL, "without brackets"},
        {"mq.internal:5672", NULL, "no scheme"},
        {"://mq.internal", NULL, "an empty scheme"},
        {"amqp://", NULL, "no host"},
        {"amqp://mq.internal:0", NULL, "no port at all"},
        {"amqp://mq.internal:65536", NULL, "a port too large"},
        {"other://mq.internal", NULL, "a scheme without a port"},
        {"other://mq.internal:7", "four", "a scheme of one's own with one"},
        {"nats://mq.internal", "", "a token alone"},
        {"", NULL, "nothing"},
    };
    struct guard *guard = guard_rig_open("credential = amqp://MQ.internal one pass\n"
                                         "credential = kafka://a:9092 two p%20%23%25s\n"
                                         "credential = stomps://[::1]:61614 three pass\n"
                                         "credential = other://mq.internal:7 four pass\n"
                                         "credential = nats://mq.internal token\n");
    struct guard_credential found;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool is_found = guard_find_credential(guard, rows[i].origin, &found);
        CASE_HOLDS(rows[i].sentence, is_found == (rows[i].user != NULL));
        if (is_found)
            assert_string_equal(found.user, rows[i].user);
    }
    assert_true(guard_find_credential(guard, "kafka://a", &found));
    assert_string_equal(found.password, "p #%s");
    guard_free(guard);
}

CLAIM(commands_and_authorities_are_found)
{
    char path[GUARD_PATH_BYTES_MAX];
    struct guard *guard = guard_rig_open("command = pager /bin/sh\nca-file = /etc/passwd\n");
    assert_true(guard_find_command(guard, slice_of("pager"), path));
    assert_string_equal(path, "/bin/sh");
    assert_false(guard_find_command(guard, slice_of("page"), path));
    assert_true(guard_ca_file(guard, path));
    assert_string_equal(path, "/etc/passwd");
    guard_free(guard);
    guard = guard_rig_open("\r\n# without\r\nallow-host = a.example\r\n");
    assert_false(guard_ca_file(guard, path));
    assert_int_equal(guard_check_host(guard, slice_of("a.example")), GUARD_ALLOWED);
    guard_free(guard);
}

/* ---- what is refused; every row that has a secret has "sesame" in it ---- */

#define NAME_64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const struct {
    const char *line, *reports;
} slips[] = {
    {"allow-host", "no '='"},
    {"sesame", "no '='"},
    {"sign = shop whsec_" KEY_24 " # sesame", "a comment after a secret"},
    {"credential = http://a TOKEN #sesame", "a comment after a secret"},
    {"credential = http://a user pass\t#sesame", "a comment after a secret"},
    {"allow-hots = a", "did you mean 'allow-host'"},
    {"sing = shop sesame", "did you mean 'sign'"},
    {"password = sesame", "unknown key, use allow-host"},
    {"= sesame", "unknown key, use allow-host"},
    {"allow-host =", "'allow-host' has no value"},
    {"allow-host = # all", "'allow-host' has no value"},
    {"allow-host = a b", "bad host 'a b'"},
    {"allow-host = **.example", "bad host"},
    {"allow-host = *.", "bad host"},
    {"allow-host = *.1.2.3.4", "bad host"},
    {"allow-host = *example.com", "bad host"},
    {"allow-host = a.*.example", "bad host"},
    {"allow-host = https://a.example", "bad host"},
    {"allow-host = a.example:443", "bad host"},
    {"allow-host = [::1]", "without brackets"},
    {"allow-host = h\xc3\xb6.example", "xn--"},
    {"allow-host = 1.2.3.256", "bad host"},
    {"allow-network = 10.0.0.1/8", "bits set behind the prefix"},
    {"allow-network = nowhere", "bad network 'nowhere'"},
    {"sign = whsec_sesame", "write: sign = NAME whsec_BASE64"},
    {"sign = shop whsec_sesame more", "write: sign = NAME whsec_BASE64"},
    {"sign = sh/op whsec_sesame", "bad name"},
    {"sign = " NAME_64 "a whsec_sesame", "bad name"},
    {"sign = shop sesame", "bad key of 'shop', write whsec_"},
    {"sign = shop whsec_sesame", "bad key of 'shop', write whsec_"},
    {"sign = shop whsec_" KEY_23, "24 to 64 random bytes"},
    {"sign = shop whsec_" KEY_65, "24 to 64 random bytes"},
    {"sign = shop whsec_" KEY_64 "AAAA", "24 to 64 random bytes"},
    {"sign = shop whsec_" KEY_24 "\nsign = shop whsec_" KEY_24, "given twice"},
    {"credential = amqp://h sesame", "write: credential ="},
    {"credential = https://h ses%20ame", "bad byte in the token"},
    {"credential = https://h a:b sesame", "cannot contain ':'"},
    {"credential = https://h", "write: credential ="},
    {"credential = amqp://h user sesame more", "write: credential ="},
    {"credential = amqp://h user #sesame", "write a '#' of the secret as %23"},
    {"credential = amqp://user:sesame@h user sesame", "bad origin"},
    {"credential = amqp://h/vhost user sesame", "bad origin"},
    {"credential = amqp://h,i user sesame", "bad origin"},
    {"credential = amqp://h:x user sesame", "bad origin"},
    {"credential = h:5672 user sesame", "bad origin"},
    {"credential = amqp://h user 100%sesame", "bad escape in the password, write a '%' as %25"},
    {"credential = amqp://h sesame% p", "bad escape in the user"},
    {"credential = amqp://h user sesame%0a", "control byte in the password"},
    {"credential = amqp://h user sesame%00", "control byte in the password"},
    {"credential = amqp://h a sesame\ncredential = amqp://h:5672 b sesame", "given twice"},
    {"command = pager", "write: command ="},
    {"command = pager /bin/sh -c", "write: command ="},
    {"command = pa:ger /bin/sh", "bad name"},
    {"command = pager bin/sh", "'bin/sh' is not a whole path"},
    {"command = pager /nonexistent/program", "is not a program that can be run"},
    {"command = pager /etc", "is not a program that can be run"},
    {"command = pager /etc/passwd", "is not a program that can be run"},
    {"command = pager /bin/sh\ncommand = pager /bin/ls", "'pager' is given twice"},
    {"ca-file = /nonexistent/ca.pem", "is not a file that can be read"},
    {"ca-file = /etc", "is not a file that can be read"},
    {"ca-file = ca.pem", "not a whole path"},
    {"ca-file = /etc/passwd\nca-file = /etc/passwd", "'ca-file' is given twice"},
};

CLAIM(slips_are_named_without_a_secret)
{
    for (size_t i = 0; i < COUNT_OF(slips); i++) {
        char path[POLICY_PATH_BYTES], error[GUARD_ERROR_BYTES] = "", text[512], line[16];
        struct guard *guard = NULL;
        snprintf(text, sizeof text, "# one\n%s\n", slips[i].line);
        guard_rig_write(path, text, 0600);
        int code = guard_open(path, &guard, error);
        unlink(path);
        CASE_HOLDS(slips[i].line, code == -EINVAL && !guard);
        if (!strstr(error, slips[i].reports))
            fail_msg("%s: '%s' does not say '%s'", slips[i].line, error, slips[i].reports);
        CASE_HOLDS(slips[i].line, !strstr(error, "sesame") && !strstr(error, "dGFy"));
        snprintf(line, sizeof line, ":%d: ", strchr(slips[i].line, '\n') ? 3 : 2);
        CASE_HOLDS(slips[i].line, strstr(error, line));
    }
}

/* ---- limits: at each, and one above ---- */

static bool reads(const char *text)
{
    char path[POLICY_PATH_BYTES], error[GUARD_ERROR_BYTES] = "";
    struct guard *guard = NULL;
    guard_rig_write(path, text, 0600);
    bool is_right = guard_open(path, &guard, error) == 0;
    unlink(path);
    guard_free(guard);
    if (!is_right)
        assert_true(error[0] && !strchr(error, '\n'));
    return is_right;
}

CLAIM(names_and_keys_have_their_limits)
{
    char text[2048] = "";
    assert_true(reads("sign = " NAME_64 " whsec_" KEY_64));
    for (int i = 0; i <= GUARD_KEYS_MAX; i++) {
        char line[128];
        snprintf(line, sizeof line, "sign = shop whsec_dGFycnktZXhhbXBsZS1rZXktMjQtYn%c0\n",
                 'a' + i);
        strcat(text, line);
        assert_int_equal(reads(text), i < GUARD_KEYS_MAX);
    }
}

CLAIM(secrets_have_their_limits)
{
    char text[2048], filler[GUARD_SECRET_BYTES_MAX + 1];
    for (int more = 0; more < 2; more++) {
        memset(filler, 'x', sizeof filler);
        filler[GUARD_SECRET_BYTES_MAX - 1 + more] = 0;
        snprintf(text, sizeof text, "credential = amqp://h user %s\n", filler);
        assert_int_equal(reads(text), !more);
        snprintf(text, sizeof text, "credential = amqp://h %s p\n", filler);
        assert_int_equal(reads(text), !more);
    }
}

CLAIM(rules_have_their_limit)
{
    enum { RULES = 10000 };
    static const char rule[] = "allow-host=a\n";
    char *text = malloc((RULES + 1) * strlen(rule) + 1);
    assert_non_null(text);
    for (size_t i = 0; i <= RULES; i++)
        memcpy(text + i * strlen(rule), rule, sizeof rule);
    assert_false(reads(text));
    text[RULES * strlen(rule)] = 0;
    assert_true(reads(text));
    free(text);
}

CLAIM(lines_and_files_have_their_limits)
{
    enum { LINE = 4096, FILE_BYTES = 1 << 20 };
    char *text = malloc(FILE_BYTES + 2);
    assert_non_null(text);
    for (int more = 0; more < 2; more++) {
        memset(text, '#', LINE + 1);
        text[LINE + more] = 0;
        assert_int_equal(reads(text), !more);
        memset(text, '\n', FILE_BYTES + 1);
        text[FILE_BYTES + more] = 0;
        assert_int_equal(reads(text), !more);
    }
    free(text);
}

/* ---- the file ---- */

CLAIM(a_file_that_others_may_read_keeps_no_secret)
{
    static const struct {
        const char *text;
        mode_t mode;
        const char *reports; /* NULL: fine */
    } rows[] = {
        {"sign = a whsec_" KEY_24, 0600, NULL},
        {"sign = a whsec_" KEY_24, 0400, NULL},
        {"sign = a whsec_" KEY_24, 0700, NULL},
        {"sign = a whsec_" KEY_24, 0640, "chmod 600"},
        {"sign = a whsec_" KEY_24, 0604, "chmod 600"},
        {"sign = a whsec_" KEY_24, 0620, "chmod 600"},
        {"credential = amqp://h u p", 0644, "chmod 600"},
        {"credential = amqp://h u p", 0600, NULL},
        {"allow-host = *", 0644, NULL},
        {"allow-host = *", 0664, "chmod 644"},
        {"allow-host = *", 0646, "chmod 644"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char path[POLICY_PATH_BYTES], error[GUARD_ERROR_BYTES] = "";
        struct guard *guard = NULL;
        guard_rig_write(path, rows[i].text, rows[i].mode);
        int code = guard_open(path, &guard, error);
        unlink(path);
        guard_free(guard);
        if (code != (rows[i].reports ? -EPERM : 0) ||
            (rows[i].reports && !strstr(error, rows[i].reports)))
            fail_msg("'%s' with mode %o: %d, '%s'", rows[i].text, rows[i].mode, code, error);
        assert_true(!rows[i].reports || strstr(error, path));
    }
}

/* As systemd leaves a credential: the mode shows the list's mask for the group. */
CLAIM(an_access_list_names_other_readers)
{
    enum { USER_OBJ = 1, USER = 2, GROUP_OBJ = 4, GROUP = 8, MASK = 16, OTHER = 32 };
    static const struct {
        uint16_t tag;
        uint32_t id_more; /* than our own */
        uint16_t may, mask;
        const char *reports; /* NULL: fine */
    } rows[] = {
        {USER, 0, 4, 6, NULL},        {USER, 1, 4, 6, "chmod 600"}, {GROUP, 0, 4, 6, "chmod 600"},
        {USER, 1, 2, 6, "may write"}, {GROUP, 1, 0, 6, NULL},       {USER, 1, 6, 0, NULL},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct {
            uint32_t version;
            struct {
                uint16_t tag, may;
                uint32_t id;
            } entries[5];
        } acl = {2,
                 {{USER_OBJ, 6, UINT32_MAX},
                  {rows[i].tag, rows[i].may, geteuid() + rows[i].id_more},
                  {GROUP_OBJ, 0, UINT32_MAX},
                  {MASK, rows[i].mask, UINT32_MAX},
                  {OTHER, 0, UINT32_MAX}}};
        if (rows[i].tag == GROUP) { /* the kernel requires this order */
            acl.entries[2] = acl.entries[1];
            acl.entries[1].tag = GROUP_OBJ;
            acl.entries[1].may = 0;
            acl.entries[1].id = UINT32_MAX;
        }
        char path[POLICY_PATH_BYTES], error[GUARD_ERROR_BYTES] = "";
        struct guard *guard = NULL;
        guard_rig_write(path, "sign = a whsec_" KEY_24, 0600);
        int is_set = setxattr(path, "system.posix_acl_access", &acl, sizeof acl, 0);
        int why = errno;
        int code = is_set == 0 ? guard_open(path, &guard, error) : 0;
        unlink(path);
        guard_free(guard);
        if (is_set != 0 && (why == ENOTSUP || why == EPERM))
            skip(); /* this file system has no ACLs */
        assert_int_equal(is_set, 0);
        if (code != (rows[i].reports ? -EPERM : 0) ||
            (rows[i].reports && !strstr(error, rows[i].reports)))
            fail_msg("row %zu: %d, '%s'", i, code, error);
    }
}

CLAIM(only_regular_files_are_accepted)
{
    char path[] = "/tmp/tarry-policy-XXXXXX", error[GUARD_ERROR_BYTES], pipe[64], zero[64];
    struct guard *guard = NULL;
    assert_int_equal(guard_open("/nonexistent/policy", &guard, error), -ENOENT);
    assert_non_null(strstr(error, "cannot read the policy '/nonexistent/policy', No such file"));
    assert_non_null(mkdtemp(path));
    assert_int_equal(guard_open(path, &guard, error), -EINVAL);
    assert_non_null(strstr(error, "not a file"));
    snprintf(pipe, sizeof pipe, "%s/pipe", path);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(guard_open(pipe, &guard, error), -EINVAL);
    unlink(pipe);
    snprintf(zero, sizeof zero, "%s/zero", path);
    FILE *file = fopen(zero, "w");
    assert_non_null(file);
    fwrite("allow-host = a\0b\n", 1, 17, file);
    fclose(file);
    assert_int_equal(guard_open(zero, &guard, error), -EINVAL);
    unlink(zero);
    rmdir(path);
    assert_null(guard);
}

CLAIM(reading_again_takes_all_of_it_or_nothing)
{
    char path[POLICY_PATH_BYTES], error[GUARD_ERROR_BYTES] = "";
    struct guard *guard;
    guard_rig_write(path, "allow-host = a.example\n", 0600);
    assert_int_equal(guard_open(path, &guard, error), 0);
    uint64_t generation = guard_generation(guard);

    guard_rig_rewrite(path, "allow-host = b.example\nallow-network = slip\n", 0600);
    assert_int_equal(guard_reload(guard, error), -EINVAL);
    assert_non_null(strstr(error, ":2: bad network 'slip'"));
    assert_int_equal(guard_check_host(guard, slice_of("a.example")), GUARD_ALLOWED);
    assert_int_equal(guard_check_host(guard, slice_of("b.example")), GUARD_HOST_NOT_NAMED);
    assert_int_equal(guard_generation(guard), generation);

    guard_rig_rewrite(path, "allow-host = b.example\nallow-network = 10.0.0.0/8\n", 0600);
    assert_int_equal(guard_reload(guard, error), 0);
    assert_int_equal(guard_check_host(guard, slice_of("a.example")), GUARD_HOST_NOT_NAMED);
    assert_int_equal(guard_check_host(guard, slice_of("b.example")), GUARD_ALLOWED);
    assert_int_equal(guard_rig_evaluate(guard, "10.1.2.3"), GUARD_ALLOWED);
    assert_true(guard_generation(guard) > generation);

    unlink(path);
    assert_int_equal(guard_reload(guard, error), -ENOENT);
    assert_int_equal(guard_check_host(guard, slice_of("b.example")), GUARD_ALLOWED);
    guard_free(guard);
}

static void *ask_all_the_time(void *ctx)
{
    struct guard *guard = ctx;
    struct guard_key keys[GUARD_KEYS_MAX];
    struct guard_credential credential;
    for (int i = 0; i < 2000; i++) {
        assert_int_equal(guard_check_host(guard, slice_of("always.example")), GUARD_ALLOWED);
        assert_int_equal(guard_find_keys(guard, slice_of("a"), keys), 1);
        assert_int_equal(keys[0].bytes, 24);
        assert_true(guard_find_credential(guard, "amqp://h", &credential));
        assert_string_equal(credential.user, credential.password);
    }
    return NULL;
}

CLAIM(threads_may_query_during_a_reload)
{
    char path[POLICY_PATH_BYTES], error[GUARD_ERROR_BYTES];
    struct guard *guard;
    pthread_t threads[2];
    guard_rig_write(path,
                    "allow-host = always.example\nsign = a whsec_" KEY_24
                    "\ncredential = amqp://h one one\n",
                    0600);
    assert_int_equal(guard_open(path, &guard, error), 0);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_all_the_time, guard), 0);
    for (int round = 0; round < 50; round++) {
        char text[256];
        snprintf(text, sizeof text,
                 "allow-host = *\nsign = a whsec_" KEY_24 "\ncredential = amqp://h n%d n%d\n",
                 round, round);
        guard_rig_rewrite(path, text, 0600);
        assert_int_equal(guard_reload(guard, error), 0);
    }
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    unlink(path);
    guard_free(guard);
}

CLAIM(decisions_have_names)
{
    assert_string_equal(guard_decision_name(GUARD_ALLOWED), "allowed");
    assert_string_equal(guard_decision_name(GUARD_OFF), "off");
    assert_string_equal(guard_decision_name(GUARD_HOST_NOT_NAMED), "host_not_allowed");
    assert_string_equal(guard_decision_name(GUARD_NETWORK_FORBIDDEN), "network_forbidden");
    assert_string_equal(guard_decision_name(GUARD_NOT_AN_ADDRESS), "not_an_address");
}

CLAIMS_MAIN(NULL, NULL)
