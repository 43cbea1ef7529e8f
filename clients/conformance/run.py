#!/usr/bin/env python3
"""Plays the scenarios of scenarios.json against a client's adapter, a real server, and a proxy between them: run.py --client NAME [--scenario NAME] [--rounds N]"""

import argparse
import base64
import collections
import contextlib
import hashlib
import hmac
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
REPO = HERE.parents[1]
sys.path[:0] = [str(HERE), str(REPO / "tests" / "e2e" / "support")]

import adapters  # noqa: E402
from client import Client  # noqa: E402
from proxy import Proxy  # noqa: E402
from server import Server  # noqa: E402

SCENARIOS = json.loads((HERE / "scenarios.json").read_text(encoding="utf-8"))
USUAL = [name for name, scenario in SCENARIOS.items() if not scenario.get("only_named")]
CODEC = json.loads((HERE / "codec.json").read_text(encoding="utf-8"))
SECRET = "whsec_" + base64.b64encode(b"a secret that callbacks are signed with").decode()
GRACE_MS = 2000  # that leases have once a server is back
LATE_S = 2  # the time that the event of an adapter may take on a busy machine
OTHER = "whsec_" + base64.b64encode(b"another one").decode()


class Failed(AssertionError):
    pass


class Void(Exception):
    """The run proves nothing: the machine did not follow the scenario."""


def has_fake_clock():
    return shutil.which("faketime") is not None


class Adapter:
    """The client's program: requests go in, answers and events come out."""

    def __init__(self, name, log, clock_ahead_s=0):
        command, env = adapters.command(name), {**os.environ, "PYTHONUNBUFFERED": "1"}
        for variable in [one for one in env if one.startswith("TARRY_")]:
            del env[variable]
        if clock_ahead_s:
            command = ["faketime", "-f", f"+{clock_ahead_s}s", *command]
            env |= {"DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        self.log = log
        self.proc = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, encoding="utf-8", env=env, cwd=adapters.folder(name))
        self.events, self.answers, self.n, self.began = [], {}, 0, time.monotonic()
        self.changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.proc.stdout:
            with self.changed:
                try:
                    found = json.loads(line)
                except ValueError:
                    print(f"adapter prints: {line.rstrip()}", file=sys.stderr)
                    continue
                if "event" in found:
                    self.events.append({**found, "at_s": round(time.monotonic() - self.began, 3)})
                else:
                    self.answers[found.get("n")] = found
                self.changed.notify_all()
        with self.changed:
            self.answers = None
            self.changed.notify_all()

    def ask(self, request, seconds=90):
        self.n += 1
        number = self.n
        self.proc.stdin.write(json.dumps({**request, "n": number}) + "\n")
        self.proc.stdin.flush()
        with self.changed:
            if not self.changed.wait_for(lambda: self.answers is None or number in self.answers, seconds):
                raise Failed(f"no answer to {request['op']} within {seconds} s")
            if self.answers is None:
                raise Failed(f"the adapter ended with {self.proc.wait()} instead of answering {request['op']}")
            return self.answers.pop(number)

    def wait_event(self, wanted, seconds):
        with self.changed:
            if not self.changed.wait_for(lambda: any(fits(wanted, event) is None for event in self.events), seconds):
                raise Failed(f"no event {wanted} within {seconds} s, but {self.events[-5:]}")

    def stop(self):
        with contextlib.suppress(Exception):
            self.ask({"op": "quit"}, 3)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.proc.wait(3)
        self.proc.kill()
        self.proc.wait()


def fits(wanted, found, where=""):
    """Returns None if `found` has everything expected; otherwise the missing part."""
    if isinstance(wanted, dict):
        if not isinstance(found, dict):
            return f"{where or 'it'} is {found!r}, not an object"
        return next((fault for key, value in wanted.items() if (fault := fits(value, found.get(key), f"{where}.{key}"))), None)
    if isinstance(wanted, list):
        if not isinstance(found, list) or len(found) != len(wanted):
            return f"{where} is {found!r}, wanted {wanted!r}"
        return next((fault for at, value in enumerate(wanted) if (fault := fits(value, found[at], f"{where}[{at}]"))), None)
    return None if wanted == found else f"{where} is {found!r}, wanted {wanted!r}"


def proxy_of(client):
    if not client.startswith("grpc-"):
        return Proxy
    from proxy_http2 import Http2Proxy  # needs python3-hpack

    return Http2Proxy


