// An order that is not paid in time is closed: node order-timeout.mjs [SECONDS], 1800 by default.

import { Client, Worker } from "@tarry/client";

const delay = Number(process.argv[2] ?? 1800) * 1000;
const client = new Client();

// The job has the order's own number: the order number is enough to cancel it.
async function place(order) {
  await client.push("orders", { order }, { id: order, delay });
  console.log(`order ${order} placed`);
}

async function pay(order) {
  if (await client.cancel("orders", order)) console.log(`order ${order} paid, nothing to close`);
}

function close(job) {
  console.log(`order ${job.json().order} closed: not paid in time`);
  void worker.stop(); // your own worker runs until SIGTERM
}

await place("1001");
await place("1002");
await pay("1001");
const worker = new Worker(client, "orders", close);
await worker.run();
