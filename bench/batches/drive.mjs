// Drives BullMQ, or tarry by its client for Node, for bench/batches/run.py, and prints one JSON object.
//
//   node drive.mjs bullmq|tarry PORT wait COUNT AT_ONCE       push and wait for the result, so many at a time; one worker with a handler that returns
//   node drive.mjs bullmq|tarry PORT batches BATCHES MEMBERS  batches (BullMQ: flows) of so many members, from the first push to the last completion
//
// Client and worker are in one process, for both. BullMQ has its quickest options: jobs are removed when they are done, flows are added by addBulk, the
// worker takes 200 at once and its locks need no renewal.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [system, port, mode, ...numbers] = process.argv.slice(2);
const [first, second] = numbers.map(Number);
const CONCURRENCY = 200;
const BULK = 20; // batches of one addBulk

/** Runs `one` so many times, `atOnce` of them on their way. */
async function times(count, atOnce, one) {
  let begun = 0;
  const sender = async () => {
    for (let n = begun++; n < count; n = begun++) await one(n);
  };
  await Promise.all(Array.from({ length: atOnce }, sender));
}

/** Resolves when `done` was called so many times. */
function counter(wanted) {
  let seen = 0, resolve;
  const all = new Promise((found) => (resolve = found));
  return { all, done: () => ++seen === wanted && resolve() };
}

async function bullmq() {
  const require = createRequire(pathToFileURL(`${process.env.MODULES}/package.json`));
  const { FlowProducer, Queue, QueueEvents, Worker } = require("bullmq");
  const connection = { host: "127.0.0.1", port: Number(port), maxRetriesPerRequest: null };
  const removed = { removeOnComplete: true, removeOnFail: true };
  const options = { connection, concurrency: CONCURRENCY, lockDuration: 600_000, stalledInterval: 600_000 };
  if (mode === "wait") {
    const queue = new Queue("sums", { connection, defaultJobOptions: { removeOnComplete: 1_000 } }); // a job that is removed at once may be missed by waitUntilFinished
    const events = new QueueEvents("sums", { connection });
    const worker = new Worker("sums", async () => 3, options);
    await Promise.all([events.waitUntilReady(), worker.waitUntilReady()]);
    return async () => (await queue.add("sum", { a: 1, b: 2 })).waitUntilFinished(events, 30_000);
  }
  const flows = new FlowProducer({ connection });
  const ended = counter(first);
  new Worker("members", async () => undefined, options);
  new Worker("done", async () => ended.done(), options);
  const batch = (n) => ({
    name: "done", queueName: "done", data: { n }, opts: { ...removed, jobId: `b-${n}` },
    children: Array.from({ length: second }, (_, m) => ({ name: "member", queueName: "members", data: { n, m }, opts: { ...removed, jobId: `m-${n}-${m}` } })),
  });
  return async () => {
    await times(Math.ceil(first / BULK), 2, (part) => flows.addBulk(Array.from({ length: Math.min(BULK, first - part * BULK) }, (_, n) => batch(part * BULK + n))));
    await ended.all;
  };
}

async function tarry() {
  const { Client, Worker } = await import("../../clients/node/build/index.js");
  const client = new Client({ url: `http://127.0.0.1:${port}` });
  const work = (topic, handler) => void new Worker(client, topic, handler, { concurrency: CONCURRENCY }).run();
  if (mode === "wait") {
    work("sums", async () => 3);
    return () => client.pushAndWait("sums", { a: 1, b: 2 });
  }
  const ended = counter(first);
  work("members", async () => undefined);
  work("done", async () => ended.done());
  const members = (n) => Array.from({ length: second }, (_, m) => ({ topic: "members", id: `m-${n}-${m}`, body: { n, m } }));
  return async () => {
    await times(first, 8, (n) => client.pushBatch({ topic: "done", id: `b-${n}`, body: { n } }, members(n)));
    await ended.all;
  };
}

const run = await (system === "tarry" ? tarry() : bullmq());
const began = performance.now();
const out = {};
if (mode === "wait") {
  const took = [];
  await times(50, 1, run); // to warm up
  const start = performance.now();
  await times(first, second, async () => {
    const from = performance.now();
    await run();
    took.push(performance.now() - from);
  });
  took.sort((a, b) => a - b);
  Object.assign(out, { p50_ms: took[took.length >> 1], p99_ms: took[Math.floor(took.length * 0.99)], per_s: (first / (performance.now() - start)) * 1000 });
} else {
  await run();
  out.members_per_s = ((first * second) / (performance.now() - began)) * 1000;
}
const { user, system: kernel } = process.cpuUsage();
console.log(JSON.stringify({ ...out, cpu_s: (user + kernel) / 1e6 }));
process.exit(0);
