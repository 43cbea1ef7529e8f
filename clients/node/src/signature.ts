/** Whether a callback was sent by one's own server: Standard Webhooks. */

import { createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { BadSignature } from "./errors.js";
import { Job } from "./job.js";

const TOLERANCE_S = 300;
const META = "tarry-meta-";

export interface VerifyOptions {
  /** Milliseconds since 1970, for tests. */
  now?: number | undefined;
}

function read(headers: Headers | IncomingHttpHeaders | Readonly<Record<string, string>>): Map<string, string> {
  const pairs = headers instanceof Headers ? [...headers] : Object.entries(headers);
  return new Map(pairs.map(([name, value]) => [name.toLowerCase(), Array.isArray(value) ? value.join(", ") : (value ?? "")]));
}

function isRight(secret: string, message: string, body: Uint8Array, signatures: readonly Buffer[]): boolean {
  const text = secret.replace(/^whsec_/, "");
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text)) throw new TypeError("a secret is not base64, give it as in the policy file");
  const digest = createHmac("sha256", Buffer.from(text, "base64")).update(message).update(body).digest("base64");
  const expected = Buffer.from(`v1,${digest}`);
  return signatures.filter((one) => one.length === expected.length && timingSafeEqual(one, expected)).length > 0;
}

/**
 * The job of a callback; else BadSignature. `secrets`: one or several (while they change), as in the policy file, with or without `whsec_`.
 * `body`: the bytes as they came. The signature covers id, time and body; trust the other headers, and so the job's topic and id, only on https.
 */
export function verify(
  secrets: string | readonly string[],
  headers: Headers | IncomingHttpHeaders | Readonly<Record<string, string>>,
  body: Uint8Array | string,
  options: VerifyOptions = {},
): Job {
  const found = read(headers);
  const bytes = typeof body === "string" ? Buffer.from(body) : Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const stamp = found.get("webhook-timestamp") ?? "";
  if (!/^\d{1,15}$/.test(stamp) || Math.abs((options.now ?? Date.now()) / 1000 - Number(stamp)) > TOLERANCE_S) {
    throw new BadSignature("the time stamp is missing or too far away");
  }
  const message = `${found.get("webhook-id") ?? ""}.${stamp}.`;
  const signatures = (found.get("webhook-signature") ?? "").split(" ").map((one) => Buffer.from(one));
  const right = (typeof secrets === "string" ? [secrets] : secrets).filter((secret) => isRight(secret, message, bytes, signatures));
  if (right.length === 0) throw new BadSignature("no signature is right");
  return new Job({
    topic: found.get("tarry-topic") ?? "",
    id: found.get("tarry-id") ?? "",
    body: bytes,
    contentType: found.get("content-type") ?? "application/octet-stream",
    meta: Object.fromEntries([...found].filter(([name]) => name.startsWith(META)).map(([name, value]) => [name.slice(META.length), value])),
    attempt: Number(found.get("tarry-attempt") ?? 0),
    delivery: Number(found.get("tarry-delivery") ?? 0),
    priority: 100,
    state: "leased",
    dueAt: undefined,
    lease: "",
    leaseUntil: undefined,
    lastError: undefined,
    consumer: undefined,
    cancelRequested: false,
  });
}
