// The adapter of the Node client for clients/conformance: JSON lines in, JSON lines out.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { BadSignature, Client, Codec, DirectoryStore, Reject, Retry, TarryError, verify, Worker } from "./build/index.js";

let client;
const workers = new Map();
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const problem = (fault) => ({ kind: fault.name, code: fault.code, status: fault.status, detail: fault.detail });
const resultOf = ({ result = {} }) => ({ result: "base64" in result ? Buffer.from(result.base64, "base64") : (result.text ?? result.json), contentType: result.content_type });
const results = (found) => ({ results: found.map((one) => (one ? one.code : "ok")) });

function item(request) {
  const body = "body_base64" in request ? Buffer.from(request.body_base64, "base64") : "text" in request ? request.text : (request.json ?? null);
  const { topic, id, priority, backoff, meta, delay_ms: delay, at_ms: at, ttl_ms: ttl, max_attempts: maxAttempts, on_conflict: onConflict, once, group, keep_finished_ms: keepFinished, content_type: contentType, batch, parent, waits, members, on_dead: onDead, wait_at_most_ms: waitAtMost, close_within_ms: closeWithin } = request;
  return { topic, body, id, priority, backoff, meta, delay, at, ttl, maxAttempts, onConflict, once, group, keepFinished, contentType, batch, parent, waits, members, onDead, waitAtMost, closeWithin };
}

function shown(job) {
  const { topic, id, lease, attempt, delivery, contentType, meta, consumer, cancelRequested, state, outcome, progress, lastError, group, batch } = job;
  const end = { finished_at_ms: job.finishedAt?.getTime(), duration_ms: job.duration, codec_error: job.codecError?.detail ?? null, result_base64: job.codecError ? null : (job.result?.toString("base64") ?? null), result_type: job.resultType, outcome: outcome ?? null };
  return { topic, id, lease, attempt, delivery, body_base64: job.codecError ? null : job.body.toString("base64"), content_type: contentType, meta, consumer, cancel_requested: cancelRequested, state, group, batch, waits_for: job.waitsFor, outcomes: job.outcomes, progress, last_error: lastError, ...end };
}

function codecOf({ current, keys, context, gzip, claim_check: check }) {
  return new Codec({ gzip, aesGcm: keys && { current, keys }, claimCheck: check && { store: new DirectoryStore(check.directory), above: check.above }, context });
}

const taken = new Map();

/** The leases as they are, or their jobs: a single one, or a list. */
function given({ leases, as }) {
  const jobs = as ? leases.map((one) => taken.get(one)) : leases;
  return as === "job" ? jobs[0] : jobs;
}

function handlerOf(name, plan) {
  return async (job, { signal, reportProgress }) => {
    say({ event: "began", worker: name, id: job.id, attempt: job.attempt, delivery: job.delivery });
    const step = plan.by_attempt ? plan.by_attempt[Math.min(job.attempt, plan.by_attempt.length) - 1] : plan;
    if (step.progress) say({ event: "reported", worker: name, id: job.id, done: await reportProgress(step.progress) });
    try {
      if (step.sleep_ms) await sleep(step.sleep_ms, undefined, { signal });
    } catch (fault) {
      say({ event: "notified", worker: name, id: job.id, cancel_requested: job.cancelRequested });
      if (step.heeds === false) return undefined;
      throw fault;
    }
    if (step.do === "fail") throw new Error(step.error);
    if (step.do === "retry") throw new Retry(step.after_ms, step.error);
    if (step.do === "reject") throw new Reject(step.error, resultOf(step));
    return resultOf(step).result;
  };
}

