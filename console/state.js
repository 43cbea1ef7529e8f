// States of jobs, conditions of topics, and the health that the server reports.
import { el } from "./dom.js";
import { bytes, duration, relative } from "./format.js";
import { icon } from "./icons.js";
import { app } from "./app.js";
import { has as hasWord, t } from "./words.js";

/** The states of jobs. Finished jobs are not among them: they are records of what was. */
export const STATES = ["delayed", "retrying", "ready", "leased", "dead"];

/** A state as a word with its shape. @param {string} state */
export const badge = (state) => el("span", { class: `badge ${state}` }, icon(state), t(`state.${state}`));

/** A delayed job that has failed before waits for its retry. */
export const stateOf = (job) => (job.state === "delayed" && job.attempt > 0 ? "retrying" : job.state);

/** Paused until when, or nothing. @param {any} topic */
export function pausedBadge(topic) {
    if (!topic.paused) return null;
    const until = topic.paused_until;
    return el("span", { class: "badge paused" }, icon("paused"), until ? t("state.pausedUntil", { when: relative(until) }) : t("state.paused"));
}

/** Whether the jobs of a topic are sent to a target; if its circuit breaker keeps them back, the state of that. @param {string} [breaker] */
export const deliversBadge = (breaker) => breaker && breaker !== "closed" ? el("span", { class: `badge ${breaker}` }, icon("warning"), t(`state.breaker_${breaker}`))
    : el("span", { class: "badge delivers" }, icon("delivers"), t("state.delivers"));

const TIMES = ["late", "disk", "stuck", "held", "certificate", "clock", "checkpoint", "background"];

/** Describes a problem: the server's own sentence in English, ours by its code in another language. @param {any} problem */
export function sentenceOf(problem) {
    const { code, topic, value } = problem;
    const isSent = /^the (ready jobs|target) of/.test(problem.sentence); // the topic has a target instead of workers
    const kind = (code === "stuck" || code === "late") && isSent ? "Target" : code === "full" && topic && problem.severity === "critical" ? "Most" : code === "held" && problem.limit > 600_000 ? "Groups" : code === "stuck" && problem.severity === "warning" ? "Paused" : code === "certificate" && problem.limit === 0 ? "Ended" : topic && (code === "late" || code === "full") ? "Topic" : "";
    const key = `status.${code}${kind}`;
    if (app.language === "en" || !hasWord(key)) return problem.sentence;
    return t(key, { topic: topic ?? "", value: TIMES.includes(code) ? duration(value) : code === "memory" ? bytes(value) : value ?? "" });
}
