/* The STOMP target against a peer of the test's own, which sends and withholds frames as no broker would.
 * Real brokers: tests/e2e/delivery/brokers/test_activemq.py. */
#include "targets/stomp/frame.h"

#include "broker_rig.h"
#include "unit/claim.h"

#define POLICY "allow-host = 127.0.0.1\nallow-network = 127.0.0.0/8\n"

enum { PEERS_MAX = 8, PEER_BYTES_MAX = 8 << 20 };

/* A connection of the peer, with everything that came on it. */
struct peer {
    uv_tcp_t tcp;
    struct buffer in;
    bool is_open, has_ended;
};

struct broker {
    struct broker_rig rig; /* the first */
    uv_tcp_t listener;
    struct peer peers[PEERS_MAX];
    int peer_count;
    bool is_deaf;           /* does not read */
    const char *on_connect; /* what it answers to the first bytes; NULL: CONNECTED */
};

static const char connected[] = "CONNECTED\nversion:1.2\n\n";

static void on_peer_room(uv_handle_t *handle, size_t wanted, uv_buf_t *room)
{
    static char bytes[65536];
    (void)handle;
    (void)wanted;
    *room = uv_buf_init(bytes, sizeof bytes);
}

static void peer_write(struct peer *peer, const void *bytes, size_t len)
{
    uv_buf_t out = uv_buf_init((char *)(uintptr_t)bytes, (unsigned)len);
    assert_int_equal(uv_try_write((uv_stream_t *)&peer->tcp, &out, 1), (int)len);
}

static void peer_write_frame(struct peer *peer, const char *text)
{
    peer_write(peer, text, strlen(text) + 1);
}

static void on_peer_bytes(uv_stream_t *stream, ssize_t count, const uv_buf_t *bytes)
{
    struct broker *broker = stream->data;
    struct peer *peer = (struct peer *)(void *)stream;
    if (count < 0) {
        peer->has_ended = true;
        (void)uv_read_stop(stream);
        return;
    }
    if (peer->in.len == 0 && count > 0)
        peer_write_frame(peer, broker->on_connect ? broker->on_connect : connected);
    buffer_append(&peer->in, bytes->base, (size_t)count);
    if (broker->is_deaf)
        (void)uv_read_stop(stream);
}

static void on_peer(uv_stream_t *listener, int status)
{
    struct broker *broker = listener->data;
    assert_int_equal(status, 0);
    assert_true(broker->peer_count < PEERS_MAX);
    struct peer *peer = &broker->peers[broker->peer_count++];
    uv_tcp_init(listener->loop, &peer->tcp);
    peer->tcp.data = broker;
    peer->is_open = true;
    buffer_init(&peer->in, PEER_BYTES_MAX);
    assert_int_equal(uv_accept(listener, (uv_stream_t *)&peer->tcp), 0);
    uv_read_start((uv_stream_t *)&peer->tcp, on_peer_room, on_peer_bytes);
}

static void hang_up(struct peer *peer)
{
    if (peer->is_open)
        uv_close((uv_handle_t *)&peer->tcp, NULL);
    peer->is_open = false;
}

static void start_listening(struct broker *broker)
{
    struct sockaddr_in address;
    struct sockaddr_storage name;
    int len = sizeof name;
    uv_ip4_addr("127.0.0.1", 0, &address);
    uv_tcp_init(reactor_loop(broker->rig.reactor), &broker->listener);
    broker->listener.data = broker;
    uv_tcp_bind(&broker->listener, (struct sockaddr *)&address, 0);
    assert_int_equal(uv_listen((uv_stream_t *)&broker->listener, 8, on_peer), 0);
    uv_tcp_getsockname(&broker->listener, (struct sockaddr *)&name, &len);
    snprintf(broker->rig.to, sizeof broker->rig.to, "stomp://127.0.0.1:%u",
             ntohs(((struct sockaddr_in *)&name)->sin_port));
}