const operations = {
  open({ url, token, retry_for_ms: retryFor, timeout_ms: timeout, codec, ...files }) {
    const tls = Object.fromEntries([["ca", "ca_file"], ["cert", "certificate"], ["key", "key"]].filter(([, name]) => files[name]).map(([option, name]) => [option, readFileSync(files[name])]));
    client = new Client({ url, token, retryFor, timeout, tls, codec: codec && codecOf(codec) });
    return {};
  },
  // Encodes and decodes a body so many times, for bench/codec.py.
  async recode({ body_base64, content_type: type, codec: given, times }) {
    const [body, codec] = [Buffer.from(body_base64, "base64"), codecOf(given)];
    let found;
    for (let n = 0; n < times; n++) found = await codec.decode(...(await codec.encode(body, type)));
    return { body_base64: found.data.toString("base64") };
  },
  async push(request) {
    const { topic, body, ...options } = item(request);
    const found = await client.push(topic, body, options);
    return { id: found.id, result: found.result, due_at_ms: found.dueAt?.getTime() };
  },
  async push_many({ items }) {
    const found = await client.pushMany(items.map(item));
    return found.map((one) => (one instanceof TarryError ? { error: problem(one) } : { id: one.id, result: one.result }));
  },
  async push_batch({ job, members }) {
    const inner = ({ members: more, ...one }) => ({ ...item(one), members: more?.map(inner) });
    const found = await client.pushBatch(item(job), members.map(inner));
    return { closed: found.isClosed, results: found.results.map((one) => (one instanceof TarryError ? { error: problem(one) } : { id: one.id, result: one.result })) };
  },
  async close_batch({ topic, id }) {
    await client.closeBatch(topic, id);
    return { done: true };
  },
  cancel_batch: async ({ topic, id }) => ({ done: await client.cancelBatch(topic, id) }),
  async members({ topic, id, outcome, results: withResults, page }) {
    const jobs = [];
    for await (const job of client.members(topic, id, { outcome, results: withResults, page })) jobs.push(shown(job));
    return { jobs };
  },
  cancel: async ({ topic, id }) => ({ done: await client.cancel(topic, id) }),
  request_cancel: async ({ topic, id }) => ({ result: await client.requestCancel(topic, id) }),
  async run({ topic, id }) {
    await client.run(topic, id);
    return { done: true };
  },
  async reschedule({ topic, id, delay_ms: delay, at_ms: at, priority }) {
    await client.reschedule(topic, id, { delay, at, priority });
    return { done: true };
  },
  async get({ topic, id }) {
    const found = await client.get(topic, id);
    return { job: found && shown(found) };
  },
  async list({ topic, state, page }) {
    const ids = [];
    for await (const job of client.list(topic, { state, page })) ids.push(job.id);
    return { ids };
  },
  async take({ topics, max, wait_ms: wait, lease_ms: lease, consumer }) {
    const found = await client.take(topics, { max, wait, lease, consumer });
    for (const job of found) taken.set(job.lease, job);
    return { jobs: found.map(shown) };
  },
  async push_and_wait(request) {
    const { topic, body, ...options } = item(request);
    return { job: shown(await client.pushAndWait(topic, body, { ...options, wait: request.wait_ms })) };
  },
  async wait({ topic, ids, any, timeout_ms: timeout }) {
    return { jobs: (await client.wait(ids.map((id) => ({ topic, id })), { any, timeout })).map(shown) }; // prettier-ignore
  },
  ack: async (request) => results(await client.ack(given(request), { ...resultOf(request), hold: request.hold_ms })),
  nack: async ({ delay_ms: delay, error, final, ...request }) => results(await client.nack(given(request), { delay, error, final, ...resultOf(request), hold: request.hold_ms })),
  extend: async ({ lease_ms: lease, progress, ...request }) => results(await client.extend(given(request), { lease, progress })),
  again: async ({ leases, text, delay_ms: delay, priority }) => ({ done: await client.again(leases[0], { body: text, delay, priority }) }),
  async schedule({ name, topic, cron, zone, members, every_ms: every, take_over: takeOver, ...rest }) {
    const found = await client.schedule(name, { topic, cron, zone, members, every, takeOver, body: item(rest).body ?? undefined });
    return { result: found.result, next_ms: found.next?.getTime() };
  },
  unschedule: async ({ name }) => ({ done: await client.unschedule(name) }),
  give_back: async (request) => results(await client.giveBack(given(request))),
  worker({ name, topics, concurrency, lease_ms: lease, consumer, handler, handlers, log }) {
    const onDone = (job, outcome) => say({ event: "ended", worker: name, id: job.id, attempt: job.attempt, outcome });
    const onError = (fault, what) => console.error(new Date().toISOString(), what, String(fault));
    const options = { concurrency, lease, consumer, onDone, onError, log };
    const byTopic = () => Object.fromEntries(Object.entries(handlers).map(([topic, plan]) => [topic, handlerOf(name, plan)]));
    const worker = handlers ? new Worker(client, byTopic(), options) : new Worker(client, topics, handlerOf(name, handler), options);
    workers.set(name, worker);
    worker.run({ signals: false }).catch((fault) => console.error("the worker ended:", fault));
    return {};
  },
  async stop({ name, grace_ms: grace }) {
    await workers.get(name).stop({ grace });
    return {};
  },
  verify({ secrets, headers, body_base64, now_ms: now }) {
    try {
      verify(secrets, headers, Buffer.from(body_base64, "base64"), { now });
      return { valid: true };
    } catch (fault) {
      if (fault instanceof BadSignature) return { valid: false };
      throw fault;
    }
  },
  quit: () => ({}),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { n, ...request } = JSON.parse(line);
  try {
    say({ ok: await operations[request.op](request), n });
  } catch (fault) {
    if (!(fault instanceof TarryError)) throw fault;
    say({ error: problem(fault), n });
  }
  if (request.op === "quit") process.exit(0);
}
