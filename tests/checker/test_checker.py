"""The checker checked: each bad history is flagged with the rules it breaks and no others; good ones pass; thin ones are INVALID."""

import json
import pathlib
import subprocess
import sys

import pytest

from .report import check
from .story import WALL, Story, totals

NOTHING_WANTED = {"pushes": 0, "kills": 0, "redeliveries": 0}
BAD, GOOD = [], []


def broken(story):
    report = check(story.text(), NOTHING_WANTED)
    assert report["rules"], report["lacks"]
    return {rule: found["violations"] for rule, found in report["rules"].items() if found["violations"]}


def bad(name, rules, story):
    BAD.append(pytest.param(set(rules), story, id=f"{rules}: {name}"))


def good(name, story):
    GOOD.append(pytest.param(story, id=name))


# ---- L: no loss ----
bad("pushed and never seen again", "L", Story().push(0).listing(5000))
bad("failed once and gone", "L", Story().push(0).take(10).nack(20).listing(5000))
bad("lease ended and gone", "L", Story().push(0).take(10).listing(5000))
bad("lost by the kill", "L", Story().push(0).push(1, "b").kill(5).take(20, "b", lease="b").ack(30, "b").listing(5000))
bad("not found right after its push", "L", Story().push(0).look(5, outcome="not_found").take(10).ack(20))
bad("cancel was refused, job gone", "L", Story().push(0).change("cancel", 5, outcome="not_found").listing(5000))
bad("cancelled before it was pushed, gone after", "L", Story().change("cancel", 0).push(10).listing(5000))
bad("more could have expired than the server counts", "LC",
    Story(ttl_ms=100).push(0).push(1, "b").counts(5000, pushed=2, expired=1, cancelled=1).listing(6000))

# ---- P: no phantom, no corruption ----
bad("never pushed", "P", Story().take(10).ack(20))
bad("other bytes", "P", Story().push(0).take(10, body="garbage", number=1).ack(20).listing(50, ("a", "ready", 0)))
bad("the body of another job", "P", Story().push(0).push(1, "b").take(10, body="body of b").ack(12)
    .take(14, number=2, lease="a2").ack(16, "a2").take(20, "b", lease="b").ack(30, "b"))
bad("a refused push delivered", "P", Story().push(0, outcome="refused").take(10).ack(20))
bad("the body of a push that was answered with existed", "P", Story().push(0).push(2, body="new", outcome="existed").take(10).ack(20)
    .push(30).take(40, body="new", number=2, lease="n").ack(50, "n").listing(60, ("a", "ready", 0)))
bad("shown with other bytes", "P", Story().push(0).look(5, body="torn").take(10).ack(20))
bad("an answer to a lease nobody was given", "P", Story().push(0).take(10).ack(20).ack(30, "forged"))
bad("a nameless push makes two jobs", "P", Story().nameless(0, "n").take(10, "x", body="n", lease="x").ack(20, "x")
    .take(30, "y", body="n", lease="y").ack(40, "y"))

bad("other bytes, by a protocol without ids", "P", Story().push(0).take(10).ack(20).unnamed(30, "garbage").ack(40, "garbage-1"))
bad("delivered after its ack, by a protocol without ids", "AD", Story().push(0).take(10).ack(20).kill(25).unnamed(50, attempt=1).ack(60, "body of a-1"))
bad("a delay, by a protocol without ids", "E", Story().push(0, delay_ms=1000).unnamed(900).ack(910, "body of a-1"))

# ---- R: results ----
def kept(**settings):
    return Story(**{"keep_ms": 60_000, **settings}).push(0).take(10).ack(20, result="r")


