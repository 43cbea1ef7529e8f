#include "net/outflow.h"

/* The result of one write. */
enum step { STEP_FAILED = -1, STEP_WHOLE = 1, STEP_MORE, STEP_FULL };

static size_t piece_bytes(const struct outflow *outflow, size_t most)
{
    size_t left = outflow->len - outflow->done;
    return left < most ? left : most;
}

/* Writes a piece. */
static enum step write_piece(struct outflow *outflow, int *error)
{
    uv_buf_t piece = uv_buf_init((char *)(uintptr_t)outflow->at + outflow->done,
                                 (unsigned)piece_bytes(outflow, OUTFLOW_PIECE_BYTES));
    int done = uv_try_write(outflow->stream, &piece, 1);
    *error = done;
    if (done == UV_EAGAIN)
        return STEP_FULL;
    if (done < 0)
        return STEP_FAILED;
    outflow->done += (size_t)done;
    if (outflow->done == outflow->len)
        return STEP_WHOLE;
    return (size_t)done < piece.len ? STEP_FULL : STEP_MORE;
}

static void on_probed(uv_write_t *probe, int status);

/* Has the loop write the next bytes when the socket has room. */
static int wait_for_room(struct outflow *outflow)
{
    size_t bytes = piece_bytes(outflow, OUTFLOW_PROBE_BYTES);
    uv_buf_t piece = uv_buf_init((char *)(uintptr_t)outflow->at + outflow->done, (unsigned)bytes);
    outflow->probe.data = outflow;
    int error = uv_write(&outflow->probe, outflow->stream, &piece, 1, on_probed);
    if (!error)
        outflow->probe_bytes = bytes;
    return error;
}

/* Writes on while there is time. Returns as outflow_start. */
static int write_on(struct outflow *outflow)
{
    enum step step;
    int error = 0;
    while ((step = write_piece(outflow, &error)) == STEP_MORE)
        if (reactor_is_late(outflow->reactor)) {
            reactor_add_task(outflow->reactor, &outflow->task);
            return 0;
        }
    if (step == STEP_FULL)
        return wait_for_room(outflow);
    return step == STEP_WHOLE ? 1 : error;
}

static void on_probed(uv_write_t *probe, int status)
{
    struct outflow *outflow = probe->data;
    if (status == 0) {
        outflow->done += outflow->probe_bytes;
        status = outflow->done == outflow->len;
        outflow->probe_bytes = 0;
        if (!status && reactor_is_late(outflow->reactor))
            reactor_add_task(outflow->reactor, &outflow->task);
        else if (!status)
            status = write_on(outflow);
    }
    if (status)
        outflow->ended(outflow, status > 0 ? 0 : status);
}

static bool run_piece(struct reactor_task *task)
{
    struct outflow *outflow = list_entry(task, struct outflow, task);
    int error = 0;
    enum step step = write_piece(outflow, &error);
    if (step == STEP_MORE)
        return true;
    if (step == STEP_FULL && !(error = wait_for_room(outflow)))
        return false;
    outflow->ended(outflow, step == STEP_WHOLE ? 0 : error);
    return false;
}

void outflow_init(struct outflow *outflow, struct reactor *reactor, uv_stream_t *stream,
                  outflow_ended *ended)
{
    *outflow = (struct outflow){.reactor = reactor, .stream = stream, .ended = ended};
    list_init(&outflow->task.list);
    outflow->task.piece = run_piece;
}

int outflow_start(struct outflow *outflow, const char *at, size_t len)
{
    outflow->at = at;
    outflow->len = len;
    outflow->done = 0;
    return len ? write_on(outflow) : 1;
}

void outflow_cancel(struct outflow *outflow)
{
    if (outflow->probe_bytes)
        return;
    reactor_remove_task(&outflow->task);
    outflow->ended(outflow, UV_ECANCELED);
}

size_t outflow_left(const struct outflow *outflow)
{
    size_t probed = outflow->probe_bytes
                        ? outflow->probe_bytes - uv_stream_get_write_queue_size(outflow->stream)
                        : 0;
    return outflow->len - outflow->done - probed;
}
