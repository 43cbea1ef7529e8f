/** The calls of a server, one method each. */

import { readFileSync } from "node:fs";
import type { AgentOptions } from "node:https";
import { decodeJob, type Codec, type Encoding } from "./codec.js";
import { dateOf, durationText, milliseconds, momentText, now, type Duration, type Moment } from "./duration.js";
import { Conflict, errorOf, LeaseEnded, NotFound, TarryError, Unavailable } from "./errors.js";
import { bodyOf, Job, jobOf, newId, type JobState, type Pushed, type PushResult, type Scheduled } from "./job.js";
import { FIRST_PAUSE_MS, jitter, LONGEST_PAUSE_MS, Transport, type Call, type Json } from "./transport.js";

const ITEMS_MAX = 1_000; // of a request
const BYTES_MAX = 12 << 20; // of a request that pushes; the server takes 16 MiB
export const LEASES_MAX = 1_000;
const RESULTS_BYTES_MAX = 1 << 19; // of a request that acks; the server takes 1 MiB
const PROGRESS_BYTES_MAX = 256;

export interface ClientOptions {
  /** URL of the server; several, separated by commas, are tried in turn. Default: TARRY_URL, then http://127.0.0.1:8279. */
  url?: string | undefined;
  /** Default: the contents of the file TARRY_TOKEN_FILE, then TARRY_TOKEN. */
  token?: string | undefined;
  /** Timeout of one request, added to the `wait` of a take. Default: 10 s. */
  timeout?: Duration | undefined;
  /** Time for which a call is retried before its failure is reported. Default: 30 s. */
  retryFor?: Duration | undefined;
  /** For https: `ca`, `cert`, `key` and so on. */
  tls?: AgentOptions | undefined;
  /** Of bodies and results. */
  codec?: Codec | undefined;
}

export interface CallOptions {
  /** Aborts the request immediately. */
  signal?: AbortSignal | undefined;
}

export interface PushOptions {
  /** Default: a new ULID, pushed with `onConflict` keep. */
  id?: string | undefined;
  delay?: Duration | undefined;
  at?: Moment | undefined;
  /** 0 to 65535; 0 is delivered first. */
  priority?: number | undefined;
  ttl?: Duration | undefined;
  lease?: Duration | undefined;
  maxAttempts?: number | undefined;
  /** "fixed:10s", "exp:1s..10m", or "list:10s,1m,1h". */
  backoff?: string | undefined;
  onConflict?: "replace" | "keep" | "reject" | "after" | undefined;
  /** If a push to the topic had the same text within `onceFor`, nothing changes, even if its job has ended. The server then generates a missing id. */
  once?: string | undefined;
  /** Default: 5 minutes. */
  onceFor?: Duration | undefined;
  /** How long the server keeps the job and its result after its end. Default: the setting of the topic. */
  keepFinished?: Duration | undefined;
  /** Groups, such as the tenants of a service, are served fairly and may have limits. */
  group?: string | undefined;
  /** The waiting job of the batch of which this job is a member. */
  batch?: JobName | undefined;
  /** A member of the batch that runs, or its lease: it may add members after the close. */
  parent?: string | Job | undefined;
  /** True: the job becomes due when its batch is closed and all members have ended. */
  waits?: boolean | undefined;
  /** The batch of this waiting job closes itself when it has this number of members. */
  members?: number | undefined;
  /** The waiting job becomes due after this time in any case. Default: 7 days. */
  waitAtMost?: Duration | undefined;
  /** The waiting job is dead if its batch is not closed within this time. Default: 1 hour. */
  closeWithin?: Duration | undefined;
  /** Effect of a dead member on the waiting job. Default: go. */
  onDead?: "go" | "hold" | "stop" | undefined;
  callback?: string | undefined;
  meta?: Readonly<Record<string, string>> | undefined;
  contentType?: string | undefined;
  traceparent?: string | undefined;
  tracestate?: string | undefined;
}

export interface PushItem extends PushOptions {
  topic: string;
  body?: unknown;
}