bad("kept and gone", "R", kept().kept(30, state="not_found"))
bad("kept and lost by a kill", "R", kept().kill(30).kept(50, state="not_found"))
bad("kept and shown as live", "RA", kept().kill(30).kept(50, state="ready").look(51))
bad("kept with another result", "R", kept().kept(30, result="torn"))
bad("kept without its result", "R", kept().kept(30))
bad("finished without an ack", "R", Story(keep_ms=60_000).push(0).take(10).kept(30, result="r").ack(40))
bad("a wait with another result", "R", kept().ended(5, result="torn", took=20))
bad("a wait that misses the ack", "R", kept().ended(5, state="leased", took=6000))
bad("missing in the list", "R", kept().kept_list(30))
bad("listed without an ack", "R", Story(keep_ms=60_000).push(0).kept_list(30, "a").take(40).ack(50))
bad("counted otherwise than listed", "R", kept().kept_list(30, "a", count=2))
good("kept", kept().kept(30, result="r").kill(40).kept(60, result="r").kept_list(70, "a").ended(5, result="r", took=20))
good("no longer kept", kept(keep_ms=100).kept(300, state="not_found").kept_list(310))
good("an ack whose reply was lost", Story(keep_ms=60_000).push(0).take(10).ack(20, result="r", outcome="unknown").kill(25).kept(40, state="leased").ack(50, result="s")
     .kept(60, result="s"))
good("a wait that ends in time", Story(keep_ms=60_000).push(0).take(10).ended(5, state="leased", took=300).ack(400, result="r"))

# ---- E: never early ----
bad("relative delay", "E", Story().push(0, delay_ms=1000).take(900).ack(910))
bad("by less than a millisecond", "E", Story().push(0, delay_ms=1000).take(998).ack(1005))
bad("absolute time", "E", Story().push(0, at_ms=WALL + 500).take(498).ack(505))
bad("a long poll answered early", "E", Story().push(10, delay_ms=1000).take(0, took=900).ack(910))
bad("nack with a delay", "E", Story().push(0).take(10).nack(20, delay_ms=1000).take(500, attempt=2).ack(510, "a-2"))
bad("backoff after a nack", "E",
    Story(backoff_ms=[1000, 1000]).push(0).take(10).nack(20, delay_ms=None).take(500, attempt=2).ack(510, "a-2"))
bad("backoff after the lease ended", "E",
    Story(backoff_ms=[1000, 1000]).push(0).take(10, lease_ms=100).take(200, attempt=2).ack(210, "a-2"))
bad("moved to later, delivered at the old time", "E",
    Story().push(0, delay_ms=100).change("reschedule", 10, delay_ms=5000).take(200).ack(210))
bad("the second wait of an exponential backoff", "E",
    Story(backoff_ms=[100, 10_000]).push(0).take(1).nack(2, delay_ms=None).take(150, attempt=2).nack(160, "a-2", delay_ms=None)
    .take(265, attempt=3).ack(280, "a-3"))
bad("early after a crash", "E", Story().push(0, delay_ms=1000).kill(10).take(500).ack(510))

# ---- A: finished stays finished ----
bad("acked, then delivered", "AD", Story().push(0).take(10).ack(20).take(30, attempt=2).ack(40, "a-2", outcome="lease_ended"))
bad("acked, then delivered after a crash", "AD", Story().push(0).take(10).ack(20).kill(25).take(50, attempt=2)
    .ack(60, "a-2", outcome="lease_ended"))
bad("cancelled, then delivered", "A", Story().push(0, delay_ms=50).change("cancel", 10).take(100).ack(110))
bad("cancelled, then delivered after a crash", "A", Story().push(0, delay_ms=50).change("cancel", 10).kill(20).take(100).ack(110))
bad("acked, and still shown", "A", Story().push(0).take(10).ack(20).look(30))
bad("one lease acked twice", "A", Story().push(0).take(10).ack(20).ack(30))
bad("cancelled, and still listed", "A", Story().push(0).change("cancel", 10).look(30, state="delayed"))

# ---- X: one holder ----
bad("two hold it", "XD", Story().push(0).take(10, lease_ms=60_000).take(500, attempt=2).ack(600, "a-2"))
bad("second take before the lease is up", "XD", Story().push(0).take(10).take(800, attempt=2).ack(850, "a-2"))
bad("an extended lease is broken", "XD",
    Story().push(0).take(10).extend(500, lease_ms=5000).take(2000, attempt=2).ack(2100, "a-2"))
