// Answers of servers and proxies, as bytes. clients/conformance covers the rest.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { createServer as createTlsServer } from "node:tls";
import { Client, Worker } from "../build/index.js";

const JOB = '{"topic":"t","id":"1","state":"ready"}';

/** Starts a server that calls `answer(socket, request, number of the connection, number of its request)` for each request without a body; then calls `play`. */
async function against(answer, play, where = { port: 0, host: "127.0.0.1" }, options = {}) {
  const sockets = new Set();
  let connections = 0;
  const server = createServer((socket) => {
    const number = ++connections;
    let text = "";
    let requests = 0;
    sockets.add(socket.on("error", () => undefined));
    socket.on("data", (data) => {
      text += data.toString("latin1");
      for (let end = text.indexOf("\r\n\r\n"); end >= 0; end = text.indexOf("\r\n\r\n")) {
        const request = text.slice(0, end);
        text = text.slice(end + 4);
        answer(socket, request, number, ++requests);
      }
    });
  });
  await new Promise((resolve) => server.listen(where, resolve));
  const client = new Client({ url: where.path ? `unix:${where.path}` : `http://127.0.0.1:${server.address().port}`, retryFor: 0, timeout: "5s", ...options });
  try {
    await play(client, () => connections);
  } finally {
    client.close();
    for (const socket of sockets) socket.destroy();
    server.close();
  }
}

const whole = (body, ...headers) => ["HTTP/1.1 200 OK", `Content-Length: ${Buffer.byteLength(body)}`, ...headers, "", body].join("\r\n");

test("an_answer_is_read_in_each_form_and_in_any_pieces", async () => {
  const long = JSON.stringify({ topic: "t", id: "1", state: "ready", meta: { long: "é".repeat(20_000) } });
  const hex = (text) => Buffer.byteLength(text).toString(16);
  const forms = [
    whole(JOB),
    whole(long),
    `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n${whole(JOB)}`,
    `HTTP/1.1 200\r\nTransfer-Encoding: Chunked\r\n\r\n5;a="b"\r\n${JOB.slice(0, 5)}\r\n0${hex(JOB.slice(5))}\r\n${JOB.slice(5)}\r\n0\r\nTrailer: 1\r\n\r\n`,
    `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${hex(long).toUpperCase()} \r\n${long}\r\n0\r\n\r\n`,
  ];
  for (const form of forms) {
    const bytes = Buffer.from(form);
    for (const size of [1, 7, 4096, bytes.length]) {
      if (size === 1 && bytes.length > 1000) continue;
      const answer = async (socket) => {
        socket.setNoDelay(true);
        for (let at = 0; at < bytes.length; at += size) {
          socket.write(bytes.subarray(at, at + size));
          if (size < 4096) await new Promise(setImmediate);
        }
      };
      await against(answer, async (client, connections) => {
        for (let times = 0; times < 2; times++) assert.equal((await client.get("t", "1")).id, "1");
        assert.equal(connections(), 1, "the connection is used again");
      });
    }
  }
});

test("an_answer_until_the_end_of_the_connection_is_complete", async () => {
  for (const head of ["HTTP/1.1 200 OK\r\nConnection: close", "HTTP/1.0 200 OK"]) {
    await against((socket) => socket.end(`${head}\r\n\r\n${JOB}`), async (client, connections) => {
      for (let times = 1; times <= 2; times++) {
        assert.equal((await client.get("t", "1")).id, "1");
        assert.equal(connections(), times);
      }
    });
  }
});

test("a_connection_is_used_again_only_if_the_answer_permits_it", async () => {
  const cases = [[whole(JOB, "Connection: close"), 2], [whole(JOB, "Connection: upgrade, Close"), 2], [whole(JOB).replace("1.1", "1.0"), 2], [whole(JOB, "Connection: Keep-Alive").replace("1.1", "1.0"), 1], [whole(JOB, "Keep-Alive: timeout=1, max=9"), 2], [whole(JOB, "Keep-Alive: timeout=60"), 1], [`${whole(JOB)}HTTP/1.1 200 OK\r\n`, 2]];
  for (const [form, wanted] of cases) {
    await against((socket) => socket.write(form), async (client, connections) => {
      for (let times = 0; times < 2; times++) assert.equal((await client.get("t", "1")).id, "1");
      assert.equal(connections(), wanted, form);
    });
  }
});

