// Calls of @grpc/grpc-js, as adapter.py describes: arguments are the address and repeats.json; TARRY_PROTOS is the folder of the .proto files.
import fs from "node:fs";
import readline from "node:readline";
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const [address, repeats] = process.argv.slice(2);
const described = loader.loadSync("tarry/v1/queue.proto", { includeDirs: [process.env.TARRY_PROTOS], enums: String, longs: String, bytes: String, keepCase: true });
const { Queue } = grpc.loadPackageDefinition(described).tarry.v1;
const options = {
    "grpc.service_config": fs.readFileSync(repeats, "utf8"), "grpc.initial_reconnect_backoff_ms": 100, "grpc.max_reconnect_backoff_ms": 500,
    "grpc.keepalive_time_ms": 1000, "grpc.keepalive_timeout_ms": 2000,
};
const stub = new Queue(address, grpc.credentials.createInsecure(), options);
const streams = new Map();

function show(number, status, rest = "") {
    process.stdout.write(`${number}\t${status}\t${rest}\n`);
}

function fail(number, error) {
    const [details] = error.metadata?.get("grpc-status-details-bin") ?? [];
    show(number, error.code, details ? details.toString("base64") : "");
}

// Durations are objects here, and text in the JSON of protobuf.
function message(text) {
    return JSON.parse(text, (name, value) => {
        if (!/^(delay|ttl|wait|lease_for|keep_finished|wait_at_most|close_within)$/.test(name) || typeof value !== "string") return value;
        const ms = Math.round(Number.parseFloat(value) * 1000);
        return { seconds: Math.floor(ms / 1000), nanos: (ms % 1000) * 1000000 };
    });
}

function perform(number, method, ms, text) {
    const deadline = Date.now() + Number(ms);
    if (method !== "Work") {
        stub[method](message(text), { deadline }, (error, answer) => (error ? fail(number, error) : show(number, 0, JSON.stringify(answer))));
        return;
    }
    const stream = stub.Work({ deadline });
    stream.on("data", (found) => show(number, -1, JSON.stringify(found)));
    stream.on("error", (error) => fail(number, error));
    stream.on("end", () => {});
    stream.on("status", (status) => status.code === grpc.status.OK && show(number, 0));
    streams.set(number, stream);
    stream.write(message(text));
}

for await (const line of readline.createInterface({ input: process.stdin })) {
    const [number, method, ms, text] = line.split("\t");
    const stream = streams.get(number);
    if (!stream) perform(number, method, ms, text);
    else if (text) stream.write(message(text));
    else stream.end();
}
stub.close();
