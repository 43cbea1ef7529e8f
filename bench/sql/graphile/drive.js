/*
 * Drives graphile-worker for bench/sql/peers, which documents the words and the lines.
 *
 *   node drive.js URL SETTING many SECONDS BATCH
 *   node drive.js URL SETTING drain JOBS
 *   node drive.js URL SETTING fill JOBS
 *   node drive.js URL SETTING late RATE SECONDS
 *
 * SETTING is `default` (24 parallel jobs, a poll every 2 s) or `tuned` (a local queue of 500 jobs, completions in batches, a poll every
 * 100 ms). A job counts as done once the library reports that it is complete.
 */
'use strict';

const { EventEmitter } = require('node:events');
const readline = require('node:readline');
const { Logger, makeWorkerUtils, run } = require('graphile-worker');
const { Pool } = require('pg');

const [url, setting, mode, ...numbers] = process.argv.slice(2);
const [first, second] = numbers.map(Number);
const BODY = 'x'.repeat(200);
const BULK = 5000;
const WARM_UP_SECONDS = 9; // of pushing by the clock, before what is measured
const now = () => performance.timeOrigin + performance.now();
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const pgPool = new Pool({ connectionString: url, max: 12 });
pgPool.on('error', () => {}); // errors of an idle connection; a query reports its own
const logger = new Logger(() => () => {});
const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const tuned = setting === 'tuned';
const worker = {
  concurrentJobs: 24,
  pollInterval: tuned ? 100 : 2000,
  ...(tuned ? { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } : {}),
};
let begun, done = 0, worked = 0, late = null;

async function ready() {
  console.log('ready');
  await lines.next();
  begun = now();
}

/* Ends the measurement; the program ends when its input does. */
async function report(found) {
  console.log(JSON.stringify({ ...found, seconds: (now() - begun) / 1000 }));
  await lines.next();
  process.exit(0);
}

function start() {
  const events = new EventEmitter();
  events.on('job:complete', () => { done++; });
  const order = async (payload) => {
    if (late) late.push(now() - payload.due);
    worked++;
  };
  return run({ pgPool, logger, events, noHandleSignals: true, taskList: { order }, preset: { worker } });
}

const job = (due) => ({ identifier: 'order', payload: { body: BODY, due }, runAt: new Date(due) });

async function insert(utils, count, due) {
  for (let left = count; left > 0; left -= BULK) {
    await utils.addJobs(Array.from({ length: Math.min(left, BULK) }, () => job(due())));
  }
}

async function many(utils, seconds, batch) {
  let pushed = 0;
  for (const until = now() + seconds * 1000; now() < until; pushed += batch) await insert(utils, batch, () => Date.now() + 3600e3);
  return pushed;
}

/* Measures from the fifth of the jobs that is done to the last. */
async function drain(utils, jobs) {
  await insert(utils, jobs, () => Date.now() - 1000);
  await start();
  const part = Math.floor(jobs / 5);
  while (done < part) await pause(1);
  await ready();
  const before = done;
  while (done < jobs) await pause(1);
  await report({ jobs: jobs - before });
}

/* Pushes at a rate, due after 2 to 6 s; jobs before the end of the warm-up do not count. */
async function lateness(utils, rate, seconds) {
  await start();
  let pushed = 0, noted = 0;
  for (const from = now(); now() - from < (seconds + WARM_UP_SECONDS) * 1000; await pause(20)) {
    if (!late && now() - from > WARM_UP_SECONDS * 1000) {
      await ready();
      late = [];
      noted = worked;
    }
    const wanted = Math.floor((now() - from) * rate / 1000) - pushed;
    pushed += wanted;
    await insert(utils, wanted, () => Date.now() + 2000 + Math.floor(Math.random() * 4000));
  }
  for (const deadline = now() + 30000; worked < pushed && now() < deadline;) await pause(10);
  await report({ jobs: pushed - noted, late_ms: late, missing: pushed - worked });
}

async function main() {
  const utils = await makeWorkerUtils({ pgPool, logger });
  await utils.migrate();
  if (mode === 'many') {
    await many(utils, 1, second);
    await ready();
    await report({ jobs: await many(utils, first, second) });
  }
  if (mode === 'drain') await drain(utils, first);
  if (mode === 'fill') await insert(utils, first, () => Date.now() + 5 * 3600e3);
  if (mode === 'late') await lateness(utils, first, second);
  process.exit(0);
}

main().catch((error) => { console.error(error); process.exit(1); });