bad("a lease on disk is forgotten by a crash", "XD",
    Story().push(0).take(10).extend(500, lease_ms=60_000).kill(600).take(700, attempt=2).ack(800, "a-2"))
bad("a late ack is taken from the former holder", "X",
    Story(backoff_ms=[1, 1]).push(0).take(10).take(1500, attempt=2).ack(1600, "a-1").ack(1700, "a-2", outcome="lease_ended"))

# ---- D: causes ----
bad("again, though its answer was refused", "XD",
    Story().push(0).take(10).nack(20, outcome="lease_ended").take(30, attempt=2).ack(40, "a-2"))
bad("again before the crash that comes later", "XD", Story().push(0).take(10).take(50, attempt=2).kill(60).ack(80, "a-2"))
bad("the crash lay before the first delivery", "XD", Story().push(0).kill(5).take(20).take(50, attempt=2).ack(80, "a-2"))

# ---- N: attempts ----
bad("begins at two", "N", Story().push(0).take(10, attempt=2).ack(20, "a-2"))
bad("repeats without a crash", "N", Story().push(0).take(10).nack(20).take(30, number=2).ack(40, "a-2"))
bad("skips one", "N", Story().push(0).take(10).nack(20).take(30, attempt=3).ack(40, "a-3"))
bad("above max_attempts", "N", Story(max_attempts=1).push(0).take(10).nack(20).take(30, attempt=2).ack(40, "a-2"))
bad("dead too soon", "N", Story(max_attempts=3).push(0).take(10).nack(20).listing(50, ("a", "dead", 1)))
bad("delivered after it was dead", "N",
    Story(max_attempts=1).push(0).take(10).nack(20).look(25, state="dead", attempt=1).take(30, attempt=1, number=2).ack(40, "a-2"))
bad("not dead after its last attempt", "N",
    Story(max_attempts=1).push(0).take(10).nack(20).look(25, state="delayed", attempt=1).listing(50, ("a", "dead", 1)))
bad("falls by more than a crash explains", "N",
    Story().push(0).take(10).nack(20).take(30, attempt=2).nack(40, "a-2").kill(50).take(70, attempt=1, number=9).ack(80, "a-9"))

# ---- I: one job per id ----
bad("two created at once", "I", Story().push(0).push(5).take(10).ack(20))
bad("repeated after a crash, made again", "I", Story().push(0, delay_ms=100).kill(5).push(20, delay_ms=100).take(200).ack(220))
bad("made again within the dedup_window", "I",
    Story(dedup_window_ms=60_000).push(0).take(10).ack(20).push(30).take(40, number=2).ack(50, "a-2"))
bad("existed, though never pushed", "I", Story().push(0, outcome="existed"))
bad("conflict, though cancelled", "I", Story().push(0).change("cancel", 5).push(10, outcome="conflict"))
bad("replaced, though acked", "I",
    Story().push(0).take(10).ack(20).push(30, outcome="replaced", body="n").take(40, body="n", number=2).ack(50, "a-2"))

# ---- C: counts ----
bad("one job missing", "C", Story().push(0).counts(5, pushed=1).take(10).ack(20))
bad("one job too many", "C", Story().push(0).counts(5, pushed=1, delayed=1, ready=1).take(10).ack(20))
bad("fewer acked than were answered", "C", Story().push(0).take(10).ack(20).counts(30, pushed=1, ready=1))
bad("more pushed than there were calls", "C", Story().push(0).take(10).ack(20).counts(30, pushed=2, acked=1, ready=1))
bad("the listing disagrees", "C",
    Story(max_attempts=1).push(0).take(10).nack(20).counts(30, pushed=1, ready=1).listing(40, ("a", "dead", 1)))
bad("a figure is missing", "C",
    Story().push(0).take(10).ack(20).add("counts", 30, topics={"t": {"pushed": 1, "acked": 1}}))
bad("cancelled but not counted", "C", Story().push(0).change("cancel", 5).counts(10, pushed=1, ready=1))

