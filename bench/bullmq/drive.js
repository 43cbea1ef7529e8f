/*
 * Drives BullMQ and prints one JSON object, like bench/peers/peers.c for the other servers.
 *
 *   node drive.js PORT life  JOBS DELAY_MS            pushed in bulk and worked off at the same time
 *   node drive.js PORT late  RATE SECONDS MIN_MS MAX_MS   so many a second, at fixed times
 *   node drive.js PORT one   RATE SECONDS MIN_MS MAX_MS   the same, each pushed by itself
 *   node drive.js PORT burst JOBS DELAY_MS TIMES       all due at one moment, repeated; one more before, to warm up
 *   node drive.js PORT fill  JOBS DELAY_MS             pushed only: for memory
 *   node drive.js PORT cron  SCHEDULERS                job schedulers that all fire in one minute, for bench/schedules
 *
 * BullMQ at its quickest within its own options: jobs are removed when done, addBulk by
 * hundreds, many parallel jobs in the worker, locks that need no renewal within the run. Lateness is
 * counted from BullMQ's own due time, in whole milliseconds; measurements at fixed times
 * are preceded by a warm-up.
 */
'use strict';

const { Queue, Worker } = require('bullmq');

const [port, mode, ...numbers] = process.argv.slice(2);
const BODY = 'abcdefghijklmnopqrstuvwxyz'.repeat(8).slice(0, 200);
const WARM_UP_SECONDS = 3; // of pushing by the clock, before what is measured
const setting = (name, value) => Number(process.env[name] || value);
const BULK = setting('BULK', 500);
const BULKS_UNDER_WAY = setting('BULKS', 2);
const CONCURRENCY = setting('CONCURRENCY', 200);
const connection = { host: '127.0.0.1', port: Number(port), maxRetriesPerRequest: null };
const now = () => performance.timeOrigin + performance.now();
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const queue = new Queue('orders', {
  connection,
  defaultJobOptions: { removeOnComplete: true, removeOnFail: true },
});
let late = [];
const seen = new Set();
const result = { pushed: 0, acked: 0, early: 0, duplicates: 0 };

async function receive(job) {
  const ms = now() - (job.timestamp + (job.opts.delay || 0));
  late.push(ms);
  if (ms < 0) result.early++;
}

/* Resolves when so many jobs are done. */
function work() {
  const worker = new Worker('orders', receive, {
    connection, concurrency: CONCURRENCY, lockDuration: 600000, stalledInterval: 600000,
  });
  const waiting = [];
  worker.on('completed', (job) => {
    if (seen.has(job.id)) result.duplicates++;
    seen.add(job.id);
    result.acked++;
    result.last = now();
    for (const one of waiting) if (result.acked >= one.count) one.resolve();
  });
  worker.on('error', (error) => { result.problem = String(error); });
  return { worker, done: (count) => new Promise((resolve) => waiting.push({ count, resolve })) };
}

const jobs = (count, delay) => Array.from({ length: count }, () => (
  { name: 'job', data: BODY, opts: { delay: delay() } }));

async function push(count, delay) {
  const one = async () => {
    while (result.pushed < count) {
      const some = Math.min(BULK, count - result.pushed);
      result.pushed += some;
      await queue.addBulk(jobs(some, delay));
    }
  };
  await Promise.all(Array.from({ length: BULKS_UNDER_WAY }, one));
}

/* Ticks with all that the clock asks for, without waiting for answers: every 5 ms in bulk, or every ms one by one. */
async function pushByClock(rate, seconds, delay, inBulk) {
  const begun = now(), before = result.pushed, answers = [];
  while (now() - begun < seconds * 1000) {
    const wanted = Math.floor((now() - begun) * rate / 1000) - (result.pushed - before);
    if (wanted > 0) {
      result.pushed += wanted;
      if (inBulk) answers.push(queue.addBulk(jobs(wanted, delay)));
      else for (const job of jobs(wanted, delay)) answers.push(queue.add(job.name, job.data, job.opts));
    }
    await pause(inBulk ? 5 : 1);
  }
  await Promise.all(answers);
}

/* Job schedulers of one minute. Prints the seconds from that minute until the last job is done. */
async function cron(count) {
  const dueMs = (Math.floor((Date.now() + 30000 + count) / 60000) + 1) * 60000;
  const due = new Date(dueMs);
  const pattern = `${due.getUTCMinutes()} ${due.getUTCHours()} ${due.getUTCDate()} ${due.getUTCMonth() + 1} *`;
  let next = 0;
  const set = async () => {
    while (next < count) await queue.upsertJobScheduler(`plan-${next++}`, { pattern, tz: 'UTC' }, { name: 'job', data: BODY, opts: {} });
  };
  await Promise.all(Array.from({ length: 50 }, set));
  if (Date.now() > dueMs - 5000) throw new Error('the schedulers were set too late, give fewer');
  await pause(dueMs - Date.now() - 4000);
  const consumer = work();
  await consumer.worker.waitUntilReady();
  await consumer.done(count);
  console.log(JSON.stringify({ seconds: (result.last - dueMs) / 1000 }));
  process.exit(0);
}

async function main() {
  await queue.waitUntilReady();
  if (mode === 'cron') await cron(Number(numbers[0]));
  const [first, second, third, fourth] = numbers.map(Number);
  const consumer = mode === 'fill' ? null : work();
  if (consumer) await consumer.worker.waitUntilReady();
  const begun = now();
  if (mode === 'late' || mode === 'one') {
    const delay = () => third + Math.floor(Math.random() * (fourth - third + 1));
    await pushByClock(first, WARM_UP_SECONDS, delay, mode === 'late');
    await consumer.done(result.pushed);
    late = [];
    await pushByClock(first, second, delay, mode === 'late');
  } else if (mode === 'burst') {
    for (let time = 0; time <= third; time++) {
      if (time === 1) late = [];
      await push((time + 1) * first, () => second);
      await consumer.done(result.pushed);
    }
  } else {
    await push(first, () => second);
  }
  const pushedSeconds = (now() - begun) / 1000;
  if (consumer && result.acked < result.pushed) {
    await Promise.race([consumer.done(result.pushed), pause(120000).then(() => { result.problem = 'gave up waiting'; })]);
  }
  result.pushes_per_s = Math.round(result.pushed / pushedSeconds);
  result.lives_per_s = Math.round(result.acked / (((result.last || now()) - begun) / 1000));
  result.missing = consumer ? result.pushed - result.acked : 0;
  late.sort((a, b) => a - b);
  const at = (part) => Number((late[Math.min(late.length - 1, Math.floor(part * late.length))] || 0).toFixed(3));
  result.late_ms = { p50: at(0.5), p99: at(0.99), 'p99.9': at(0.999), max: at(1) };
  console.log(JSON.stringify(result));
  process.exit(0);
}

main().catch((error) => { console.error(String(error && error.stack || error)); process.exit(1); });
