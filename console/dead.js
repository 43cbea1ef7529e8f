// Dead jobs by topic and error.
import { get, path } from "./api.js";
import { bdi, el, fill } from "./dom.js";
import { number, timeOf } from "./format.js";
import { reason } from "./notice.js";
import { href } from "./router.js";
import { t } from "./words.js";

/** The errors of a topic's dead jobs, most often first. @param {string} topic @param {number} limit @param {AbortSignal} signal */
export async function errorList(topic, limit, signal) {
    let found;
    try {
        found = await get(`${path("v1", "topics", topic)}/dead-errors`, { limit }, signal);
    } catch (fault) {
        return el("p", { class: "help" }, reason(fault));
    }
    if (!found.errors.length) return el("p", { class: "help" }, t("dead.noErrors"));
    const most = found.errors[0].count || 1;
    return [
        el("ul", { class: "errors" }, found.errors.map(({ error, count, newest_at }) => {
            const share = el("meter", { min: 0, max: most, value: count, "aria-hidden": "true" });
            return el("li", {},
                el("a", { class: "error-text", href: href(["topics", topic, "jobs"], { state: "dead", error }) }, error ? bdi(error) : t("dead.noText")),
                el("span", { class: "error-count" }, number(count)), share,
                el("span", { class: "error-when" }, timeOf(newest_at, { isRelative: true })));
        })),
        found.others ? el("p", { class: "help" }, t("dead.others", { n: found.others })) : null,
        found.complete ? null : el("p", { class: "help" }, t("dead.seen", { n: found.seen })),
    ];
}

/** A card over topics with dead jobs; `update` takes the topic events of the stream. @param {AbortSignal} signal */
export function deadCard(signal) {
    const rows = new Map(); // by topic
    const list = el("div", { class: "dead-topics" });
    const empty = el("p", { class: "help well-line" }, t("dead.none"));
    const node = el("section", { class: "card dead-card", "aria-labelledby": "dead-title" },
        el("div", { class: "card-head" }, el("h2", { id: "dead-title" }, t("dead.title"))), el("div", { class: "card-body" }, empty, list));

    function row(topic) {
        const count = el("span", { class: "error-count" }), body = el("div", { class: "dead-errors" });
        const one = { dead: -1, asked: 0, count, node: el("details", {}, el("summary", {}, bdi(topic), count), body), at: -Infinity };
        one.look = async () => {
            if (one.asked === one.dead || performance.now() - one.at < 5000) return;
            one.asked = one.dead;
            one.at = performance.now();
            const list = await errorList(topic, 8, signal);
            if (!signal.aborted) fill(body, list, el("p", { class: "more" }, el("a", { href: href(["topics", topic, "jobs"], { state: "dead" }) }, t("dead.show"))));
        };
        one.node.addEventListener("toggle", () => one.node.open && one.look());
        return one;
    }

    return {
        node,
        /** @param {any[]} topics */
        update(topics) {
            const dead = topics.filter((topic) => topic.counts.dead > 0).sort((a, b) => b.counts.dead - a.counts.dead).slice(0, 20);
            empty.hidden = dead.length > 0;
            for (const [name, one] of rows) if (!dead.some(({ topic }) => topic === name)) {
                one.node.remove();
                rows.delete(name);
            }
            dead.forEach(({ topic, counts }, at) => {
                const isNew = !rows.has(topic);
                const one = rows.get(topic) ?? row(topic);
                rows.set(topic, one);
                one.dead = counts.dead;
                if (one.count.textContent !== number(counts.dead)) one.count.textContent = number(counts.dead);
                if (isNew) {
                    list.append(one.node);
                    if (at < 3) one.node.open = true;
                }
                if (one.node.open) one.look();
            });
        },
    };
}
