// One topic: counts, rates, jobs to come, dead jobs.
import { app } from "./app.js";
import { consumersCard } from "./consumers.js";
import { errorList } from "./dead.js";
import { el, fill, mark, setText } from "./dom.js";
import { bytes, duration, number, rate, short } from "./format.js";
import { icon } from "./icons.js";
import { loadCard } from "./load.js";
import { curveOf, orDash, takeHistory, tile } from "./overview.js";
import { rangeChoice, tenMinutes } from "./ranges.js";
import { href } from "./router.js";
import { STATES } from "./state.js";
import { listen } from "./stream.js";
import { noTopic, topicHead, topicOf } from "./topic_head.js";
import { t } from "./words.js";

const SUMS = ["pushed", "delivered", "acked", "nacked", "lease_ended", "died", "redriven", "cancelled", "expired", "replaced"];

/** @param {{topic: string, node: Element, signal: AbortSignal, showLive: Function}} page */
export async function show({ topic, node, signal, showLive }) {
    let known = await topicOf(topic, signal);
    const head = topicHead(topic, "topic", known, again);

    async function again() {
        known = await topicOf(topic, signal);
        head.update(known);
        if (known) counts(known.counts);
        facts(known);
        errors();
    }

    const cells = Object.fromEntries(STATES.map((state) => [state, el("span", { class: "state-count" })]));
    const states = el("ul", { class: "states", "aria-label": t("topic.states") }, STATES.map((state) => el("li", {},
        el("a", { class: `state ${state}`, href: href(["topics", topic, "jobs"], { state }) }, el("span", { class: "state-name" }, icon(state), t(`state.${state}`)), cells[state]))));
    const finished = el("p", { class: "help", id: "finished-line", hidden: true });
    let kept = -1;
    function counts(now) {
        if (kept !== (now.finished ?? 0)) {
            kept = now.finished ?? 0;
            finished.hidden = !kept && !known?.settings?.keep_finished;
            fill(finished, t("topic.finished", { n: kept }), " ", el("a", { href: href(["topics", topic, "jobs"], { state: "finished" }) }, t("topic.finishedShow")));
        }
        for (const state of STATES) {
            setText(cells[state], number(now[state] ?? 0));
            mark(cells[state].parentElement, "data-zero", !now[state]);
        }
    }

    const tiles = { in: tile("tile.in", ["in"], "tile-in", rate), out: tile("tile.out", ["out", "acked"], "tile-out", rate), late: tile("tile.late", ["late"], "tile-late", duration), oldest: tile("tile.oldest", ["oldest"], "tile-oldest", duration) };
    const own = curveOf("topic " + topic);
    let last = null;
    if (!own.points.some(({ values }) => "oldest" in values)) tenMinutes(topic, signal).then((past) => {
        takeHistory(own, past);
        if (last) figures(last);
    }).catch(() => {}); // the curve then begins now
    const range = rangeChoice(own, topic, signal, () => last && figures(last));
    function figures({ topic: { rates, counts: now, oldest_ready_age_ms: oldest }, lateness: late }) {
        tiles.in.update(rate(rates.pushed_per_s), t("tile.perSecond"), range);
        tiles.out.update(rate(rates.delivered_per_s), t("tile.acked", { n: rate(rates.acked_per_s) }), range);
        tiles.late.update(orDash(late?.count ? late.p99_ms : null, duration), late?.count ? t("tile.p50", { d: duration(late.p50_ms) }) : t("tile.noneDelivered"), range);
        tiles.oldest.update(orDash(oldest, duration), t("tile.readyNow", { n: short(now.ready) }), range);
    }
    const sums = el("dl", { class: "facts" });
    function facts(now) {
        if (!now) return;
        fill(sums, SUMS.map((name) => el("div", {}, el("dt", {}, t(`sums.${name}`)), el("dd", {}, number(now.totals?.[name] ?? 0)))),
            el("div", {}, el("dt", {}, t("sums.dead_bytes")), el("dd", {}, bytes(now.dead_bytes ?? 0))));
    }

    const dead = el("div", { class: "card-body" }), showDead = el("a", { href: href(["topics", topic, "jobs"], { state: "dead" }) }, t("dead.show"));
    let shown = -1, asked = -Infinity;
    async function errors() {
        const count = known?.counts.dead ?? 0;
        shown = count;
        showDead.hidden = !count;
        asked = performance.now();
        const list = count ? await errorList(topic, 20, signal) : el("p", { class: "help" }, t("dead.none"));
        if (!signal.aborted) fill(dead, list);
    }

    if (!known) {
        fill(node, head.node, noTopic(topic, () => location.reload()));
        return topic;
    }
    fill(node, head.node, states, finished,
        el("section", { "aria-label": t("overview.figures") }, range.node, el("dl", { class: "tiles four" }, Object.values(tiles).map((one) => one.node))),
        el("div", { class: "halves" },
            loadCard(topic, signal),
            el("section", { class: "card", "aria-labelledby": "dead-title" }, el("div", { class: "card-head" }, el("h2", { id: "dead-title" }, t("dead.byError")), showDead), dead)),
        consumersCard(topic, Boolean(known.settings?.deliver), signal),
        el("section", { class: "card", "aria-labelledby": "sums-title" }, el("div", { class: "card-head" }, el("h2", { id: "sums-title" }, t("sums.title"))), el("div", { class: "card-body" }, sums)));
    counts(known.counts);
    facts(known);
    errors();

    listen("v1/live", { view: "topic", topic }, {
        history: (past) => takeHistory(own, past),
        snapshot: (now) => {
            const one = now.topic, at = Date.parse(now.at), { rates } = one, late = now.lateness;
            app.skew = at - Date.now();
            own.add(at, { in: rates.pushed_per_s, out: rates.delivered_per_s, acked: rates.acked_per_s, late: late?.count ? late.p99_ms : null, oldest: one.oldest_ready_age_ms });
            known = { ...known, ...one, settings: one.settings ?? known.settings };
            if (!one.paused) known.paused_until = null; // of a pause that has ended
            head.update(known);
            counts(one.counts);
            last = now;
            figures(now);
            if (one.counts.dead !== shown && performance.now() - asked > 5000) errors();
        },
    }, showLive, signal);
    return topic;
}
