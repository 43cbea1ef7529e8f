/** Requests of HTTP/1.1 over connections that are used again. The module `http` of Node needs more processor time for a request than a server of tarry. */

import { validateHeaderName, validateHeaderValue } from "node:http";
import type { AgentOptions } from "node:https";
import net from "node:net";
import tls from "node:tls";
import { now } from "./duration.js";

const IDLE_MS = 30_000; // less than the server's idle-timeout
const HINT_MARGIN_MS = 1_000; // before the end of the time that a proxy names
const HEAD_BYTES_MAX = 1 << 16;
const JOINED_BYTES_MAX = 1 << 14; // of a body that is copied behind its head, so that both are one packet
const BLANKS = "\r\n\r\n";
const EMPTY = Buffer.alloc(0);

export interface Reply {
  status: number;
  body: Buffer;
  retryAfter: string | undefined;
  date: string | undefined;
}

/** A request and its callbacks. One of `onReply`, `onFault` and `onMisuse` is called, once, unless the exchange is cut. */
export interface Exchange {
  method: string;
  /** With the query. */
  path: string;
  headers?: Readonly<Record<string, string>> | undefined;
  /** Undefined: the request has no body, and no length. */
  body: string | Buffer | undefined;
  /** The request may have reached the server. */
  onSent: () => void;
  onReply: (reply: Reply) => void;
  onFault: (fault: Error) => void;
  /** Node rejects the options of the connection; another try would fail in the same way. */
  onMisuse: (fault: Error) => void;
}

/** The parts of a reply that a connection waits for. */
const enum Next {
  Head = 1,
  Body,
  BodyUntilEnd,
  ChunkSize,
  Chunk,
  ChunkEnd,
  Trailer,
}

interface Head {
  status: number;
  isOld: boolean;
  length: number | undefined;
  isChunked: boolean;
  isLast: boolean;
  idleMs: number;
  retryAfter: string | undefined;
  date: string | undefined;
}

const STATUS_LINE = /^HTTP\/1\.([01]) (\d{3})(?: |$)/;
const LENGTH = /^\d{1,15}$/;
const ASCII = /^[\0-\x7f]*$/;
const CHUNK_SIZE = /^([0-9A-Fa-f]{1,12})[ \t]*(?:;.*)?$/;

function headOf(text: string): Head {
  const lines = text.split("\r\n");
  const found = STATUS_LINE.exec(lines[0] ?? "");
  if (!found) throw new Error("the answer is not HTTP/1.1");
  const isOld = found[1] === "0";
  const head: Head = { status: Number(found[2]), isOld, length: undefined, isChunked: false, isLast: isOld, idleMs: IDLE_MS, retryAfter: undefined, date: undefined };
  for (let at = 1; at < lines.length; at++) {
    const line = lines[at] as string;
    const colon = line.indexOf(":");
    if (colon <= 0) throw new Error("a header of the answer cannot be read");
    headerRead(head, line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim());
  }
  if (head.isChunked && head.length !== undefined) throw new Error("the answer has two lengths");
  return head;
}

function headerRead(head: Head, name: string, value: string): void {
  switch (name) {
    case "content-length":
      if (!LENGTH.test(value) || (head.length !== undefined && head.length !== Number(value))) throw new Error("the answer has a bad length");
      head.length = Number(value);
      return;
    case "transfer-encoding":
      if (value.toLowerCase() !== "chunked") throw new Error(`the answer has the unknown encoding '${value}'`);
      head.isChunked = true;
      return;
    case "connection":
      for (const word of value.toLowerCase().split(",")) {
        if (word.trim() === "close") head.isLast = true;
        if (word.trim() === "keep-alive") head.isLast = false;
      }
      return;
    case "keep-alive": {
      const hint = /(?:^|[ ,])timeout=(\d{1,9})/.exec(value);
      if (hint) head.idleMs = Math.min(IDLE_MS, Number(hint[1]) * 1_000 - HINT_MARGIN_MS);
      return;
    }
    case "retry-after":
      head.retryAfter = value;
      return;
    case "date":
      head.date = value;
  }
}

/** A connection to a server, with one exchange at a time. */
class Connection {
  /** When it is too old to be used again. */
  usableUntil = Infinity;
  readonly #socket: net.Socket;
  readonly #place: Pool;
  #exchange: Exchange | undefined;
  #isOpen = false;
  #isOver = false;
  #next = Next.Head;
  #carry: Buffer | undefined; // the beginning of a line, or of a head
  #left = 0;
  #parts: Buffer[] = [];
  #head: Head | undefined;
  #isComplete = false;

