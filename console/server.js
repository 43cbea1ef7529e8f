// The server: version, durability, store, connections, limits that were met, and its log.
import { app } from "./app.js";
import { get } from "./api.js";
import { bdi, el, fill, setText, seen } from "./dom.js";
import { bytes, duration, moment, number, percent, timeOf } from "./format.js";
import { icon } from "./icons.js";
import { reason } from "./notice.js";
import { learn, lacks } from "./session.js";
import { listen } from "./stream.js";
import { has, t } from "./words.js";

const LINES = 500, AGAIN_MS = 5000;

/** A figure by its name: bytes, time, span or number. */
function figure(name, value) {
    if (value === null || value === undefined) return el("span", { class: "none" }, "\u2014");
    if (typeof value === "boolean") return t(value ? "do.yes" : "do.no");
    if (typeof value === "number") return /bytes/.test(name) ? bytes(value) : name.endsWith("_ms") ? duration(value) : name.endsWith("_us") ? duration(value / 1000) : number(value);
    if (typeof value === "string" && name.endsWith("_at")) return timeOf(value, { isRelative: true });
    if (typeof value === "object") return bdi(JSON.stringify(value));
    return bdi(value);
}

/** The name of a figure in words; one that is not known here stays as the server calls it. */
const nameOf = (name) => (has(`figure.${name}`) ? t(`figure.${name}`) : name.replaceAll("_", " "));

const facts = (object, leave = []) => el("dl", { class: "facts" }, Object.entries(object).filter(([name, value]) => !leave.includes(name) && value !== undefined && (typeof value !== "object" || value === null))
    .map(([name, value]) => el("div", { "data-figure": name }, el("dt", {}, nameOf(name)), el("dd", {}, figure(name, value)))));

/** A list of objects as a table: their members are its columns. */
function table(rows, label) {
    const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
    const isNumber = (name) => rows.some((row) => typeof row[name] === "number");
    return el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": label }, el("table", {},
        el("thead", {}, el("tr", {}, names.map((name) => el("th", { scope: "col", class: isNumber(name) ? "n" : "" }, nameOf(name))))),
        el("tbody", {}, rows.map((row) => el("tr", {}, names.map((name) => el("td", { class: isNumber(name) ? "n" : "" }, Array.isArray(row[name]) ? bdi(row[name].join(", ")) : figure(name, row[name]))))))));
}

const card = (id, title, ...children) => el("section", { class: "card", id, "aria-labelledby": `${id}-title` }, el("div", { class: "card-head" }, el("h2", { id: `${id}-title` }, title)), el("div", { class: "card-body" }, children));

/** Shows the used share of a limit. */
function share(word, used, most) {
    if (!most) return null;
    return el("div", { class: "share" }, el("span", {}, t(word)), el("meter", { class: "plain-meter", min: 0, max: most, high: most * 0.85, value: used, "aria-label": t(word) }), el("span", { class: "help" }, t("server.shareOf", { used: bytes(used), most: bytes(most), share: percent(used / most) })));
}

function durability(status) {
    const key = `durability.${status.durability_class}`;
    return [el("p", { class: "durable" }, icon(["always"].includes(status.durability_class) ? "well" : "warning"), " ", el("strong", {}, has(key) ? t(key) : "")), el("p", { class: "help" }, bdi(status.durability))];
}

/** The cards, from the server's status. */
function cards(status) {
    const { disk, memory = {}, connections, tokens, limits_met: met, clock, shards = [] } = status;
    const isRedis = status.store !== "embedded";
    return [
        el("div", { class: "halves" },
            card("about", t("server.about"), facts({ version: status.version, store: status.store, place: status.place, started_at: status.started_at, uptime_ms: status.uptime_ms, healthy: status.healthy, accepting: status.accepting, waiting_takes: status.waiting_takes })),
            card("durability", t("server.durability"), durability(status))),
        el("div", { class: "halves" },
            disk ? card("disk", t("server.disk"), facts(disk, ["full_at"]), el("p", {}, disk.full_at ? [t("server.fullAt"), " ", timeOf(disk.full_at, { isRelative: true }), " (", timeOf(disk.full_at), ")"] : t(disk.bytes_per_hour === null ? "server.growthUnknown" : "server.notFull")),
                share("server.diskShare", disk.bytes_used, disk.bytes_used + disk.bytes_free)) : null,
            card("memory", t("server.memory"), facts(memory), memory.process_max_bytes ? share("server.memoryShare", memory.process_bytes, memory.process_max_bytes) : null)),
        card("shards", t(isRedis ? "server.shardsRedis" : "server.shards"), shards.length ? table(shards, t("server.shards")) : el("p", { class: "help" }, t("server.noShards"))),
        el("div", { class: "halves" },
            card("connections", t("server.connections"), Array.isArray(connections) ? table(connections, t("server.connections")) : facts(typeof connections === "object" ? connections ?? {} : { connections })),
            card("limits", t("server.limits"), met?.length ? table(met, t("server.limits")) : el("p", { class: "help" }, t("server.noLimits")), clock ? [el("h3", {}, t("server.clock")), facts(clock)] : null)),
        card("tokens", t("server.tokens"), tokens ? [el("p", { class: "help" }, t("server.tokenCount", { n: tokens.count }), ". ", t("server.tokenRevoke", { command: "tarry token revoke NAME" })), tokens.list?.length ? table(tokens.list, t("server.tokens")) : null] : el("p", { class: "help" }, t("server.noTokens"))),
    ];
}