/** A job of `pushBatch`. Its own members make it a waiting job. */
export interface BatchItem extends Omit<PushItem, "members"> {
  members?: readonly BatchItem[] | undefined;
}

/** The result of `pushBatch`: one result per job, each waiting job before its members. */
export interface BatchResult {
  results: (Pushed | TarryError)[];
  /** False: a job was rejected, so a batch stays open. */
  isClosed: boolean;
}

export interface MembersOptions extends CallOptions {
  /** Only members with this outcome. */
  outcome?: "unfinished" | "acked" | "dead" | "cancelled" | "expired" | undefined;
  /** With the results of finished members. */
  results?: boolean | undefined;
  /** Members per request. Default: 100. */
  page?: number | undefined;
}

export interface PushAndWaitOptions extends PushOptions, CallOptions {
  /** How long to wait for the end of the job, up to 4 minutes. Default: 30 s. */
  wait?: Duration | undefined;
}

export interface WaitOptions extends CallOptions {
  /** True: until one of the jobs has ended. Default: until all have. */
  any?: boolean | undefined;
  /** Up to 4 minutes. Default: 30 s. */
  timeout?: Duration | undefined;
}

/** A job to wait for: a pushed or taken one, or its names. */
export interface JobName {
  readonly topic: string;
  readonly id: string;
}

/** The result of one job: bytes, a text, or what becomes JSON. */
export interface ResultOptions {
  result?: unknown;
  contentType?: string | undefined;
}

export interface AgainOptions extends CallOptions {
  /** Default: the old body. */
  body?: unknown;
  delay?: Duration | undefined;
  at?: Moment | undefined;
  priority?: number | undefined;
  contentType?: string | undefined;
}

/** A plan, and the jobs that it pushes. */
export interface ScheduleSpec {
  topic: string;
  body?: unknown;
  contentType?: string | undefined;
  /** An expression, or several. */
  cron?: string | readonly string[] | undefined;
  /** An interval in place of `cron`. */
  every?: Duration | undefined;
  /** Default: UTC. */
  zone?: string | undefined;
  /** Also changes a schedule of another owner. */
  takeOver?: boolean | undefined;
  /** Other members of the specification in docs/schedules.md, as the API has them: { overlap: "skip", max_attempts: 3 }. */
  members?: Readonly<Record<string, unknown>> | undefined;
}

export interface RescheduleOptions extends CallOptions {
  delay?: Duration | undefined;
  at?: Moment | undefined;
  priority?: number | undefined;
}

export interface ListOptions extends CallOptions {
  state?: JobState | undefined;
  idPrefix?: string | undefined;
  bodies?: boolean | undefined;
  /** Jobs per request. Default: 100. */
  page?: number | undefined;
}

export interface TakeOptions extends CallOptions {
  /** 1. */
  max?: number | undefined;
  wait?: Duration | undefined;
  lease?: Duration | undefined;
  /** Name of the consumer, shown as the holder; at most 64 printable ASCII characters. */
  consumer?: string | undefined;
}

export interface AckOptions extends CallOptions, ResultOptions {
  /** How long no job of its group is delivered; without a group, of its topic. */
  hold?: Duration | undefined;
}

export interface ExtendOptions extends CallOptions {
  lease?: Duration | undefined;
  /** How far the job is, up to 256 bytes of text; shown with the job. */
  progress?: string | undefined;
}

/** A nack with a result must be final; the result is sent to those that wait for the job. */
export interface NackOptions extends AckOptions {
  delay?: Duration | undefined;
  error?: string | undefined;
  final?: boolean | undefined;
}

/** A lease, a taken job, or several of them. */
export type Leases = string | Job | readonly (string | Job)[];

/** Results of leases: null for each success, otherwise the error. */
export type LeaseResults = (TarryError | null)[];

/** A server, or several that share a store. Its connections keep no process alive. */
export class Client {
  /** @internal */
  readonly transport: Transport;
  /** @internal */
  readonly codec: Codec | undefined;

