// The client for Node compared with BullMQ, in one run and in turn: how many jobs a second are pushed, one by one and in bulk, and worked off by
// a handler that does nothing, a hundred in parallel.
//
//   (cd ../../../clients/node && npm install && npm run build); npm install
//   TARRY_BIN=../../../build/tarry node run.mjs [ROUNDS [JOBS]]        5 rounds of 20,000 jobs
//
// Both servers are started here, in each round on an empty directory, and rest while the other works. tarry has its defaults: a push is answered
// once it is on the disk. Redis keeps nothing (`--save '' --appendonly no`), which is its quickest. The round before the first is for warming up.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Queue, Worker as BullWorker } from "bullmq";
import { Client, Worker } from "../../../clients/node/build/index.js";

const ROUNDS = Number(process.argv[2] ?? 5);
const JOBS = Number(process.argv[3] ?? 20_000);
const SINGLES = JOBS / 4; // pushed one by one, a hundred on their way
const CONCURRENCY = 100;
const BULK = 1_000;
const BODY = { order: 1001, text: "x".repeat(180) };

async function freePort() {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address();
  probe.close();
  await once(probe, "close");
  return port;
}

/** A server on an empty directory, for as long as `use` takes. */
async function serving(commandOf, use) {
  const directory = await mkdtemp(join(tmpdir(), "bench-"));
  const port = await freePort();
  const [program, ...options] = commandOf(port, directory);
  const server = spawn(program, options, { stdio: ["ignore", "ignore", "inherit"] });
  const ended = once(server, "exit");
  try {
    await listening(port);
    return await use(port);
  } finally {
    server.kill();
    await ended;
    await rm(directory, { recursive: true });
  }
}

async function listening(port) {
  for (let tries = 0; tries < 200; tries++) {
    const socket = connect(port, "127.0.0.1");
    const isThere = await once(socket, "connect").then(() => true, () => false); // prettier-ignore
    socket.destroy();
    if (isThere) return;
    await sleep(25);
  }
  throw new Error("the server does not listen");
}

/** Calls `one` so many times, `atOnce` of them on their way. */
async function times(count, atOnce, one) {
  let begun = 0;
  const sender = async () => {
    while (begun++ < count) await one();
  };
  await Promise.all(Array.from({ length: atOnce }, sender));
}

/** Measures the rate per second. */
async function rate(count, work) {
  const began = performance.now();
  await work();
  return (count / (performance.now() - began)) * 1_000;
}

const bulks = (item) => Array.from({ length: JOBS / BULK }, () => Array.from({ length: BULK }, item));

async function tarry(port) {
  const client = new Client(`http://127.0.0.1:${port}`);
  const single = await rate(SINGLES, () => times(SINGLES, CONCURRENCY, () => client.push("singles", BODY, { delay: "1h" })));
  const asked = bulks(() => ({ topic: "orders", body: BODY }));
  const bulk = await rate(JOBS, () => times(asked.length, 2, () => client.pushMany(asked.pop())));
  const seen = new Set();
  let done = 0;
  let ends;
  const all = new Promise((resolve) => (ends = resolve));
  const onDone = (_, outcome) => (done += outcome === "ack") === JOBS && ends();
  const worker = new Worker(client, "orders", async (job) => seen.add(job.id), { concurrency: CONCURRENCY, onDone });
  const work = await rate(JOBS, async () => {
    void worker.run();
    await all;
  });
  await worker.stop();
  client.close();
  if (seen.size !== JOBS || done !== JOBS) throw new Error(`tarry: ${seen.size} of ${JOBS} jobs came, ${done} were acked`);
  return { single, bulk, work };
}

async function bullmq(port) {
  const connection = { host: "127.0.0.1", port, maxRetriesPerRequest: null };
  const defaultJobOptions = { removeOnComplete: true, removeOnFail: true };
  const singles = new Queue("singles", { connection, defaultJobOptions });
  const queue = new Queue("orders", { connection, defaultJobOptions });
  await Promise.all([singles.waitUntilReady(), queue.waitUntilReady()]);
  const single = await rate(SINGLES, () => times(SINGLES, CONCURRENCY, () => singles.add("job", BODY, { delay: 3_600_000 })));
  const asked = bulks(() => ({ name: "job", data: BODY }));
  const bulk = await rate(JOBS, () => times(asked.length, 2, () => queue.addBulk(asked.pop())));
  const seen = new Set();
  const worker = new BullWorker("orders", async (job) => seen.add(job.id), { connection, concurrency: CONCURRENCY, autorun: false });
  await worker.waitUntilReady();
  let done = 0;
  const work = await rate(JOBS, async () => {
    const all = new Promise((resolve) => worker.on("completed", () => ++done === JOBS && resolve()));
    void worker.run();
    await all;
  });
  for (const one of [worker, queue, singles]) await one.close();
  if (seen.size !== JOBS) throw new Error(`BullMQ: ${seen.size} of ${JOBS} jobs came`);
  return { single, bulk, work };
}

const SUBJECTS = {
  tarry: [(port, directory) => [process.env.TARRY_BIN ?? "tarry", "serve", "--data", directory, "--listen", `127.0.0.1:${port}`, "--log-level", "warn"], tarry],
  BullMQ: [(port, directory) => ["redis-server", "--port", String(port), "--bind", "127.0.0.1", "--dir", directory, "--save", "", "--appendonly", "no"], bullmq],
};

const found = { tarry: [], BullMQ: [] };
for (let round = 0; round <= ROUNDS; round++) {
  for (const [name, [commandOf, measure]] of Object.entries(SUBJECTS)) {
    const figures = await serving(commandOf, measure);
    if (round > 0) found[name].push(figures);
    const text = Object.entries(figures).map(([what, perSecond]) => `${what} ${Math.round(perSecond)}/s`);
    console.log(`${round === 0 ? "warm-up" : `round ${round}`}  ${name.padEnd(7)} ${text.join("  ")}`);
  }
}

const median = (numbers) => [...numbers].sort((one, other) => one - other)[Math.floor(numbers.length / 2)];
console.log(`\nmedian of ${ROUNDS} rounds, ${JOBS} jobs of ${JSON.stringify(BODY).length} bytes, Node ${process.version}\n`);
console.log("| | tarry | BullMQ | ratio |\n|---|--:|--:|--:|");
for (const [what, title] of [["work", "worker, 100 in parallel, jobs/s"], ["single", "push, 100 on their way, jobs/s"], ["bulk", "push of 1,000, jobs/s"]]) {
  const [ours, theirs] = Object.values(found).map((rounds) => median(rounds.map((one) => one[what])));
  console.log(`| ${title} | ${Math.round(ours)} | ${Math.round(theirs)} | ${(ours / theirs).toFixed(1)} × |`);
}
