/** Durations and times, as programs have them and as the API has them; and the clock and the pauses that all else uses. */

/** Milliseconds, or a text such as "1500ms", "30s", "2h30m", "7d". */
export type Duration = number | string;

/** A date, milliseconds since 1970, or a text as RFC 3339 has it. */
export type Moment = Date | number | string;

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const WHOLE = /^(?:\d+(?:\.\d+)?(?:ms|[smhd]))+$/;
const PART = /(\d+(?:\.\d+)?)(ms|[smhd])/g;
const TIMER_MS_MAX = 2 ** 31 - 1;

export function milliseconds(duration: Duration): number {
  if (typeof duration === "string") {
    if (!WHOLE.test(duration)) throw new RangeError(`bad duration '${duration}', give milliseconds, or a text like 1500ms, 30s or 2h30m`);
    return Math.round([...duration.matchAll(PART)].reduce((sum, [, count, unit]) => sum + Number(count) * (UNITS[unit ?? ""] ?? 0), 0) * 1000) / 1000;
  }
  if (!(duration >= 0)) throw new RangeError(`bad duration '${duration}', give milliseconds from 0`);
  return duration;
}

/** Writes a duration for the API, rounded up: never early. */
export function durationText(duration: Duration): string {
  const ms = Math.ceil(milliseconds(duration));
  if (!Number.isSafeInteger(ms)) throw new RangeError(`bad duration '${duration}', it is too long`);
  return `${ms}ms`;
}

/** Writes a time for the API. A text is passed on: the server reads it. */
export function momentText(at: Moment): string {
  if (typeof at === "string") return at;
  const ms = Math.ceil(at instanceof Date ? at.getTime() : at);
  if (!Number.isSafeInteger(ms)) throw new RangeError("bad time, give a date or milliseconds since 1970");
  return String(ms);
}

export function dateOf(text: unknown): Date | undefined {
  return typeof text === "string" ? new Date(text) : undefined;
}

/** Milliseconds by the clock that does not jump. */
export function now(): number {
  return performance.now();
}

/** Calls once, after so long; a plain timer that is set too far away would fire immediately. */
export function timer(ms: number, call: () => void): NodeJS.Timeout {
  return setTimeout(call, Math.min(Math.max(0, ms), TIMER_MS_MAX));
}

/** Waits; ends with the signal's reason as soon as that is aborted. During the wait `sleepers` has a function that ends it early. */
export function sleep(ms: number, signal?: AbortSignal, sleepers?: Set<() => void>): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (): void => {
      clearTimeout(waiting);
      signal?.removeEventListener("abort", cut);
      sleepers?.delete(wake);
    };
    const cut = (): void => {
      end();
      reject(signal?.reason);
    };
    const wake = (): void => {
      end();
      resolve();
    };
    const waiting = timer(ms, wake);
    sleepers?.add(wake);
    if (signal?.aborted) cut();
    else signal?.addEventListener("abort", cut, { once: true });
  });
}
