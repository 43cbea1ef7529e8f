#include "unit/access/access_rig.h"
#include "unit/claim.h"

CLAIM(a_token_gets_the_rights_of_its_line)
{
    struct access_rig rig;
    struct access_caller *caller;
    char secret[TOKEN_BYTES + 1], text[512], header[128];
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

CLAIM(a_token_with_one_changed_byte_is_rejected)
{
    struct access_rig rig;
    char secret[TOKEN_BYTES + 1], text[256], header[128];
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

/* Writes a file with one token, its header, and the rest of its line. */
static void open_one(struct access_rig *rig, const char *words, char header[128], char *text,
                     size_t text_bytes)
{
    char secret[TOKEN_BYTES + 1];
    token_make(secret);
    snprintf(header, 128, "Bearer %s", secret);
    snprintf(text, text_bytes, "token t scope=push topics=* %s %s\n", rig_hash("sha256", secret),
             words);
    rig_open(rig, text);
}

CLAIM(header_is_bearer_or_basic_and_nothing_else)
{
    struct access_rig rig;
    rig_open(&rig, "token t scope=push topics=* "
                   "sha256=2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\n");
    static const struct {
        const char *header;
        enum access_refusal refusal;
    } rows[] = {
        {"Bearer secret", ACCESS_OK},
        {"bearer secret", ACCESS_OK},
        {"BEARER   secret", ACCESS_OK},
        {"Basic c29tZTpzZWNyZXQ=", ACCESS_OK},
        {"basic OnNlY3JldA==", ACCESS_OK},
        {"Basic c2VjcmV0", ACCESS_MALFORMED}, /* no colon */
        {"Basic c29tZTpzZWNyZXQ", ACCESS_MALFORMED},
        {"Basic c29tZTpzZWNyZXQ==", ACCESS_MALFORMED},
        {"Basic c29tZTpzZWNyZXR4", ACCESS_UNKNOWN}, /* some:secretx */
        {"Basic secret:", ACCESS_MALFORMED},
        {"Bearersecret", ACCESS_MALFORMED},
        {"Bearer", ACCESS_MALFORMED},
        {"Bearer ", ACCESS_MALFORMED},
        {"Bearer Secret", ACCESS_UNKNOWN},
        {"Bearer secret ", ACCESS_UNKNOWN},
        {"Bearer secret, Bearer secret", ACCESS_UNKNOWN},
        {"Digest secret", ACCESS_MALFORMED},
        {"secret", ACCESS_MALFORMED},
        {"", ACCESS_MALFORMED},
        {NULL, ACCESS_MISSING},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CASE_HOLDS(rows[i].header ? rows[i].header : "none",
                   rig_refusal(&rig, rows[i].header) == rows[i].refusal);
    static char giant[ACCESS_HEADER_BYTES_MAX + 64];
    memset(giant, 'a', sizeof giant - 1);
    memcpy(giant, "Bearer ", 7);
    assert_int_equal(rig_refusal(&rig, giant), ACCESS_MALFORMED);
    rig_close(&rig);
}

CLAIM(the_client_does_not_learn_the_reason_of_a_rejection)
{
    const char *one = access_challenge(ACCESS_UNKNOWN);
    for (int refusal = ACCESS_MALFORMED; refusal < ACCESS_REFUSALS; refusal++)
        assert_string_equal(access_challenge((enum access_refusal)refusal), one);
    assert_string_equal(access_challenge(ACCESS_MISSING), "Bearer realm=\"tarry\"");
}

CLAIM(token_ends_at_its_time_and_not_before)
{
    struct access_rig rig;
    struct access_caller *caller = NULL;
    char header[128], text[256];
    open_one(&rig, "expires=1790000000001", header, text, sizeof text);
    struct access_asked asked = {.authorization = slice_of(header), .now_ms = RIG_NOW_MS};
    assert_int_equal(access_admit(rig.access, &asked, &caller), ACCESS_OK);
    assert_int_equal(caller->ends_ms, RIG_NOW_MS + 1);
    assert_true(access_holds(rig.access, caller, RIG_NOW_MS));
    assert_false(access_holds(rig.access, caller, RIG_NOW_MS + 1));
    asked.now_ms++;
    struct access_caller *late = NULL;
    assert_int_equal(access_admit(rig.access, &asked, &late), ACCESS_EXPIRED);
    access_caller_release(caller);
    rig_close(&rig);
}

CLAIM(both_secrets_of_a_rotation_are_good_for_a_while)
{
    struct access_rig rig;
    struct access_caller *one, *other;
    char text[512];
    snprintf(text, sizeof text,
             "token t scope=push topics=* %s %s old-until=1790000000005 expires=1790000000009\n",
             rig_hash("sha256", "new"), rig_hash("old-sha256", "old"));
    rig_open(&rig, text);
    assert_int_equal(rig_ask(&rig, "Bearer new", &one), ACCESS_OK);
    assert_int_equal(rig_ask(&rig, "Bearer old", &other), ACCESS_OK);
    assert_int_equal(one->ends_ms, RIG_NOW_MS + 9);
    assert_int_equal(other->ends_ms, RIG_NOW_MS + 5);
    access_caller_release(one);
    access_caller_release(other);
    rig_close(&rig);
}

CLAIM(a_change_raises_the_generation_and_ends_changed_callers)
{
    struct access_rig rig;
    struct access_caller *stays, *goes, *again;
    char text[1024];
    snprintf(text, sizeof text, "token a scope=push topics=* %s\ntoken b scope=push topics=* %s\n",
             rig_hash("sha256", "a"), rig_hash("sha256", "b"));
    rig_open(&rig, text);
    assert_int_equal(rig_ask(&rig, "Bearer a", &stays), ACCESS_OK);
    assert_int_equal(rig_ask(&rig, "Bearer b", &goes), ACCESS_OK);
    uint64_t before = access_generation(rig.access);
    assert_int_equal(access_reload(rig.access, false, &rig.change, rig.error), 0);
    assert_int_equal(access_generation(rig.access), before);
    snprintf(text, sizeof text,
             "# new\ntoken a scope=push topics=* %s\ntoken b scope=push topics=c %s\n"
             "token c scope=push topics=* %s\n",
             rig_hash("sha256", "a"), rig_hash("sha256", "b"), rig_hash("sha256", "c"));
    rig_write(&rig, text);
    assert_int_equal(access_reload(rig.access, false, &rig.change, rig.error), 0);
    assert_true(rig.change.is_changed);
    assert_int_equal(rig.change.added, 1);
    assert_int_equal(rig.change.altered, 1);
    assert_int_equal(rig.change.removed, 0);
    assert_true(access_generation(rig.access) > before);
    assert_true(access_holds(rig.access, stays, RIG_NOW_MS));
    assert_false(access_holds(rig.access, goes, RIG_NOW_MS));
    assert_int_equal(rig_ask(&rig, "Bearer a", &again), ACCESS_OK);
    assert_ptr_equal(again, stays);
    access_caller_release(stays);
    access_caller_release(again);
    access_caller_release(goes);
    rig_close(&rig);
}

CLAIM(revoked_one_is_refused_and_ends)
{
    struct access_rig rig;
    struct access_caller *caller;
    char text[512];
    snprintf(text, sizeof text, "token a scope=push topics=* %s\n", rig_hash("sha256", "a"));
    rig_open(&rig, text);
    assert_int_equal(rig_ask(&rig, "Bearer a", &caller), ACCESS_OK);
    snprintf(text, sizeof text, "token a scope=push topics=* revoked=2026-01-01T00:00:00Z %s\n",
             rig_hash("sha256", "a"));
    rig_write(&rig, text);
    assert_int_equal(access_reload(rig.access, false, &rig.change, rig.error), 0);
    assert_false(access_holds(rig.access, caller, RIG_NOW_MS));
    assert_int_equal(rig_refusal(&rig, "Bearer a"), ACCESS_REVOKED);
    access_caller_release(caller);
    rig_close(&rig);
}

CLAIM(an_unreadable_text_keeps_old_callers_and_a_missing_file_admits_no_caller)
{
    struct access_rig rig;
    char text[512];
    snprintf(text, sizeof text, "token a scope=push topics=* %s\n", rig_hash("sha256", "a"));
    rig_open(&rig, text);
    rig_write(&rig, "token a\n");
    assert_int_not_equal(access_reload(rig.access, false, &rig.change, rig.error), 0);
    assert_int_equal(rig_refusal(&rig, "Bearer a"), ACCESS_OK);
    rig_write_mode(&rig, text, 0604);
    assert_int_not_equal(access_reload(rig.access, false, &rig.change, rig.error), 0);
    assert_int_equal(rig_refusal(&rig, "Bearer a"), ACCESS_OK); /* the first look */
    assert_int_not_equal(access_reload(rig.access, false, &rig.change, rig.error), 0);
    assert_true(rig.change.is_changed);
    assert_int_equal(rig_refusal(&rig, "Bearer a"), ACCESS_UNKNOWN);
    rig_write(&rig, text);
    assert_int_equal(access_reload(rig.access, false, &rig.change, rig.error), 0);
    assert_int_equal(rig_refusal(&rig, "Bearer a"), ACCESS_OK);
    unlink(rig.path);
    assert_int_not_equal(access_reload(rig.access, true, &rig.change, rig.error), 0);
    assert_int_equal(rig_refusal(&rig, "Bearer a"), ACCESS_UNKNOWN);
    rig_close(&rig);
}

CLAIM(mode_decides_whether_a_file_is_read)
{
    static const struct {
        mode_t mode;
        bool is_read;
    } rows[] = {{0600, true},  {0400, true},  {0640, true},  {0440, true}, {0644, false},
                {0604, false}, {0660, false}, {0602, false}, {0620, false}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct access_rig rig;
        char mode[16];
        snprintf(mode, sizeof mode, "%04o", (unsigned)rows[i].mode);
        CASE_HOLDS(mode, (rig_open_mode(&rig, "", rows[i].mode) == 0) == rows[i].is_read);
        rig_close(&rig);
    }
}

CLAIM(certificate_is_a_caller_by_its_name)
{
    struct access_rig rig;
    struct access_caller *caller = NULL;
    rig_open(&rig, "certificate b.internal scope=read topics=invoices\n");
    struct access_asked asked = {
        .certificate = slice_of("b.internal"), .needs_caller = true, .now_ms = RIG_NOW_MS};
    assert_int_equal(access_admit(rig.access, &asked, &caller), ACCESS_OK);
    assert_int_equal(caller->kind, ACCESS_CERTIFICATE);
    assert_true(access_may(caller, ACCESS_READ, slice_of("invoices")));
    access_caller_release(caller);
    asked.certificate = slice_of("b.internal.evil");
    assert_int_equal(access_admit(rig.access, &asked, &caller), ACCESS_UNKNOWN);
    asked.certificate = slice_of("b.internal");
    asked.authorization = slice_of("Bearer no"); /* a header counts before a certificate */
    assert_int_equal(access_admit(rig.access, &asked, &caller), ACCESS_UNKNOWN);
    asked.authorization = slice_of("Bearer b.internal"); /* and a name is not a secret */
    assert_int_equal(access_admit(rig.access, &asked, &caller), ACCESS_UNKNOWN);
    rig_close(&rig);
}

CLAIM(without_authentication_every_caller_is_admitted)
{
    struct access_rig rig;
    struct access_caller *caller = NULL;
    struct access *off = NULL;
    char error[ACCESS_ERROR_BYTES];
    rig_open(&rig, "");
    struct access_asked asked = {.now_ms = RIG_NOW_MS};
    assert_int_equal(access_admit(rig.access, &asked, &caller), ACCESS_OK);
    assert_ptr_equal(caller, access_anyone());
    asked.authorization = slice_of("Bearer wrong");
    assert_int_equal(access_admit(rig.access, &asked, &caller), ACCESS_UNKNOWN);
    assert_int_equal(access_new(&(struct access_options){0}, &off, error), 0);
    assert_false(access_is_on(off));
    assert_int_equal(access_admit(off, &asked, &caller), ACCESS_OK);
    asked.certificate = slice_of("by.its.name");
    assert_int_equal(access_admit(off, &asked, &caller), ACCESS_OK);
    assert_true(slice_is(caller->name, "by.its.name"));
    assert_true(access_may(caller, ACCESS_SCOPES_ALL, slice_of("any")));
    access_caller_release(caller);
    asked = (struct access_asked){.needs_caller = true, .now_ms = RIG_NOW_MS};
    assert_int_equal(access_admit(off, &asked, &caller), ACCESS_MISSING);
    access_free(off);
    rig_close(&rig);
}

CLAIMS_MAIN(NULL, NULL)