  constructor(options: string | ClientOptions = {}) {
    const given = typeof options === "string" ? { url: options } : options;
    const url = given.url || process.env["TARRY_URL"] || "http://127.0.0.1:8279";
    this.transport = new Transport(url, tokenOf(given.token), milliseconds(given.timeout ?? "10s"), milliseconds(given.retryFor ?? "30s"), given.tls ?? {});
    this.codec = given.codec;
  }

  /** Closes all connections. Calls in progress fail, and so do later ones. */
  close(): void {
    this.transport.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** Pushes a job. Without an id the client generates one, so that a repeated try does not create a second job. */
  async push(topic: string, body?: unknown, options: PushOptions & CallOptions = {}): Promise<Pushed> {
    const [result] = await this.#push([await this.#item({ ...options, topic, body })], options.signal);
    if (result instanceof TarryError) throw result;
    return result as Pushed;
  }

  /**
   * Pushes a job and waits for its end. Returns the job with its outcome and result, or as it is after the wait. If the answer is lost, the call is
   * repeated, and the wait begins again; a job that was acked in between runs twice, unless its topic has a dedup_window.
   */
  async pushAndWait(topic: string, body?: unknown, options: PushAndWaitOptions = {}): Promise<Job> {
    const wait = options.wait ?? "30s";
    const [bytes, contentType] = await encoded(this.codec, body, options.contentType);
    const members = itemMembers(topic, options);
    const { id } = members;
    if (id === undefined) throw new TypeError("a push that waits needs an id if it has a once");
    const query: [string, string][] = [];
    for (const [name, value] of Object.entries(members)) if (value !== undefined && !NO_OPTIONS.includes(name)) query.push([name, String(value)]);
    query.push(["wait", durationText(wait)]);
    const headers: Record<string, string> = {};
    for (const [name, value] of Object.entries(members.meta ?? {})) headers[TRACES.includes(name) ? name : `Tarry-Meta-${name}`] = Buffer.from(value).toString("latin1");
    let mayBeDone = false;
    let left = milliseconds(wait);
    const began = now();
    try {
      const answer = await this.#long(wait, { method: "PUT", path: pathOf(topic, "jobs", id), query, body: bytes, contentType, headers, onDoubt: () => (mayBeDone = true), signal: options.signal });
      if ("attempt" in answer) {
        const job = await decodeJob(jobOf(answer), this.codec);
        left -= now() - began;
        if (job.state === "finished" || job.state === "dead" || left <= 0) return job; // a push that is not the first with its once does not wait
      }
    } catch (fault) {
      // It existed, has ended, and is not kept; or an earlier try has pushed it, and a worker holds it.
      if (!(fault instanceof NotFound || (mayBeDone && fault instanceof Conflict && fault.code === "leased"))) throw fault;
    }
    const [job] = await this.wait({ topic, id }, { timeout: left, signal: options.signal });
    return job as Job;
  }

  /**
   * Waits until all of up to 1,000 jobs have ended, or any. Returns each as it is then, in the given order: "finished" or "dead" if it has ended, "unknown" if there
   * is no such job. A job that finished before the call is found only if its topic keeps finished jobs.
   */
  async wait(jobs: JobName | readonly JobName[], options: WaitOptions = {}): Promise<Job[]> {
    const names = (Array.isArray(jobs) ? (jobs as readonly JobName[]) : [jobs as JobName]).map(({ topic, id }) => ({ topic, id }));
    const wait = options.timeout ?? "30s";
    const body = JSON.stringify({ jobs: names, for: options.any ? "any" : "all", wait: durationText(wait) });
    const answer = await this.#long(wait, { method: "POST", path: "/v1/wait", query: [["body", "base64"]], body, signal: options.signal });
    const found = new Map<string, Job>();
    for (const one of objectsOf(answer["jobs"])) found.set(JSON.stringify([one["topic"], one["id"]]), await decodeJob(jobOf(one), this.codec));
    return names.map(({ topic, id }) => found.get(JSON.stringify([topic, id])) ?? jobOf({ topic, id, state: "unknown" }));
  }

  /** A call that the server answers after the wait at the latest. */
  #long(wait: Duration, call: Call): Promise<Json> {
    const ms = milliseconds(wait);
    return this.transport.call({ ...call, timeout: ms + this.transport.timeout, retryFor: ms + this.transport.retryFor, isAhead: true });
  }