  constructor(place: Pool, socket: net.Socket, event: "connect" | "secureConnect", exchange: Exchange) {
    this.#place = place;
    this.#socket = socket;
    this.#exchange = exchange;
    socket.once(event, () => {
      socket.setNoDelay(true);
      socket.setKeepAlive(true, 1_000);
      this.#isOpen = true;
      if (this.#exchange) this.#write(this.#exchange);
    });
    socket.on("data", (data: Buffer) => this.#read(data));
    socket.on("error", (fault: Error) => this.#end(fault));
    socket.on("end", () => this.#ended());
    socket.on("close", () => this.#ended());
  }

  get exchange(): Exchange | undefined {
    return this.#exchange;
  }

  send(exchange: Exchange): void {
    this.#socket.ref();
    this.#exchange = exchange;
    this.#write(exchange);
  }

  /** Closes the connection; its exchange is not notified. */
  cut(): void {
    this.#exchange = undefined;
    this.#end(new Error("the connection was closed"));
  }

  #write(exchange: Exchange): void {
    const head = this.#place.head(exchange);
    exchange.onSent();
    const { body } = exchange;
    if (typeof body === "string" && ASCII.test(head)) this.#socket.write(head + body);
    else if (body && body.length > JOINED_BYTES_MAX) {
      this.#socket.write(head, "latin1");
      this.#socket.write(body);
    } else this.#socket.write(Buffer.concat([Buffer.from(head, "latin1"), Buffer.from(body ?? "")]));
  }

  #end(fault: Error): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#socket.destroy();
    this.#place.remove(this);
    const exchange = this.#exchange;
    this.#exchange = undefined;
    exchange?.onFault(fault);
  }

  #ended(): void {
    if (this.#next === Next.BodyUntilEnd && this.#exchange) this.#finish(true);
    this.#end(new Error(!this.#isOpen ? "the connection failed" : this.#head ? "the answer was cut short" : "the server closed the connection"));
  }

  #read(data: Buffer): void {
    try {
      let rest = this.#carry ? Buffer.concat([this.#carry, data]) : data;
      this.#carry = undefined;
      while (rest.length > 0 && !this.#isOver) {
        if (!this.#exchange) throw new Error("an answer without a request");
        const used = this.#take(rest);
        if (used === 0) {
          this.#carry = rest;
          return;
        }
        rest = rest.subarray(used);
        if (this.#isComplete) return this.#finish(rest.length > 0);
      }
    } catch (fault) {
      this.#end(fault as Error);
    }
  }

  /** Reads the next part. Returns its bytes; 0: it is incomplete. */
  #take(data: Buffer): number {
    switch (this.#next) {
      case Next.Body:
      case Next.Chunk:
        return this.#takeBytes(data);
      case Next.BodyUntilEnd:
        this.#parts.push(data);
        return data.length;
    }
    const end = data.indexOf(this.#next === Next.Head ? BLANKS : "\r\n");
    if (end < 0) {
      if (data.length > HEAD_BYTES_MAX) throw new Error("the head of the answer is too long");
      return 0;
    }
    const text = data.toString("latin1", 0, end);
    if (this.#next === Next.Head) {
      this.#takeHead(headOf(text));
      return end + BLANKS.length;
    }
    this.#takeLine(text);
    return end + 2;
  }

  #takeBytes(data: Buffer): number {
    const part = data.length > this.#left ? data.subarray(0, this.#left) : data;
    this.#parts.push(part);
    this.#left -= part.length;
    if (this.#left === 0) {
      if (this.#next === Next.Chunk) this.#next = Next.ChunkEnd;
      else this.#isComplete = true;
    }
    return part.length;
  }

  #takeHead(head: Head): void {
    if (head.status < 200) {
      if (head.status === 101) throw new Error("the server changed the protocol");
      return; // the answer follows
    }
    this.#head = head;
    if (head.status === 204 || head.status === 304 || head.length === 0) this.#isComplete = true;
    else if (head.isChunked) this.#next = Next.ChunkSize;
    else if (head.length === undefined) this.#next = Next.BodyUntilEnd;
    else {
      this.#next = Next.Body;
      this.#left = head.length;
    }
  }

  #takeLine(text: string): void {
    if (this.#next === Next.Trailer) {
      this.#isComplete = text === "";
      return;
    }
    if (this.#next === Next.ChunkEnd) {
      if (text !== "") throw new Error("the chunks of the answer cannot be read");
      this.#next = Next.ChunkSize;
      return;
    }
    const found = CHUNK_SIZE.exec(text);
    if (!found) throw new Error("the chunks of the answer cannot be read");
    this.#left = parseInt(found[1] as string, 16);
    this.#next = this.#left > 0 ? Next.Chunk : Next.Trailer;
  }

  /** The answer is complete. `isLast`: the connection cannot be used again. */
  #finish(isLast: boolean): void {
    const { status, retryAfter, date, idleMs } = this.#head as Head;
    const isOver = isLast || this.#head?.isLast || idleMs <= 0;
    const exchange = this.#exchange as Exchange;
    const body = this.#parts.length === 1 ? (this.#parts[0] as Buffer) : this.#parts.length === 0 ? EMPTY : Buffer.concat(this.#parts);
    this.#exchange = this.#head = undefined;
    this.#parts = [];
    this.#isComplete = false;
    this.#next = Next.Head;
    try {
      if (isOver) this.cut();
      else {
        this.usableUntil = now() + idleMs;
        this.#socket.unref();
        this.#place.free(this);
      }
    } finally {
      exchange.onReply({ status, body, retryAfter, date });
    }
  }
}

/** The address of a server. */
export interface Address {
  host: string;
  port: number;
  /** Of a unix socket, in place of these. */
  path: string | undefined;
  /** Undefined: without TLS. */
  tls: AgentOptions | undefined;
  /** Of each request; each ends with CR and LF. */
  headers: string;
}

/** The connections to a server; idle ones keep no process alive. */
export class Pool {
  readonly #address: Address;
  readonly #most: number;
  readonly #all = new Set<Connection>();
  readonly #idle: Connection[] = []; // the last one was used last
  readonly #waiting = new Set<Exchange>();
  readonly #failing = new Set<Exchange>(); // until the next tick
  #sweep: NodeJS.Timeout | undefined;
  #session: Buffer | undefined;