class Play:
    """A single run of one scenario."""

    def __init__(self, client, scenario, directory):
        self.scenario = scenario
        self.server = Server(directory / "server", ["--sync", "always", "--shards", "1", "--wal-file", "16MiB"]).start()
        self.proxy = proxy_of(client)(self.server.port)
        self.log = open(directory / "adapter.log", "w+", encoding="utf-8")
        self.adapter = Adapter(client, self.log, scenario.get("clock_ahead_s", 0))
        self.kept = {}
        self.store = directory / "store"  # of a codec
        self.away_ms = 0  # the server, at most: what it needs to start depends on the machine
        self.leases_ms = []  # of its workers
        self.kills_s = []  # by the adapter's time
        self.notes = []  # notes, which are not failures

    def close(self):
        self.adapter.stop()
        self.proxy.stop()
        if self.server.alive:
            self.server.terminate()

    def run(self):
        self._do({"op": "open", "url": self.proxy.url}, {})
        for step in self.scenario["steps"]:
            kind = next(iter(step))
            try:
                getattr(self, f"_{kind}")(step[kind], step)
            except Failed as fault:
                self._check_absence()
                raise Failed(f"at {json.dumps(step, ensure_ascii=False)[:200]}: {fault}") from None

    def _check_absence(self):
        """A worker that has no answer for as long as its lease and the grace gives up, as it should. The last answer may be a tenth of the lease old."""
        if self.leases_ms and self.away_ms > min(self.leases_ms) * 9 // 10 + GRACE_MS:
            raise Void(f"the server was away for {self.away_ms} ms, longer than a lease and the grace")

    # ---- steps ----

    def _do(self, request, step):
        request = dict(request)
        if request["op"] == "worker":
            self.leases_ms.append(request["lease_ms"])
        if isinstance(request.get("leases"), str):
            request["leases"] = self.kept[request["leases"]]
        if "parent" in request:
            request["parent"] = self.kept[request["parent"]][0]
        if isinstance(request.get("items"), dict):
            item, count = request["items"]["item"], request["items"]["count"]
            request["items"] = [json.loads(json.dumps(item).replace("{n}", str(n))) for n in range(count)]
        request = json.loads(json.dumps(request), object_hook=lambda one: {"base64": base64.b64encode(b"x" * one["bytes"]).decode()} if "bytes" in one else one)
        began = time.monotonic()
        answer = self.adapter.ask(request)
        took = (time.monotonic() - began) * 1000
        if "takes_ms" in step and not step["takes_ms"][0] <= took <= step["takes_ms"][1]:
            raise Failed(f"it took {took:.0f} ms")
        if "error" in step:
            if "error" not in answer:
                raise Failed(f"no error, but {answer}")
            if fault := fits(step["error"], answer["error"], "error"):
                raise Failed(fault)
            return
        if "error" in answer:
            raise Failed(f"an error: {answer['error']}")
        found = answer["ok"]
        if "expect" in step and (fault := fits(step["expect"], found, "answer")):
            raise Failed(fault)
        for name in step.get("expect_set", ()):
            if not found["job"].get(name):
                raise Failed(f"the job has no {name}, it is {found['job']}")
        if "expect_count" in step and len(found["ids"]) != step["expect_count"]:
            raise Failed(f"{len(found['ids'])} ids")
        if "expect_ids" in step and [one.get("id") for one in found] != [step["expect_ids"].replace("{n}", str(n)) for n in range(len(request["items"]))]:
            raise Failed("the results are not in the order of the items")
        if "keep_leases" in step:
            self.kept[step["keep_leases"]] = [job["lease"] for job in found["jobs"]]
            if not found["jobs"]:
                raise Failed("no job was taken")
        if "then_take" in step:
            self._check_taken(request, step["then_take"])

    def _check_taken(self, request, wanted):
        (job,) = self.adapter.ask({"op": "take", "topics": [request["topic"]], "max": 1, "wait_ms": 5000})["ok"]["jobs"]
        found = {"body_base64": job["body_base64"], "content_type": job["content_type"]}
        if "text" in wanted:
            found["text"] = base64.b64decode(job["body_base64"]).decode()
        if "json" in wanted:
            found["json"] = json.loads(base64.b64decode(job["body_base64"]))
        if job["id"] != request["id"] or (fault := fits(wanted, found, "job")):
            raise Failed(fault or f"another job came: {job['id']}")

    def _proxy(self, rules, _):
        self.proxy.set(rules)

    def _log(self, text, step):
        """Checks the standard error of the adapter."""
        limit = time.monotonic() + step.get("seconds", 0)
        while (text in pathlib.Path(self.log.name).read_text(encoding="utf-8")) != step.get("is_there", True):
            if time.monotonic() > limit:
                raise Failed(f"the log {'lacks' if step.get('is_there', True) else 'has'} it")
            time.sleep(0.05)

    def _open(self, options, _):
        options = dict(options)
        if "codec" in options:
            codec = options["codec"] = {"context": CODEC["context"], **options["codec"]}
            codec["keys"] = {id: CODEC["keys"][id] for id in codec["keys"]}
            if "claim_check" in codec:
                self.store.mkdir(exist_ok=True)
                codec["claim_check"] = {"directory": str(self.store), **codec["claim_check"]}
        self._do({"op": "open", "url": self.proxy.url, **options}, {})

    def _hidden(self, wanted, _):
        """Checks that the server does not have the text."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.server.port}/v1/topics/{wanted['topic']}/jobs/{wanted['id']}?body=base64") as answer:
            job = json.load(answer)
        parts = [base64.b64decode(job[name]) for name in ("body_base64", "result_base64") if name in job]
        if not parts or any(wanted["text"].encode() in part for part in parts):
            raise Failed(f"the server has the text: {job}")

    def _stored(self, count, _):
        """The number of bodies in the store of the codec; they are deleted a moment after the ack."""
        limit = time.monotonic() + 5
        while len(found := [one for one in self.store.iterdir() if not one.name.startswith(".")]) != count:
            if time.monotonic() > limit:
                raise Failed(f"the store has {len(found)} bodies")
            time.sleep(0.02)

    def _requests(self, begins, step):
        if (count := self.proxy.count(begins)) != step["count"]:
            raise Failed(f"{count} requests")

    def _sleep_ms(self, ms, _):
        time.sleep(ms / 1000)

    def _server(self, what, _):
        if what == "kill":
            self.port = self.server.port
            self.killed_at = time.monotonic()
            self.kills_s.append(round(self.killed_at - self.adapter.began, 3))
            self.server.kill()
        else:
            self.server.start(port=self.port)
            self.away_ms = max(self.away_ms, round((time.monotonic() - self.killed_at) * 1000))

    def _meanwhile(self, steps, _):
        """Does the steps while those that follow run."""

        def do():
            for step in steps:
                kind = next(iter(step))
                getattr(self, f"_{kind}")(step[kind], step)

        threading.Thread(target=do, daemon=True).start()

    def _client(self):
        return Client(self.server.port)

    def _jobs(self, count, step):
        for start in range(0, count, 1000):
            self._client().push_batch([{"topic": step["topic_name"], "id": f"j{n}", "body": "x"} for n in range(start, min(count, start + 1000))])

    def _topic(self, name, step):
        topic = self._client().topic(name)
        for part in ("totals", "counts"):
            if part in step and (fault := fits(step[part], topic[part], part)):
                raise Failed(fault)

    def _until(self, wanted, step):
        """Fails if nothing changes for so many seconds: a busy machine may need longer for all of it."""
        began, seen, at = time.monotonic(), None, 0
        while True:
            try:
                return self._topic(wanted["topic"], wanted)
            except (Failed, OSError) as fault:
                now = time.monotonic()
                if str(fault) != seen:
                    seen, at = str(fault), now
                if now > at + step["seconds"] or now > began + 5 * step["seconds"]:
                    raise Failed(f"no change for {now - at:.0f} s, {now - began:.0f} s in all: {fault}") from None
            time.sleep(0.05)

    def _job(self, wanted, step):
        job = self._client().get(wanted["topic"], wanted["id"])
        if fault := fits(step.get("members", {}), job, "job"):
            raise Failed(fault)
        if not (job.get("last_error") or "").endswith(step.get("last_error_ends", "")):
            raise Failed(f"the last error is {job.get('last_error')}")
        if "history_errors" in step and [one.get("error") for one in job["history"]] != step["history_errors"]:
            raise Failed(f"the history is {job['history']}")

    def _schedule(self, name, step):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.server.port}/v1/schedules/{urllib.parse.quote(name, safe='')}") as answer:
            found = json.load(answer)
        if fault := fits(step["members"], found, "schedule"):
            raise Failed(fault)

    def _consumers(self, topic, step):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.server.port}/v1/topics/{topic}/consumers") as answer:
            found = json.load(answer)["consumers"]
        if len(found) != 1 or found[0]["leased"] != 1 or not re.fullmatch(step["names"], found[0]["consumer"]):
            raise Failed(f"the consumers are {found}")

    def _settings(self, name, step):
        self._client().put_topic(name, **{key: value for key, value in step.items() if key != "settings"})

    def _pause(self, name, _):
        self._client().topic_verb(name, "pause")

    def _resume(self, name, _):
        self._client().topic_verb(name, "resume")

    def _delete_topic(self, topic, _):
        """Deletes the topic; all its leases end."""
        self._client().delete_topic(topic)

    def _wait_event(self, wanted, step):
        self.adapter.wait_event(wanted, step["seconds"])

    def _events(self, kind, step):
        """Events of the adapter may arrive a little after the server has the change."""
        wanted = step.get("each_id_once", step.get("count", 0))

        def events():
            return [event for event in self.adapter.events if event["event"] == kind and event.get("outcome") != "given_back"]

        def has_all():
            if "each_id_once" in step:  # a lost job that came again has two events
                return len({event["id"] for event in events() if event.get("outcome", "ack") == "ack"}) >= wanted
            return len(events()) >= wanted

        with self.adapter.changed:
            self.adapter.changed.wait_for(has_all, 10)
            found = events()
        if "each_id_once" in step:
            counts = collections.Counter(event["id"] for event in found if event.get("outcome", "ack") == "ack")
            twice = [one for one, count in counts.items() if count > 1 and not self._was_forgotten(one, count)]
            if len(counts) != step["each_id_once"] or twice:
                ended = [{name: event.get(name) for name in ("id", "event", "attempt", "delivery", "at_s")} for event in self.adapter.events if event["id"] in twice]
                raise Failed(f"{len(counts)} ids, {len(twice)} of them more than once: {ended}")
        if "outcomes" in step and ({event["outcome"] for event in found} != set(step["outcomes"]) or len(found) != step["count"]):
            raise Failed(f"{len(found)} outcomes: {collections.Counter(event['outcome'] for event in found)}")
        if "attempts" in step and {event["attempt"] for event in found} != set(step["attempts"]):
            raise Failed(f"attempts {({event['attempt'] for event in found})}")

    def _was_forgotten(self, id, count):
        """A take is answered before its record is on the disk: a server that is killed may have forgotten it, and then delivers the job again with the same attempt."""
        began = [event for event in self.adapter.events if event["event"] == "began" and event["id"] == id]
        if len(began) != count or len({event["attempt"] for event in began}) != 1:
            return False
        kills = list(self.kills_s)  # each explains one delivery
        for first, again in itertools.pairwise(began):
            near = [kill for kill in kills if abs(first["at_s"] - kill) < LATE_S and kill < again["at_s"]]
            if not near:
                return False
            kills.remove(near[0])
        self.notes.append(f"'{id}', taken as the server was killed, came again")
        return True

    def _signatures(self, _, __):
        body, now = b'{"order":1001}', int(time.time())

        def ask(secrets, signed_with=SECRET, at=now, received=body, extra=""):
            digest = hmac.new(base64.b64decode(signed_with[6:]), f"msg.{at}.".encode() + body, hashlib.sha256).digest()
            headers = {"Webhook-Id": "msg", "Webhook-Timestamp": str(at), "Webhook-Signature": f"{extra}v1,{base64.b64encode(digest).decode()}", "Tarry-Topic": "t", "Tarry-Id": "1"}
            return self.adapter.ask({"op": "verify", "secrets": secrets, "headers": headers, "body_base64": base64.b64encode(received).decode(), "now_ms": now * 1000})["ok"]["valid"]

        cases = [(True, ask([SECRET])), (True, ask([OTHER, SECRET])), (True, ask([SECRET], extra="v1,AAAA ")), (True, ask([SECRET], at=now - 290)), (False, ask([OTHER])),
                 (False, ask([SECRET], signed_with=OTHER)), (False, ask([SECRET], received=body + b" ")), (False, ask([SECRET], at=now - 310)), (False, ask([SECRET], at=now + 310))]
        if wrong := [at for at, (wanted, found) in enumerate(cases) if wanted != found]:
            raise Failed(f"cases {wrong} of the signature are wrong")


def play(client, name, tries=3):
    """Returns None, or the failure. A void round is repeated; raises Void if all rounds are void."""
    for left in reversed(range(tries)):
        try:
            return _play(client, name)
        except Void as void:
            if not left:
                raise
            print(f"void   {name}: {void}", file=sys.stderr, flush=True)


def _play(client, name):
    with tempfile.TemporaryDirectory() as directory:
        one = Play(client, SCENARIOS[name], pathlib.Path(directory))
        try:
            one.run()
            for note in one.notes:
                print(f"note   {name}: {note}", file=sys.stderr, flush=True)
        except Failed as fault:
            one.log.flush()
            one.log.seek(0)
            away = f" (the server was away for up to {one.away_ms} ms, killed at {one.kills_s} s)" if one.away_ms else ""
            return f"{fault}{away}\n{one.log.read()[-2000:]}"
        finally:
            one.close()
            one.log.close()
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--client", required=True, choices=sorted(adapters.ADAPTERS))
    parser.add_argument("--scenario", action="append", choices=sorted(SCENARIOS))
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    failed = 0
    for _ in range(options.rounds):
        for name in options.scenario or USUAL:
            began = time.monotonic()
            try:
                fault = play(options.client, name)
            except Void as void:
                fault = f"void each time: {void}"
            failed += fault is not None
            print(f"{'ok    ' if not fault else 'FAILED'} {name} ({time.monotonic() - began:.1f} s)" + (f"\n  {fault}" if fault else ""), flush=True)
    if options.rounds > 1:
        print(f"{options.rounds} rounds, {failed} failed")
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
