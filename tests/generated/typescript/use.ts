/** Uses the client that openapi-generator made for TypeScript. Prints what it received as one JSON object. */
import { readFileSync } from "node:fs";
import * as tarry from "./tarry-api/index.js";

const [topic, bodyFile] = process.argv.slice(2) as [string, string];
const configuration = new tarry.Configuration({ basePath: process.env["TARRY_URL"]! });
const push = new tarry.PushApi(configuration);
const jobs = new tarry.JobsApi(configuration);
const consume = new tarry.ConsumeApi(configuration);
const topics = new tarry.TopicsApi(configuration);
const server = new tarry.ServerApi(configuration);
const seen: Record<string, unknown> = {};

async function refusal(call: Promise<unknown>): Promise<[number, string] | null> {
    try {
        await call;
    } catch (error) {
        if (!(error instanceof tarry.ResponseError)) throw error;
        const problem = tarry.ProblemFromJSON(await error.response.json());
        return [problem.status, problem.code];
    }
    return null;
}

const { settings } = await topics.setTopic({ topic, settings: { leaseFor: "45s", maxAttempts: 3, pushRate: "1000/s" } });
seen["settings"] = [settings.leaseFor, settings.maxAttempts, settings.pushRate];
seen["patched"] = (await topics.patchTopic({ topic, body: { max_attempts: "none" } })).settings.maxAttempts;

seen["pushed"] = (await push.push({ topic, id: "now", body: new Blob([readFileSync(bodyFile)]) })).result;
seen["delayed"] = (await push.push({ topic, id: "later", delay: "1h", priority: 7, maxAttempts: "5", body: new Blob(["later"]) })).state;
seen["listed"] = (await jobs.listJobs({ topic, state: "delayed" })).jobs.map((job) => [job.id, job.state, job.priority]);
seen["due_at"] = Math.floor((await jobs.get({ topic, id: "later" })).dueAt!.getTime() / 1000);

const job = (await consume.take({ topic, max: 1, body: "base64", leaseFor: "30s" }))!.jobs[0]!;
seen["taken"] = [job.id, job.bodyBase64, job.attempt];
seen["delivery"] = job.delivery;
seen["extended"] = (await consume.extend({ lease: [job.lease], leaseFor: "1m" })).results[0]!.result;
seen["acked"] = (await consume.ack({ ackLeases: { leases: [job.lease] } })).results[0]!.result;
seen["acked_again"] = await refusal(consume.ack({ lease: [job.lease] }));

const items: tarry.Item[] = [{ topic, id: "a", body: { n: 1 }, meta: { kind: "x" } }, { topic, id: "b", body: "text" }, { topic, id: "b ad" }];
seen["batch"] = (await push.pushBatch({ item: items })).results.map((result) => result.result);
const [first, second] = (await consume.takeAny({ topic: [topic], max: 2, wait: "5s" }))!.jobs;
seen["bodies"] = [first!.body, first!.meta, second!.body];
const options = { lease: first!.lease, delay: "1h", error: "too early" };
seen["nacked"] = (await consume.nack({ nackLeases: { leases: [options] } })).results[0]!.state;
seen["returned"] = (await consume.returnJobs({ returnLeases: { leases: [second!.lease] } })).results[0]!.state;
seen["cancelled"] = (await jobs.cancel({ topic, id: "later" })).result;
seen["missing"] = await refusal(jobs.get({ topic, id: "later" }));
seen["bad_delay"] = await refusal(push.push({ topic, id: "x", delay: "soon", body: new Blob([]) }));

const { counts } = await topics.topic({ topic });
seen["counts"] = [counts.retrying, counts.ready, counts.leased];
seen["last_error"] = (await jobs.get({ topic, id: "a" })).lastError;
seen["about"] = [(await server.info()).name, (await server.server()).store, (await server.status()).well];
console.log(JSON.stringify(seen));
