// One job: its body, what happens next and when, its attempts on a time line, and what can be done with it.
import { ask, get, path, post } from "./api.js";
import { batchCard, cancelBatch, isWaiting, jobLink, waitLines } from "./batch.js";
import { bodyCard, bytesOf, textOf } from "./body.js";
import { button, scoped } from "./button.js";
import { curlDialog } from "./curl.js";
import { field, formDialog } from "./dialog.js";
import { bdi, el, fill, seen } from "./dom.js";
import { duration, number, timeOf } from "./format.js";
import { ended, outcomeBadge, pushCopy, resultOf } from "./finished.js";
import { heldWords } from "./held.js";
import { icon } from "./icons.js";
import { jsonCheck } from "./json_check.js";
import { menu } from "./menu.js";
import { notice, report } from "./notice.js";
import { originCard } from "./job_origin.js";
import { progressOf } from "./progress.js";
import { dueFields, metaFields, put } from "./push.js";
import { go, href } from "./router.js";
import { badge, stateOf } from "./state.js";
import { topicOf, trail } from "./topic_head.js";
import { redrive as redriveMany } from "./topic_actions.js";
import { t } from "./words.js";

const AGAIN_MS = 3000;
const OWN = ["ttl", "lease_for", "max_attempts", "backoff", "callback"];

/** Describes the wait before a retry. @param {string} backoff such as fixed:10s or exp:1s..10m */
function retryAfter(backoff) {
    const [, kind, from, to] = backoff.match(/^(fixed|exp):([^.]+)(?:\.\.(.+))?$/) ?? [];
    return kind ? t("next.leaseEnds", { wait: kind === "fixed" ? from : t("wait.exp", { from, to: to ?? from }) }) : t("next.leaseEndsNow");
}

/** Describes in sentences what happens next. @param {any} job @param {any} topic its settings and state; null if the user may not read it
 * @param {any} group the group of a held job, or null */
function next(job, topic, group) {
    const settings = topic?.settings ?? {}, to = settings.deliver;
    const attempts = job.max_attempts ?? settings.max_attempts ?? 16;
    const taker = job.callback ? t("next.toCallback", { to: seen(job.callback) }) : to?.to ? t("next.toTarget", { to: seen(to.to) }) : t("next.toTaker");
    const out = [];
    if (job.state === "finished") return [ended(job), el("p", {}, t("next.finished"))];
    const ttl = job.ttl ?? settings.ttl;
    if (isWaiting(job)) out.push(...waitLines(job), [taker]);
    else if (job.state === "delayed") out.push([t(job.attempt ? "next.retry" : "next.due", { attempt: job.attempt + 1, of: attempts }), job.due_at], [taker]);
    if (job.state === "ready") out.push([t("next.ready"), job.due_at], job.held_by ? [[t("next.held"), " ", heldWords(job, topic, group)]] : [taker]);
    if (job.state === "leased") out.push([t("next.leased", { attempt: job.attempt, of: attempts }), job.lease_until], [job.attempt >= attempts ? t("next.leaseDies") : retryAfter(job.backoff ?? settings.backoff ?? "exp:1s..10m")]);
    if (job.state === "dead") {
        const { to: other, keep } = settings.dead_letter ?? {};
        out.push([t("next.dead")]);
        if (job.outcomes && !job.closed) out.push([t("batch.redriveCloses")]);
        if (other) out.push([t("next.forward", { to: seen(other) })]);
        if (keep) out.push([t("next.keep", { what: ["count", "age", "bytes"].filter((name) => keep[name] !== undefined).map((name) => `${name} ${keep[name]}`).join(", ") })]);
    }
    if (topic?.paused && job.state !== "dead") {
        const until = topic.paused_until;
        out.push([t(until ? "next.pausedUntil" : "next.paused"), until]);
    }
    if (ttl && ["delayed", "ready"].includes(job.state)) out.push([t("next.ttl", { ttl })]);
    return el("ul", { class: "next" }, out.map(([words, at]) => el("li", {}, words, at ? [" ", timeOf(at, { isRelative: true }), " ", el("span", { class: "help" }, "(", timeOf(at), ")")] : null)));
}

