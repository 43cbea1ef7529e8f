// An order is charged, then shipped, then the customer gets a mail: node checkout.mjs [SECONDS], the mail 0 seconds after the shipment by default.

import { Client, Worker } from "@tarry/client";

const delay = Number(process.argv[2] ?? 0) * 1000;
const client = new Client();

function step(job) {
  console.log(`${job.topic} ${job.id}`);
  if (job.topic === "mail") void worker.stop(); // your own worker runs until SIGTERM
}

const charge = { topic: "charge", id: "1001" };
const ship = { topic: "ship", id: "1001", members: [charge] };
await client.pushBatch({ topic: "mail", id: "1001", delay }, [ship]);
console.log("order 1001 placed");
const worker = new Worker(client, { charge: step, ship: step, mail: step });
await worker.run();
