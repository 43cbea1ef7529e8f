// Tests without a server. clients/conformance covers the rest.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { cutText, resultMembers } from "../build/client.js";
import { durationText, milliseconds, momentText } from "../build/duration.js";
import { errorOf } from "../build/errors.js";
import { BadSignature, Client, newId, Reject, verify, Worker } from "../build/index.js";
import { bodyOf, jobOf } from "../build/job.js";
import { retryAfterOf } from "../build/transport.js";
import { consumerName } from "../build/worker.js";

test("ids_are_ulids_of_now", () => {
  const ids = Array.from({ length: 1000 }, newId);
  assert.equal(new Set(ids).size, 1000);
  for (const id of ids) assert.match(id, /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/);
  const time = [...ids[0].slice(0, 10)].reduce((sum, char) => sum * 32 + "0123456789ABCDEFGHJKMNPQRSTVWXYZ".indexOf(char), 0);
  assert.ok(Math.abs(time - Date.now()) < 5000);
});

test("durations_are_milliseconds_or_texts_and_never_early", () => {
  for (const [text, ms] of [["1500ms", 1500], ["30s", 30_000], ["2h30m", 9_000_000], ["7d", 604_800_000], ["1.5s", 1500], ["0s", 0]]) assert.equal(milliseconds(text), ms);
  assert.equal(durationText(0.2), "1ms");
  assert.equal(durationText("30m"), "1800000ms");
  for (const bad of ["", "30", "m", "30 m", "-1s", "1h x", NaN, -1, undefined]) assert.throws(() => milliseconds(bad), RangeError);
  assert.throws(() => durationText(Infinity), RangeError);
  assert.equal(momentText(new Date(1700000000000)), "1700000000000");
  assert.equal(momentText("2026-11-20T09:00:00+08:00"), "2026-11-20T09:00:00+08:00");
  assert.throws(() => momentText(new Date("nonsense")), RangeError);
});

test("retry_after_is_seconds_or_a_date_by_the_clock_of_the_answer", () => {
  assert.equal(retryAfterOf("2", undefined), 2000);
  assert.equal(retryAfterOf("Wed, 21 Oct 2015 07:28:10 GMT", "Wed, 21 Oct 2015 07:28:00 GMT"), 10_000);
  assert.equal(retryAfterOf("Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2015 07:28:10 GMT"), 0);
  for (const none of [undefined, "", "soon", "-1", "1.5"]) assert.equal(retryAfterOf(none, undefined), undefined);
});

test("bodies_have_their_content_type", () => {
  const cases = [
    [Uint8Array.of(1, 2), undefined, "\x01\x02", "application/octet-stream"],
    [new Uint16Array([0x4141, 0x4242]).subarray(1), undefined, "BB", "application/octet-stream"],
    [Uint8Array.of(65).buffer, "image/png", "A", "image/png"],
    ["é", undefined, "é", "text/plain; charset=utf-8"],
    ["é", "application/json", '"é"', "application/json"],
    [{ a: [1, null] }, undefined, '{"a":[1,null]}', "application/json"],
    [null, undefined, "null", "application/json"],
    [undefined, undefined, "", "application/octet-stream"],
  ];
  for (const [body, given, text, type] of cases) assert.deepEqual(bodyOf(body, given).map(String), [text, type]);
  assert.throws(() => bodyOf(() => 1), TypeError);
});

test("errors_have_their_kind", () => {
  const kind = (status, code) => errorOf(status, { code }).name;
  const kinds = [[404, "not_found", "NotFound"], [409, "leased", "Conflict"], [409, "lease_ended", "LeaseEnded"], [0, "batch_closed", "Conflict"], [0, "no_batch", "NotFound"], [413, "body_too_big", "Refused"], [403, "forbidden", "Denied"],
    [507, "topic_full", "Full"], [503, "stopping", "Unavailable"], [0, "bad_topic", "Refused"], [0, "too_many_requests", "Unavailable"], [500, "", "TarryError"]]; // prettier-ignore
  for (const [status, code, wanted] of kinds) assert.equal(kind(status, code), wanted);
});

test("an_error_text_is_cut_at_a_character", () => {
  assert.equal(cutText(`a\nb${"银".repeat(100)}`), `a b${"银".repeat(65)}`);
});