  constructor(address: Address, most: number) {
    this.#address = address;
    this.#most = most;
  }

  /**
   * Sends a request, or has it wait for a connection. Returns a function that cuts the request: its connection is closed, and nothing more is called. The
   * function returns false if the exchange had ended.
   */
  send(exchange: Exchange): () => boolean {
    for (const [name, value] of Object.entries(exchange.headers ?? {})) {
      validateHeaderName(name);
      validateHeaderValue(name, value);
    }
    const idle = this.#pick();
    if (idle) idle.send(exchange);
    else if (this.#all.size < this.#most) this.#connect(exchange);
    else this.#waiting.add(exchange);
    return () => this.#cut(exchange);
  }

  /** The head of a request. */
  head({ method, path, headers, body }: Exchange): string {
    let text = `${method} ${path} HTTP/1.1\r\n${this.#address.headers}`;
    for (const name in headers) text += `${name}: ${headers[name]}\r\n`;
    if (body !== undefined) text += `Content-Length: ${typeof body === "string" ? Buffer.byteLength(body) : body.length}\r\n`;
    return `${text}\r\n`;
  }

  /** Reuses a connection whose exchange has ended. */
  free(connection: Connection): void {
    for (const exchange of this.#waiting) {
      this.#waiting.delete(exchange);
      return connection.send(exchange);
    }
    this.#idle.push(connection);
    this.#sweep ??= setTimeout(() => this.#close(), IDLE_MS).unref();
  }

  /** A connection was closed. */
  remove(connection: Connection): void {
    this.#all.delete(connection);
    const at = this.#idle.lastIndexOf(connection);
    if (at >= 0) this.#idle.splice(at, 1);
    this.#connectNext();
  }

  /** Closes all connections. Exchanges fail. */
  close(): void {
    clearTimeout(this.#sweep);
    this.#sweep = undefined;
    const fault = new Error("the client was closed");
    const exchanges = [...this.#waiting, ...this.#failing];
    this.#waiting.clear();
    this.#failing.clear();
    for (const connection of [...this.#all]) {
      if (connection.exchange) exchanges.push(connection.exchange);
      connection.cut();
    }
    for (const exchange of exchanges) exchange.onFault(fault);
  }

  #pick(): Connection | undefined {
    for (let found = this.#idle.pop(); found; found = this.#idle.pop()) {
      if (now() < found.usableUntil) return found;
      found.cut();
    }
    return undefined;
  }

  /** Closes connections that are idle for too long. */
  #close(): void {
    this.#sweep = undefined;
    for (const one of this.#idle.filter((idle) => idle.usableUntil <= now())) one.cut();
    if (this.#idle.length > 0) this.#sweep = setTimeout(() => this.#close(), IDLE_MS).unref();
  }

  #cut(exchange: Exchange): boolean {
    if (this.#waiting.delete(exchange) || this.#failing.delete(exchange)) return true;
    for (const one of this.#all) {
      if (one.exchange !== exchange) continue;
      one.cut();
      return true;
    }
    return false;
  }

  /** Opens a connection for an exchange that waits. */
  #connectNext(): void {
    for (const exchange of this.#waiting) {
      this.#waiting.delete(exchange);
      return this.#connect(exchange);
    }
  }

  #connect(exchange: Exchange): void {
    try {
      this.#open(exchange);
    } catch (fault) {
      // The caller may be in the middle of another exchange.
      this.#session = undefined;
      this.#failing.add(exchange);
      process.nextTick(() => {
        if (this.#failing.delete(exchange)) exchange.onMisuse(fault as Error);
        if (this.#all.size < this.#most) this.#connectNext();
      });
    }
  }

  #open(exchange: Exchange): void {
    const { host, port, path, tls: options } = this.#address;
    const where = path === undefined ? { host, port } : { path };
    if (!options) {
      this.#all.add(new Connection(this, net.connect(where), "connect", exchange));
      return;
    }
    const servername = net.isIP(host) ? "" : host;
    const socket = tls.connect({ servername, ALPNProtocols: ["http/1.1"], ...options, ...where, ...(this.#session ? { session: this.#session } : {}) });
    socket.on("session", (session) => (this.#session = session));
    socket.on("error", () => (this.#session = undefined));
    this.#all.add(new Connection(this, socket, "secureConnect", exchange));
  }
}