# ---- S: state ----
bad("fsck complains", "S", Story().push(0).take(10).kill(15).ack(40).fsck(1, "torn batch"))
bad("a second start gives another state", "S",
    Story().push(0).take(10).ack(20).recovered({"pushed": 1, "acked": 1}, {"pushed": 1, "ready": 1}))
bad("a live job is gone at the second start", "S",
    Story().push(0).take(10).ack(20).recovered({"pushed": 2, "ready": 1, "acked": 1}, {"pushed": 2, "acked": 1}, settled=False))
bad("it does not come back", "S", Story().push(0).take(10).ack(20).fault("start_failed", 30))
bad("a topic is gone", "S", Story().push(0).take(10).ack(20)
    .raw(kind="recovered", first={"t": totals(pushed=1, acked=1), "u": totals()}, second={"t": totals(pushed=1, acked=1)}, settled=True))

# ---- F: fencing ----
bad("the number stays", "F", Story().push(0).take(10).nack(20).take(30, attempt=2, number=1, lease="l2").ack(40, "l2"))
bad("the number falls", "F", Story().push(0).take(10, number=7).nack(20, "a-7").take(30, attempt=2, number=3).ack(40, "a-3"))
bad("the number comes again after a crash", "F", Story().push(0).take(10).kill(20).take(50, number=1, lease="l2").ack(60, "l2"))
bad("a lease is handed out twice", "FP", Story().push(0).push(0, "b").take(10, "b", lease="same").take(30, lease="same").ack(40, "same")
    .ack(60, "other").listing(70, ("b", "ready", 0)))

# ---- good ----
bad("a lost ack that cancelled", "C", Story().push(0).take(10).ack(20, outcome="unknown").counts(3000, pushed=1, cancelled=1))
good("a push whose answer is read after the count", Story().push(0, took=20).counts(10, pushed=1, ready=1).take(30).ack(40))
good("push, take, ack", Story().push(0).take(10).ack(20).counts(30, pushed=1, acked=1))
good("exactly due", Story().push(0, delay_ms=1000).take(999).ack(1005))
good("exactly due on the wall clock", Story().push(0, at_ms=WALL + 500).take(499).ack(505))
good("a retry by nack", Story().push(0).take(10).nack(20, delay_ms=100).take(125, attempt=2).ack(130, "a-2"))
good("a retry by end of lease", Story(backoff_ms=[100, 100]).push(0).take(10, lease_ms=1000).take(1095, attempt=2).ack(1100, "a-2"))
good("a lost push that never happened", Story().push(0, outcome="unknown").listing(50).counts(60))
good("a lost push that happened", Story().push(0, outcome="unknown").take(10).ack(20).counts(30, pushed=1, acked=1))
good("a lost push without a name", Story().nameless(0, "n").take(10, "x", body="n", lease="x").ack(20, "x").counts(30, pushed=1, acked=1))
good("a lost push without a name that nobody saw yet", Story().nameless(0, "n").counts(30, pushed=1, ready=1))
good("taken by a protocol without ids", Story().push(0).unnamed(10).ack(20, "body of a-1").counts(30, pushed=1, acked=1))
good("a lost push without a name, taken by a protocol without ids", Story(backoff_ms=[0, 0]).nameless(0, "n").unnamed(10, "n").nack(20, "n-1")
     .unnamed(30, "n", attempt=2).ack(40, "n-2").counts(50, pushed=1, acked=1))
good("a reply that came late, by a protocol without delivery numbers", Story(backoff_ms=[0, 0]).push(0).unnamed(10, took=2000).unnamed(1500, attempt=2).ack(1600, "body of a-2"))
good("an ack of an ended lease that cancelled", Story(backoff_ms=[0, 0]).push(0).take(10).ack(2000, outcome="unknown", may_cancel=True)
     .counts(3000, pushed=1, cancelled=1))
