// The first page: health of the server, rates, topics, jobs to come, dead jobs.
import { app } from "./app.js";
import { Curve, sparkline } from "./chart.js";
import { deadCard } from "./dead.js";
import { bdi, el, fill, mark, setText } from "./dom.js";
import { duration, number, rate, relative, short } from "./format.js";
import { loadCard } from "./load.js";
import { statusBox } from "./problems.js";
import { rangeChoice } from "./ranges.js";
import { href } from "./router.js";
import { lacks } from "./session.js";
import { deliversBadge, pausedBadge, STATES } from "./state.js";
import { listen } from "./stream.js";
import { t } from "./words.js";

export function curveOf(key) {
    if (!app.curves.has(key)) app.curves.set(key, new Curve());
    return app.curves.get(key);
}

export const orDash = (value, words) => (value === null || value === undefined ? "\u2014" : words(value));

/** The points that the server kept go before our own. */
export function takeHistory(curve, history) {
    const own = curve.points.splice(0);
    const values = (point) => ({ in: point.pushed_per_s, out: point.delivered_per_s, acked: point.acked_per_s, ready: point.ready, late: point.lateness_p99_ms, oldest: point.oldest_ready_age_ms });
    for (const point of history.points ?? []) curve.add(Date.parse(point.at), values(point));
    const last = curve.points.at(-1)?.slot ?? -1;
    for (const point of own) if (point.slot > last) curve.points.push(point);
}

/** A figure with its name and its curve. @param {string} word @param {string[]} names of the curve's lines @param {string} id @param {(value: number) => string} words for a value */
export function tile(word, names, id, words) {
    const value = el("span", { class: "tile-value", id }, "\u2014"), more = el("span", { class: "tile-more" }), peakText = el("span", { class: "tile-peak" });
    const picture = sparkline(names, { height: 40, isFilled: true });
    return {
        node: el("div", { class: `tile tile-${names[0]}` }, el("dt", {}, t(word)), el("dd", {}, value, more, peakText, picture.node)),
        /** @param {string} text @param {string} beside @param {any} range of rangeChoice */
        update(text, beside, range) {
            setText(value, text);
            setText(more, beside);
            const curve = range.curve();
            picture.draw(curve, range.isLive() ? t("curve.of", { what: t(word), now: text }) : t("curve.range", { what: t(word), range: range.name(), now: text }));
            const peak = range.isLive() || !curve.points.length ? "" : t("curve.peak", { n: words(curve.max(names)) });
            setText(peakText, peak);
        },
    };
}

/** A row of the table, and how it is kept up to date. */
function topicRow(name) {
    const picture = sparkline(["in", "out"], { height: 24 });
    const cells = Object.fromEntries([...STATES, "in", "out", "late", "oldest"].map((key) => [key, el("td", { class: `n n-${key}`, role: "cell", "data-label": t(`topics.${key}`) })]));
    const marks = el("span", { class: "marks" });
    let last = "";
    const links = Object.fromEntries(STATES.map((state) => [state, el("a", { href: href(["topics", name, "jobs"], { state }) })]));
    for (const state of STATES) cells[state].append(links[state]);
    const node = el("tr", { role: "row" },
        el("th", { scope: "row", role: "rowheader", class: "topic-name" }, el("a", { href: href(["topics", name]) }, bdi(name)), marks),
        STATES.map((state) => cells[state]), cells.in, cells.out, cells.late, cells.oldest, el("td", { class: "curve", role: "cell", "data-label": t("topics.curve") }, picture.node));
    return {
        node,
        update(topic, at) {
            for (const state of STATES) {
                setText(links[state], short(topic.counts[state] ?? 0));
                mark(cells[state], "data-zero", !topic.counts[state]);
            }
            setText(cells.in, rate(topic.rates.pushed_per_s));
            setText(cells.out, rate(topic.rates.delivered_per_s));
            setText(cells.late, orDash(topic.lateness_p99_ms, duration));
            mark(cells.late, "data-bad", topic.lateness_p99_ms > 1000);
            setText(cells.oldest, orDash(topic.oldest_ready_age_ms, duration));
            mark(cells.oldest, "data-bad", topic.oldest_ready_age_ms > 60_000);
            const until = topic.paused_until;
            const key = `${topic.paused} ${until ? relative(until) : ""} ${topic.delivers}`;
            if (key !== last) fill(marks, pausedBadge(topic), topic.delivers ? deliversBadge() : null);
            last = key;
            const curve = curveOf("topic " + name);
            curve.add(at, { in: topic.rates.pushed_per_s, out: topic.rates.delivered_per_s });
            picture.draw(curve, t("curve.inOut", { in: rate(topic.rates.pushed_per_s), out: rate(topic.rates.delivered_per_s) }));
        },
    };
}

