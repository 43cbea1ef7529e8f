/** Requests and answers: connections that are used again, what is asked again and when. docs/clients.md has the rules. */

import { validateHeaderValue } from "node:http";
import type { AgentOptions } from "node:https";
import { now, sleep, timer } from "./duration.js";
import { errorOf, TarryError, Unavailable } from "./errors.js";
import { Pool } from "./http.js";

export const FIRST_PAUSE_MS = 50;
export const LONGEST_PAUSE_MS = 5_000;
const AGAIN: readonly number[] = [429, 502, 503, 504];
const HAS_PORT_80 = /^(?:http:\/\/)?[^/?#]*:80(?:[/?#]|$)/; // a URL forgets it
const CONNECTIONS_MAX = 64; // of calls; takes and workers have connections of their own, and never wait for one

export type Json = Record<string, unknown>;

export interface Call {
  method: string;
  path: string;
  query?: readonly (readonly [string, string])[];
  body?: string | Buffer;
  /** Default: JSON. */
  contentType?: string;
  headers?: Readonly<Record<string, string>>;
  signal?: AbortSignal | undefined;
  timeout?: number;
  /** False: a failure is reported immediately. */
  again?: boolean;
  retryFor?: number;
  /** Between tries. */
  pauseMax?: number;
  /** Asked before each further try. */
  goesOn?: () => boolean;
  /** Called for each try that has failed but may have been carried out. */
  onDoubt?: () => void;
  /** True: on the connections of takes and workers. */
  isAhead?: boolean;
}

export interface Answer {
  status: number;
  body: Buffer;
  retryAfter: number | undefined;
}

/** A random part between a half and the whole, so that a hundred clients do not return at the same moment. */
export function jitter(ms: number): number {
  return ms * (0.5 + Math.random() / 2);
}

/** Milliseconds, in either format of the header. A date is compared with the answer's own Date: the clock here may be wrong. */
export function retryAfterOf(retryAfter: string | undefined, date: string | undefined): number | undefined {
  const text = retryAfter?.trim() ?? "";
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1000;
  if (!/^[A-Z][a-z]+, /.test(text)) return undefined;
  const then = Date.parse(text);
  const sent = date === undefined ? Date.now() : Date.parse(date);
  return Number.isNaN(then - sent) ? undefined : Math.max(0, then - sent);
}

function jsonOf(body: Buffer): Json | undefined {
  try {
    const found: unknown = JSON.parse(body.toString());
    return typeof found === "object" && found !== null && !Array.isArray(found) ? (found as Json) : undefined;
  } catch {
    return undefined;
  }
}

/** A server: its address, and its connections. */
class Place {
  readonly prefix: string;
  /** Of calls, and of takes and workers. */
  readonly pools: readonly [calls: Pool, ahead: Pool];

  constructor(text: string, token: string | undefined, tls: AgentOptions) {
    const path = text.startsWith("unix:") ? text.slice("unix:".length) : undefined;
    const isUnix = path !== undefined;
    const url = new URL(isUnix ? "http://localhost" : text.includes("://") ? text : `http://${text}`);
    if (path === "" || (url.protocol !== "http:" && url.protocol !== "https:")) throw new RangeError(`bad URL '${text}', give one like http://127.0.0.1:8279`);
    const isTls = url.protocol === "https:";
    const port = Number(url.port) || (isTls ? 443 : HAS_PORT_80.test(text) ? 80 : 8279);
    if (token) validateHeaderValue("Authorization", token);
    const named = isUnix ? "localhost" : url.hostname + (port === (isTls ? 443 : 80) ? "" : `:${port}`);
    const headers = `Host: ${named}\r\nUser-Agent: tarry-node\r\n${token ? `Authorization: Bearer ${token}\r\n` : ""}`;
    const address = { host: url.hostname.replace(/^\[|\]$/g, ""), port, path, tls: isTls ? tls : undefined, headers };
    this.prefix = isUnix ? "" : url.pathname.replace(/\/+$/, "");
    this.pools = [new Pool(address, CONNECTIONS_MAX), new Pool(address, Infinity)];
  }
}

function queryOf({ query }: Call): string {
  return query?.length ? `?${query.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&")}` : "";
}

function noAnswer(fault: Error): Unavailable {
  return new Unavailable(`no answer: ${fault.message || fault.name}`, { code: "no_answer", cause: fault });
}

const JSON_TYPE = { "Content-Type": "application/json" };

function headersOf({ body, contentType, headers }: Call): Readonly<Record<string, string>> | undefined {
  if (body === undefined) return headers;
  return contentType || headers ? { ...headers, "Content-Type": contentType ?? "application/json" } : JSON_TYPE;
}

export class Transport {
  readonly timeout: number;
  readonly retryFor: number;
  isClosed = false;
  readonly #places: readonly Place[];
  readonly #sleepers = new Set<() => void>(); // calls between two tries
  #at = 0;

  constructor(url: string, token: string | undefined, timeout: number, retryFor: number, tls: AgentOptions) {
    const urls = url.split(",").map((one) => one.trim());
    this.#places = urls.filter((one) => one !== "").map((one) => new Place(one, token, tls));
    if (this.#places.length === 0) throw new RangeError("no URL, give one like http://127.0.0.1:8279");
    this.timeout = timeout;
    this.retryFor = retryFor;
  }

  /** Calls in progress fail, and so do later ones. */
  close(): void {
    this.isClosed = true;
    for (const { pools } of this.#places) for (const pool of pools) pool.close();
    for (const wake of this.#sleepers) wake();
  }

  /** Waits before the next try. A close ends the wait. */
  pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
    return sleep(ms, signal, this.#sleepers);
  }

  #nextPlace(failed: number): void {
    if (failed === this.#at) this.#at = (this.#at + 1) % this.#places.length;
  }

  /** One try. Unavailable: there is no answer. A signal that is aborted cuts the connection, and its reason is thrown. */
  once(call: Call): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (call.signal?.aborted) return reject(call.signal.reason);
      if (this.isClosed) return reject(noAnswer(new Error("the client was closed")));
      const at = this.#at;
      const place = this.#places[at] as Place;
      let isSent = false;
      const end = (): void => {
        clearTimeout(limit);
        call.signal?.removeEventListener("abort", cut);
      };
      const fail = (fault: Error): void => {
        end();
        this.#nextPlace(at);
        if (isSent) call.onDoubt?.();
        reject(noAnswer(fault));
      };
      const close = place.pools[call.isAhead ? 1 : 0].send({
        method: call.method,
        path: place.prefix + call.path + queryOf(call),
        headers: headersOf(call),
        body: call.body ?? (call.method === "GET" || call.method === "DELETE" ? undefined : ""),
        onSent: () => (isSent = true),
        onFault: fail,
        onMisuse: (fault) => {
          end();
          reject(fault);
        },
        onReply: ({ status, body, retryAfter, date }) => {
          end();
          if (status >= 502 && status <= 504) this.#nextPlace(at);
          resolve({ status, body, retryAfter: retryAfterOf(retryAfter, date) });
        },
      });
      const cut = (): void => {
        end();
        close();
        reject(call.signal?.reason);
      };
      const timeout = call.timeout ?? this.timeout;
      // An answer that has come while this process was busy is read before the limit counts.
      const expire = (): void => {
        if (!close()) return;
        fail(new Error(`none within ${timeout} ms`));
      };
      const limit = timer(timeout, () => setImmediate(expire));
      call.signal?.addEventListener("abort", cut, { once: true });
    });
  }

  /** The answer of a call that was carried out; else the error. */
  async call(call: Call): Promise<Json> {
    const limit = now() + (call.retryFor ?? this.retryFor);
    for (let pause = FIRST_PAUSE_MS; ; ) {
      let fault: TarryError;
      try {
        const answer = await this.once(call);
        const found = jsonOf(answer.body);
        if (answer.status < 300) {
          if (found) return found;
          throw new TarryError("the answer is not JSON, check that this is a tarry server", { code: "bad_answer", status: answer.status });
        }
        fault = errorOf(answer.status, found ?? {}, answer.retryAfter);
        if (!AGAIN.includes(answer.status)) throw fault;
        if (answer.status === 502 || answer.status === 504 || fault.code === "unavailable") call.onDoubt?.();
      } catch (caught) {
        if (!(caught instanceof Unavailable) || caught.code !== "no_answer") throw caught;
        fault = caught;
      }
      if (call.again === false || this.isClosed) throw fault;
      let wait = fault.retryAfter;
      if (wait === undefined) {
        wait = jitter(pause);
        pause = Math.min(2 * pause, call.pauseMax ?? LONGEST_PAUSE_MS);
      } else if (limit === Infinity) wait = Math.min(wait, this.retryFor);
      if (now() + wait > limit || call.goesOn?.() === false) throw fault;
      await this.pause(wait, call.signal);
    }
  }
}
