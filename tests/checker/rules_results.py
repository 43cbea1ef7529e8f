"""Results stay as long as they are to be kept, and those who wait for them get them: rule R."""

from .causes import Result
from .history import MS

LATE_NS = 3000 * MS  # a wait ends within this time after the ack, if nothing is broken


def results_stay(history):
    """R. A result whose ack was answered OK is found, byte for byte, for the time that the topic keeps finished jobs; no other job is shown as finished; a
    wait ends with the result of its job, and soon."""
    result = Result("R")
    for key in history.keys.values():
        keep_ns = key.topic.settings["keep_ms"] * MS
        if not keep_ns:
            continue
        acks = [answer for delivery in key.deliveries for answer in delivery.answers if answer.verb == "ack" and answer.may_have_happened]
        for look in key.kept:
            result.trials += 1
            _check_look(key, look, acks, keep_ns, result)
        for ended in key.ended:
            result.trials += 1
            _check_wait(history, key, ended, acks, result)
    for topic in history.topics.values():
        for span, ids, count in topic.kept_lists:
            _check_list(history, topic, span, ids, count, result)
    return result


def certain(acks, look, keep_ns=None):
    """The ack that was certainly carried out before the look-up, while its job is kept; or None."""
    return next((ack for ack in acks if ack.outcome == "ok" and ack.end < look.begin and (keep_ns is None or look.end < ack.begin + keep_ns)), None)


def _check_shown(key, look, acks, result):
    """A finished job has the result of an ack that may have been carried out."""
    given = {ack.result for ack in acks if ack.begin < look.end}
    if look.result not in given:
        result.blame(f"{key.name()}: shown as finished with a result that no ack gave it")
    result.note("finished")


def _check_look(key, look, acks, keep_ns, result):
    if look.state == "finished":
        _check_shown(key, look, acks, result)
        return
    ack = certain(acks, look, keep_ns)
    if ack and look.state == "not_found":
        result.blame(f"{key.name()}: its ack with a result was answered OK, and it is gone before its time")
    elif ack:
        result.blame(f"{key.name()}: its ack with a result was answered OK, and it is shown as {look.state}")


def _check_wait(history, key, ended, acks, result):
    if ended.state == "finished":
        _check_shown(key, ended, acks, result)
        return
    if ended.state == "dead":
        return
    early = next((ack for ack in acks if ack.outcome == "ok" and ended.begin < ack.begin and ack.end + LATE_NS < ended.end), None)
    if early and not history.disturbances_between(early.begin, ended.end):
        result.blame(f"{key.name()}: a wait ended as {ended.state}, {(ended.end - early.end) // MS} ms after the ack")


def _check_list(history, topic, span, ids, count, result):
    result.trials += 1
    keep_ns = topic.settings["keep_ms"] * MS
    if count != len(ids):
        result.blame(f"{topic.name}: {len(ids)} finished jobs are listed, and {count} counted")
    for key in history.keys.values():
        if key.topic is not topic:
            continue
        acks = [answer for delivery in key.deliveries for answer in delivery.answers if answer.verb == "ack" and answer.may_have_happened]
        if key.id in ids and not any(ack.begin < span.end for ack in acks):
            result.blame(f"{key.name()}: listed as finished, and no ack may have finished it")
        elif key.id not in ids and certain(acks, span, keep_ns):
            result.blame(f"{key.name()}: its ack was answered OK, and it is missing in the list of finished jobs")
