/* Signature Version 4: the answers that AWS publishes with its test suite and its guide, and what must not pass. */
#include "unit/access/access_rig.h"
#include "unit/claim.h"

#define SECRET "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
#define TIME "20150830T123600Z"
#define TIME_MS INT64_C(1440938160000)
enum { HEADERS_MAX = 8 };

struct sent {
    const char *method, *path, *query, *body;
    const char *headers[HEADERS_MAX]; /* name, value, … */
};

static bool next_header(const void *headers, size_t index, struct slice *name, struct slice *value)
{
    const char *const *at = (const char *const *)headers + 2 * index;
    if (index >= HEADERS_MAX / 2 || !at[0])
        return false;
    *name = slice_of(at[0]);
    *value = slice_of(at[1]);
    return true;
}

static struct signature_request request_of(const struct sent *sent)
{
    return (struct signature_request){.method = slice_of(sent->method),
                                      .path = slice_of(sent->path),
                                      .query = slice_of(sent->query),
                                      .body = slice_of(sent->body),
                                      .headers = sent->headers,
                                      .next_header = next_header};
}

static const char *authorization(const char *service, const char *headers, const char *hex)
{
    static char texts[4][512];
    static unsigned round;
    char *text = texts[round++ % 4];
    (void)snprintf(text, sizeof texts[0],
                   "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/%s/aws4_request, "
                   "SignedHeaders=%s, Signature=%s",
                   service, headers, hex);
    return text;
}

static bool holds(const struct sent *sent, const char *header)
{
    struct signature signature;
    struct signature_request request = request_of(sent);
    unsigned char key[SIGNATURE_BYTES];
    const char *why = NULL;
    return signature_parse(slice_of(header), &signature, &why) &&
           signature_key(slice_of(SECRET), &signature, key) &&
           signature_holds(&signature, &request, key);
}

#define HOST "Host", "example.amazonaws.com"
#define DATE "X-Amz-Date", TIME
#define LETTERS "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