function topicTable() {
    const rows = new Map();
    let order = { key: "", isUp: false };
    const body = el("tbody", { role: "rowgroup" });
    const keys = ["topic", ...STATES, "in", "out", "late", "oldest"];
    const value = (topic, key) => (key === "topic" ? topic.topic : key === "in" ? topic.rates.pushed_per_s : key === "out" ? topic.rates.delivered_per_s
        : key === "late" ? topic.lateness_p99_ms ?? -1 : key === "oldest" ? topic.oldest_ready_age_ms ?? -1 : topic.counts[key]);
    let last = null;
    const heads = keys.map((key) => el("th", { scope: "col", role: "columnheader", class: key === "topic" ? "" : "n" }, el("button", { type: "button", class: "sort", on: { click: () => {
        order = order.key !== key ? { key, isUp: key === "topic" } : order.isUp === (key === "topic") ? { key, isUp: key !== "topic" } : { key: "", isUp: false };
        heads.forEach((head, at) => mark(head, "aria-sort", keys[at] !== order.key ? null : order.isUp ? "ascending" : "descending"));
        if (last) update(last.topics, last.at);
    } } }, t(`topics.${key}`))));
    const node = el("table", { class: "topics", role: "table", "aria-labelledby": "topics-title" },
        el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, heads, el("th", { scope: "col", role: "columnheader", class: "curve" }, t("topics.curve")))), body);

    function update(topics, at) {
        last = { topics, at };
        for (const name of rows.keys()) if (!topics.some(({ topic }) => topic === name)) {
            rows.get(name).node.remove();
            rows.delete(name);
        }
        const isFocused = body.contains(document.activeElement);
        const sorted = order.key ? [...topics].sort((a, b) => {
            const x = value(a, order.key), y = value(b, order.key);
            return (x < y ? -1 : x > y ? 1 : 0) * (order.isUp ? 1 : -1);
        }) : topics;
        let before = null;
        for (const topic of sorted) {
            if (!rows.has(topic.topic)) rows.set(topic.topic, topicRow(topic.topic));
            const row = rows.get(topic.topic);
            row.update(topic, at);
            // A row that is being read does not go away under the finger.
            const isInPlace = before ? before.nextSibling === row.node : body.firstChild === row.node;
            if (!row.node.isConnected || (!isInPlace && !isFocused && !body.matches(":hover"))) body.insertBefore(row.node, before ? before.nextSibling : body.firstChild);
            before = row.node;
        }
    }
    return { node, update };
}