test("a_connection_that_the_server_closed_meanwhile_is_not_used", async () => {
  await against((socket) => socket.end(whole(JOB)), async (client, connections) => {
    await client.get("t", "1");
    await sleep(50);
    await client.get("t", "1");
    assert.equal(connections(), 2);
  });
});

test("unrequested_bytes_close_the_connection", async () => {
  await against((socket) => void socket.write(whole(JOB), () => setTimeout(() => socket.write(whole('{"topic":"t","id":"2"}')), 20)), async (client, connections) => {
    for (let times = 0; times < 2; times++) {
      assert.equal((await client.get("t", "1")).id, "1");
      await sleep(100);
    }
    assert.equal(connections(), 2);
  });
});

test("an_answer_that_is_cut_or_cannot_be_read_is_no_answer", async () => {
  const cases = [
    ["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", /cut short/],
    ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", /cut short/],
    ["HTTP/1.1 200 OK\r\nContent-Le", /closed the connection/],
    ["", /closed the connection/],
    ["SSH-2.0-OpenSSH\r\n\r\n", /not HTTP/],
    ["HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", /bad length/],
    ["HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}", /bad length/],
    ["HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}", /two lengths/],
    ["HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n{}", /unknown encoding/],
    ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n{}\r\n", /chunks/],
    ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n", /chunks/],
    ["HTTP/1.1 200 OK\r\nno header\r\n\r\n", /cannot be read/],
    ["HTTP/1.1 101 Switching Protocols\r\n\r\n", /protocol/],
    [`HTTP/1.1 200 OK\r\nA: ${"a".repeat(70_000)}`, /too long/],
  ];
  for (const [form, wanted] of cases) {
    await against((socket) => socket.end(form), (client) => assert.rejects(client.get("t", "1"), (fault) => fault.name === "Unavailable" && fault.code === "no_answer" && wanted.test(fault.message)));
  }
});

test("a_call_without_an_answer_ends_by_its_timeout_and_its_connection_is_not_used_again", async () => {
  await against((socket, _request, number) => number > 1 && socket.write(whole(JOB)), async (client, connections) => {
    await assert.rejects(client.get("t", "1"), /none within 200 ms/);
    assert.equal((await client.get("t", "1")).id, "1");
    assert.equal(connections(), 2);
  }, undefined, { timeout: 200 });
});

test("calls_share_64_connections_and_takes_have_their_own", async () => {
  const held = [];
  await against((socket, request) => void held.push([socket, request]), async (client, connections) => {
    const gets = Array.from({ length: 100 }, () => client.get("t", "1"));
    while (held.length < 64) await sleep(5);
    await sleep(30);
    assert.equal(connections(), 64);
    const take = client.take("t", { wait: "30s" });
    while (connections() < 65) await sleep(5);
    const controller = new AbortController();
    const cut = client.get("t", "1", { signal: controller.signal });
    controller.abort(new Error("cut"));
    await assert.rejects(cut, /^Error: cut$/); // it waited for a connection
    for (let done = 0; done < 101; done++) {
      while (held.length === 0) await sleep(1);
      const [socket, request] = held.shift();
      socket.write(whole(request.startsWith("POST /v1/take") ? '{"jobs":[]}' : JOB));
    }
    await Promise.all([...gets, take]);
    assert.equal(connections(), 65);
  });
});

test("a_closed_client_ends_its_calls", async () => {
  await against(() => undefined, async (client) => {
    const calls = Array.from({ length: 70 }, () => assert.rejects(client.get("t", "1"), /the client was closed/));
    await sleep(50);
    client.close();
    await Promise.all(calls);
  });
});

test("a_closed_client_sends_nothing_again", async () => {
  const ends = [];
  for (const answer of [() => undefined, (socket) => socket.write("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 20\r\nContent-Length: 0\r\n\r\n")]) {
    await against(answer, async (client, connections) => {
      const calls = [client.get("t", "1"), client.push("t", "x", { id: "1" }), client.wait({ topic: "t", id: "1" })].map((call) => assert.rejects(call, { name: "Unavailable", message: /the client was closed/ }));
      await sleep(100);
      const before = connections();
      const began = performance.now();
      client.close();
      await Promise.all(calls);
      await assert.rejects(client.get("t", "1"), /the client was closed/);
      ends.push(performance.now() - began);
      await sleep(200);
      assert.equal(connections(), before);
    }, undefined, { retryFor: undefined });
  }
  assert.ok(Math.max(...ends) < 1000, `ended after ${ends} ms`);
});

