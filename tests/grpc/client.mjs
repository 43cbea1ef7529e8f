// The calls of the service by @grpc/grpc-js: arguments are the address and the folder of the .proto files.
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const [address, protos] = process.argv.slice(2);
const described = loader.loadSync("tarry/v1/queue.proto", { includeDirs: [protos], enums: String, oneofs: true, defaults: true });
const { Queue } = grpc.loadPackageDefinition(described).tarry.v1;
const stub = new Queue(address, grpc.credentials.createInsecure());

function call(method, message, milliseconds = 20000) {
    return new Promise((resolve, reject) => {
        stub[method](message, { deadline: Date.now() + milliseconds }, (error, answer) => (error ? reject(error) : resolve(answer)));
    });
}

for (const id of "ab") await call("Push", { topic: "mail", id, body: Buffer.from("x\0"), meta: { k: "v" } });
const [job] = (await call("Take", { topics: ["mail"] })).jobs;
console.log("taken", job.id, job.body.length, job.meta.k);
await call("Ack", { lease: job.lease });
await call("Ack", { lease: job.lease }).catch((error) => console.log("error", grpc.status[error.code]));
console.log("empty", (await call("Take", { topics: ["none"] }, 2000)).jobs.length);
const work = stub.Work({ deadline: Date.now() + 20000 });
work.on("data", (message) => {
    console.log("work", message.kind, message.job ? message.job.id : "");
    if (!message.job) return;
    work.write({ answer: { verb: "VERB_ACK", answer: { lease: message.job.lease } } });
    work.end();
});
work.on("end", () => console.log("end"));
work.on("error", (error) => console.log("error", error.message));
work.on("status", () => stub.close());
work.write({ hello: { topics: ["mail"], credit: 5, confirm: true } });