test("a_signature_is_checked", () => {
  const secret = `whsec_${Buffer.from("a secret").toString("base64")}`;
  const now = 1_700_000_000_000;
  const sign = (body, at) => `v1,${createHmac("sha256", "a secret").update(`msg.${at}.${body}`).digest("base64")}`;
  const headers = (at, signature) => ({ "Webhook-Id": "msg", "webhook-timestamp": String(at), "Webhook-Signature": signature, "Tarry-Id": "1", "Tarry-Meta-Who": "x" });
  const at = now / 1000;
  const job = verify(["whsec_AAAA", secret], headers(at, `v1,AAAA ${sign("b", at)}`), Buffer.from("b"), { now });
  assert.deepEqual([job.id, job.text, job.meta], ["1", "b", { who: "x" }]);
  verify(secret, new Headers(headers(at - 300, sign("b", at - 300))), "b", { now });
  const wrong = [["whsec_AAAA", at, sign("b", at), "b"], [secret, at, sign("b", at), "c"], [secret, at - 301, sign("b", at - 301), "b"], [secret, at + 301, sign("b", at + 301), "b"],
    [secret, "", sign("b", ""), "b"], [secret, at, "", "b"], [[], at, sign("b", at), "b"]]; // prettier-ignore
  for (const [secrets, stamp, signature, body] of wrong) assert.throws(() => verify(secrets, headers(stamp, signature), body, { now }), BadSignature);
  assert.throws(() => verify("no base64!", headers(at, sign("b", at)), "b", { now }), TypeError);
});

/** Starts a server with the given answers; then calls `play` with a client of it. */
async function against(answer, play) {
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (part) => (body += part)).on("end", () => answer(request, response, body));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const client = new Client({ url: `http://127.0.0.1:${server.address().port}`, retryFor: 2000 });
  try {
    await play(client);
  } finally {
    client.close();
    server.closeAllConnections();
    server.close();
  }
}

test("a_signal_cuts_a_take_at_once", async () => {
  await against(() => {}, async (client) => {
    const began = performance.now();
    await assert.rejects(client.take("t", { wait: "30s", signal: AbortSignal.timeout(50) }), { name: "TimeoutError" });
    assert.ok(performance.now() - began < 1000);
  });
});

test("a_job_that_a_second_try_does_not_find_may_have_been_cancelled_but_may_be_done_where_its_holder_was_asked", async () => {
  const left = [504, 404, 504, 404, 404];
  await against((_, response) => response.writeHead(left.shift()).end("{}"), async (client) => {
    assert.equal(await client.cancel("t", "1"), true);
    assert.equal(await client.requestCancel("t", "1"), null);
    assert.equal(await client.cancel("t", "1"), false);
  });
});

test("a_batch_that_a_second_try_does_not_find_may_have_been_closed", async () => {
  const left = [504, 404, 404];
  await against((_, response) => response.writeHead(left.shift()).end("{}"), async (client) => {
    await client.closeBatch("t", "1");
    await assert.rejects(client.closeBatch("t", "1"), { name: "NotFound" });
  });
});

test("the_options_of_a_batch_are_in_the_query_of_a_push_that_waits", async () => {
  let url;
  const answer = (request, response) => {
    url = new URL(request.url, "http://127.0.0.1");
    response.end('{"topic":"t","id":"1","state":"finished","attempt":1}');
  };
  const options = { id: "1", batch: { topic: "r", id: "&" }, parent: jobOf({ lease: "L" }), waits: true, members: 2, waitAtMost: "1s", closeWithin: "2s", onDead: "hold", wait: "3s" };
  const wanted = { batch_topic: "r", batch_id: "&", parent: "L", waits: "true", members: "2", wait_at_most: "1000ms", close_within: "2000ms", on_dead: "hold", wait: "3000ms" };
  await against(answer, async (client) => {
    await client.pushAndWait("t", "x", options);
    assert.deepEqual(Object.fromEntries(url.searchParams), wanted);
  });
});

test("the_token_in_a_file_comes_before_that_in_the_environment", async (t) => {
  const directory = mkdtempSync(join(tmpdir(), "tarry-"));
  t.after(() => rmSync(directory, { recursive: true }));
  t.after(() => ["TARRY_URL", "TARRY_TOKEN", "TARRY_TOKEN_FILE"].forEach((name) => delete process.env[name]));
  const seen = [];
  const answer = (request, response) => response.end(JSON.stringify({ seen: seen.push(request.headers.authorization) }));
  const server = createServer(answer).listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  process.env.TARRY_URL = `http://127.0.0.1:${server.address().port}`;
  process.env.TARRY_TOKEN = "environment";
  const run = async (options) => {
    const client = new Client(options);
    await client.run("t", "1");
    client.close();
  };
  await run();
  writeFileSync(join(directory, "token"), "file\n");
  process.env.TARRY_TOKEN_FILE = join(directory, "token");
  await run();
  await run({ token: "given" });
  assert.deepEqual(seen, ["Bearer environment", "Bearer file", "Bearer given"]);
  process.env.TARRY_TOKEN_FILE = join(directory, "none");
  assert.throws(() => new Client(), { code: "ENOENT" });
});

test("an_item_that_met_a_rate_limit_is_made_again", async () => {
  let tries = 0;
  const answer = (_, response, body) => response.end(JSON.stringify({ results: JSON.parse(body).map(({ id }) => (++tries === 1 ? { result: "too_many_requests" } : { id, result: "created" })) }));
  await against(answer, async (client) => {
    assert.deepEqual((await client.pushMany([{ topic: "t", id: "a" }, { topic: "t", id: "b" }])).map(({ id }) => id), ["a", "b"]);
    assert.equal(tries, 3);
  });
});

