/** A worker: takes jobs, runs a handler for each, extends their leases, and reports the results. docs/clients.md has the rules by number. */

import { hostname } from "node:os";
import { setImmediate as nextIteration } from "node:timers/promises";
import { answerLeases, batchesOf, cutText, LEASES_MAX, resultMembers, type Client, type LeaseResults, type Verb } from "./client.js";
import { decodeJob } from "./codec.js";
import { durationText, milliseconds, now, sleep, timer, type Duration } from "./duration.js";
import { Denied, LeaseEnded, NotFound, Refused, Reject, Retry, TarryError } from "./errors.js";
import type { Job } from "./job.js";
import { FIRST_PAUSE_MS, jitter, LONGEST_PAUSE_MS, type Json } from "./transport.js";

const WAIT_MS = 30_000; // of a take
const MOMENT_MS = 500; // that a take has when the worker stops: jobs that are on their way with a proxy would wait for the end of their lease
const LINGER_MS = 5; // for answers that come together
const BEATS = 10; // in the time of a lease: nine tenths are left whenever the server goes
const GRACE_MS = 2_000; // that leases have once a server is back
const PAUSE_MS = 250; // at most, before an extend or an answer that failed is made again: soon enough for that grace
const LOG_PAUSE_MS = 10_000; // between lines about the same kind of call that fails
const EMPTY_MS = 1_000; // an empty answer within this time is not a long poll: the server is stopping, and would answer each new take immediately, without end

/** The result of a job: "lost" is one whose lease ended before its answer counted. */
export type Outcome = "ack" | "nack" | "retry" | "reject" | "lost" | "given_back";

export interface Handling {
  /**
   * Aborted once the lease is lost, or the grace has ended: another consumer may do the same work from then on. Also once a cancel of the job is
   * requested: then job.cancelRequested is true, and the result of the handler counts.
   */
  readonly signal: AbortSignal;
  /** Stores the progress of the job, which is shown with it: up to 256 bytes of text. False: the lease is lost. */
  readonly reportProgress: (text: string) => Promise<boolean>;
}

/** Returns, or its promise is kept: ack, with what it returns as the result, unless that is undefined or null. Throws: Retry, Reject, or anything else, which is tried again after the job's backoff. */
export type Handler = (job: Job, handling: Handling) => unknown;

export interface WorkerOptions {
  /** The most parallel jobs. 10. */
  concurrency?: number | undefined;
  /** 60 s; extended for as long as the handler works. */
  lease?: Duration | undefined;
  /** Name of the consumer, shown as the holder of the jobs. HOST:PID. */
  consumer?: string | undefined;
  onTaken?: ((job: Job) => unknown) | undefined;
  /** `ms`: from take to answer. */
  onDone?: ((job: Job, outcome: Outcome, ms: number) => unknown) | undefined;
  /** `what` failed: take, extend, ack, nack, return, result, or hook. */
  onError?: ((error: unknown, what: string) => unknown) | undefined;
  /** Whether failures go to console.warn. True. */
  log?: boolean | undefined;
}

export interface StopOptions {
  /** How long handlers under way have. 30 s. */
  grace?: Duration | undefined;
}

export interface RunOptions extends StopOptions {
  /** Whether SIGTERM and SIGINT stop it; a second one ends the process. True. */
  signals?: boolean | undefined;
  /** Stops it where it is aborted. */
  signal?: AbortSignal | undefined;
}

type AnswerVerb = Exclude<Verb, "extend">;

/** A job from take to answer. */
class Held {
  #controller: AbortController | undefined; // made for handlers that ask for it: it costs more than a small job
  readonly takenAt = now();
  livesUntil: number;
  nextBeat: number;
  isBeating = false;
  isEnded = false;
  isAnswered = false;
  answer: Json | undefined;
  outcome: Outcome = "lost";

  constructor(
    readonly job: Job,
    lease: number,
  ) {
    this.livesUntil = this.takenAt + lease;
    this.nextBeat = this.takenAt + lease / BEATS;
  }

