// A call that fails is made again later: node call-retry.mjs [SECONDS], 10 by default. The service is here as well: it answers 503 twice, then 200.

import { once } from "node:events";
import { createServer } from "node:http";
import { Client, Retry, Worker } from "@tarry/client";

const after = Number(process.argv[2] ?? 10) * 1000;

let calls = 0;
const service = createServer((_, response) => response.writeHead(++calls <= 2 ? 503 : 200).end());
service.listen(0, "127.0.0.1");
await once(service, "listening");

async function call(job, { signal }) {
  const { status } = await fetch(job.json().url, { method: "POST", signal });
  if (status === 503) {
    console.log(`call ${job.attempt}: 503, again later`);
    throw new Retry(after, "the service answered 503");
  }
  if (status !== 200) throw new Error(`the service answered ${status}`); // tried again by the job's own backoff
  console.log(`call ${job.attempt}: 200, done`);
  void worker.stop(); // your own worker runs until SIGTERM
}

const client = new Client();
await client.push("calls", { url: `http://127.0.0.1:${service.address().port}/` });
const worker = new Worker(client, "calls", call);
await worker.run();
service.close();
service.closeAllConnections();
