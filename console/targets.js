// Settings of `deliver` that only some kinds of targets have. Made by scripts/targets --write.

/** @type {import("./form.js").Field[]} */
export const KIND_FIELDS = [
    { name: "exchange", of: /^amqps?:/ },
    { name: "routing_key", standard: "{topic}", of: /^amqps?:/ },
    { name: "topic", standard: "{topic}", of: /^(kafka|rocketmq|mqtt)s?:/ },
    { name: "key", standard: "{id}", of: /^kafkas?:/ },
    { name: "destination", standard: "/queue/{topic}", of: /^stomps?:/ },
    { name: "tags", of: /^rocketmqs?:/ },
    { name: "keys", standard: "{id}", of: /^rocketmqs?:/ },
    { name: "subject", standard: "{topic}", of: /^natss?:/ },
    { name: "region", of: /^awss?:/ },
    { name: "message_group", standard: "{topic}", of: /^awss?:/ },
    { name: "deduplication", of: /^awss?:/ },
    { name: "expiry", of: /^mqtts?:/ },
];
