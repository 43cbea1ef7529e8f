// A document that is saved again and again is indexed once, when it has been quiet for a while: node debounce.mjs [SECONDS], 5 by default.

import { Client, Worker } from "@tarry/client";

const delay = Number(process.argv[2] ?? 5) * 1000;
const client = new Client();

// The job of the save before, if it still waits, is replaced: its body, and when it is due.
async function save(version) {
  await client.push("reindex", { version }, { id: "doc-7", delay, onConflict: "replace" });
  console.log(`saved version ${version}`);
}

function index(job) {
  console.log(`indexing version ${job.json().version}`);
  void worker.stop(); // your own worker runs until SIGTERM
}

for (const version of [1, 2, 3]) await save(version);
const worker = new Worker(client, "reindex", index);
await worker.run();
