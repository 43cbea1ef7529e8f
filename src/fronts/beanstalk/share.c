#include "beanstalk/share.h"

enum { COMMANDS_MAX = 64 /* per session and loop iteration */ };

/* Resumes the sessions that were waiting when this iteration ended, while there is time, but at
 * least the first one. */
static void on_turn_end(struct turn_end_call *call)
{
    struct beanstalk_front *front = list_entry(call, struct beanstalk_front, turn_end);
    struct list now;
    list_take_all(&now, &front->later);
    front->turn_commands = 0;
    while (!list_is_empty(&now)) {
        struct beanstalk_session *session = list_entry(now.next, struct beanstalk_session, later);
        list_remove(&session->later);
        session->driver->go_on(session);
        if (reactor_is_late(front->options.reactor))
            break;
    }
    if (list_is_empty(&now))
        return;
    /* Puts the remaining sessions before those that have just used their share. */
    now.prev->next = front->later.next;
    front->later.next->prev = now.prev;
    front->later.next = now.next;
    now.next->prev = &front->later;
    reactor_once_at_turn_end(front->options.reactor, &front->turn_end);
}

bool beanstalk_share_take(struct beanstalk_session *session, uint32_t begun)
{
    struct beanstalk_front *front = session->front;
    bool is_over =
        begun >= COMMANDS_MAX || (front->turn_commands && reactor_is_late(front->options.reactor));
    if (!is_over) {
        front->turn_commands++;
        reactor_once_at_turn_end(front->options.reactor, &front->turn_end);
        return true;
    }
    if (list_is_empty(&session->later))
        list_add_last(&front->later, &session->later);
    reactor_once_at_turn_end(front->options.reactor, &front->turn_end);
    return false;
}

void beanstalk_share_init(struct beanstalk_front *front)
{
    list_init(&front->later);
    list_init(&front->turn_end.list);
    front->turn_end.run = on_turn_end;
}

void beanstalk_share_fini(struct beanstalk_front *front)
{
    reactor_cancel_at_turn_end(&front->turn_end);
}
