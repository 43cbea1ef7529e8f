// Drives a queue for bench/fifo/run.py and prints one JSON object.
//
//   node drive.mjs tarry|groupmq|graphile ADDRESS JOBS KEYS
//
// ADDRESS is the port of tarry or Redis, or the URL of a database. All jobs are pushed, key after key; then a worker with 100 jobs at a time starts,
// whose handler does nothing. Measured is the time from its start to the last job. A job before its predecessor of the same key counts as wrong.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [system, address, ...numbers] = process.argv.slice(2);
const [JOBS, KEYS] = numbers.map(Number);
const CONCURRENCY = 100, BULK = 500;
const require = createRequire(pathToFileURL(`${process.env.MODULES}/package.json`));
const job = (n) => ({ key: `k${n % KEYS}`, n });
const last = new Map();
let done = 0, wrong = 0, twice = 0, ended;
const all = new Promise((resolve) => (ended = resolve));

function handle({ key, n }) {
  const before = last.get(key) ?? -1;
  if (n < before) wrong++;
  if (n === before) twice++;
  last.set(key, n);
  if (++done === JOBS) ended();
}

/** Calls `push` with all jobs, BULK at a time. */
async function inBulk(push) {
  for (let at = 0; at < JOBS; at += BULK) await push(Array.from({ length: Math.min(BULK, JOBS - at) }, (_, i) => job(at + i)));
}

async function tarry() {
  const { Client, Worker } = await import("../../clients/node/build/index.js");
  const client = new Client({ url: `http://127.0.0.1:${address}` });
  await fetch(`http://127.0.0.1:${address}/v1/topics/calls?group_order=strict`, { method: "PUT" });
  await inBulk((jobs) => client.pushMany(jobs.map((one) => ({ topic: "calls", id: `j-${one.n}`, body: one, group: one.key }))));
  return () => void new Worker(client, "calls", async (taken) => handle(taken.json()), { concurrency: CONCURRENCY }).run();
}

async function groupmq() {
  const Redis = require("ioredis");
  const { Queue, Worker } = require("groupmq");
  const redis = new Redis(Number(address), "127.0.0.1", { maxRetriesPerRequest: null });
  const queue = new Queue({ redis, namespace: "calls", jobTimeoutMs: 600_000 });
  await inBulk((jobs) => Promise.all(jobs.map((one) => queue.add({ groupId: one.key, data: one, orderMs: one.n }))));
  const worker = new Worker({ queue, concurrency: CONCURRENCY, handler: async (taken) => handle(taken.data) });
  return () => void worker.run();
}

async function graphile() {
  const { Logger, makeWorkerUtils, run } = require("graphile-worker");
  const { Pool } = require("pg");
  const pgPool = new Pool({ connectionString: address, max: 12 }), logger = new Logger(() => () => {});
  const utils = await makeWorkerUtils({ pgPool, logger });
  await utils.migrate();
  await inBulk((jobs) => utils.addJobs(jobs.map((one) => ({ identifier: "call", payload: one, queueName: one.key }))));
  const worker = { concurrentJobs: CONCURRENCY, pollInterval: 100 };
  return () => void run({ pgPool, logger, noHandleSignals: true, taskList: { call: async (payload) => handle(payload) }, preset: { worker } });
}

let began = performance.now();
const start = await { tarry, groupmq, graphile }[system]();
const pushed = performance.now() - began;
began = performance.now();
start();
await all;
console.log(JSON.stringify({ jobs_per_s: Math.round((JOBS * 1000) / (performance.now() - began)), pushes_per_s: Math.round((JOBS * 1000) / pushed), wrong, twice }));
process.exit(0);