test("a_worker_ends_where_it_may_not_take_and_a_hook_that_fails_stops_nothing", async () => {
  const answered = [];
  let takes = 0;
  const answer = (request, response, body) => {
    if (!request.url.startsWith("/v1/take")) {
      const { leases } = JSON.parse(body);
      answered.push([request.url, leases[0].error]);
      return response.end(JSON.stringify({ results: leases.map(() => ({ result: "ok" })) }));
    }
    if (++takes > 1) return response.writeHead(403).end('{"code":"forbidden"}');
    return response.end(JSON.stringify({ jobs: [{ topic: "t", id: "a", lease: "1", body_base64: "e30=" }] }));
  };
  await against(answer, async (client) => {
    const errors = [];
    const fail = () => {
      throw new Error("hook");
    };
    const worker = new Worker(client, "t", (job) => { throw new Reject(`no ${JSON.stringify(job.json())}`); }, { onTaken: fail, onDone: async () => fail(), onError: (_, what) => errors.push(what) });
    await assert.rejects(worker.run({ signals: false }), { name: "Denied" });
    assert.deepEqual(answered, [["/v1/nack", "no {}"]]);
    assert.deepEqual(errors, ["hook", "hook"]);
  });
});

test("a_consumer_is_host_and_process_in_64_characters", () => {
  for (const [host, name] of [["shop-1", "shop-1:77"], ["sh op\né", "shop:77"], ["h".repeat(80), `${"h".repeat(61)}:77`], ["", ":77"]]) assert.equal(consumerName(host, 77), name);
});

test("a_result_belongs_to_one_job", async () => {
  const client = new Client("http://127.0.0.1:9");
  for (const leases of [["a", "b"], []]) await assert.rejects(client.ack(leases, { result: 1 }), /a result belongs to one job/);
  await assert.rejects(client.ack(jobOf({ lease: "a" }), jobOf({ lease: "b" })), /give several jobs as a list/);
  assert.deepEqual(await resultMembers(undefined, { sum: 3 }), { result_base64: "eyJzdW0iOjN9", result_type: "application/json" });
  assert.deepEqual([await resultMembers(undefined, undefined), await resultMembers(undefined, null)], [{}, {}]);
});

test("a_push_that_waits_needs_an_id_if_it_has_a_once", async () => {
  await assert.rejects(new Client("http://127.0.0.1:9").pushAndWait("t", "x", { once: "order-1" }), /needs an id/);
});

test("a_result_is_bytes_however_the_answer_has_it", () => {
  const cases = [
    [{}, undefined, ""],
    [{ result: { a: "é" }, result_type: "application/json" }, '{"a":"é"}', '{"a":"é"}'],
    [{ result: "é", result_type: "text/plain" }, "é", "é"],
    [{ result: "x", result_type: "application/json" }, '"x"', '"x"'],
    [{ result_base64: "eA==" }, "x", "x"],
  ];
  for (const [members, result, text] of cases) {
    const job = jobOf({ topic: "t", id: "1", state: "finished", duration_ms: 1500, finished_at: "2026-11-20T09:00:00.000Z", ...members });
    assert.deepEqual([job.result?.toString(), job.resultText, job.duration, job.finishedAt.getTime()], [result, text, 1500, Date.UTC(2026, 10, 20, 9)]);
  }
  assert.deepEqual(jobOf({ result: [1], result_type: "application/json" }).resultJson(), [1]);
  assert.equal(jobOf({}).resultJson(), undefined);
});

test("a_worker_has_one_handler_or_one_for_each_topic", () => {
  const client = new Client("http://127.0.0.1:9");
  new Worker(client, { a: () => 1, b: () => 2 }, { concurrency: 2 });
  for (const given of [["t"], [["t"], { concurrency: 2 }], [{ a: () => 1 }, () => 1]]) assert.throws(() => new Worker(client, ...given), /give topics and a handler/);
});

test("a_kind_of_call_that_fails_is_logged_once_in_ten_seconds_and_reported_each_time", async (context) => {
  const seen = [];
  for (const log of [true, false]) {
    const { mock } = context.mock.method(console, "warn", () => undefined);
    const errors = [];
    const worker = new Worker(new Client({ url: "http://127.0.0.1:9", retryFor: 0 }), "t", () => 1, { log, onError: (_, what) => errors.push(what) });
    const run = worker.run({ signals: false });
    while (errors.length < 2) await new Promise((resolve) => setTimeout(resolve, 10));
    await worker.stop();
    await run;
    seen.push(mock.calls.filter(({ arguments: [line] }) => line.startsWith("tarry: take failed: ")).length);
    context.mock.restoreAll();
  }
  assert.deepEqual(seen, [1, 0]);
});