/* `credential`: with a user and a password in the policy file. */
static struct broker *begin(const char *policy, bool credential)
{
    struct broker *broker = calloc(1, sizeof *broker);
    assert_non_null(broker);
    broker_rig_start(&broker->rig, policy, "");
    start_listening(broker);
    if (credential) {
        char text[512];
        snprintf(text, sizeof text, "%scredential = %s bob se:cr\\et\n", POLICY, broker->rig.to);
        guard_free(broker->rig.guard);
        resolver_free(broker->rig.resolver);
        broker_rig_guard(&broker->rig, text);
        broker->rig.resolver = resolver_new(broker->rig.reactor, broker->rig.guard);
        broker->rig.env.guard = broker->rig.guard;
        broker->rig.env.resolver = broker->rig.resolver;
    }
    broker_rig_open(&broker->rig, &target_stomp);
    return broker;
}

static void finish(struct broker *broker)
{
    broker_rig_close(&broker->rig);
    for (int i = 0; i < broker->peer_count; i++) {
        hang_up(&broker->peers[i]);
        buffer_fini(&broker->peers[i].in);
    }
    uv_close((uv_handle_t *)&broker->listener, NULL);
    broker_rig_stop(&broker->rig);
    free(broker);
}

static int count_of(const struct peer *peer, const char *text)
{
    int count = 0;
    const char *at = peer->in.at, *end = at + peer->in.len;
    while (at && (at = memmem(at, (size_t)(end - at), text, strlen(text)))) {
        at++;
        count++;
    }
    return count;
}

#define CAME(BROKER, AT, TEXT) (count_of(&(BROKER)->peers[AT], (TEXT)) > 0)
#define UNTIL(BROKER, CONDITION) assert_true(BROKER_RIG_UNTIL(&(BROKER)->rig, 10, (CONDITION)))

static void receipt(struct peer *peer, int number)
{
    char text[64];
    snprintf(text, sizeof text, "RECEIPT\nreceipt-id:%d\n\n", number);
    peer_write_frame(peer, text);
}

/* ---- claims ---- */

CLAIM(a_message_is_done_on_its_receipt_and_not_before)
{
    struct broker *broker = begin(POLICY, false);
    broker_rig_send_text(&broker->rig, 7, "hello");
    UNTIL(broker, CAME(broker, 0, "hello"));
    (void)BROKER_RIG_UNTIL(&broker->rig, 0.05, false);
    assert_int_equal(broker->rig.reported, 0);
    receipt(&broker->peers[0], 99);
    receipt(&broker->peers[0], 1);
    UNTIL(broker, broker->rig.reported == 1);
    assert_int_equal(broker->rig.outcomes[7], TARGET_DONE);
    finish(broker);
}

CLAIM(a_frame_has_its_headers_and_body)
{
    static const char meta[] =
        "kind\0a:b\\c\0destination\0/queue/other\0transaction\0t\0tarry-callback"
        "\0http://inner/";
    static const char wanted[] =
        "CONNECT\naccept-version:1.2\nhost:127.0.0.1\nheart-beat:10000,10000\n\n\0"
        "SEND\ndestination:/queue/orders.a\\cb\\\\c\nreceipt:1\npersistent:true\n"
        "content-type:text/plain\ncontent-length:4\ntarry-topic:orders\ntarry-id:4\\c2\n"
        "tarry-attempt:3\ntarry-due-at:2023-11-14T22\\c13\\c20.000Z\nkind:a\\cb\\\\c\n"
        "meta-destination:/queue/other\nmeta-transaction:t\n\n\n\0:\\\0";
    struct broker *broker = begin(POLICY, false);
    char destination[] = "/queue/{topic}.{meta.kind}";
    broker->rig.setting.destination = destination;
    struct job job = {.topic = slice_of("orders"),
                      .id = slice_of("4:2"),
                      .content_type = slice_of("text/plain"),
                      .meta = slice_make(meta, sizeof meta),
                      .body = slice_make("\n\0:\\", 4),
                      .attempt = 3,
                      .due_ms = 1700000000000};
    broker_rig_send(&broker->rig, 0, &job);
    UNTIL(broker,
          CAME(broker, 0, "meta-transaction") && broker->peers[0].in.len >= sizeof wanted - 1);
    assert_int_equal(broker->peers[0].in.len, sizeof wanted - 1);
    assert_memory_equal(broker->peers[0].in.at, wanted, sizeof wanted - 1);
    finish(broker);
}

