// A reminder for a meeting that is moved: node reminder.mjs [SECONDS], 3600 by default.

import { Client, Worker } from "@tarry/client";

const delay = Number(process.argv[2] ?? 3600) * 1000;
const client = new Client();

function remind(job) {
  console.log(`reminder: ${job.text}`);
  void worker.stop(); // your own worker runs until SIGTERM
}

const now = Date.now();
await client.push("reminders", "meeting with Ada", { id: "meeting-7", at: now + 24 * delay });
console.log("reminder set");
await client.reschedule("reminders", "meeting-7", { at: new Date(now + delay) });
console.log("meeting moved, reminder moved");
const worker = new Worker(client, "reminders", remind);
await worker.run();