good("a lost push, repeated, existed", Story().push(0, outcome="unknown", took=5).kill(4).push(20, outcome="existed").take(30).ack(40))
good("a lost push, repeated, created", Story().push(0, outcome="unknown", took=5).kill(4).push(20).take(30).ack(40))
good("a lost push, done, and repeated: a second job", Story().push(0, outcome="unknown", took=5).take(6).ack(8).push(20).take(30, number=2)
     .ack(40, "a-2"))
good("a lost ack that happened", Story().push(0).take(10).ack(20, outcome="unknown").kill(21).listing(60).counts(70, pushed=1, acked=1))
good("a lost ack that did not happen", Story(backoff_ms=[1, 1]).push(0).take(10).ack(20, outcome="unknown").kill(21)
     .take(1500, attempt=2).ack(1600, "a-2").counts(1700, pushed=1, acked=1))
good("a lost take, seen as a skipped number", Story(backoff_ms=[1, 1]).push(0).take(10, outcome="unknown", took=5).kill(12)
     .take(2000, attempt=2).ack(2010, "a-2"))
good("a take undone by a crash: the number comes again", Story().push(0).take(10).kill(20).take(50, number=2).ack(60, "a-2"))
good("a take that survived a crash", Story().push(0).take(10).kill(20).ack(50).counts(60, pushed=1, acked=1))
good("a cancel", Story().push(0, delay_ms=100).change("cancel", 10).listing(50).counts(60, pushed=1, cancelled=1))
good("a lost cancel that did not happen", Story().push(0).change("cancel", 10, outcome="unknown").kill(11).take(30).ack(40))
good("moved to sooner", Story().push(0, delay_ms=60_000).change("reschedule", 10, delay_ms=100).take(115).ack(120))
good("run now", Story().push(0, delay_ms=60_000).change("run", 10).take(15).ack(20))
good("a lost reschedule", Story().push(0, delay_ms=50).change("reschedule", 10, delay_ms=5000, outcome="unknown").kill(11).take(60).ack(70))
good("replaced", Story().push(0, delay_ms=100).push(10, outcome="replaced", body="n").take(15, body="n").ack(20)
     .counts(30, pushed=1, acked=1))
good("acked, then the id used anew", Story().push(0).take(10).ack(20).push(30, body="n").take(40, body="n", attempt=1, number=2)
     .ack(50, "a-2").counts(60, pushed=2, acked=2))
good("dead", Story(max_attempts=2).push(0).take(10).nack(20).take(30, attempt=2).nack(40, "a-2")
     .counts(50, pushed=1, dead=1).listing(60, ("a", "dead", 2)))
good("dead and redriven", Story(max_attempts=1).push(0).take(10).nack(20).look(25, state="dead", attempt=1).topic("redrive", 30, affected=1)
     .take(40, attempt=1, number=2).ack(50, "a-2"))
good("expired", Story(ttl_ms=100).push(0).counts(500, pushed=1, expired=1).listing(600))
good("purged", Story().push(0).topic("purge", 10, affected=1).listing(20).counts(30, pushed=1, cancelled=1))
good("a remembered id", Story(dedup_window_ms=60_000).push(0).take(10).ack(20).push(30, outcome="existed").counts(60, pushed=1, acked=1))
good("an extended lease, then ended", Story(backoff_ms=[1, 1]).push(0).take(10).extend(500, lease_ms=2000).take(2505, attempt=2).ack(2510, "a-2"))
good("replies overtake one another", Story(backoff_ms=[1, 1]).push(0).take(10, took=3000, lease_ms=1000).take(1100, attempt=2).ack(3100, "a-1",
     outcome="lease_ended").ack(3200, "a-2", outcome="lease_ended").take(5000, attempt=3).ack(5010, "a-3"))
good("two starts, one state", Story().push(0).take(10).ack(20).kill(30).recovered({"pushed": 1, "acked": 1}, {"pushed": 1, "acked": 1}).fsck())
good("due between two starts", Story().push(0).take(10).ack(20)
     .recovered({"pushed": 2, "acked": 1, "delayed": 1}, {"pushed": 2, "acked": 1, "ready": 1}, settled=False))