static const struct known {
    const char *name, *service, *signed_headers;
    struct sent sent;
    const char *hex;
} known[] = {
    {"get-vanilla",
     "service",
     "host;x-amz-date",
     {"GET", "/", "", "", {HOST, DATE}},
     "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
    {"get-vanilla-query-order-key-case",
     "service",
     "host;x-amz-date",
     {"GET", "/", "Param2=value2&Param1=value1", "", {HOST, DATE}},
     "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
    {"get-unreserved",
     "service",
     "host;x-amz-date",
     {"GET", "/-._~" LETTERS, "", "", {HOST, DATE}},
     "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
    {"get-header-value-trim",
     "service",
     "host;my-header1;my-header2;x-amz-date",
     {"GET", "/", "", "", {HOST, "My-Header1", " value1", "My-Header2", " \"a   b   c\"", DATE}},
     "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
    {"post-vanilla",
     "service",
     "host;x-amz-date",
     {"POST", "/", "", "", {HOST, DATE}},
     "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
    {"post-vanilla-query",
     "service",
     "host;x-amz-date",
     {"POST", "/", "Param1=value1", "", {HOST, DATE}},
     "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11"},
    {"post-header-key-sort",
     "service",
     "host;my-header1;x-amz-date",
     {"POST", "/", "", "", {HOST, "MY-HEADER1", "value1", DATE}},
     "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c"},
    {"post-header-value-case",
     "service",
     "host;my-header1;x-amz-date",
     {"POST", "/", "", "", {HOST, "My-Header1", "VALUE1", DATE}},
     "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d"},
    {"post-x-www-form-urlencoded",
     "service",
     "content-type;host;x-amz-date",
     {"POST",
      "/",
      "",
      "Param1=value1",
      {"Content-Type", "application/x-www-form-urlencoded", HOST, DATE}},
     "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"},
    {"the guide's ListUsers",
     "iam",
     "content-type;host;x-amz-date",
     {"GET",
      "/",
      "Action=ListUsers&Version=2010-05-08",
      "",
      {"content-type", "application/x-www-form-urlencoded; charset=utf-8", "host",
       "iam.amazonaws.com", "x-amz-date", TIME}},
     "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"},
};

CLAIM(published_signatures_hold)
{
    for (size_t i = 0; i < COUNT_OF(known); i++)
        CASE_HOLDS(known[i].name,
                   holds(&known[i].sent,
                         authorization(known[i].service, known[i].signed_headers, known[i].hex)));
}

/* The guide prints the key as well. */
CLAIM(the_derived_key_matches_the_published_example)
{
    struct signature signature;
    unsigned char key[SIGNATURE_BYTES];
    char hex[2 * SIGNATURE_BYTES + 1] = "";
    const char *why;
    assert_true(signature_parse(slice_of(authorization("iam", "host;x-amz-date", known[0].hex)),
                                &signature, &why));
    assert_true(slice_is(signature.scope, "20150830/us-east-1/iam/aws4_request"));
    assert_true(signature_key(slice_of(SECRET), &signature, key));
    hex_emit_bytes(hex, key, sizeof key);
    assert_string_equal(hex, "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9");
    char long_secret[SIGNATURE_SECRET_BYTES_MAX + 1];
    memset(long_secret, 'x', sizeof long_secret);
    assert_false(signature_key(slice_make(long_secret, sizeof long_secret), &signature, key));
    assert_false(signature_key(slice_of(""), &signature, key));
}

/* One change each to the signed request: the form of the suite has a body, a separate query does not. */
CLAIM(nothing_that_is_signed_can_be_changed)
{
    const struct known *form = &known[8];
    const char *header = authorization("service", form->signed_headers, form->hex);
    static const struct {
        const char *name;
        struct sent sent;
    } rows[] = {
        {"another method",
         {"PUT",
          "/",
          "",
          "Param1=value1",
          {"Content-Type", "application/x-www-form-urlencoded", HOST, DATE}}},
        {"another path",
         {"POST",
          "/a",
          "",
          "Param1=value1",
          {"Content-Type", "application/x-www-form-urlencoded", HOST, DATE}}},
        {"a query",
         {"POST",
          "/",
          "a=b",
          "Param1=value1",
          {"Content-Type", "application/x-www-form-urlencoded", HOST, DATE}}},
        {"another body",
         {"POST",
          "/",
          "",
          "Param1=value2",
          {"Content-Type", "application/x-www-form-urlencoded", HOST, DATE}}},
        {"no body",
         {"POST", "/", "", "", {"Content-Type", "application/x-www-form-urlencoded", HOST, DATE}}},
        {"another value",
         {"POST",
          "/",
          "",
          "Param1=value1",
          {"Content-Type", "application/x-www-form-urlencodeD", HOST, DATE}}},
        {"another host",
         {"POST",
          "/",
          "",
          "Param1=value1",
          {"Content-Type", "application/x-www-form-urlencoded", "Host", "b", DATE}}},
        {"another second",
         {"POST",
          "/",
          "",
          "Param1=value1",
          {"Content-Type", "application/x-www-form-urlencoded", HOST, "X-Amz-Date",
           "20150830T123601Z"}}},
        {"a header gone", {"POST", "/", "", "Param1=value1", {HOST, DATE}}},
        {"a header twice",
         {"POST",
          "/",
          "",
          "Param1=value1",
          {"Content-Type", "application/x-www-form-urlencoded", HOST, DATE, "Content-Type", "x"}}},
        {"a digest that leaves the body out",
         {"POST",
          "/",
          "",
          "Param1=value1",
          {"Content-Type", "application/x-www-form-urlencoded", HOST, DATE, "X-Amz-Content-Sha256",
           "UNSIGNED-PAYLOAD"}}},
        {"no time",
         {"POST",
          "/",
          "",
          "Param1=value1",
          {"Content-Type", "application/x-www-form-urlencoded", HOST}}},
    };
    char damaged[512];
    assert_true(holds(&form->sent, header));
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CASE_HOLDS(rows[i].name, !holds(&rows[i].sent, header));
    for (size_t i = 0; i < (size_t)2 * SIGNATURE_BYTES; i++) {
        size_t at = strlen(header) - 1 - i;
        strcpy(damaged, header);
        damaged[at] = damaged[at] == '0' ? '1' : '0';
        CASE_HOLDS("one digit of the signature", !holds(&form->sent, damaged));
    }
}

CLAIM(an_invalid_signature_header_is_rejected_with_the_missing_part)
{
#define SCOPE "K/20150830/us-east-1/sqs/aws4_request"
#define HEX "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
    static const struct {
        const char *header, *part;
    } rows[] = {
        {"AWS4-HMAC-SHA256", "'Credential'"},
        {"AWS4-ECDSA-P256-SHA256 Credential=" SCOPE ", SignedHeaders=host, Signature=" HEX,
         "AWS4-HMAC-SHA256"},
        {"AWS4-HMAC-SHA256 SignedHeaders=host, Signature=" HEX, "'Credential'"},
        {"AWS4-HMAC-SHA256 Credential=" SCOPE ", Signature=" HEX, "'SignedHeaders'"},
        {"AWS4-HMAC-SHA256 Credential=" SCOPE ", SignedHeaders=host", "'Signature'"},
        {"AWS4-HMAC-SHA256 Credential=" SCOPE ", SignedHeaders=host, Signature=12", "64"},
        {"AWS4-HMAC-SHA256 Credential=K/2015/us-east-1/sqs/aws4_request, SignedHeaders=host, "
         "Signature=" HEX,
         "YYYYMMDD"},
        {"AWS4-HMAC-SHA256 Credential=K/20150830/us-east-1/sqs/aws4, SignedHeaders=host, "
         "Signature=" HEX,
         "aws4_request"},
        {"AWS4-HMAC-SHA256 Credential=/20150830/us-east-1/sqs/aws4_request, SignedHeaders=host, "
         "Signature=" HEX,
         "ACCESS-KEY"},
        {"AWS4-HMAC-SHA256 Credential=20150830, SignedHeaders=host, Signature=" HEX, "ACCESS-KEY"},
        {"AWS4-HMAC-SHA256 Credential=" SCOPE ", Credential=" SCOPE
         ", SignedHeaders=host, Signature=" HEX,
         "twice"},
        {"AWS4-HMAC-SHA256 Credential=" SCOPE ", SignedHeaders=host, Signature=" HEX ", x=y",
         "unknown"},
    };
    struct signature signature;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *why = "";
        CASE_HOLDS(rows[i].header, !signature_parse(slice_of(rows[i].header), &signature, &why));
        CASE_HOLDS(why, strstr(why, rows[i].part));
    }
    assert_false(signature_is_claimed(slice_of("Bearer AWS4-")));
    assert_true(signature_is_claimed(slice_of("AWS4-HMAC-SHA256")));
}

/* An id is any name that an access key can have. */
CLAIM(key_id_may_have_slashes)
{
    struct signature signature;
    const char *why;
    assert_true(signature_parse(
        slice_of("AWS4-HMAC-SHA256 Credential=a/b/c" SCOPE ",SignedHeaders=host,Signature=" HEX),
        &signature, &why));
    assert_true(slice_is(signature.key_id, "a/b/cK"));
}

CLAIM(host_and_every_amz_header_must_be_signed)
{
    static const struct {
        const char *headers;
        bool covers;
    } rows[] = {
        {"host;x-amz-date;x-amz-target", true},
        {"x-amz-date;x-amz-target", false},
        {"host;x-amz-date", false},
        {"host;x-amz-target", false},
        {"host;x-amz-date;x-amz-targe", false},
    };
    const struct sent sent = {
        "POST", "/", "", "", {HOST, DATE, "X-AMZ-Target", "a", "X-Amzn-Trace-Id", "b"}};
    const struct signature_request request = request_of(&sent);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct signature signature;
        const char *why = NULL;
        assert_true(signature_parse(slice_of(authorization("sqs", rows[i].headers, HEX)),
                                    &signature, &why));
        CASE_HOLDS(rows[i].headers, signature_covers(&signature, &request, &why) == rows[i].covers);
    }
}

/* ---- callers ---- */

static const char *sign(const struct sent *sent, const char *credential, const char *secret)
{
    static char header[512];
    struct signature signature;
    struct signature_request request = request_of(sent);
    struct buffer canonical;
    unsigned char key[SIGNATURE_BYTES], made[SIGNATURE_BYTES];
    const char *why;
    (void)snprintf(header, sizeof header,
                   "AWS4-HMAC-SHA256 Credential=%s, SignedHeaders=host;x-amz-date, Signature=" HEX,
                   credential);
    assert_true(signature_parse(slice_of(header), &signature, &why));
    buffer_init(&canonical, 4096);
    assert_true(signature_canonical(&signature, &request, &canonical));
    assert_true(signature_key(slice_of(secret), &signature, key));
    assert_true(signature_make(key, &signature, slice_of(sent->headers[3]),
                               buffer_slice(&canonical), made));
    buffer_fini(&canonical);
    hex_emit_bytes(header + strlen(header) - 2 * sizeof made, made, sizeof made);
    return header;
}

static enum access_refusal ask(struct access_rig *rig, const struct sent *sent, const char *header,
                               int64_t now_ms, bool is_whole)
{
    struct access_caller *caller = NULL;
    const struct signature_request request = request_of(sent);
    const char *why = NULL;
    const struct access_signed asked = {.authorization = slice_of(header),
                                        .request = &request,
                                        .is_whole = is_whole,
                                        .region = "us-east-1",
                                        .service = "sqs",
                                        .now_ms = now_ms};
    enum access_refusal refusal = access_admit_signed(rig->access, &asked, &caller, &why);
    if (refusal == ACCESS_OK) {
        assert_int_equal(caller->kind, ACCESS_KEY);
        assert_true(slice_is(caller->name, "shop"));
        assert_int_equal(caller->scopes, ACCESS_PUSH);
    } else {
        assert_non_null(why);
        assert_null(strstr(why, "secret-of-the-shop"));
    }
    access_caller_release(caller);
    return refusal;
}

#define SHOP "shop/20150830/us-east-1/sqs/aws4_request"
#define ONE "secret-of-the-shop-1"
#define TWO "secret-of-the-shop-2"
#define LINE "access-key shop scope=push topics=orders-* "

CLAIM(only_an_access_key_makes_a_caller)
{
    const struct sent sent = {"POST", "/", "", "{}", {HOST, DATE}};
    struct access_rig rig;
    rig_open(&rig, LINE "secret=" ONE "\n");
    assert_true(access_has_keys(rig.access));
    assert_int_equal(ask(&rig, &sent, sign(&sent, SHOP, ONE), TIME_MS, true), ACCESS_OK);
    assert_int_equal(ask(&rig, &sent, sign(&sent, SHOP, ONE), TIME_MS, true), ACCESS_OK);
    assert_int_equal(ask(&rig, &sent, sign(&sent, SHOP, TWO), TIME_MS, true), ACCESS_FORGED);
    assert_int_equal(ask(&rig, &sent, sign(&sent, SHOP, TWO), TIME_MS, false), ACCESS_OK);
    assert_int_equal(ask(&rig, &sent, sign(&sent, "shoq/20150830/us-east-1/sqs/aws4_request", ONE),
                         TIME_MS, true),
                     ACCESS_UNKNOWN);
    assert_int_equal(ask(&rig, &sent, sign(&sent, "shop/20150830/eu-west-1/sqs/aws4_request", ONE),
                         TIME_MS, true),
                     ACCESS_CLAIMS);
    assert_int_equal(ask(&rig, &sent, sign(&sent, "shop/20150830/us-east-1/sns/aws4_request", ONE),
                         TIME_MS, true),
                     ACCESS_CLAIMS);
    assert_int_equal(ask(&rig, &sent, sign(&sent, "shop/20150831/us-east-1/sqs/aws4_request", ONE),
                         TIME_MS, true),
                     ACCESS_MALFORMED);
    for (int sign_of = -1; sign_of <= 1; sign_of += 2) {
        int64_t edge = TIME_MS + sign_of * (int64_t)SIGNATURE_WINDOW_MS;
        assert_int_equal(ask(&rig, &sent, sign(&sent, SHOP, ONE), edge, true), ACCESS_OK);
        assert_int_equal(ask(&rig, &sent, sign(&sent, SHOP, ONE), edge + sign_of, true),
                         ACCESS_SKEW);
    }
    rig_close(&rig);
}

/* A secret of an access key is not a token, nor the reverse. */
CLAIM(a_secret_is_not_accepted_as_a_token)
{
    struct access_rig rig;
    struct access_caller *caller;
    rig_open(&rig, LINE "secret=" ONE "\n");
    const struct access_asked asked = {
        .authorization = slice_of("Bearer " ONE), .needs_caller = true, .now_ms = TIME_MS};
    assert_int_equal(access_admit(rig.access, &asked, &caller), ACCESS_UNKNOWN);
    rig_close(&rig);
}

CLAIM(key_is_rotated_revoked_and_ends)
{
    const struct sent sent = {"POST", "/", "", "", {HOST, DATE}};
    struct access_rig rig;
    rig_open(&rig, LINE "secret=" ONE "\n");
    rig_write(&rig, LINE "secret=" TWO " old-secret=" ONE " old-until=2015-08-30T12:36:01Z\n");
    assert_int_equal(access_reload(rig.access, true, &rig.change, rig.error), 0);
    assert_true(rig.change.is_changed);
    assert_int_equal(ask(&rig, &sent, sign(&sent, SHOP, TWO), TIME_MS, true), ACCESS_OK);
    assert_int_equal(ask(&rig, &sent, sign(&sent, SHOP, ONE), TIME_MS, true), ACCESS_OK);
    assert_int_equal(ask(&rig, &sent, sign(&sent, SHOP, ONE), TIME_MS + 1000, true), ACCESS_FORGED);
    rig_write(&rig, LINE "secret=" TWO "\n");
    assert_int_equal(access_reload(rig.access, true, &rig.change, rig.error), 0);
    assert_int_equal(ask(&rig, &sent, sign(&sent, SHOP, ONE), TIME_MS, true), ACCESS_FORGED);
    rig_write(&rig, LINE "expires=2015-08-30T12:36:00Z secret=" TWO "\n");
    assert_int_equal(access_reload(rig.access, true, &rig.change, rig.error), 0);
    assert_int_equal(ask(&rig, &sent, sign(&sent, SHOP, TWO), TIME_MS, true), ACCESS_EXPIRED);
    rig_write(&rig, LINE "revoked=2015-08-30T12:00:00Z secret=" TWO "\n");
    assert_int_equal(access_reload(rig.access, true, &rig.change, rig.error), 0);
    assert_int_equal(ask(&rig, &sent, sign(&sent, SHOP, TWO), TIME_MS, true), ACCESS_REVOKED);
    rig_close(&rig);
}

/* A caller that waits with a key is valid as long as its secret is; only another secret ends it. */
CLAIM(another_secret_ends_the_caller_and_an_overlap_does_not)
{
    const struct sent sent = {"POST", "/", "", "", {HOST, DATE}};
    const struct signature_request request = request_of(&sent);
    struct access_rig rig;
    struct access_caller *caller;
    const char *why;
    rig_open(&rig, LINE "secret=" ONE "\n");
    const char *header = sign(&sent, SHOP, ONE);
    const struct access_signed asked = {.authorization = slice_of(header),
                                        .request = &request,
                                        .is_whole = true,
                                        .region = "us-east-1",
                                        .service = "sqs",
                                        .now_ms = TIME_MS};
    assert_int_equal(access_admit_signed(rig.access, &asked, &caller, &why), ACCESS_OK);
    rig_write(&rig, LINE "secret=" TWO " old-secret=" ONE " old-until=2015-08-30T12:36:01Z\n");
    assert_int_equal(access_reload(rig.access, true, &rig.change, rig.error), 0);
    assert_true(access_holds(rig.access, caller, TIME_MS));
    access_caller_release(caller);
    assert_int_equal(access_admit_signed(rig.access, &asked, &caller, &why), ACCESS_OK);
    rig_write(&rig, LINE "secret=another-secret-altogether\n");
    assert_int_equal(access_reload(rig.access, true, &rig.change, rig.error), 0);
    assert_false(access_holds(rig.access, caller, TIME_MS));
    access_caller_release(caller);
    rig_close(&rig);
}

CLAIMS_MAIN(NULL, NULL)