  get controller(): AbortController {
    return (this.#controller ??= new AbortController());
  }
}

/** HOST:PID, of 64 printable ASCII characters at most. @internal */
export function consumerName(host: string, pid: number): string {
  const end = `:${pid}`;
  return host.replace(/[^!-~]/g, "").slice(0, 64 - end.length) + end;
}

/**
 * await new Worker(client, "orders", handle, { concurrency: 10, lease: "1m" }).run()
 * await new Worker(client, { orders: closeOrder, mails: sendMail }).run()
 */
export class Worker {
  readonly #client: Client;
  readonly #topics: readonly string[];
  readonly #handlers: ReadonlyMap<string, Handler>;
  readonly #loggedAt = new Map<string, number>();
  readonly #concurrency: number;
  readonly #lease: number;
  readonly #consumer: string;
  readonly #hooks: WorkerOptions;
  readonly #held = new Set<Held>();
  readonly #answers: Record<AnswerVerb, { waiting: Held[]; isSending: boolean }> = {
    ack: { waiting: [], isSending: false },
    nack: { waiting: [], isSending: false },
    return: { waiting: [], isSending: false },
  };
  readonly #takeCut = new AbortController();
  readonly #stopped = new AbortController();
  readonly #waiters = new Set<() => void>();
  #running = 0;
  #isGraceOver = false;
  #graceUntil = Infinity;
  #graceTimer: NodeJS.Timeout | undefined;
  #cutTimer: NodeJS.Timeout | undefined;
  #beatTimer: NodeJS.Timeout | undefined;
  #beatAt = Infinity;
  #life: Promise<void> | undefined;