good("the second attempt of a job made anew, the first went with a lost reply", Story(lease_ms=60_000).push(0, outcome="unknown").take(10, lease_ms=60_000)
    .ack(20).push(100).take(150, outcome="unknown").take(1500, attempt=2).ack(1510, "a-2"))
bad("the second attempt of a job made anew without a first", "E", Story(lease_ms=60_000).push(0, outcome="unknown").take(10, lease_ms=60_000)
    .ack(20).push(100).take(1500, attempt=2).ack(1510, "a-2"))

good("a redrive that found the job alive, and an attempt with a lost reply", Story(backoff_ms=[1, 1, 1]).push(0).take(10, lease_ms=1000).topic("redrive", 500, affected=0)
     .take(1100, outcome="unknown").kill(1200).take(2300, attempt=3).ack(2310, "a-3"))
bad("a redrive that found the job alive, and an attempt that nothing explains", "N", Story(backoff_ms=[1, 1, 1]).push(0).take(10, lease_ms=1000)
    .topic("redrive", 500, affected=0).take(2300, attempt=3).ack(2310, "a-3"))
bad("a redrive that changed no job does not begin the attempts again", "N", Story(backoff_ms=[1, 1, 1]).push(0).take(10, lease_ms=1000).topic("redrive", 500, affected=0)
    .take(2300, attempt=1, number=2).ack(2310, "a-2"))
bad("a redrive that changed no job is not a cause", "XND", Story(backoff_ms=[1, 1, 1]).push(0).take(10, lease_ms=1000).topic("redrive", 100, affected=0)
    .take(300, attempt=1, number=2).ack(310, "a-2"))
bad("the third attempt of a recreated job, with one lost reply", "N", Story(lease_ms=60_000).push(0).take(10, lease_ms=60_000)
    .ack(20).push(100).take(150, outcome="unknown").take(1500, attempt=3).ack(1510, "a-3"))

# ---- faults of a store that servers share: what a disturbance may not excuse, and what a failover may ----
bad("lost by a disturbance", "L", Story().push(1000).disturb(1005, 1500).listing(9000))
bad("acked, then delivered after a disturbance", "AD", Story().push(0).take(10).ack(20).disturb(25, 40).take(50, attempt=2).ack(60, "a-2", outcome="lease_ended"))
bad("a take undone by a disturbance", "XND", Story().push(0).take(10).disturb(20, 30).take(50, number=2).ack(60, "a-2"))
bad("more attempts than disturbances", "N", Story(backoff_ms=[1, 1]).push(0).disturb(10, 20).take(5000, attempt=3, number=3).ack(5010, "a-3"))
bad("early after a disturbance", "E", Story().push(0, delay_ms=1000).disturb(10, 20).take(500).ack(510))
bad("lost long before a failover", "L", Story().push(0).failover(5000, 6000).listing(9000))
bad("lost after a failover", "L", Story().push(6500).failover(5000, 6000).listing(9000))
bad("acked long before a failover, and again", "AD", Story().push(0).take(10).ack(20).failover(5000, 6000).take(6500, attempt=2)
    .ack(6510, "a-2", outcome="lease_ended"))
bad("a lease handed out long before a failover, and again", "XD", Story().push(0).take(10, lease_ms=60_000).failover(5000, 6000).take(6500, attempt=2).ack(6510, "a-2"))
bad("early in a failover", "E", Story().push(5000, delay_ms=1000).failover(5010, 5900).take(5500).ack(5600))
bad("a number comes again after a failover", "F", Story().push(0).take(4500).failover(5000, 6000).take(6500, lease="l2", number=1).ack(6510, "l2"))
bad("the number falls after a failover", "F", Story().push(0).take(4500, number=7).nack(4510, "a-7").failover(5000, 6000).take(6500, attempt=2, number=3).ack(6510, "a-3"))
bad("acked after one failover and before the next, and again", "AD", Story().push(0).failover(1000, 2000).take(2500).ack(2600).failover(5000, 6000)
    .take(6500, attempt=2).ack(6510, "a-2"))