  /**
   * Pushes many jobs. A refused job has an error in its place and does not affect the others. If the first request fails as a whole, its error
   * is thrown. The error of a later request is in the place of all remaining jobs, so that the results of the others are not lost.
   */
  async pushMany(items: Iterable<PushItem>, options: CallOptions = {}): Promise<(Pushed | TarryError)[]> {
    const texts: string[] = [];
    for (const item of items) texts.push(await this.#item(item));
    const results: (Pushed | TarryError)[] = [];
    while (results.length < texts.length) {
      try {
        results.push(...(await this.#push(chunk(texts, results.length), options.signal)));
      } catch (fault) {
        if (results.length === 0 || !(fault instanceof TarryError)) throw fault;
        results.push(...new Array<TarryError>(texts.length - results.length).fill(fault));
      }
    }
    return results;
  }

  /** Pushes a waiting job and up to 999 members in one call and closes the batch. Members may have `members`, so a chain is one call. */
  async pushBatch(job: PushItem, members: readonly BatchItem[], options: CallOptions = {}): Promise<BatchResult> {
    const texts = await Promise.all(members.map((member) => this.#batchItem(member)));
    const body = `{"job":${await this.#item(job)},"members":[${texts.join(",")}]}`;
    const answer = await this.transport.call({ method: "POST", path: "/v1/batches", body, signal: options.signal });
    return { results: resultsOf(answer).map(pushedOf), isClosed: answer["closed"] === true };
  }

  async #batchItem({ members, ...item }: BatchItem): Promise<string> {
    const text = await this.#item(item);
    if (!members) return text;
    const texts = await Promise.all(members.map((member) => this.#batchItem(member)));
    return `${text.slice(0, -1)},"members":[${texts.join(",")}]}`;
  }

  /** Closes the batch of a waiting job: it gets no more members. */
  async closeBatch(topic: string, id: string, options: CallOptions = {}): Promise<void> {
    let mayBeDone = false;
    try {
      await this.transport.call({ method: "POST", path: pathOf(topic, "jobs", id, "close"), onDoubt: () => (mayBeDone = true), signal: options.signal });
    } catch (fault) {
      if (!(mayBeDone && fault instanceof NotFound)) throw fault; // an earlier try may have closed it, and the job has ended since
    }
  }

  /** Cancels a waiting job and its members. Consumers that hold members are notified, as by requestCancel(). Returns false if the job does not exist. */
  async cancelBatch(topic: string, id: string, options: CallOptions = {}): Promise<boolean> {
    let mayBeDone = false;
    return (await this.#cancel(topic, id, { ...options, query: [["members", "true"]], onDoubt: () => (mayBeDone = true) })) !== null || mayBeDone;
  }

  /** Returns the members of a batch; pages are requested while you iterate. Finished members are found if they are kept. */
  async *members(topic: string, id: string, options: MembersOptions = {}): AsyncGenerator<Job, void, undefined> {
    const query: [string, string][] = [["limit", String(options.page ?? 100)]];
    if (options.outcome) query.push(["outcome", options.outcome]);
    if (options.results) query.push(["results", "true"]);
    yield* this.#pages("members", { method: "GET", path: pathOf(topic, "jobs", id, "members"), query, signal: options.signal });
  }

  async #item(item: PushItem): Promise<string> {
    return itemText(item, ...(await encoded(this.codec, item.body, item.contentType)));
  }

  /** Retries items that the server had no room for (429, 503), like a call. */
  async #push(texts: readonly string[], signal: AbortSignal | undefined): Promise<(Pushed | TarryError)[]> {
    const limit = now() + this.transport.retryFor;
    const results = new Array<Pushed | TarryError>(texts.length);
    let left = [...texts.keys()];
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
      const body = `[${left.map((at) => texts[at]).join(",")}]`;
      const found = resultsOf(await this.transport.call({ method: "POST", path: "/v1/jobs", body, signal }));
      left.forEach((at, n) => (results[at] = pushedOf(found[n] ?? {})));
      left = left.filter((at) => results[at] instanceof Unavailable);
      const wait = jitter(pause);
      if (left.length === 0 || now() + wait > limit) return results;
      await this.transport.pause(wait, signal);
    }
  }

  /** Returns false if the job does not exist. A job that a consumer holds cannot be cancelled (Conflict); see requestCancel(). */
  async cancel(topic: string, id: string, options: CallOptions = {}): Promise<boolean> {
    let mayBeDone = false;
    return (await this.#cancel(topic, id, { ...options, onDoubt: () => (mayBeDone = true) })) !== null || mayBeDone;
  }

  /** "requested": a consumer holds the job. The server notifies it, and cancels the job unless it acks. Null: the job does not exist. */
  requestCancel(topic: string, id: string, options: CallOptions = {}): Promise<"cancelled" | "requested" | null> {
    return this.#cancel(topic, id, { ...options, query: [["request", "true"]] });
  }

  async #cancel(topic: string, id: string, how: Partial<Call>): Promise<"cancelled" | "requested" | null> {
    try {
      const answer = await this.transport.call({ ...how, method: "DELETE", path: pathOf(topic, "jobs", id) });
      return answer["result"] === "requested" ? "requested" : "cancelled";
    } catch (fault) {
      if (fault instanceof NotFound) return null;
      throw fault;
    }
  }

  /** Returns the new due time. */
  async reschedule(topic: string, id: string, options: RescheduleOptions): Promise<Date | undefined> {
    const query: [string, string][] = [];
    if (options.delay !== undefined) query.push(["delay", durationText(options.delay)]);
    if (options.at !== undefined) query.push(["at", momentText(options.at)]);
    if (options.priority !== undefined) query.push(["priority", String(options.priority)]);
    return dateOf((await this.transport.call({ method: "PATCH", path: pathOf(topic, "jobs", id), query, signal: options.signal }))["due_at"]);
  }

  /** Makes the job due now. */
  async run(topic: string, id: string, options: CallOptions = {}): Promise<void> {
    await this.transport.call({ method: "POST", path: pathOf(topic, "jobs", id, "run"), signal: options.signal });
  }

  /** Returns null if the job does not exist. */
  async get(topic: string, id: string, options: CallOptions = {}): Promise<Job | null> {
    try {
      return await decodeJob(jobOf(await this.transport.call({ method: "GET", path: pathOf(topic, "jobs", id), query: [["body", "base64"]], signal: options.signal })), this.codec);
    } catch (fault) {
      if (fault instanceof NotFound) return null;
      throw fault;
    }
  }

  /** Returns all jobs by due time; pages are requested while you iterate: for await (const job of client.list("orders")). */
  async *list(topic: string, options: ListOptions = {}): AsyncGenerator<Job, void, undefined> {
    const query: [string, string][] = [["limit", String(options.page ?? 100)]];
    if (options.state) query.push(["state", options.state]);
    if (options.idPrefix) query.push(["id_prefix", options.idPrefix]);
    if (options.bodies) query.push(["body", "base64"]);
    yield* this.#pages("jobs", { method: "GET", path: pathOf(topic, "jobs"), query, signal: options.signal });
  }

  async *#pages(name: "jobs" | "members", call: Call): AsyncGenerator<Job, void, undefined> {
    for (let cursor: string | undefined = ""; cursor !== undefined; ) {
      let answer: Json;
      try {
        const at: [string, string][] = cursor ? [["cursor", cursor]] : [];
        answer = await this.transport.call({ ...call, query: [...(call.query ?? []), ...at] });
      } catch (fault) {
        if (fault instanceof NotFound) return;
        throw fault;
      }
      for (const job of objectsOf(answer[name])) yield await decodeJob(jobOf(job), this.codec);
      cursor = typeof answer["cursor"] === "string" ? answer["cursor"] : undefined;
    }
  }

  /** Creates or replaces a schedule that pushes a job each time it fires. The same specification again changes nothing. */
  async schedule(name: string, spec: ScheduleSpec, options: CallOptions = {}): Promise<Scheduled> {
    const query: [string, string][] = spec.takeOver ? [["take_over", "true"]] : [];
    const answer = await this.transport.call({ method: "PUT", path: schedulePath(name), query, body: await specText(spec, this.codec), signal: options.signal });
    return { result: String(answer["result"]) as PushResult, next: dateOf(answer["next"]) };
  }

  /** Deletes a schedule; its jobs that are due stay. Returns false if there is no such schedule. */
  async unschedule(name: string, options: CallOptions = {}): Promise<boolean> {
    let mayBeDone = false;
    try {
      await this.transport.call({ method: "DELETE", path: schedulePath(name), onDoubt: () => (mayBeDone = true), signal: options.signal });
      return true;
    } catch (fault) {
      if (fault instanceof NotFound) return mayBeDone; // an earlier try may have done it
      throw fault;
    }
  }

  /** Returns ready jobs, topics in the given order. Never retried automatically: a call whose answer was lost may hold jobs until their lease ends. */
  async take(topics: string | readonly string[], options: TakeOptions = {}): Promise<Job[]> {
    const jobs = await this.takeEncoded(topics, options);
    for (const job of jobs) await decodeJob(job, this.codec);
    return jobs;
  }

  /** @internal */
  async takeEncoded(topics: string | readonly string[], options: TakeOptions): Promise<Job[]> {
    const wait = options.wait ?? 0;
    const query: [string, string][] = (typeof topics === "string" ? [topics] : topics).map((topic) => ["topic", topic]);
    query.push(["max", String(options.max ?? 1)], ["wait", durationText(wait)], ["body", "base64"]);
    if (options.lease !== undefined) query.push(["lease_for", durationText(options.lease)]);
    if (options.consumer) query.push(["consumer", options.consumer]);
    const timeout = milliseconds(wait) + this.transport.timeout;
    const answer = await this.transport.call({ method: "POST", path: "/v1/take", query, again: false, timeout, isAhead: true, signal: options.signal });
    return objectsOf(answer["jobs"]).map(jobOf);
  }

  /** Acks jobs. A job that an earlier try may have acked is a success. With a `result`, acks one job: one that is too big is Refused, and the job stays leased. */
  async ack(leases: Leases, options: AckOptions = {}): Promise<LeaseResults> {
    return this.#answer("ack", leases, { ...(await resultMembers(this.codec, options.result, options.contentType)), ...holdMembers(options) }, options);
  }

  async nack(leases: Leases, options: NackOptions = {}): Promise<LeaseResults> {
    const delay = options.delay === undefined ? {} : { delay: durationText(options.delay) };
    const error = options.error ? { error: cutText(options.error) } : {};
    const result = await resultMembers(this.codec, options.result, options.contentType);
    return this.#answer("nack", leases, { ...delay, ...error, ...(options.final ? { final: true } : {}), ...result, ...holdMembers(options) }, options);
  }

  extend(leases: Leases, options: ExtendOptions = {}): Promise<LeaseResults> {
    const lease = options.lease === undefined ? {} : { lease_for: durationText(options.lease) };
    const progress = options.progress ? { progress: cutText(options.progress, PROGRESS_BYTES_MAX) } : {};
    return this.#answer("extend", leases, { ...lease, ...progress }, options);
  }

  /** Returns jobs that were not started; they are ready again immediately, and the attempt does not count. */
  giveBack(leases: Leases, options: CallOptions = {}): Promise<LeaseResults> {
    return this.#answer("return", leases, {}, options);
  }

  /** Acks a job and pushes it again in one step; what is not given stays the same. False: its cancel was requested, and it has ended. */
  async again(lease: string | Job, options: AgainOptions = {}): Promise<boolean> {
    const query: [string, string][] = [["lease", typeof lease === "string" ? lease : lease.lease]];
    if (options.delay !== undefined) query.push(["delay", durationText(options.delay)]);
    if (options.at !== undefined) query.push(["at", momentText(options.at)]);
    if (options.priority !== undefined) query.push(["priority", String(options.priority)]);
    const [body, contentType] = options.body === undefined ? [] : await encoded(this.codec, options.body, options.contentType);
    let mayBeDone = false;
    try {
      const onDoubt = (): boolean => (mayBeDone = true);
      const answer = await this.transport.call({ method: "POST", path: "/v1/again", query, ...(body ? { body } : {}), ...(contentType ? { contentType } : {}), onDoubt, signal: options.signal });
      return resultsOf(answer)[0]?.["result"] !== "cancelled";
    } catch (fault) {
      if (mayBeDone && fault instanceof LeaseEnded) return true; // an earlier try may have done it
      throw fault;
    }
  }

  async #answer(verb: Verb, leases: Leases, members: Json, options: CallOptions): Promise<LeaseResults> {
    const all = Array.isArray(leases) ? (leases as readonly (string | Job)[]) : [leases as string | Job];
    if (options instanceof Job) throw new TypeError("give several jobs as a list");
    if ("result_base64" in members && all.length !== 1) throw new TypeError("a result belongs to one job, so ack the others in another call");
    const items = all.map((one) => ({ lease: typeof one === "string" ? one : one.lease, ...members }));
    return answerLeases(this.transport, verb, items, { signal: options.signal });
  }
}

export type Verb = "ack" | "nack" | "extend" | "return";

/** A consumer's answers, in requests of at most so many. */
export async function answerLeases(transport: Transport, verb: Verb, items: readonly Json[], how: Partial<Call>, onResult?: (at: number, result: Json) => void): Promise<LeaseResults> {
  const out: LeaseResults = [];
  for (const asked of batchesOf(items)) {
    let mayBeDone = false;
    const body = JSON.stringify({ leases: asked });
    const found = resultsOf(await transport.call({ ...how, method: "POST", path: `/v1/${verb}`, body, onDoubt: () => (mayBeDone = verb !== "extend") }));
    for (const at of asked.keys()) {
      const result = found[at] ?? {};
      onResult?.(out.length, result);
      const counts = result["result"] === "ok" || result["result"] === "cancelled" || (mayBeDone && result["result"] === "lease_ended");
      out.push(counts ? null : errorOf(0, result));
    }
  }
  return out;
}

/** Parts of the size of a request. */
export function* batchesOf(items: readonly Json[]): Generator<readonly Json[], void, undefined> {
  let start = 0;
  let bytes = 0;
  for (const [at, item] of items.entries()) {
    const more = typeof item["result_base64"] === "string" ? item["result_base64"].length : 0;
    if (at - start === LEASES_MAX || (at > start && bytes + more > RESULTS_BYTES_MAX)) {
      yield items.slice(start, at);
      start = at;
      bytes = 0;
    }
    bytes += more;
  }
  if (start < items.length) yield items.slice(start);
}

/** The bytes for the server, and their content type. */
async function encoded(codec: Codec | undefined, body: unknown, contentType: string | undefined, how: Encoding = {}): Promise<[Buffer, string]> {
  const plain = bodyOf(body, contentType);
  return codec ? codec.encodeBy(...plain, how) : plain;
}

/** The members of an answer with this result. */
export async function resultMembers(codec: Codec | undefined, result: unknown, contentType?: string): Promise<Json> {
  if (result === undefined || result === null) return {};
  const [bytes, type] = await encoded(codec, result, contentType, { part: "result" });
  return { result_base64: bytes.toString("base64"), result_type: type };
}

function holdMembers({ hold }: AckOptions): Json {
  return hold === undefined ? {} : { hold: durationText(hold) };
}

/** Cuts a text to so many bytes of UTF-8, and removes control characters. */
export function cutText(text: string, bytesMax = 200): string {
  const line = Buffer.from(text.replace(/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]/gu, " "));
  return new TextDecoder().decode(line.subarray(0, bytesMax), { stream: true });
}

const NO_OPTIONS: readonly string[] = ["topic", "id", "meta"]; // of a single push: in its path and its headers
const TRACES: readonly string[] = ["traceparent", "tracestate"];

function tokenOf(given: string | undefined): string | undefined {
  if (given !== undefined) return given;
  const path = process.env["TARRY_TOKEN_FILE"];
  return path ? readFileSync(path, "utf8").trim() : process.env["TARRY_TOKEN"];
}

function pathOf(...parts: string[]): string {
  return `/v1/topics/${parts.map(encodeURIComponent).join("/")}`;
}

function schedulePath(name: string): string {
  return `/v1/schedules/${encodeURIComponent(name)}`;
}

/** A specification as JSON. Bytes and encoded bodies go as base64; a text and any other value as they are. Equal bodies have equal bytes. */
async function specText(spec: ScheduleSpec, codec: Codec | undefined): Promise<string> {
  if (codec && spec.body !== undefined) {
    const [body, contentType] = await encoded(codec, spec.body, spec.contentType, { isSteady: true });
    return specText({ ...spec, body, contentType }, undefined);
  }
  const isBytes = ArrayBuffer.isView(spec.body) || spec.body instanceof ArrayBuffer || spec.body instanceof SharedArrayBuffer;
  return JSON.stringify({
    ...spec.members,
    topic: spec.topic,
    cron: spec.cron,
    every: spec.every === undefined ? undefined : durationText(spec.every),
    zone: spec.zone,
    ...(isBytes ? { body_base64: bodyOf(spec.body)[0].toString("base64") } : { body: spec.body }),
    content_type: spec.contentType,
  });
}

function objectsOf(found: unknown): Json[] {
  return Array.isArray(found) ? found.filter((one): one is Json => typeof one === "object" && one !== null) : [];
}

function resultsOf(answer: Json): Json[] {
  return objectsOf(answer["results"]);
}

function pushedOf(result: Json): Pushed | TarryError {
  const what = result["result"];
  if (what !== "created" && what !== "replaced" && what !== "existed") return errorOf(0, result);
  return { topic: String(result["topic"] ?? ""), id: String(result["id"]), result: what satisfies PushResult, dueAt: dateOf(result["due_at"]) };
}

/** Returns as many items as one request may have, from `start`; at least one. */
function chunk(texts: readonly string[], start: number): string[] {
  let end = start;
  for (let bytes = 0; end < texts.length && end - start < ITEMS_MAX; end++) {
    bytes += Buffer.byteLength(texts[end] ?? "");
    if (bytes > BYTES_MAX && end > start) break;
  }
  return texts.slice(start, end);
}

/** An item of a batch push, as JSON. Members that are undefined are left out. */
function itemText(item: PushItem, body: Buffer, contentType: string): string {
  return JSON.stringify({ ...itemMembers(item.topic, item), body_base64: body.toString("base64"), content_type: contentType });
}

/** The members of an item beside its body. */
function itemMembers(topic: string, item: PushOptions) {
  const span = (one: Duration | undefined): string | undefined => (one === undefined ? undefined : durationText(one));
  const meta: Record<string, string> = {};
  if (item.traceparent) meta["traceparent"] = item.traceparent;
  if (item.tracestate) meta["tracestate"] = item.tracestate;
  Object.assign(meta, item.meta);
  return {
    topic,
    id: item.id || (item.once ? undefined : newId()), // a server generates one that belongs to the shard of the once
    delay: span(item.delay),
    at: item.at === undefined ? undefined : momentText(item.at),
    priority: item.priority,
    ttl: span(item.ttl),
    lease_for: span(item.lease),
    max_attempts: item.maxAttempts,
    backoff: item.backoff,
    on_conflict: item.onConflict ?? (item.id ? undefined : "keep"),
    once: item.once,
    once_for: span(item.onceFor),
    keep_finished: span(item.keepFinished),
    group: item.group,
    batch_topic: item.batch?.topic,
    batch_id: item.batch?.id,
    parent: item.parent instanceof Job ? item.parent.lease : item.parent,
    waits: item.waits,
    members: item.members,
    wait_at_most: span(item.waitAtMost),
    close_within: span(item.closeWithin),
    on_dead: item.onDead,
    callback: item.callback,
    meta: Object.keys(meta).length > 0 ? meta : undefined,
  };
}
