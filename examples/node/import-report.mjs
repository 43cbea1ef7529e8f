// A report is sent when all rows of an import have been loaded: node import-report.mjs [SECONDS [ROWS]], 0 seconds later and 20,000 rows by default.

import { Client, Worker } from "@tarry/client";

const delay = Number(process.argv[2] ?? 0) * 1000;
const rows = Number(process.argv[3] ?? 20_000);
const client = new Client();

function load(job) {
  job.json().row; // your own handler writes it to a database
}

function report(job) {
  console.log(`report: ${job.meta["tarry-batch"]}`);
  void worker.stop(); // your own worker runs until SIGTERM
}

await client.push("reports", "", { id: "import-7", waits: true, delay });
const items = Array.from({ length: rows }, (_, row) => ({ topic: "rows", body: { row }, batch: { topic: "reports", id: "import-7" } }));
await client.pushMany(items);
await client.closeBatch("reports", "import-7");
console.log(`${rows} rows pushed`);
const worker = new Worker(client, { rows: load, reports: report });
await worker.run();