bad("other bytes after a failover", "P", Story().push(4500).failover(5000, 6000).take(6500, body="garbage").ack(6510))
bad("more than was pushed around a failover", "C", Story().push(4500).failover(5000, 6000).take(6500).ack(6510).counts(7000, pushed=2, acked=2))
good("a take nobody saw in a disturbance", Story(backoff_ms=[1, 1]).push(0).disturb(10, 20).take(5000, attempt=2).ack(5010, "a-2"))
good("lost by a failover", Story().push(4500).failover(5000, 6000).listing(9000).counts(9100))
good("made anew after a failover", Story().push(4500).failover(5000, 6000).push(6500).take(6600).ack(6700).counts(7000, pushed=1, acked=1))
good("a take undone by a failover", Story().push(0).take(4500).failover(5000, 6000).take(6500, number=2).ack(6510, "a-2"))
good("two takes undone by a failover", Story().push(0).take(4500).nack(4510).take(4600, attempt=2).failover(5000, 6000).take(6500, number=3).ack(6510, "a-3"))
good("an ack undone by a failover", Story(backoff_ms=[1, 1]).push(0).take(1000).ack(4500).failover(5000, 6000).take(6500, attempt=2).ack(6510, "a-2")
     .counts(7000, pushed=1, acked=1))
good("a master of before hands out what the new one has", Story().push(0).failover(5000, 6000).take(5100, number=7).take(5300, number=3).ack(5400, "a-7"))
good("a cancel undone by a failover", Story().push(0, delay_ms=7000).change("cancel", 4500).failover(5000, 6000).take(7500).ack(7510))
good("a reschedule undone by a failover", Story().push(0, delay_ms=7000).change("reschedule", 4500, delay_ms=60_000).failover(5000, 6000).take(7500).ack(7510))


@pytest.mark.parametrize("rules, story", BAD)
def test_flags_exactly_the_rules_that_are_broken(rules, story):
    assert set(broken(story)) == rules, broken(story)


@pytest.mark.parametrize("story", GOOD)
def test_accepts_valid_histories(story):
    assert broken(story) == {}


def test_every_rule_has_its_bad_histories():
    for rule in "LPEAXDNICSF":
        assert sum(1 for case in BAD if rule in case.values[0]) >= 3, rule


def test_lateness_is_reported_for_waiting_consumers_only():
    story = Story().push(0, delay_ms=100).take(50, took=53).ack(110)  # due at 100, reply whole at 103
    story.push(0, "b", delay_ms=100).take(200, "b", lease="b").ack(210, "b")  # no take waited
    notes = check(story.text(), NOTHING_WANTED)["rules"]["T"]
    assert notes["trials"] == 1 and notes["notes"]["max_ms"] == 3.0


def test_lateness_leaves_faults_out():
    story = Story().push(0, delay_ms=100).take(50, took=453).kill(90).ack(510)
    assert check(story.text(), NOTHING_WANTED)["rules"]["T"]["trials"] == 0


def test_lateness_leaves_disturbances_and_the_time_to_connect_again_out():
    story = Story().push(0, delay_ms=1500).take(1000, took=2000).disturb(20, 30).ack(3100)
    assert check(story.text(), NOTHING_WANTED)["rules"]["T"]["trials"] == 0
    story = Story().push(0, delay_ms=4000).take(3000, took=1100).disturb(20, 30).ack(4200)
    assert check(story.text(), NOTHING_WANTED)["rules"]["T"]["trials"] == 1


def test_losses_of_a_failover_are_counted():
    story = Story().push(4500).push(4600, "b").take(4700, "b", lease="b").ack(4800, "b").failover(5000, 6000).listing(9000)
    notes = check(story.text(), NOTHING_WANTED)["rules"]["L"]["notes"]
    assert notes["answered around a failover"] == 2 and notes["of these lost"] == 1