CLAIM(a_field_cannot_name_a_second_destination)
{
    static const char *const ids[] = {"a,topic://all", "a.>", "*", "a?consumer.priority=1"};
    struct broker *broker = begin(POLICY, false);
    char destination[] = "/queue/{id}?x,y";
    broker->rig.setting.destination = destination;
    for (size_t i = 0; i < COUNT_OF(ids); i++) {
        struct job job = {.topic = slice_of("orders"), .id = slice_of(ids[i])};
        broker_rig_send(&broker->rig, i, &job);
        UNTIL(broker, broker->rig.reported == i + 1);
        CASE_HOLDS(ids[i], broker->rig.last.outcome == TARGET_REFUSED);
    }
    broker_rig_send_text(&broker->rig, 10, "fine");
    UNTIL(broker, CAME(broker, 0, "destination:/queue/10?x,y\n"));
    finish(broker);
}

CLAIM(many_messages_are_in_flight_together)
{
    enum { MANY = 500 };
    struct broker *broker = begin(POLICY, false);
    for (int i = 0; i < MANY; i++)
        broker_rig_send_text(&broker->rig, (uint64_t)i, "x");
    UNTIL(broker, broker->peer_count && count_of(&broker->peers[0], "SEND\n") == MANY);
    for (int i = 0; i < MANY; i++)
        receipt(&broker->peers[0], i % 2 ? i : i + 2);
    UNTIL(broker, broker->rig.done == MANY);
    assert_int_equal(broker->peer_count, 1);
    finish(broker);
}

CLAIM(the_guard_checks_before_anything_connects)
{
    static const char *const policies[] = {NULL, "allow-host = 127.0.0.1\n",
                                           "allow-network = 127.0.0.0/8\n"};
    for (size_t i = 0; i < COUNT_OF(policies); i++) {
        struct broker *broker = begin(policies[i], false);
        broker_rig_send_text(&broker->rig, 0, "x");
        UNTIL(broker, broker->rig.reported == 1);
        assert_int_equal(broker->rig.last.outcome, TARGET_UNSENT);
        assert_true(broker->rig.last.is_ailing);
        (void)BROKER_RIG_UNTIL(&broker->rig, 0.02, false);
        assert_int_equal(broker->peer_count, 0);
        finish(broker);
    }
}

CLAIM(sent_messages_without_a_receipt_fail_with_the_connection)
{
    struct broker *broker = begin(POLICY, false);
    for (int i = 0; i < 3; i++)
        broker_rig_send_text(&broker->rig, (uint64_t)i, "x");
    UNTIL(broker, broker->peer_count && count_of(&broker->peers[0], "SEND\n") == 3);
    receipt(&broker->peers[0], 2);
    UNTIL(broker, broker->rig.reported == 1);
    hang_up(&broker->peers[0]);
    UNTIL(broker, broker->rig.reported == 3);
    assert_int_equal(broker->rig.failed, 2);
    assert_int_equal(broker->rig.outcomes[1], TARGET_DONE);
    assert_true(broker->rig.last.is_ailing);
    broker_rig_send_text(&broker->rig, 3, "again");
    UNTIL(broker, CAME(broker, 1, "again"));
    receipt(&broker->peers[1], 4);
    UNTIL(broker, broker->rig.outcomes[3] == TARGET_DONE);
    finish(broker);
}

CLAIM(messages_that_never_left_are_unsent)
{
    enum { MANY = 40 };
    static char body[1 << 20];
    struct broker *broker = begin(POLICY, false);
    broker->is_deaf = true;
    memset(body, 'b', sizeof body - 1);
    for (int i = 0; i < MANY; i++)
        broker_rig_send_text(&broker->rig, (uint64_t)i, body);
    UNTIL(broker, broker->peer_count == 1 && broker->peers[0].in.len > 0);
    (void)BROKER_RIG_UNTIL(&broker->rig, 0.2, false);
    assert_int_equal(broker->rig.reported, 0);
    hang_up(&broker->peers[0]);
    UNTIL(broker, broker->rig.reported == MANY);
    assert_true(broker->rig.failed >= 1);
    assert_true(broker->rig.unsent >= MANY / 4);
    assert_int_equal(broker->rig.outcomes[0], TARGET_FAILED);
    assert_int_equal(broker->rig.outcomes[MANY - 1], TARGET_UNSENT);
    finish(broker);
}