test("a_worker_of_a_closed_client_ends", { timeout: 20_000 }, async () => {
  await against(() => undefined, async (client) => {
    const running = assert.rejects(new Worker(client, "t", () => undefined, { log: false }).run({ signals: false }), /the client was closed/);
    await sleep(50);
    client.close();
    await running;
  }, undefined, { retryFor: undefined });
});

test("options_of_tls_that_node_rejects_end_the_call_that_needs_a_connection", { timeout: 20_000 }, async (t) => {
  const held = [];
  const sockets = new Set();
  const server = createTlsServer({ ciphers: "PSK", pskCallback: () => Buffer.from("key") }, (socket) => {
    sockets.add(socket.on("error", () => undefined).on("data", () => held.push(socket)));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  let isBad = false;
  const options = {
    ciphers: "PSK",
    pskCallback: () => ({ psk: Buffer.from("key"), identity: "x" }),
    checkServerIdentity: () => undefined,
    get localAddress() {
      return isBad ? "nowhere" : undefined;
    },
  };
  const client = new Client({ url: `https://127.0.0.1:${server.address().port}`, tls: options });
  t.after(() => {
    client.close();
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const bad = { code: "ERR_INVALID_IP_ADDRESS" };
  const get = () => client.get("t", "1");
  const first = Array.from({ length: 64 }, get);
  while (held.length < 64) await sleep(5);
  const waiting = Array.from({ length: 9 }, () => assert.rejects(get(), bad)); // for a connection
  isBad = true;
  held[0].write(whole(JOB, "Connection: close"));
  assert.equal((await Promise.race(first)).id, "1");
  await Promise.all(waiting);

  isBad = false;
  const all = [...first, get()].map((call) => call.catch((fault) => fault));
  while (held.length < 65) await sleep(5);
  all.push(...Array.from({ length: 9 }, () => get().catch((fault) => fault)));
  isBad = true;
  for (const socket of sockets) socket.destroy();
  const ends = await Promise.all(all);
  assert.equal(ends.filter(({ code }) => code === bad.code).length, 73);

  isBad = false;
  const last = get();
  while (held.length < 66) await sleep(5);
  held[65].write(whole(JOB));
  assert.equal((await last).id, "1");
});

test("a_header_has_the_bytes_of_its_value_and_never_ends_early", async () => {
  const seen = [];
  await against((socket, request) => seen.push(request) && socket.write(whole(JOB)), async (client) => {
    await client.pushAndWait("t", undefined, { id: "1", meta: { name: "é" }, wait: 0 });
    assert.match(seen[0], /^PUT \/v1\/topics\/t\/jobs\/1\?on_conflict=|^PUT \/v1\/topics\/t\/jobs\/1\?wait=0ms HTTP\/1.1\r\n/);
    assert.match(seen[0], /\r\nTarry-Meta-name: Ã©\r\n/); // UTF-8, here as Latin-1
    assert.match(seen[0], /\r\nHost: 127\.0\.0\.1:\d+\r\n/);
    await assert.rejects(client.pushAndWait("t", undefined, { id: "1", meta: { name: "a\r\nHost: b" } }), { code: "ERR_INVALID_CHAR" });
    await assert.rejects(client.pushAndWait("t", undefined, { id: "1", contentType: "a\nb" }), { code: "ERR_INVALID_CHAR" });
    await assert.rejects(client.pushAndWait("t", undefined, { id: "1", meta: { "a b": "1" } }), { code: "ERR_INVALID_HTTP_TOKEN" });
  });
  assert.throws(() => new Client({ url: "http://127.0.0.1", token: "a\nb" }), { code: "ERR_INVALID_CHAR" });
});

test("a_unix_socket_is_an_address", async (t) => {
  const directory = mkdtempSync(join(tmpdir(), "tarry-"));
  t.after(() => rmSync(directory, { recursive: true }));
  await against((socket) => socket.write(whole(JOB)), async (client) => assert.equal((await client.get("t", "1")).id, "1"), { path: join(directory, "a b") });
  for (const name of ["100%", "a%20b", "a?b", "a#b"]) {
    await against((socket) => socket.write(whole(JOB)), async (client) => assert.equal((await client.get("t", "1")).id, "1", name), { path: join(directory, name) });
  }
  assert.throws(() => new Client({ url: "unix:" }), { name: "RangeError", message: /bad URL 'unix:'/ });
});
