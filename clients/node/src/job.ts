/** Jobs to push, and jobs as the server returns them. */

import { randomBytes } from "node:crypto";
import type { CodecError } from "./codec.js";
import { dateOf } from "./duration.js";

const CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

let random = Buffer.alloc(0); // fetched for many ids: a call for each takes longer than all else of a push

function randomBytesOf(count: number): Buffer {
  if (random.length < count) random = randomBytes(4096);
  const taken = random.subarray(0, count);
  random = random.subarray(count);
  return taken;
}

/** A ULID: 48 bits of milliseconds and 80 random ones. */
export function newId(): string {
  let time = "";
  for (let left = Date.now(), at = 0; at < 10; at++, left = Math.floor(left / 32)) time = CROCKFORD.charAt(left % 32) + time;
  for (const byte of randomBytesOf(16)) time += CROCKFORD.charAt(byte & 31);
  return time;
}

/** The bytes and the content type: bytes as they are, text as UTF-8, nothing as no bytes, anything else as JSON. */
export function bodyOf(body: unknown, contentType?: string): [bytes: Buffer, contentType: string] {
  if (body === undefined) return [Buffer.alloc(0), contentType ?? "application/octet-stream"];
  if (ArrayBuffer.isView(body)) return [Buffer.from(body.buffer, body.byteOffset, body.byteLength), contentType ?? "application/octet-stream"];
  if (body instanceof ArrayBuffer || body instanceof SharedArrayBuffer) return [Buffer.from(body), contentType ?? "application/octet-stream"];
  if (typeof body === "string" && !contentType?.startsWith("application/json")) return [Buffer.from(body), contentType ?? "text/plain; charset=utf-8"];
  const text = JSON.stringify(body) as string | undefined;
  if (text === undefined) throw new TypeError(`a ${typeof body} is no body, give bytes, a text, or what JSON can hold`);
  return [Buffer.from(text), contentType ?? "application/json"];
}

export type PushResult = "created" | "replaced" | "existed";

/** The result of a push. `existed`: nothing was changed. */
export interface Pushed {
  readonly topic: string;
  readonly id: string;
  readonly result: PushResult;
  readonly dueAt: Date | undefined;
}

/** The result of a schedule. `next`: the next fire; undefined if the job has no result. */
export interface Scheduled {
  readonly result: PushResult;
  readonly next: Date | undefined;
}

/** `unknown`: there is no such job, or it has ended and is not kept. */
export type JobState = "delayed" | "retrying" | "ready" | "leased" | "dead" | "finished" | "unknown";

/** A job as it was taken, or as it stands. */
export interface JobFacts {
  readonly topic: string;
  readonly id: string;
  /** To the byte what was pushed. */
  readonly body: Buffer;
  readonly contentType: string;
  readonly meta: Readonly<Record<string, string>>;
  readonly attempt: number;
  /** A number that rises with every delivery of the job: pass it to the systems that you write to, so that they can reject late writes. */
  readonly delivery: number;
  readonly priority: number;
  readonly state: JobState;
  readonly dueAt: Date | undefined;
  /** Proves that you hold the job; empty where you do not. */
  readonly lease: string;
  readonly leaseUntil: Date | undefined;
  readonly lastError: string | undefined;
  /** Name of the consumer that holds the job. */
  readonly consumer: string | undefined;
  /** Leased with a requested cancel: unless the job is acked, it is cancelled when the lease ends. */
  readonly cancelRequested: boolean;
  readonly group?: string | undefined;
  /** The waiting job of the batch of which the job is a member. */
  readonly batch?: { readonly topic: string; readonly id: string } | undefined;
  /** The number of members that have not ended, while the job waits for them. */
  readonly waitsFor?: number | undefined;
  /** Members of a waiting job by their outcome. */
  readonly outcomes?: Readonly<Record<"unfinished" | "acked" | "dead" | "cancelled" | "expired", number>> | undefined;
  /** How a finished job ended. */
  readonly outcome?: "acked" | "cancelled" | "expired" | undefined;
  readonly finishedAt?: Date | undefined;
  /** Milliseconds of the last attempt of a finished job. */
  readonly duration?: number | undefined;
  /** The last progress that the worker reported. */
  readonly progress?: string | undefined;
  /** The result that the worker returned. */
  readonly result?: Buffer | undefined;
  /** The content type of the result. */
  readonly resultType?: string | undefined;
  /** Why the body or the result cannot be decoded. To read it then throws this error. */
  readonly codecError?: CodecError | undefined;
  /** The name of the body in the store of a claim check. */
  readonly storedAs?: string | undefined;
}

export interface Job extends JobFacts {}
export class Job {
  constructor(facts: JobFacts) {
    Object.assign(this, facts);
  }

  get text(): string {
    return this.body.toString();
  }

  /** The body read as JSON. `T` is what you know of it: nothing is checked. */
  json<T = unknown>(): T {
    return JSON.parse(this.text) as T;
  }

  /** The result as text; empty if the job has no result. */
  get resultText(): string {
    return this.result?.toString() ?? "";
  }

  /** The result read as JSON; undefined if the job has no result. `T` is what you know of it: nothing is checked. */
  resultJson<T = unknown>(): T | undefined {
    return this.result?.length ? (JSON.parse(this.resultText) as T) : undefined;
  }

  get traceparent(): string | undefined {
    return this.meta["traceparent"];
  }
}

/** The bytes of a result, which an answer has in base64, as text, or as JSON. */
function resultOf(data: Readonly<Record<string, unknown>>, type: string | undefined): Buffer | undefined {
  if (typeof data["result_base64"] === "string") return Buffer.from(data["result_base64"], "base64");
  return data["result"] === undefined ? undefined : bodyOf(data["result"], type)[0];
}

/** A job of an answer that was asked for with body=base64. */
export function jobOf(data: Readonly<Record<string, unknown>>): Job {
  const text = (member: string, otherwise: string): string => (typeof data[member] === "string" ? data[member] : otherwise);
  const number = (member: string, otherwise: number): number => (typeof data[member] === "number" ? data[member] : otherwise);
  const maybe = (member: string): string | undefined => (typeof data[member] === "string" ? data[member] : undefined);
  return new Job({
    topic: text("topic", ""),
    id: text("id", ""),
    body: Buffer.from(text("body_base64", ""), "base64"),
    contentType: text("content_type", "application/octet-stream"),
    meta: (data["meta"] ?? {}) as Record<string, string>,
    attempt: number("attempt", 0),
    delivery: number("delivery", 0),
    priority: number("priority", 100),
    state: text("state", "leased") as JobState,
    dueAt: dateOf(data["due_at"]),
    lease: text("lease", ""),
    leaseUntil: dateOf(data["lease_until"]),
    lastError: maybe("last_error"),
    consumer: maybe("consumer"),
    cancelRequested: data["cancel_requested"] === true,
    group: maybe("group"),
    batch: data["batch"] as JobFacts["batch"],
    waitsFor: typeof data["waits_for"] === "number" ? data["waits_for"] : undefined,
    outcomes: data["outcomes"] as JobFacts["outcomes"],
    outcome: maybe("outcome") as JobFacts["outcome"],
    finishedAt: dateOf(data["finished_at"]),
    duration: typeof data["duration_ms"] === "number" ? data["duration_ms"] : undefined,
    progress: maybe("progress"),
    result: resultOf(data, maybe("result_type")),
    resultType: maybe("result_type"),
  });
}