CLAIM(half_sent_messages_may_have_arrived)
{
    enum { BYTES = 32 << 20 };
    struct broker *broker = begin(POLICY, false);
    char *body = malloc(BYTES);
    memset(body, 'b', BYTES - 1);
    body[BYTES - 1] = 0;
    broker->is_deaf = true;
    broker_rig_send_text(&broker->rig, 0, body);
    free(body);
    UNTIL(broker, broker->peer_count == 1 && broker->peers[0].in.len > 0);
    (void)BROKER_RIG_UNTIL(&broker->rig, 0.1, false);
    hang_up(&broker->peers[0]);
    UNTIL(broker, broker->rig.reported == 1);
    assert_int_equal(broker->rig.last.outcome, TARGET_FAILED);
    finish(broker);
}

CLAIM(waiting_bytes_are_bounded)
{
    static char body[1 << 20];
    struct broker *broker = begin(POLICY, false);
    memset(body, 'b', sizeof body - 1);
    for (int i = 0; i < 80; i++)
        broker_rig_send_text(&broker->rig, (uint64_t)i, body);
    broker->is_deaf = true;
    UNTIL(broker, broker->rig.unsent > 0);
    assert_in_range(broker->rig.unsent, 15, 20);
    assert_false(broker->rig.last.is_ailing);
    finish(broker);
}

CLAIM(an_error_fails_the_message_it_names_and_no_other)
{
    struct broker *broker = begin(POLICY, false);
    for (int i = 0; i < 3; i++)
        broker_rig_send_text(&broker->rig, (uint64_t)i, "x");
    UNTIL(broker, broker->peer_count && count_of(&broker->peers[0], "SEND\n") == 3);
    peer_write_frame(&broker->peers[0], "ERROR\nreceipt-id:2\nmessage:not\\c allowed\n\n");
    UNTIL(broker, broker->rig.reported == 1);
    assert_int_equal(broker->rig.outcomes[1], TARGET_FAILED);
    assert_string_equal(broker->rig.last.error, "error of the broker: not: allowed");
    assert_false(broker->rig.last.is_ailing);
    /* A later message waits for the next connection; receipts still count on this one. */
    broker_rig_send_text(&broker->rig, 3, "later");
    receipt(&broker->peers[0], 1);
    receipt(&broker->peers[0], 3);
    UNTIL(broker, broker->rig.done == 2);
    UNTIL(broker, CAME(broker, 1, "later"));
    assert_false(CAME(broker, 0, "later"));
    receipt(&broker->peers[1], 4);
    UNTIL(broker, broker->rig.done == 3);
    finish(broker);
}

CLAIM(an_error_without_a_receipt_fails_all_sent_messages)
{
    struct broker *broker = begin(POLICY, false);
    for (int i = 0; i < 2; i++)
        broker_rig_send_text(&broker->rig, (uint64_t)i, "x");
    UNTIL(broker, broker->peer_count && count_of(&broker->peers[0], "SEND\n") == 2);
    peer_write_frame(&broker->peers[0], "ERROR\nmessage:going down\n\nmore");
    UNTIL(broker, broker->rig.failed == 2);
    UNTIL(broker, broker->peers[0].has_ended);
    finish(broker);
}

CLAIM(a_silent_broker_costs_a_message_its_time)
{
    struct broker *broker = begin(POLICY, false);
    broker->rig.setting.timeout_ms = 200;
    int64_t began_us = clock_boot_us();
    broker_rig_send_text(&broker->rig, 0, "x");
    UNTIL(broker, broker->rig.reported == 1);
    int64_t took_ms = (clock_boot_us() - began_us) / 1000;
    assert_in_range(took_ms, 199, 10000);
    assert_int_equal(broker->rig.last.outcome, TARGET_FAILED);
    assert_true(broker->rig.last.is_ailing);
    assert_string_equal(broker->rig.last.error, "timed out after 200 ms");
    receipt(&broker->peers[0], 1); /* too late: the receiver has gone */
    (void)BROKER_RIG_UNTIL(&broker->rig, 0.05, false);
    assert_int_equal(broker->rig.reported, 1);
    finish(broker);
}