/** Its attempts, and what is to come, from the first to the last. @param {any} job */
function timeLine(job) {
    const history = job.history ?? [];
    const lost = job.attempt - history.length - (job.state === "leased" ? 1 : 0);
    const shape = { failed: "retrying", refused: "dead", lease_ended: "warning" };
    return el("ol", { class: "line-of-time" },
        lost > 0 && history.length ? el("li", { class: "past" }, el("span", { class: "dot" }), el("div", {}, t("line.earlier", { n: lost }))) : null,
        history.map((one) => el("li", { class: `past ${one.outcome}` }, el("span", { class: "dot" }, icon(shape[one.outcome] ?? "warning")),
            el("div", {},
                el("p", {}, el("strong", {}, t("line.attempt", { n: one.attempt })), " ", t(`outcome.${one.outcome}`), " ", el("span", { class: "help" }, timeOf(one.at), " \u00b7 ", t("line.took", { d: duration(one.duration_ms ?? 0) }))),
                one.error ? el("p", { class: "error-text-full" }, bdi(one.error)) : null))),
        job.state === "leased" ? el("li", { class: "now" }, el("span", { class: "dot" }, icon("leased")), el("div", {}, el("p", {}, el("strong", {}, t("line.attempt", { n: job.attempt })), " ", t("line.underWay"), " ", timeOf(job.lease_until, { isRelative: true })), job.consumer ? el("p", { class: "help" }, t("line.heldBy"), " ", bdi(job.consumer)) : null, progressOf(job), job.cancel_requested ? el("p", { class: "help" }, t("line.asked")) : null)) : null,
        ["delayed", "ready"].includes(job.state) ? el("li", { class: "to-come" }, el("span", { class: "dot" }, icon(stateOf(job))), el("div", {}, el("p", {}, el("strong", {}, t("line.attempt", { n: job.attempt + 1 })), " ", isWaiting(job) ? t("batch.waitsFor", { n: job.waits_for }) : [t("line.due"), " ", timeOf(job.due_at, { isRelative: true })]))) : null,
        job.state === "finished" ? el("li", { class: "past" }, el("span", { class: "dot" }, icon("done")), el("div", {}, job.attempt ? el("p", {}, el("strong", {}, t("line.attempt", { n: job.attempt }))) : null, ended(job), job.consumer ? el("p", { class: "help" }, t("line.wasHeldBy"), " ", bdi(job.consumer)) : null, job.progress ? el("p", { class: "help" }, t("job.progress"), ": ", bdi(job.progress)) : null)) : null,
        job.state === "dead" ? el("li", { class: "past dead" }, el("span", { class: "dot" }, icon("dead")), el("div", {}, el("p", {}, el("strong", {}, t("state.dead"))), job.last_error && !history.length ? el("p", { class: "error-text-full" }, bdi(job.last_error)) : null)) : null);
}

function reschedule(topic, job) {
    const due = dueFields("delay"), priority = el("input", { type: "number", id: "priority", min: 0, max: 65535, value: job.priority });
    return formDialog({ title: t("reschedule.title", { id: job.id }), action: t("reschedule.do"), body: [due.node, field(t("job.priority"), priority, t("reschedule.priority"))], send: async (signal) => {
        await ask("PATCH", path("v1", "topics", topic, "jobs", job.id), { query: { ...due.query(), priority: priority.value }, signal });
        notice(t("reschedule.done", { id: job.id }));
    } });
}

/** Replaces the body under the same id; attempts and history start again. */
function edit(topic, job, body) {
    const text = el("textarea", { id: "edit-body", class: "mono", rows: "14", spellcheck: "false", value: textOf(body) ?? "" });
    const type = el("input", { type: "text", id: "edit-type", value: job.content_type ?? "" });
    const meta = metaFields(job.meta), json = jsonCheck();
    return formDialog({ title: t("edit.title", { id: job.id }), action: t("edit.do"), isWide: true, body: [el("p", { class: "help" }, t("edit.what")), field(t("job.body"), text), json.node, field(t("job.type"), type), meta.node], send: async (signal) => {
        json.check(type.value, text.value);
        const query = { priority: job.priority, on_conflict: "replace", ...Object.fromEntries(OWN.map((name) => [name, job[name]])) };
        await put(topic, job.id, { body: text.value, type: type.value || "application/octet-stream", query, pairs: meta.pairs(), signal });
        notice(t("edit.done", { id: job.id }));
    } });
}

