/** Errors of calls, and exceptions that a handler may throw. docs/clients.md lists the kind of each code. */

import { milliseconds, type Duration } from "./duration.js";

export interface ErrorFacts {
  code?: string | undefined;
  status?: number | undefined;
  state?: string | undefined;
  limit?: unknown;
  retryAfter?: number | undefined;
  cause?: unknown;
}

/** A refusal of the server: `code` is stable, `detail` explains what to do. */
export class TarryError extends Error {
  override name = "TarryError";
  readonly detail: string;
  readonly code: string;
  /** The status of the answer; 0 if one of many items was refused, or without an answer. */
  readonly status: number;
  /** Of the job, where that was in the way. */
  readonly state: string | undefined;
  /** The limit that was met. */
  readonly limit: unknown;
  /** Milliseconds. */
  readonly retryAfter: number | undefined;

  constructor(detail: string, facts: ErrorFacts = {}) {
    super(facts.code ? `${facts.code}: ${detail}` : detail, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.detail = detail;
    this.code = facts.code ?? "";
    this.status = facts.status ?? 0;
    this.state = facts.state;
    this.limit = facts.limit;
    this.retryAfter = facts.retryAfter;
  }
}

/** The job or topic does not exist, or the job has finished. */
export class NotFound extends TarryError {
  override name = "NotFound";
}

/** The job is in a state in which this cannot be done: see `state`. */
export class Conflict extends TarryError {
  override name = "Conflict";
}

/** The lease is no longer the job's: it has ended, or was answered. */
export class LeaseEnded extends TarryError {
  override name = "LeaseEnded";
}

/** The call is wrong, and would be wrong again. */
export class Refused extends TarryError {
  override name = "Refused";
}

/** The token is unknown or lacks the permission. */
export class Denied extends TarryError {
  override name = "Denied";
}

/** The topic, the caller, the disk or the memory has no room for another job. */
export class Full extends TarryError {
  override name = "Full";
}

/** The server cannot be reached, or could not answer for as long as was tried. The call may or may not have been carried out. */
export class Unavailable extends TarryError {
  override name = "Unavailable";
}

const BY_CODE: Readonly<Record<string, typeof TarryError>> = {
  not_found: NotFound,
  conflict: Conflict,
  leased: Conflict,
  dead: Conflict,
  no_batch: NotFound,
  batch_closed: Conflict,
  waits: Conflict,
  too_many_members: Conflict,
  too_many_batches: Conflict,
  lease_ended: LeaseEnded,
  unauthorized: Denied,
  forbidden: Denied,
  topic_full: Full,
  group_full: Full,
  caller_full: Full,
  no_space: Full,
  memory: Full,
  too_many_requests: Unavailable,
  unavailable: Unavailable,
  stopping: Unavailable,
};

const BY_STATUS: Readonly<Record<number, typeof TarryError>> = {
  401: Denied,
  403: Denied,
  404: NotFound,
  408: Unavailable,
  409: Conflict,
  429: Unavailable,
  502: Unavailable,
  503: Unavailable,
  504: Unavailable,
  507: Full,
};

/** The error for a refusal: `problem` as the server wrote it, or a result of a batch, whose status is 0. */
export function errorOf(status: number, problem: Readonly<Record<string, unknown>>, retryAfter?: number): TarryError {
  const text = (member: string): string | undefined => (typeof problem[member] === "string" ? problem[member] : undefined);
  const code = text("code") ?? text("result") ?? "";
  const isWrong = status === 0 || (status >= 400 && status < 500);
  const kind = BY_CODE[code] ?? BY_STATUS[status] ?? (isWrong ? Refused : TarryError);
  const detail = text("detail") ?? text("title") ?? (status ? `the server answered ${status}` : "the answer has no result for it");
  return new kind(detail, { code, status, state: text("state"), limit: problem["limit"], retryAfter });
}

/** A handler throws it: try the job again after `after`; without it, after the job's backoff. */
export class Retry extends Error {
  override name = "Retry";
  /** Milliseconds. */
  readonly after: number | undefined;

  constructor(after?: Duration, error = "") {
    super(error);
    this.after = after === undefined ? undefined : milliseconds(after);
  }
}

/** A handler throws it if no further attempt can help: the job is dead immediately. `result` is sent to those that wait for the job. */
export class Reject extends Error {
  override name = "Reject";
  readonly result: unknown;

  constructor(error = "", options: { result?: unknown } = {}) {
    super(error);
    this.result = options.result;
  }
}

/** The callback was not signed with one of the secrets, or not just now. */
export class BadSignature extends Error {
  override name = "BadSignature";
}
