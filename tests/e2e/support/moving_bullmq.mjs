/*
 * node moving_bullmq.mjs MODULES PORT: a queue of BullMQ's own with one job of each kind that may be pending.
 * MODULES is where npm has put BullMQ.
 */
import { createRequire } from 'node:module';

const [modules, port] = process.argv.slice(2);
const { Queue, Worker } = createRequire(`${modules}/`)('bullmq');
const connection = { host: '127.0.0.1', port: Number(port), maxRetriesPerRequest: null };
const queue = new Queue('orders', { connection });

await queue.add('fails', { n: 0 }, { jobId: 'gave-up', attempts: 2, backoff: { type: 'fixed', delay: 10 } });
const worker = new Worker('orders', async () => { throw new Error('bank is down'); }, { connection });
await new Promise((resolve) => { worker.on('failed', (job) => { if (job.attemptsMade >= 2) resolve(); }); });
await worker.close();
await queue.pause();
await queue.add('first', { text: 'ü' });
await queue.add('second', [1, 2.5], { attempts: 5, backoff: { type: 'exponential', delay: 1000 } });
await queue.add('urgent', { n: 3 }, { priority: 7, jobId: 'with blank' });
await queue.add('later', { n: 4 }, { delay: 315360000000, jobId: 'later-1', attempts: 3, backoff: 5000 });
await queue.upsertJobScheduler('nightly', { every: 86400000, startDate: Date.now() + 3600000 }, { name: 'night', data: { n: 5 } });
await queue.close();