def test_causes_are_counted_by_name():
    story = Story().push(0).take(10).kill(20).take(50, number=2).ack(60, "a-2")
    rules = check(story.text(), NOTHING_WANTED)["rules"]
    assert rules["D"]["notes"] == {"crash after delivery": 1} and rules["N"]["notes"] == {"repeated after a crash": 1}


THIN = [
    ("too few pushes", Story().push(0).take(10).ack(20).listing(30), {"pushes": 2}, "pushes were answered"),
    ("too few kills", Story().push(0).take(10).ack(20).listing(30), {"kills": 1}, "kills, 1 wanted"),
    ("kills with nothing under way", Story().push(0).take(10).ack(20).kill(30).kill(60).kill(90).kill(120).listing(150), {}, "nothing under way"),
    ("never drained", Story().push(0).take(10).ack(20), {}, "no final listing"),
    ("never counted", Story().push(0).take(10).ack(20).listing(30), {}, "no counts"),
    ("no fsck", Story().push(0).take(10).ack(20).kill(30), {}, "fsck"),
    ("too few disturbances", Story().push(0).disturb(5, 6).failover(7, 8).listing(30), {"disturbances": 3}, "only 2 disturbances"),
    ("no dead job", Story().push(0).take(10).ack(20), {}, "ever dead"),
    ("no redelivery", Story().push(0).take(10).ack(20), {"redeliveries": 1}, "redeliveries"),
]


@pytest.mark.parametrize("story, least, sentence", [case[1:] for case in THIN], ids=[case[0] for case in THIN])
def test_a_run_with_too_few_calls_is_invalid(story, least, sentence):
    report = check(story.text(), {**NOTHING_WANTED, **least})
    assert report["result"] == "INVALID" and any(sentence in lack for lack in report["lacks"]), report["lacks"]


UNREADABLE = {
    "breaks off": Story().push(0).text(ended=False),
    "half a line": Story().push(0).text()[:-1] + ['{"kind":"end"'],
    "unknown kind": Story().raw(kind="gossip").text(),
    "no first line": Story().push(0).text()[1:],
    "ends before it begins": Story().add("look", 10, took=-5, topic="t", id="a", outcome="found").text(),
    "unknown outcome": Story().push(0, outcome="maybe").text(),
    "something after the end": Story().push(0).text() + ['{"kind":"fault","what":"kill","at":1}'],
    "a field is missing": Story().raw(kind="push", begin=0, end=1, items=[{"topic": "t"}]).text(),
}


@pytest.mark.parametrize("lines", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_an_unreadable_history_is_invalid(lines):
    report = check(lines, NOTHING_WANTED)
    assert report["result"] == "INVALID" and report["lacks"]


def run(lines, tmp_path, *flags):
    path = tmp_path / "history.ndjson"
    path.write_text("\n".join(lines) + "\n")
    return subprocess.run([sys.executable, "-m", "checker", *flags, str(path)], capture_output=True, text=True,
                          cwd=pathlib.Path(__file__).parent.parent, check=False)


def test_exit_codes(tmp_path):
    none = ("--min-pushes=0", "--min-kills=0", "--min-redeliveries=0")
    thin = Story().push(0).take(10).ack(20).listing(30)
    assert run(thin.text(), tmp_path, *none).returncode == 3
    assert run(Story().push(0).listing(10).text(), tmp_path, *none).returncode == 1
    full = (Story(max_attempts=2, ttl_ms=10_000).push(0).take(10).nack(20).take(30, attempt=2).ack(40, "a-2")
            .push(50, "b", delay_ms=50).change("cancel", 60, "b")
            .push(70, "c").take(80, "c", lease="c1").nack(90, "c1").take(100, "c", attempt=2, lease="c2").nack(110, "c2")
            .push(120, "d").counts(20_000, pushed=4, acked=1, cancelled=1, dead=1, expired=1).listing(20_010, ("c", "dead", 2)))
    passed = run(full.text(), tmp_path, *none)
    assert passed.returncode == 0, passed.stdout
    report = json.loads(run(full.text(), tmp_path, "--json", *none).stdout)
    assert report["result"] == "PASS" and report["size"]["deliveries"] == 4
