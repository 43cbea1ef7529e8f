/*
 * node fill.mjs MODULES PORT FROM_MS...: stores job schedulers in a queue of BullMQ, and prints them as docs/schedules.md does, with their
 * next 12 fires after each moment as BullMQ's own parser computes them.
 */
import { createRequire } from "node:module";

const [modules, port, ...from] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { Queue } = require("bullmq");
const { CronExpressionParser } = require("cron-parser");
const queue = new Queue("orders", { connection: { host: "127.0.0.1", port: Number(port) } });
const patterns = ["0 30 2 * * *", "*/5 * * * 1-5", "0 0 9 * * 1", "0 0 0 L * *", "15 10 * * 5L", "0 12 1,15 * *", "30 2 * * *"];
for (const [at, pattern] of patterns.entries()) {
  await queue.upsertJobScheduler(`cron-${at}`, { pattern, tz: at % 2 ? "America/New_York" : "Europe/Berlin" }, { name: "report", data: { at } });
}
await queue.upsertJobScheduler("limited", { pattern: "0 30 2 * * *", tz: "Europe/Berlin", limit: 5 },
  { name: "report", data: { a: 1 }, opts: { attempts: 3, priority: 7, backoff: { type: "fixed", delay: 1000 }, removeOnComplete: true } });
await queue.upsertJobScheduler("poll", { every: 60_000 }, { data: [1] });
await queue.upsertJobScheduler("shifted", { every: 60_000, offset: 5000 });
const fires = {};
for (const { key, pattern, tz } of await queue.getJobSchedulers()) {
  if (!pattern) continue;
  fires[key] = from.map((ms) => CronExpressionParser.parse(pattern, { currentDate: new Date(Number(ms)), tz }).take(12).map((one) => one.getTime()));
}
console.log(JSON.stringify({ rows: await queue.getJobSchedulers(), fires }));
await queue.close();