CLAIM(a_broker_that_does_not_greet_is_sent_nothing)
{
    struct broker *broker = begin(POLICY, false);
    broker->on_connect = "\n";
    broker->rig.setting.timeout_ms = 150;
    broker_rig_send_text(&broker->rig, 0, "x");
    UNTIL(broker, broker->rig.reported == 1);
    assert_int_equal(broker->rig.last.outcome, TARGET_UNSENT);
    assert_int_equal(count_of(&broker->peers[0], "SEND"), 0);
    finish(broker);
}

CLAIM(a_login_is_sent_unchanged_and_its_rejection_reported)
{
    struct broker *broker = begin(POLICY, true);
    broker->on_connect = "ERROR\nmessage:Bad user or password\n\n";
    broker_rig_send_text(&broker->rig, 0, "x");
    UNTIL(broker, broker->rig.reported == 1);
    assert_true(CAME(broker, 0, "\nlogin:bob\npasscode:se:cr\\et\n\n"));
    assert_int_equal(broker->rig.last.outcome, TARGET_UNSENT);
    assert_true(broker->rig.last.is_ailing);
    assert_string_equal(broker->rig.last.error, "login refused: Bad user or password");
    finish(broker);
}

CLAIM(other_peers_are_found_out)
{
    static const char *const greetings[] = {
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "CONNECTED\nversion:1.1\n\n",
        "CONNECTED\nno colon\n\n",
        "RECEIPT\nreceipt-id:1\n\n",
    };
    for (size_t i = 0; i < COUNT_OF(greetings); i++) {
        struct broker *broker = begin(POLICY, false);
        broker->on_connect = greetings[i];
        broker_rig_send_text(&broker->rig, 0, "x");
        UNTIL(broker, broker->rig.reported == 1);
        CASE_HOLDS(greetings[i], broker->rig.last.outcome == TARGET_UNSENT);
        CASE_HOLDS(greetings[i], count_of(&broker->peers[0], "SEND") == 0);
        finish(broker);
    }
}

CLAIM(it_tries_again_with_pauses)
{
    struct broker *broker = begin(POLICY, false);
    broker->on_connect = "ERROR\n\n";
    int64_t began_us = clock_boot_us();
    for (int i = 0; i < 4; i++) {
        broker_rig_send_text(&broker->rig, (uint64_t)i, "x");
        UNTIL(broker, broker->rig.unsent == (size_t)i + 1);
    }
    assert_int_equal(broker->peer_count, 4);
    assert_in_range((clock_boot_us() - began_us) / 1000, 699, 3000);
    finish(broker);
}

CLAIM(closing_reports_everything_first)
{
    struct broker *broker = begin(POLICY, false);
    broker_rig_send_text(&broker->rig, 0, "x");
    UNTIL(broker, CAME(broker, 0, "SEND\n"));
    broker_rig_close(&broker->rig);
    assert_int_equal(broker->rig.reported, 1);
    assert_int_equal(broker->rig.outcomes[0], TARGET_FAILED);
    broker->rig.is_closed = false;
    broker->rig.target = NULL;
    broker_rig_open(&broker->rig, &target_stomp);
    UNTIL(broker, CAME(broker, 0, "DISCONNECT\n"));
    finish(broker);
}

CLAIM(bad_settings_are_refused)
{
    char error[TARGET_ERROR_BYTES] = "", bad[] = "/queue/{nobody}";
    struct target_setting setting = {.destination = bad};
    assert_false(target_stomp.check(&setting, slice_of("stomp://mq"), error));
    assert_true(error[0]);
    setting.destination = NULL;
    assert_true(target_stomp.check(&setting, slice_of("stomp://mq"), error));
    assert_false(target_stomp.check(&setting, slice_of("stomp://u:p@mq"), error));
    assert_null(strstr(error, "u:p"));
}

CLAIMS_MAIN(NULL, NULL)
