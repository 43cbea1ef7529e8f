#include "targets/stomp_link.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "guard/resolve.h"
#include "targets/stomp_wire.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    CONNECT_MS = 10 * 1000, /* all addresses, TLS and login together */
    BEAT_MS = 10 * 1000,    /* what we offer and ask for */
    IDLE_MS = 30 * 1000,
    PAUSE_MS = 100, /* after the first failure, doubled with each */
    PAUSE_MS_MAX = 5 * 1000,
    IN_BYTES_MAX = STOMP_HEAD_BYTES_MAX + STOMP_BODY_BYTES_MAX + 64 * 1024,
    WHY_BYTES = 200
};

enum state { DOWN = 1, PAUSING, RESOLVING, CONNECTING, GREETING, UP };

struct stomp_link {
    const struct target_env *env;
    struct stomp_place place;
    struct stomp_link_events events;
    void *ctx;
    enum state state;
    bool is_needed, is_freed;
    struct resolved found;
    size_t next;       /* of found */
    uint64_t policy;   /* the guard's generation when it allowed the connection */
    uint64_t question; /* the last one to the resolver */
    size_t asks;       /* questions without an answer */
    struct stomp_wire *wire;
    struct buffer in;
    struct deadline *deadline;
    int64_t until_ms;                /* PAUSING: try then; up to GREETING: give up then */
    int64_t send_every_ms, hear_ms;  /* heart-beats; 0: none */
    int64_t last_out_ms, last_in_ms; /* UP */
    int64_t unneeded_ms;             /* since when */
    uint32_t failures;               /* in a row */
    int64_t retry_at_ms;             /* not before */
    struct turn_end_call turn_end;   /* what fails in a call is told after it; so is `gone` */
    char why[WHY_BYTES];
};

/* ---- down ---- */

static void hang_up(struct stomp_link *link)
{
    stomp_wire_free(link->wire);
    link->wire = NULL;
    link->question++;
    deadline_set(link->deadline, INT64_MAX);
}

static int64_t pause_ms(uint32_t failures)
{
    int64_t pause = PAUSE_MS;
    while (failures-- > 1 && pause < PAUSE_MS_MAX)
        pause *= 2;
    return pause < PAUSE_MS_MAX ? pause : PAUSE_MS_MAX;
}

/* The owner hears of it at the end of the turn. */
static void fall(struct stomp_link *link, const char *what, const char *why)
{
    hang_up(link);
    link->failures++;
    link->retry_at_ms = clock_inner_ms() + pause_ms(link->failures);
    (void)snprintf(link->why, sizeof link->why, "%s%s%s", what, *why ? ": " : "", why);
    log_event(LOG_INFO, "broker is away", LOG_TEXT("broker", link->place.origin),
              LOG_TEXT("why", link->why));
    reactor_once_at_turn_end(link->env->reactor, &link->turn_end);
}

static void on_turn_end(struct turn_end_call *call)
{
    struct stomp_link *link = list_entry(call, struct stomp_link, turn_end);
    struct stomp_link_events events = link->events;
    void *ctx = link->ctx;
    reactor_turn_again(link->env->reactor);
    if (!link->is_freed) {
        link->state = DOWN;
        events.down(ctx, link->why);
    } else if (link->asks == 0) {
        buffer_fini(&link->in);
        free(link);
        events.gone(ctx);
    }
}

/* ---- up ---- */

