/** Requests and answers: connections that are used again, what is asked again and when. docs/clients.md has the rules. */

import http from "node:http";
import https from "node:https";
import { now, sleep, timer } from "./duration.js";
import { errorOf, TarryError, Unavailable } from "./errors.js";

export const FIRST_PAUSE_MS = 50;
export const LONGEST_PAUSE_MS = 5_000;
const AGAIN: readonly number[] = [429, 502, 503, 504];
const CONNECTIONS_MAX = 64; // of calls; takes and workers have connections of their own, and never wait for one
const IDLE_MS = 30_000; // less than the server's idle-timeout

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
  readonly #url: URL;
  readonly #prefix: string;
  readonly #module: typeof http | typeof https;
  readonly #agents: readonly [calls: http.Agent, ahead: http.Agent];

  constructor(text: string, tls: https.AgentOptions) {
    const url = new URL(text.includes("://") ? text : `http://${text}`);
    if (url.protocol !== "http:" && url.protocol !== "https:") throw new RangeError(`bad URL '${text}', give one like http://127.0.0.1:8279`);
    this.#url = url;
    this.#prefix = url.pathname.replace(/\/+$/, "");
    this.#module = url.protocol === "https:" ? https : http;
    const agent = (maxSockets: number): http.Agent => new this.#module.Agent({ ...tls, keepAlive: true, timeout: IDLE_MS, maxSockets });
    this.#agents = [agent(CONNECTIONS_MAX), agent(Infinity)];
  }

  get event(): string {
    return this.#module === https ? "secureConnect" : "connect";
  }

  request(call: Call, headers: http.OutgoingHttpHeaders): http.ClientRequest {
    const query = call.query?.length ? `?${call.query.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&")}` : "";
    return this.#module.request({
      agent: this.#agents[call.isAhead ? 1 : 0],
      host: this.#url.hostname.replace(/^\[|\]$/g, ""),
      port: this.#url.port || (this.#module === https ? 443 : 8279),
      method: call.method,
      path: this.#prefix + call.path + query,
      headers,
    });
  }

  close(): void {
    for (const agent of this.#agents) agent.destroy();
  }
}

export class Transport {
  readonly timeout: number;
  readonly retryFor: number;
  readonly #places: readonly Place[];
  readonly #headers: http.OutgoingHttpHeaders;
  #at = 0;

  constructor(url: string, token: string | undefined, timeout: number, retryFor: number, tls: https.AgentOptions) {
    const urls = url.split(",").map((one) => one.trim());
    this.#places = urls.filter((one) => one !== "").map((one) => new Place(one, tls));
    if (this.#places.length === 0) throw new RangeError("no URL, give one like http://127.0.0.1:8279");
    this.timeout = timeout;
    this.retryFor = retryFor;
    this.#headers = { "User-Agent": "tarry-node", ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  }

  close(): void {
    for (const place of this.#places) place.close();
  }

  #nextPlace(failed: number): void {
    if (failed === this.#at) this.#at = (this.#at + 1) % this.#places.length;
  }

  /** One try. Unavailable: there is no answer. A signal that is aborted cuts the connection, and its reason is thrown. */
  once(call: Call): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (call.signal?.aborted) return reject(call.signal.reason);
      const at = this.#at;
      const place = this.#places[at] as Place;
      const body = call.body === undefined ? {} : { "Content-Type": call.contentType ?? "application/json" };
      const length = call.method === "GET" || call.method === "DELETE" ? {} : { "Content-Length": Buffer.byteLength(call.body ?? "") };
      const request = place.request(call, { ...this.#headers, ...call.headers, ...body, ...length });
      let isSent = false;
      let isOver = false;
      const end = (): boolean => {
        if (isOver) return false;
        isOver = true;
        clearTimeout(limit);
        call.signal?.removeEventListener("abort", cut);
        return true;
      };
      const cut = (): void => {
        if (!end()) return;
        request.destroy();
        reject(call.signal?.reason);
      };
      const fail = (fault: Error): void => {
        if (!end()) return;
        request.destroy();
        this.#nextPlace(at);
        if (isSent) call.onDoubt?.();
        reject(new Unavailable(`no answer: ${fault.message || fault.name}`, { code: "no_answer", cause: fault }));
      };
      const timeout = call.timeout ?? this.timeout;
      // An answer that has come while this process was busy is read before the limit counts.
      const limit = timer(timeout, () => setImmediate(() => fail(new Error(`none within ${timeout} ms`))));
      call.signal?.addEventListener("abort", cut, { once: true });
      request.on("error", fail);
      request.on("socket", (socket) => {
        isSent = !socket.connecting;
        if (!isSent) socket.once(place.event, () => (isSent = true));
      });
      request.on("response", (response) => {
        const parts: Buffer[] = [];
        response.on("data", (part: Buffer) => parts.push(part));
        response.on("error", fail);
        response.on("close", () => fail(new Error("the answer was cut short")));
        response.on("end", () => {
          if (!response.complete) return fail(new Error("the answer was cut short"));
          if (!end()) return;
          const status = response.statusCode ?? 0;
          if (status >= 502 && status <= 504) this.#nextPlace(at);
          resolve({ status, body: Buffer.concat(parts), retryAfter: retryAfterOf(response.headers["retry-after"], response.headers.date) });
        });
      });
      request.end(call.body);
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
      if (call.again === false) throw fault;
      let wait = fault.retryAfter;
      if (wait === undefined) {
        wait = jitter(pause);
        pause = Math.min(2 * pause, call.pauseMax ?? LONGEST_PAUSE_MS);
      } else if (limit === Infinity) wait = Math.min(wait, this.retryFor);
      if (now() + wait > limit || call.goesOn?.() === false) throw fault;
      await sleep(wait, call.signal);
    }
  }
}
