/* A topic's extension, and the notifications of a listener. The world itself fails if a required
 * notification is missing; the claims count the required ones. */
#include "directed.h"

#include <stdio.h>

static const struct topic_settings extended = {.extension = {"{\"deliver\":{}}", 14}};

/* ---- the extension ---- */

static void an_extension_is_stored_unchanged_with_the_topic(void **state)
{
    (void)state;
    assert_int_equal(put(extended), QUEUE_CREATED);
    assert_true(slice_is(figures().settings.extension, "{\"deliver\":{}}"));
    push(a_push("a"));
    topic_call(QUEUE_TOPIC_PAUSE);
    restart();
    assert_true(slice_is(figures().settings.extension, "{\"deliver\":{}}"));
}

static void settings_are_replaced_with_their_extension(void **state)
{
    (void)state;
    put(extended);
    put((struct topic_settings){.extension = slice_of("{}")});
    assert_true(slice_is(figures().settings.extension, "{}"));
    put((struct topic_settings){.dedup_window_ms = 1000});
    assert_int_equal(figures().settings.extension.len, 0);
    restart();
    assert_int_equal(figures().settings.extension.len, 0);
}

static void a_deleted_topic_comes_back_without_its_extension(void **state)
{
    (void)state;
    put(extended);
    topic_call(QUEUE_TOPIC_DELETE);
    push(a_push("a"));
    assert_int_equal(figures().settings.extension.len, 0);
}

static void an_extension_may_be_as_long_as_its_limit_and_no_longer(void **state)
{
    static char text[TOPIC_EXTENSION_BYTES_MAX + 1];

    (void)state;
    memset(text, ' ', sizeof text);
    text[0] = '{';
    text[TOPIC_EXTENSION_BYTES_MAX - 1] = '}';
    assert_int_equal(put((struct topic_settings){.extension = slice_make(text, sizeof text)}),
                     QUEUE_BAD_OPTION);
    assert_int_equal(put((struct topic_settings){.extension = slice_make(text, sizeof text - 1)}),
                     QUEUE_CREATED);
    restart();
    assert_int_equal(figures().settings.extension.len, TOPIC_EXTENSION_BYTES_MAX);
}

/* Each answer belongs to its own call, also if it waits while the next one is carried out. */
static void puts_sent_together_are_answered_with_their_own_extension(void **state)
{
    struct client *client = &w->client;
    struct queue_topic_call call = {.verb = QUEUE_TOPIC_PUT, .topic = slice_of("t")};
    char text[8];

    (void)state;
    client_begin(client);
    for (char i = 0; i < 5; i++) {
        snprintf(text, sizeof text, "{\"%c\":1}", 'a' + i);
        call.settings.extension = slice_of(text);
        queue_topic(client->queue, &call, client_add(client));
        client_sent(client);
    }
    client_wait(client);
    for (char i = 0; i < 5; i++) {
        const struct queue_reply *reply = &client->calls[(int)i].outcome.reply;

        assert_int_equal(reply->topic_count, 1);
        assert_int_equal(reply->topics[0].settings.extension.len, 7);
        assert_int_equal(reply->topics[0].settings.extension.at[2], 'a' + i);
    }
}

/* ---- events ---- */

static void a_change_of_settings_and_a_delete_send_events(void **state)
{
    (void)state;
    put((struct topic_settings){.dedup_window_ms = 1000});
    assert_int_equal(received(), 1);
    put(extended);
    assert_int_equal(received(), 2);
    topic_call(QUEUE_TOPIC_DELETE);
    assert_int_equal(received(), 3);
}

static void every_kind_of_death_sends_an_event(void **state)
{
    struct topic_settings settings = extended;
    struct queue_push dead = a_push("dead");

    (void)state;
    settings.dead_letter_expired = true;
    settings.policy.max_attempts = 1;
    put(settings);
    uint64_t before = received();

    push(a_push("nacked"));
    nack(take("nacked"), 0, "no");
    assert_int_equal(received(), before + 1);
    push(a_push("refused"));
    refuse(take("refused"), "no");
    assert_int_equal(received(), before + 2);
    push(a_push("left"));
    take_for("left", 1000);
    pass(1001);
    assert_int_equal(received(), before + 3);
    dead.past.dead = true;
    push(dead);
    assert_int_equal(received(), before + 4);
    struct queue_push late = a_push("late");
    late.policy.ttl_ms = 1000;
    push(late);
    pass(1001);
    assert_int_equal(received(), before + 5);
}

static void deaths_are_reported_again_after_a_restart(void **state)
{
    (void)state;
    put(extended);
    push(a_push("a"));
    take_for("a", 1000);
    restart();
    uint64_t before = received();
    pass(1001); /* an attempt of sixteen */
    assert_int_equal(received(), before);
    pass(3600000);
    refuse(take("a"), "no");
    assert_int_equal(received(), before + 1);
    topic_call(QUEUE_TOPIC_REDRIVE);
    refuse(take("a"), "still no");
    assert_int_equal(received(), before + 2);
}

const struct CMUnitTest directed_event[] = {
    CLAIM(an_extension_is_stored_unchanged_with_the_topic),
    CLAIM(settings_are_replaced_with_their_extension),
    CLAIM(a_deleted_topic_comes_back_without_its_extension),
    CLAIM(an_extension_may_be_as_long_as_its_limit_and_no_longer),
    CLAIM(puts_sent_together_are_answered_with_their_own_extension),
    CLAIM(a_change_of_settings_and_a_delete_send_events),
    CLAIM(every_kind_of_death_sends_an_event),
    CLAIM(deaths_are_reported_again_after_a_restart),
};
const size_t directed_event_count = sizeof directed_event / sizeof directed_event[0];