/* The policy file may have been read again since the connection was made. */
static bool is_allowed(struct stomp_link *link)
{
    struct guard *guard = link->env->guard;
    uint64_t policy = guard_generation(guard);
    const void *peer = &link->found.addresses[link->next - 1];
    if (policy == link->policy)
        return true;
    link->policy = policy;
    if (guard_check_host(guard, slice_of(link->place.host)) == GUARD_ALLOWED &&
        guard_check_address(guard, peer) == GUARD_ALLOWED)
        return true;
    fall(link, "connection ended", "the policy file forbids it now");
    return false;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* A heart-beat goes out well before it is due; a peer is given two of its own. */
static int64_t next_beat_ms(const struct stomp_link *link)
{
    return link->send_every_ms ? link->last_out_ms + link->send_every_ms * 3 / 4 : INT64_MAX;
}

static int64_t lost_ms(const struct stomp_link *link)
{
    return link->hear_ms ? link->last_in_ms + 2 * link->hear_ms : INT64_MAX;
}

static int64_t idle_ms(const struct stomp_link *link)
{
    return link->is_needed ? INT64_MAX : link->unneeded_ms + IDLE_MS;
}

static void set_deadline(struct stomp_link *link)
{
    deadline_set(link->deadline,
                 earlier(next_beat_ms(link), earlier(lost_ms(link), idle_ms(link))));
}

static void say_good_bye(struct stomp_link *link)
{
    static const char bye[] = "DISCONNECT\n\n";
    (void)stomp_wire_write(link->wire, bye, sizeof bye);
    stomp_link_stop(link, false);
}

static void look_at_clock(struct stomp_link *link)
{
    int64_t now_ms = clock_inner_ms();
    if (!is_allowed(link))
        return;
    if (now_ms >= lost_ms(link)) {
        fall(link, "connection lost", "no heart-beat came");
        return;
    }
    if (now_ms >= idle_ms(link)) {
        say_good_bye(link);
        return;
    }
    if (now_ms >= next_beat_ms(link)) {
        (void)stomp_wire_write(link->wire, "\n", 1);
        link->last_out_ms = now_ms;
    }
    set_deadline(link);
}

static void agree_on_beats(struct stomp_link *link, const struct stomp_frame *frame)
{
    int64_t sends_ms = 0, wants_ms = 0;
    struct slice beat = stomp_frame_header(frame, "heart-beat");
    link->send_every_ms = link->hear_ms = 0;
    if (!beat.at || !stomp_frame_heart_beat(beat, &sends_ms, &wants_ms))
        return;
    if (wants_ms)
        link->send_every_ms = wants_ms > BEAT_MS ? wants_ms : BEAT_MS;
    if (sends_ms)
        link->hear_ms = sends_ms > BEAT_MS ? sends_ms : BEAT_MS;
}

static void be_connected(struct stomp_link *link, const struct stomp_frame *frame)
{
    if (!slice_is(stomp_frame_header(frame, "version"), "1.2")) {
        fall(link, "no login", "the broker does not speak STOMP 1.2");
        return;
    }
    agree_on_beats(link, frame);
    link->state = UP;
    link->failures = 0;
    link->last_out_ms = link->last_in_ms = link->unneeded_ms = clock_inner_ms();
    set_deadline(link);
    link->events.up(link->ctx);
}

static void take_frame(struct stomp_link *link, const struct stomp_frame *frame)
{
    char text[WHY_BYTES / 2];
    struct slice said = stomp_frame_header(frame, "message");
    if (link->state == UP) {
        link->events.frame(link->ctx, frame);
        return;
    }
    (void)snprintf(text, sizeof text, "%.*s", (int)said.len, said.at ? said.at : "");
    if (slice_is(frame->command, "CONNECTED"))
        be_connected(link, frame);
    else
        fall(link, "login refused", text);
}

static void on_bytes(void *ctx, const char *bytes, size_t len)
{
    struct stomp_link *link = ctx;
    struct stomp_wire *wire = link->wire;
    struct stomp_frame frame;
    size_t at = 0, used = 0;
    const char *why = "";
    enum stomp_read read = STOMP_MORE;
    link->last_in_ms = clock_inner_ms();
    buffer_append(&link->in, bytes, len);
    if (link->in.failed) {
        fall(link, "connection lost", "the broker says too much");
        return;
    }
    while (link->wire == wire && !link->is_freed &&
           (read = stomp_frame_read(link->in.at + at, link->in.len - at, &frame, &used, &why)) !=
               STOMP_MORE) {
        if (read == STOMP_BROKEN) {
            fall(link, "a frame of the broker cannot be read", why);
            return;
        }
        at += used;
        if (read == STOMP_FRAME)
            take_frame(link, &frame);
    }
    if (link->wire != wire || link->is_freed)
        return;
    memmove(link->in.at, link->in.at + at, link->in.len - at);
    link->in.len -= at;
}

/* ---- connecting ---- */

static void try_next(struct stomp_link *link, const char *reason);

static bool emit_connect(struct stomp_link *link, struct buffer *out)
{
    struct guard_credential credential;
    char beats[32];
    bool good = true;
    (void)snprintf(beats, sizeof beats, "%d,%d", BEAT_MS, BEAT_MS);
    stomp_emit_command(out, "CONNECT");
    good = stomp_emit_plain_header(out, "accept-version", slice_of("1.2")) &&
           stomp_emit_plain_header(out, "host", slice_of(link->place.virtual_host)) &&
           stomp_emit_plain_header(out, "heart-beat", slice_of(beats));
    if (guard_find_credential(link->env->guard, link->place.origin, &credential))
        good = stomp_emit_plain_header(out, "login", slice_of(credential.user)) &&
               stomp_emit_plain_header(out, "passcode", slice_of(credential.password)) && good;
    explicit_bzero(&credential, sizeof credential);
    stomp_emit_body(out, (struct slice){0});
    return good && !out->failed;
}

static void on_wire_up(void *ctx)
{
    struct stomp_link *link = ctx;
    struct buffer out;
    buffer_init(&out, STOMP_HEAD_BYTES_MAX);
    link->state = GREETING;
    deadline_set(link->deadline, link->until_ms);
    if (!emit_connect(link, &out) || stomp_wire_write(link->wire, out.at, out.len) < out.len)
        fall(link, "no login", "user or password cannot be sent");
    if (out.at)
        explicit_bzero(out.at, out.cap);
    buffer_fini(&out);
}

static void on_wire_down(void *ctx, const char *why)
{
    struct stomp_link *link = ctx;
    if (link->state == CONNECTING) {
        stomp_wire_free(link->wire);
        link->wire = NULL;
        try_next(link, why);
    } else {
        fall(link, link->state == UP ? "connection lost" : "no login", why);
    }
}

static void on_wire_room(void *ctx)
{
    struct stomp_link *link = ctx;
    if (link->state == UP)
        link->events.room(link->ctx);
}

static bool connect_to(struct stomp_link *link, const struct sockaddr *address)
{
    static const struct stomp_wire_events events = {
        .up = on_wire_up, .bytes = on_bytes, .room = on_wire_room, .down = on_wire_down};
    char ca_file[GUARD_PATH_BYTES_MAX];
    bool has_ca = link->place.is_tls && guard_ca_file(link->env->guard, ca_file);
    link->wire =
        stomp_wire_new(link->env->reactor, address, link->place.is_tls ? link->place.host : NULL,
                       has_ca ? ca_file : NULL, &events, link);
    return link->wire != NULL;
}

/* `reason`: what became of the one before. */
static void try_next(struct stomp_link *link, const char *reason)
{
    int64_t now_ms = clock_inner_ms();
    while (link->next < link->found.count && now_ms < link->until_ms) {
        size_t left = link->found.count - link->next;
        const void *address = &link->found.addresses[link->next++];
        link->policy = guard_generation(link->env->guard);
        enum guard_verdict verdict = guard_check_address(link->env->guard, address);
        if (verdict != GUARD_ALLOWED) {
            reason = guard_verdict_name(verdict);
        } else if (connect_to(link, address)) {
            int64_t share_ms = (link->until_ms - now_ms) / (int64_t)left;
            deadline_set(link->deadline, now_ms + (share_ms > 1 ? share_ms : 1));
            return;
        } else {
            reason = "out of memory, or the ca-file cannot be read";
        }
    }
    fall(link, "no connection", reason);
}

static void on_resolved(void *owner, uint64_t tag, const struct resolved *resolved)
{
    struct stomp_link *link = owner;
    link->asks--;
    if (link->is_freed) {
        reactor_once_at_turn_end(link->env->reactor, &link->turn_end);
        return;
    }
    if (tag != link->question || link->state != RESOLVING)
        return;
    link->found = *resolved;
    link->next = 0;
    link->state = CONNECTING;
    if (resolved->count == 0)
        fall(link, "no connection", resolved->error);
    else
        try_next(link, "");
}

static void begin(struct stomp_link *link)
{
    link->state = RESOLVING;
    buffer_shrink(&link->in, 0);
    link->until_ms = clock_inner_ms() + CONNECT_MS;
    deadline_set(link->deadline, link->until_ms);
    link->asks++;
    resolver_ask(link->env->resolver, link->place.host, link->place.port,
                 hash_64(link->place.host, strlen(link->place.host)), on_resolved, link,
                 ++link->question);
}

static void on_deadline(void *ctx)
{
    struct stomp_link *link = ctx;
    switch (link->state) {
    case PAUSING:
        begin(link);
        return;
    case RESOLVING:
        fall(link, "no connection", "its address was not found in time");
        return;
    case CONNECTING:
        stomp_wire_free(link->wire);
        link->wire = NULL;
        try_next(link, "timed out");
        return;
    case GREETING:
        fall(link, "no login", "the broker did not answer in time");
        return;
    case UP:
        look_at_clock(link);
        return;
    case DOWN:
        return;
    }
}

/* ---- for the owner ---- */

void stomp_link_start(struct stomp_link *link)
{
    if (link->state != DOWN || link->is_freed)
        return;
    if (clock_inner_ms() >= link->retry_at_ms) {
        begin(link);
        return;
    }
    link->state = PAUSING;
    deadline_set(link->deadline, link->retry_at_ms);
}

void stomp_link_stop(struct stomp_link *link, bool pauses)
{
    hang_up(link);
    reactor_cancel_at_turn_end(&link->turn_end);
    link->state = DOWN;
    link->retry_at_ms = pauses ? clock_inner_ms() + PAUSE_MS : 0;
}

bool stomp_link_is_up(const struct stomp_link *link)
{
    return link->state == UP && link->wire;
}

size_t stomp_link_write(struct stomp_link *link, const char *at, size_t len)
{
    if (!stomp_link_is_up(link) || !is_allowed(link))
        return 0;
    size_t taken = stomp_wire_write(link->wire, at, len);
    if (taken)
        link->last_out_ms = clock_inner_ms();
    return taken;
}

void stomp_link_needed(struct stomp_link *link, bool is_needed)
{
    if (link->is_needed == is_needed)
        return;
    link->is_needed = is_needed;
    link->unneeded_ms = clock_inner_ms();
    if (stomp_link_is_up(link))
        set_deadline(link);
}

struct stomp_link *stomp_link_new(const struct target_env *env, const struct stomp_place *place,
                                  const struct stomp_link_events *events, void *ctx)
{
    struct stomp_link *link = calloc(1, sizeof *link);
    if (!link)
        return NULL;
    link->deadline = deadline_new(env->reactor, on_deadline, link);
    if (!link->deadline) {
        free(link);
        return NULL;
    }
    link->env = env;
    link->place = *place;
    link->events = *events;
    link->ctx = ctx;
    link->state = DOWN;
    link->turn_end.run = on_turn_end;
    list_init(&link->turn_end.list);
    buffer_init(&link->in, IN_BYTES_MAX);
    return link;
}

void stomp_link_free(struct stomp_link *link)
{
    if (stomp_link_is_up(link))
        say_good_bye(link);
    stomp_link_stop(link, false);
    deadline_free(link->deadline);
    link->deadline = NULL;
    link->is_freed = true;
    reactor_once_at_turn_end(link->env->reactor, &link->turn_end);
}