/** @param {{node: Element, signal: AbortSignal, showLive: Function}} page */
export async function show({ node, signal, showLive }) {
    const info = await learn(signal);
    const box = el("div", { class: "page" }), lines = el("tbody", {}), lost = el("p", { class: "help" });
    const level = el("select", { id: "log-level", "aria-label": t("log.level"), value: "" }, ["", "warning", "error"].map((value) => el("option", { value }, value ? t(`log.${value}`) : t("log.all"))));
    const wanted = { "": /./, warning: /warn|error|crit|fatal/i, error: /error|crit|fatal/i };
    level.addEventListener("change", () => {
        for (const row of lines.children) row.hidden = !wanted[level.value].test(row.dataset.level);
    });
    let last = "", newest = "", same = new Set(); // lines of the newest moment: the stream may have newer ones than the first answer
    function add(more) {
        for (const one of more) {
            const key = JSON.stringify(one);
            if (one.at < newest || same.has(key)) continue;
            if (one.at > newest) same = new Set();
            newest = one.at;
            same.add(key);
            const row = el("tr", { class: `log-${one.level}`, "data-level": one.level },
                el("td", { class: "when" }, el("time", { datetime: one.at, title: one.at }, moment(one.at))),
                el("td", {}, el("span", { class: "log-mark" }, /warn/i.test(one.level) ? icon("warning") : /error|crit/i.test(one.level) ? icon("critical") : null, one.level)),
                el("td", { class: "event" }, bdi(one.event)),
                el("td", { class: "wrap mono" }, Object.entries(one.fields ?? {}).map(([name, value]) => [el("span", { class: "log-field" }, el("span", { class: "help" }, seen(name), "="), bdi(typeof value === "object" ? JSON.stringify(value) : value)), " "])));
            row.hidden = !wanted[level.value].test(one.level);
            lines.prepend(row);
        }
        while (lines.children.length > LINES) lines.lastChild?.remove();
    }

    fill(node,
        el("div", { class: "title-row" }, el("h1", { tabindex: "-1" }, t("server.title")), app.token ? null : el("a", { href: "../openapi.yaml", download: "openapi.yaml" }, "openapi.yaml")), // a link brings no token
        box,
        el("section", { class: "card", id: "log", "aria-labelledby": "log-title" }, el("div", { class: "card-head" }, el("h2", { id: "log-title" }, t("log.title")), level),
            el("div", { class: "card-body flush" }, lost, el("div", { class: "scroll log", tabindex: "0", role: "group", "aria-label": t("log.title") }, el("table", {},
                el("thead", {}, el("tr", {}, ["at", "levelHead", "event", "fields"].map((name) => el("th", { scope: "col" }, t(`log.${name}`))))), lines)))));

    const limits = card("limit-list", t("server.limitList"), el("details", { class: "fold" }, el("summary", {}, t("server.limitsShow")), facts(info.limits)), el("details", { class: "fold" }, el("summary", {}, t("server.featuresShow")), facts(info.features)));
    function draw(status) {
        const key = JSON.stringify({ ...status, at: 0, uptime_ms: 0, log: 0 });
        const up = box.querySelector('[data-figure="uptime_ms"] dd');
        if (key === last && up) return setText(up, duration(status.uptime_ms));
        // The cards stay unchanged while the user reads or holds something in them.
        if (last && box.contains(document.activeElement) && document.activeElement?.closest(".scroll")) return;
        last = key;
        fill(box, cards({ ...status, started_at: status.started_at ?? info.started_at }), limits);
    }

    if (lacks("read")) {
        fill(box, cards(info), el("p", { class: "help" }, lacks("read")), limits);
        setText(lost, lacks("read"));
        return t("server.title");
    }
    let asked = 0;
    async function look() {
        asked = performance.now();
        draw(await get("v1/server", {}, signal));
    }
    try {
        await look();
        const log = await get("v1/log", { limit: 200 }, signal);
        add(log.lines);
        if (log.lost) setText(lost, t("log.lost", { n: log.lost }));
    } catch (fault) {
        if (signal.aborted) throw fault;
        if (!last) fill(box, cards(info), limits);
        setText(lost, reason(fault));
    }
    if (!lines.children.length) lost.hidden = !lost.textContent;
    listen("v1/live", { view: "server" }, { snapshot: (status) => {
        app.skew = Date.parse(status.at) - Date.now();
        add(status.log ?? []);
        if (status.version) draw(status);
        else if (performance.now() - asked > AGAIN_MS) look(); // a snapshot without the figures
    } }, showLive, signal);
    return t("server.title");
}