/** @param {{node: Element, signal: AbortSignal, showLive: Function}} page */
export function show({ node, signal, showLive }) {
    const status = statusBox(), table = topicTable(), dead = deadCard(signal);
    const more = el("p", { class: "more" });
    const none = el("p", { class: "help" }, t("page.wait"));
    const tiles = { in: tile("tile.in", ["in"], "tile-in", rate), out: tile("tile.out", ["out", "acked"], "tile-out", rate), ready: tile("tile.ready", ["ready"], "tile-ready", short),
        late: tile("tile.late", ["late"], "tile-late", duration), oldest: tile("tile.oldest", ["oldest"], "tile-oldest", duration) };
    const sums = el("dl", { class: "facts sums" });
    const all = curveOf("");
    let last = null;
    const range = rangeChoice(all, undefined, signal, () => last && figures(last));
    const why = lacks("read");
    fill(node,
        el("h1", { class: "unseen", tabindex: "-1" }, t("overview.title")),
        status.node,
        el("div", { class: "split" },
            el("div", { class: "split-main" },
                el("section", { "aria-label": t("overview.figures") }, range.node, el("dl", { class: "tiles" }, Object.values(tiles).map((one) => one.node)), sums),
                el("section", { class: "card", "aria-labelledby": "topics-title" },
                    el("div", { class: "card-head" }, el("h2", { id: "topics-title" }, t("topics.title")), el("a", { href: "#/topics" }, t("topics.all"))),
                    el("div", { class: "card-body flush" }, none, table.node, more))),
            el("div", { class: "split-side" }, loadCard(undefined, signal), dead.node)));
    table.node.hidden = true;

    function figures({ totals, rates, lateness, oldest_ready_age_ms: oldest, waiting_takes: waiting }) {
        tiles.in.update(rate(rates.pushed_per_s), t("tile.perSecond"), range);
        tiles.out.update(rate(rates.delivered_per_s), t("tile.acked", { n: rate(rates.acked_per_s) }), range);
        tiles.ready.update(short(totals.ready), t("tile.leased", { n: short(totals.leased) }), range);
        tiles.late.update(orDash(lateness?.count ? lateness.p99_ms : null, duration), lateness?.count ? t("tile.p50", { d: duration(lateness.p50_ms) }) : t("tile.noneDelivered"), range);
        tiles.oldest.update(orDash(oldest, duration), waiting ? t("tile.waiting", { n: waiting }) : t("tile.noneWait"), range);
    }

    function snapshot(now) {
        const at = Date.parse(now.at), { totals, rates, lateness } = now;
        app.skew = at - Date.now();
        all.add(at, { in: rates.pushed_per_s, out: rates.delivered_per_s, acked: rates.acked_per_s, ready: totals.ready, late: lateness?.p99_ms ?? null, oldest: now.oldest_ready_age_ms });
        status.update(now.status, totals);
        last = now;
        figures(now);
        const facts = [["state.delayed", number(totals.delayed)], ["state.retrying", number(totals.retrying)], ["state.dead", number(totals.dead)], ["sum.failed", rate((rates.nacked_per_s ?? 0) + (rates.died_per_s ?? 0))],
            ["sum.cancelled", rate((rates.cancelled_per_s ?? 0) + (rates.expired_per_s ?? 0))], ["sum.connections", orDash(now.connections, number)]];
        if (!sums.children.length) fill(sums, facts.map(([word]) => el("div", {}, el("dt", {}, t(word)), el("dd", {}))));
        facts.forEach(([, text], index) => setText(sums.children[index].querySelector("dd"), text));
        table.node.hidden = !now.topics.length;
        none.hidden = now.topics.length > 0;
        if (!now.topics.length) setText(none, t("topics.none"));
        table.update(now.topics, at);
        dead.update(now.topics);
        fill(more, now.topics_left_out ? el("a", { href: "#/topics" }, t("topics.more", { n: now.topics_left_out })) : null);
    }

    if (app.info && !app.info.caller.scopes.includes("read")) setText(none, why);
    listen("v1/live", { view: "overview" }, { history: (now) => takeHistory(all, now), snapshot }, (state, problem) => {
        showLive(state);
        if (problem) {
            setText(none, problem.message);
            status.update({ well: false, sentence: problem.message, problems: [{ code: "refused", severity: "warning", sentence: problem.message }] });
        }
    }, signal);
    return t("overview.title");
}