  constructor(client: Client, topics: string | readonly string[], handler: Handler, options?: WorkerOptions);
  /** With a handler for each topic; the topic named first is served first. */
  constructor(client: Client, handlers: Readonly<Record<string, Handler>>, options?: WorkerOptions);
  constructor(client: Client, topics: string | readonly string[] | Readonly<Record<string, Handler>>, second?: Handler | WorkerOptions, third?: WorkerOptions) {
    const isOne = typeof topics === "string" || Array.isArray(topics);
    if (isOne !== (typeof second === "function")) throw new TypeError("give topics and a handler, or a handler for each topic as in { orders: closeOrder }");
    const options = (isOne ? third : (second as WorkerOptions | undefined)) ?? {};
    this.#client = client;
    this.#topics = typeof topics === "string" ? [topics] : Array.isArray(topics) ? [...(topics as readonly string[])] : Object.keys(topics);
    this.#handlers = new Map(isOne ? this.#topics.map((topic) => [topic, second as Handler]) : Object.entries(topics as Readonly<Record<string, Handler>>));
    this.#concurrency = options.concurrency ?? 10;
    this.#lease = milliseconds(options.lease ?? "60s");
    this.#consumer = options.consumer ?? consumerName(hostname(), process.pid);
    this.#hooks = { ...options };
    if (!(Number.isInteger(this.#concurrency) && this.#concurrency >= 1)) throw new RangeError("concurrency must be 1 at least");
  }

  // ---- life ----

  /** Works until stop(), SIGTERM or SIGINT. Fails if the server reports that it never may take, and if the client is closed. */
  async run(options: RunOptions = {}): Promise<void> {
    if (this.#life) throw new Error("a worker runs once, make another one");
    const stop = (): void => void this.stop(options);
    const names = options.signals === false ? [] : (["SIGTERM", "SIGINT"] as const);
    for (const name of names) process.once(name, stop);
    options.signal?.addEventListener("abort", stop, { once: true });
    if (options.signal?.aborted) this.#stopped.abort();
    this.#life = this.#live();
    try {
      await this.#life;
    } finally {
      for (const name of names) process.off(name, stop);
      options.signal?.removeEventListener("abort", stop);
    }
  }

  /** Takes no further job, gives back what was not begun, and waits for handlers under way, `grace` at most. Again: with less of it. */
  async stop(options: StopOptions = {}): Promise<void> {
    const until = now() + milliseconds(options.grace ?? "30s");
    this.#stopped.abort();
    if (!this.#life) return;
    if (until < this.#graceUntil) {
      this.#graceUntil = until;
      clearTimeout(this.#graceTimer);
      this.#graceTimer = timer(until - now(), () => this.#endGrace());
    }
    this.#cutTimer ??= timer(MOMENT_MS, () => this.#takeCut.abort());
    this.#changed();
    await this.#life.catch(() => undefined);
  }

  async #live(): Promise<void> {
    await nextIteration(); // #life is set
    try {
      await this.#take();
    } finally {
      void this.stop();
      await this.#until(() => this.#held.size === 0 && (this.#running === 0 || this.#isGraceOver));
      for (const one of [this.#graceTimer, this.#cutTimer, this.#beatTimer]) clearTimeout(one);
    }
  }

  #endGrace(): void {
    this.#isGraceOver = true;
    for (const one of [...this.#held].filter((held) => !held.isEnded)) {
      this.#settle(one, "return", "given_back");
      one.controller.abort(new Error("the worker stops, and the grace has ended"));
    }
    this.#changed();
  }

  /** Until `holds`, which is asked whenever something changes, or so long. */
  #until(holds: () => boolean, ms?: number): Promise<void> {
    if (holds()) return Promise.resolve();
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(limit);
        this.#waiters.delete(check);
        resolve();
      };
      const check = (): void => {
        if (holds()) end();
      };
      const limit = ms === undefined ? undefined : timer(ms, end);
      this.#waiters.add(check);
    });
  }

  #changed(): void {
    for (const check of this.#waiters) check();
  }

  // ---- taking ----

  /** Free slots; 0 while a thousand answers are unsent. */
  #free(): number {
    return this.#held.size >= this.#concurrency + LEASES_MAX ? 0 : Math.min(this.#concurrency - this.#running, LEASES_MAX);
  }

  async #take(): Promise<void> {
    const stopped = this.#stopped.signal;
    for (let pause = FIRST_PAUSE_MS; ; ) {
      await this.#until(() => stopped.aborted || this.#free() > 0);
      if (stopped.aborted) return;
      const began = now();
      let wait: number | undefined;
      try {
        const jobs = await this.#client.takeEncoded(this.#topics, { max: this.#free(), wait: WAIT_MS, lease: this.#lease, consumer: this.#consumer, signal: this.#takeCut.signal });
        for (const job of jobs) this.#begin(job);
        // Answers of handlers that end at once are sent before the next take: they free slots of this worker, and end the waits of other clients.
        for (let iterations = jobs.length > 0 ? 2 : 0; iterations > 0 && !stopped.aborted; iterations--) await nextIteration();
        if (jobs.length > 0 || now() - began > EMPTY_MS) {
          pause = FIRST_PAUSE_MS;
          continue;
        }
      } catch (fault) {
        if (stopped.aborted) return;
        if (this.#client.transport.isClosed || !(fault instanceof TarryError) || fault instanceof Denied || fault instanceof NotFound || fault instanceof Refused) throw fault;
        this.#report(fault, "take");
        wait = fault.retryAfter;
      }
      wait = wait === undefined ? jitter(pause) : Math.min(wait, this.#client.transport.retryFor);
      pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
      await sleep(wait, stopped).catch(() => undefined);
    }
  }

  #begin(job: Job): void {
    const one = new Held(job, this.#lease);
    this.#held.add(one);
    this.#beatBy(one.nextBeat);
    this.#hook(() => this.#hooks.onTaken?.(job));
    if (this.#stopped.signal.aborted) {
      one.isEnded = true;
      this.#settle(one, "return", "given_back");
    } else {
      this.#running++;
      void this.#handle(one);
    }
  }

  // ---- handling ----

  async #handle(one: Held): Promise<void> {
    let settle: () => void;
    try {
      const handler = this.#handlers.get(one.job.topic) as Handler;
      const reportProgress = async (progress: string): Promise<boolean> => (await this.#client.extend(one.job, { lease: this.#lease, progress }))[0] === null;
      await decodeJob(one.job, this.#client.codec); // outside the take, so that its lease is extended while a store is read
      if (one.job.codecError) throw one.job.codecError;
      const result = await handler(one.job, { get signal() { return one.controller.signal; }, reportProgress }); // prettier-ignore
      const members = await this.#resultMembers(result);
      settle = () => this.#settle(one, "ack", "ack", members);
    } catch (fault) {
      const error = cutText(fault instanceof Error ? fault.message || (fault instanceof Retry || fault instanceof Reject ? "" : fault.name) : String(fault));
      const members = error ? { error } : {};
      if (!one.isAnswered && !one.job.cancelRequested) this.#log(`job ${one.job.topic}/${one.job.id} failed in attempt ${one.job.attempt}: ${error}`, fault instanceof Retry || fault instanceof Reject ? undefined : fault);
      if (fault instanceof Reject) {
        const result = await this.#resultMembers(fault.result);
        settle = () => this.#settle(one, "nack", "reject", { ...members, final: true, ...result });
      } else if (fault instanceof Retry) {
        const delay = fault.after === undefined ? {} : { delay: durationText(fault.after) };
        settle = () => this.#settle(one, "nack", "retry", { ...members, ...delay });
      } else settle = () => this.#settle(one, "nack", "nack", members);
    }
    one.isEnded = true;
    this.#running--;
    settle();
    this.#changed();
  }

  async #resultMembers(result: unknown): Promise<Json> {
    try {
      return await resultMembers(this.#client.codec, result);
    } catch (fault) {
      this.#report(fault, "result"); // it is not JSON, or cannot be stored: the work is done, so the job is acked without it
      return {};
    }
  }

  // ---- heartbeat ----

  #beatBy(at: number): void {
    if (at >= this.#beatAt) return;
    clearTimeout(this.#beatTimer);
    this.#beatAt = at;
    this.#beatTimer = timer(at - now(), () => this.#beat());
  }

  #beat(): void {
    this.#beatAt = Infinity;
    const time = now();
    const due: Held[] = [];
    for (const one of this.#held) {
      if (one.isBeating) continue;
      if (one.livesUntil + GRACE_MS <= time && !one.answer) this.#lose(one);
      else if (one.nextBeat <= time + this.#lease / 100) due.push(one); // those of about the same time go together
    }
    for (let start = 0; start < due.length; start += LEASES_MAX) void this.#extend(due.slice(start, start + LEASES_MAX));
    this.#beatByNext();
  }

  #beatByNext(): void {
    let next = Infinity;
    for (const one of this.#held) if (!one.isBeating) next = Math.min(next, one.nextBeat);
    if (next < Infinity) this.#beatBy(next);
  }

  async #extend(due: readonly Held[]): Promise<void> {
    const sent = now();
    let results: LeaseResults = [];
    for (const one of due) one.isBeating = true;
    try {
      const items = due.map((one) => ({ lease: one.job.lease, lease_for: durationText(this.#lease) }));
      const how = { again: false, timeout: Math.min(Math.max(this.#lease / 4, 500), 1_500), isAhead: true };
      results = await answerLeases(this.#client.transport, "extend", items, how, (at, result) => {
        if (result["cancel_requested"] === true) this.#requestCancel(due[at]);
      });
    } catch (fault) {
      this.#report(fault, "extend");
    }
    for (const [at, one] of due.entries()) {
      const result = results[at];
      one.isBeating = false;
      if (one.isAnswered) continue;
      if (result === null) {
        one.livesUntil = sent + this.#lease;
        one.nextBeat = sent + this.#lease / BEATS;
      } else if (result instanceof LeaseEnded) {
        one.nextBeat = Infinity;
        if (!one.answer) this.#lose(one); // else the result of its answer counts
      } else one.nextBeat = now() + Math.min(this.#lease / (2 * BEATS), PAUSE_MS);
    }
    this.#beatByNext();
  }

  /** Notifies the handler, once. Its lease continues, and its result counts. */
  #requestCancel(one: Held | undefined): void {
    if (!one || one.answer || one.job.cancelRequested) return;
    Object.assign(one.job, { cancelRequested: true });
    one.controller.abort(new Error("the cancel of this job was requested"));
  }

  /** Notifies the handler; its result is thrown away. */
  #lose(one: Held): void {
    this.#log(`the lease of job ${one.job.topic}/${one.job.id} is lost; another worker may process it`);
    one.controller.abort(new LeaseEnded("the lease of this job is lost", { code: "lease_ended" }));
    this.#finish(one, "lost");
  }

  // ---- answers ----

  /** Its answer is to be sent, once. */
  #settle(one: Held, verb: AnswerVerb, outcome: Outcome, members: Json = {}): void {
    if (one.answer || one.isAnswered) return;
    one.answer = { lease: one.job.lease, ...members };
    one.outcome = outcome;
    this.#answers[verb].waiting.push(one);
    void this.#answer(verb);
  }

  #finish(one: Held, outcome: Outcome): void {
    one.isAnswered = true;
    this.#held.delete(one);
    this.#hook(() => this.#hooks.onDone?.(one.job, outcome, now() - one.takenAt));
    this.#changed();
  }

  async #answer(verb: AnswerVerb): Promise<void> {
    const queue = this.#answers[verb];
    if (queue.isSending) return;
    queue.isSending = true;
    if (this.#running > 0) await nextIteration(); // handlers that end in the same iteration of the loop are answered together
    while (queue.waiting.length > 0) {
      await this.#until(() => this.#running === 0 || queue.waiting.length >= LEASES_MAX, LINGER_MS);
      await this.#send(verb, queue.waiting.splice(0, LEASES_MAX));
    }
    queue.isSending = false;
  }

  /** Sends each part of the size of a request by itself: if one is rejected, the others count. */
  async #send(verb: AnswerVerb, those: readonly Held[]): Promise<void> {
    let start = 0;
    for (const { length } of batchesOf(those.map((one) => one.answer ?? {}))) {
      await this.#sendPart(verb, those.slice(start, start + length));
      start += length;
    }
  }

  async #sendPart(verb: AnswerVerb, those: readonly Held[]): Promise<void> {
    let results: LeaseResults = [];
    try {
      results = await answerLeases(
        this.#client.transport,
        verb,
        those.map((one) => one.answer ?? {}),
        {
          retryFor: Infinity,
          pauseMax: PAUSE_MS,
          timeout: Math.min(Math.max(this.#lease / 3, 500), this.#client.transport.timeout),
          isAhead: true,
          goesOn: () => those.some((one) => now() < one.livesUntil + GRACE_MS),
        },
        (at, result) => {
          const job = those[at]?.job;
          if (verb === "ack" && result["result"] === "ok" && job?.storedAs) this.#client.codec?.deleteStored(job).catch((fault: unknown) => this.#report(fault, "delete"));
        },
      );
    } catch (fault) {
      if (fault instanceof TarryError && (fault.code === "result_too_big" || fault.code === "body_too_big")) return this.#sendApart(verb, those, fault);
      this.#report(fault, verb);
    }
    for (const [at, one] of those.entries()) this.#finish(one, results[at] === null ? one.outcome : "lost");
  }

  /** One result is too big, so the server has rejected the request. Its job is done, so it is answered without the result. */
  async #sendApart(verb: AnswerVerb, those: readonly Held[], fault: TarryError): Promise<void> {
    const [first] = those;
    if (those.length > 1 || !first) {
      const half = those.length >> 1;
      await this.#send(verb, those.slice(0, half));
      return this.#send(verb, those.slice(half));
    }
    this.#report(fault, "result");
    const { result_base64: _bytes, result_type: _type, ...rest } = first.answer ?? {};
    first.answer = rest;
    return this.#send(verb, those);
  }

  // ---- logs and hooks ----

  #log(text: string, ...more: unknown[]): void {
    if (this.#hooks.log !== false) console.warn(`tarry: ${text}`, ...more.filter((one) => one !== undefined));
  }

  #report(error: unknown, what: string): void {
    if (now() - (this.#loggedAt.get(what) ?? -Infinity) >= LOG_PAUSE_MS) {
      this.#loggedAt.set(what, now());
      this.#log(`${what} failed: ${error instanceof Error ? error.message : String(error)}`);
    }
    this.#hook(() => this.#hooks.onError?.(error, what), what === "hook");
  }

  /** Calls a hook. A hook that fails does not stop the worker: onError gets the failure, unless onError itself failed. */
  #hook(call: () => unknown, isLast = false): void {
    const fail = (fault: unknown): void => (isLast ? undefined : this.#report(fault, "hook"));
    try {
      const found = call();
      if (found instanceof Promise) found.catch(fail);
    } catch (fault) {
      fail(fault);
    }
  }
}
