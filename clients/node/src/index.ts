/** tarry: a client of the delay queue. A job goes in now and comes out when it is due. docs/clients.md describes what it does, and why. */

export { Client } from "./client.js";
export type {
  AckOptions,
  AgainOptions,
  BatchItem,
  BatchResult,
  CallOptions,
  ClientOptions,
  ExtendOptions,
  JobName,
  LeaseResults,
  Leases,
  ListOptions,
  MembersOptions,
  NackOptions,
  PushAndWaitOptions,
  PushItem,
  PushOptions,
  RescheduleOptions,
  ResultOptions,
  ScheduleSpec,
  TakeOptions,
  WaitOptions,
} from "./client.js";
export type { Duration, Moment } from "./duration.js";
export { BadSignature, Conflict, Denied, Full, LeaseEnded, NotFound, Refused, Reject, Retry, TarryError, Unavailable } from "./errors.js";
export { Job, newId } from "./job.js";
export type { JobFacts, JobState, Pushed, PushResult, Scheduled } from "./job.js";
export { Codec, CodecError, DirectoryStore } from "./codec.js";
export type { AesGcmOptions, ClaimCheckOptions, CodecOptions, GzipOptions, Store } from "./codec.js";
export { verify } from "./signature.js";
export type { VerifyOptions } from "./signature.js";
export { Worker } from "./worker.js";
export type { Handler, Handling, Outcome, RunOptions, StopOptions, WorkerOptions } from "./worker.js";