/** @param {{topic: string, id: string, node: Element, signal: AbortSignal}} page */
export async function show({ topic, id, node, signal }) {
    const where = path("v1", "topics", topic, "jobs", id);
    const links = () => trail([[t("nav.topics"), ["topics"]], [topic, ["topics", topic]], [t("topic.jobs"), ["topics", topic, "jobs"]]]);
    let job, body, hasBody = false, about = null, group = null, timer = 0, last = "", origin = null;

    function gone() {
        clearTimeout(timer);
        batch.node.hidden = true;
        fill(marks, el("span", { class: "badge" }, icon("done"), t("job.gone")));
        fill(actions, scoped(t("push.button"), "push", topic, async () => (await import("./push.js")).push(topic)));
        fill(facts, el("p", {}, t("job.goneHelp")));
    }

    const marks = el("span", { class: "marks", id: "job-marks" }), actions = el("div", { class: "row actions", role: "group", "aria-label": t("job.actions") });
    const batch = batchCard(topic, id, signal, () => look(true));
    const facts = el("div", { class: "job-facts" }), shown = el("div", { class: "job-body" });

    function draw() {
        batch.update(job);
        const key = JSON.stringify([job, group, about?.paused, about?.paused_until, about?.settings]);
        if (key === last) return;
        last = key;
        fill(marks, job.state === "finished" ? [badge("finished"), outcomeBadge(job)] : badge(stateOf(job)));
        const then = (work) => async () => {
            if (await work()) await look(true);
        };
        const isDead = job.state === "dead", isLeased = job.state === "leased", isFinished = job.state === "finished";
        // Only what can be done with a job in its state.
        fill(actions,
            isDead ? scoped(t("job.redrive"), "admin", topic, then(() => report(() => post(path("v1", "topics", topic, "redrive"), { id }), t("redrive.done", { n: 1 }))), { kind: "primary" }) : null,
            job.state === "delayed" ? scoped(t("job.run"), "push", topic, then(() => report(() => post(`${where}/run`), t("job.runs", { id })))) : null,
            isDead ? scoped(t("edit.button"), "push", topic, then(() => edit(topic, job, body)), { why: textOf(body) === null ? t("edit.binary") : "" }) : null,
            isFinished && hasBody ? scoped(t("copy.button"), "push", topic, () => pushCopy(topic, job, body)) : null,
            isDead || isLeased || isFinished ? null : scoped(t("reschedule.button"), "push", topic, then(() => reschedule(topic, job))),
            job.state === "dead" && job.last_error ? scoped(t("job.redriveAlike"), "admin", topic, then(() => redriveMany(topic, { error: job.last_error }))) : null,
            isFinished ? null : button(t("curl.button"), () => curlDialog(topic, job, body)),
            isFinished ? null : menu(t("topic.more"), [
                scoped(t("job.cancel"), "push", topic, async () => {
                    if (job.state === "leased") {
                        if (await formDialog({ title: t("cancel.title", { id }), action: t("request.do"), isDanger: true, body: el("p", {}, t("request.what")), send: (end) => ask("DELETE", `${where}?request=true`, { signal: end }) })) {
                            notice(t("request.done", { id }));
                            await look(true);
                        }
                        return;
                    }
                    if (await formDialog({ title: t("cancel.title", { id }), action: t("cancel.do"), isDanger: true, body: el("p", {}, t("cancel.what")), send: (end) => ask("DELETE", where, { signal: end }) })) {
                        notice(t("cancel.done", { id }));
                        go(["topics", topic, "jobs"]);
                    }
                }, { kind: "danger" }),
                isWaiting(job) ? scoped(t("batch.cancel"), "push", topic, async () => {
                    if (await cancelBatch(topic, job)) go(["topics", topic, "jobs"]);
                }, { kind: "danger" }) : null]));
        const meta = Object.entries(job.meta ?? {});
        origin ??= originCard(topic, job, signal);
        fill(facts,
            el("section", { class: "card", "aria-labelledby": "next-title" }, el("div", { class: "card-head" }, el("h2", { id: "next-title" }, t(isFinished ? "next.ended" : "next.title"))), el("div", { class: "card-body" }, next(job, about, group))),
            el("section", { class: "card", "aria-labelledby": "line-title" }, el("div", { class: "card-head" }, el("h2", { id: "line-title" }, t("line.title"))), el("div", { class: "card-body" }, timeLine(job))),
            el("section", { class: "card", "aria-labelledby": "facts-title" }, el("div", { class: "card-head" }, el("h2", { id: "facts-title" }, t("job.facts"))), el("div", { class: "card-body" },
                el("dl", { class: "facts" },
                    (isFinished ? [["job.finishedAt", timeOf(job.finished_at)], ["job.took", job.duration_ms ? duration(job.duration_ms) : "\u2014"], ["job.attempt", number(job.attempt)]]
                        : [["job.due", timeOf(job.due_at)], ["job.attempt", t("job.attemptOf", { n: job.attempt, of: job.max_attempts ?? about?.settings?.max_attempts ?? 16 })], ["job.priority", number(job.priority)], ["job.delivery", job.delivery ? String(job.delivery) : "\u2014"]])
                        .map(([word, value]) => el("div", {}, el("dt", {}, t(word)), el("dd", {}, value))),
                    job.batch ? el("div", {}, el("dt", {}, t("batch.of")), el("dd", {}, jobLink(job.batch))) : null,
                    job.group ? el("div", {}, el("dt", {}, t("job.group")), el("dd", {}, el("a", { href: href(["topics", topic, "groups"], { name: job.group }) }, bdi(job.group)))) : null,
                    OWN.filter((name) => job[name] !== undefined).map((name) => el("div", {}, el("dt", {}, name), el("dd", {}, bdi(job[name]))))),
                meta.length ? [el("h3", {}, t("meta.title")), el("dl", { class: "meta" }, meta.map(([name, value]) => el("div", {}, el("dt", { class: "mono" }, bdi(name)), el("dd", { class: "mono" }, bdi(value)))))] : null)),
            origin);
    }

    /** Reads it again; its body too where that may be another one. */
    async function look(isWhole = false) {
        clearTimeout(timer);
        if (signal.aborted) return;
        if (isWhole || !document.hidden) {
            try {
                const now = await get(where, { body: isWhole ? "base64" : "false" }, signal);
                about = await topicOf(topic, signal).catch(() => null);
                group = now.held_by && now.group ? await get(path("v1", "topics", topic, "groups", now.group), {}, signal).catch(() => null) : null;
                if (isWhole) {
                    body = bytesOf(now.body_base64 ?? "");
                    hasBody = now.body_base64 !== undefined;
                    const result = resultOf(now);
                    fill(shown, result ? bodyCard(result, now.result_type ?? "", `${id}-result`, "result") : null,
                        hasBody ? bodyCard(body, now.content_type ?? "", id) : el("section", { class: "card" }, el("div", { class: "card-body" }, result ? null : el("p", {}, t("job.noResult")), el("p", { class: "help" }, t("job.noBody")))));
                }
                delete now.body_base64;
                delete now.result_base64;
                const isOther = job && ((now.delivery ?? 0) < (job.delivery ?? 0) || (now.state === "finished") !== (job.state === "finished"));
                job = now;
                draw();
                if (isOther && !isWhole) return look(true);
            } catch (fault) {
                if (signal.aborted) return;
                if (!job) throw fault;
                if (fault.status === 404) return gone();
            }
        }
        timer = setTimeout(look, AGAIN_MS);
    }

    signal.addEventListener("abort", () => clearTimeout(timer));
    document.addEventListener("visibilitychange", () => !document.hidden && job && look(), { signal });
    try {
        await look(true);
    } catch (fault) {
        if (fault.status !== 404) throw fault;
        fill(node, links(), el("div", { class: "title-row" }, el("h1", { tabindex: "-1" }, bdi(id))), el("section", { class: "card" }, el("div", { class: "card-body" }, el("p", {}, t("job.none")), el("p", {}, el("a", { href: href(["topics", topic, "jobs"]) }, t("topic.jobs"))))));
        return id;
    }
    fill(node, links(), el("div", { class: "title-row" }, el("h1", { tabindex: "-1", class: "mono" }, bdi(id), marks), actions), batch.node, el("div", { class: "halves job" }, shown, facts));
    return id;
}
