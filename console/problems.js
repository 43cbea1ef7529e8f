// Is all well, as a sentence; and why not: the problems grouped by kind, three of them open to view, those that are silenced apart.
import { app } from "./app.js";
import { bdi, el, fill, mark, setText } from "./dom.js";
import { icon } from "./icons.js";
import { href } from "./router.js";
import { silenceButton, silenceLine } from "./silence.js";
import { sentenceOf } from "./state.js";
import { has, t } from "./words.js";

const SHOWN = 3, NAMED = 3; // kinds, topics of a kind

/** Problems of one kind together, in the order of the first of each. @param {any[]} problems */
function groupsOf(problems) {
    const groups = new Map();
    for (const problem of problems) {
        const key = `${problem.code} ${problem.severity}`;
        groups.set(key, [...(groups.get(key) ?? []), problem]);
    }
    return [...groups.entries()];
}

function groupSentence([first, ...more]) {
    const n = more.length + 1, key = first.topic ? `group.${first.code}` : `group.none.${first.code}`;
    return has(key) ? t(key, { n }) : t("group.others", { n, first: sentenceOf(first) });
}

/** The topics of a group, if they are few. @param {any[]} group */
const namesOf = (group) => (group.length <= NAMED && group[0].topic ? [": ", group.map(({ topic }, at) => [at ? ", " : null, bdi(topic)])] : null);

/** The status of the server. `update` takes the status and the totals of a snapshot. */
export function statusBox() {
    const sentence = el("p", { class: "status-sentence", id: "status-sentence" }, t("page.wait"));
    const list = el("ul", { class: "problems" });
    const shape = el("span", { class: "status-shape" });
    const aloud = el("p", { class: "unseen", role: "status" }); // once for each change, not whenever a figure in it moves
    const node = el("section", { class: "status", id: "status", "aria-label": t("status.label"), "data-well": "unknown" }, shape, el("div", {}, sentence, list), aloud);
    const open = new Set(); // kinds whose problems are shown one by one
    let last = "", isWhole = false, now = [], leftOut = 0, texts = [];

    /** A text that follows its figures. @param {() => string} words */
    function text(words) {
        const it = bdi(words());
        texts.push([it, words]);
        return it;
    }

    const links = (problem) => [
        problem.topic ? el("a", { href: href(["topics", problem.topic, ...(problem.code === "dead" ? ["jobs"] : [])], problem.code === "dead" ? { state: "dead" } : {}) }, t(problem.code === "dead" ? "dead.show" : "status.toTopic")) : null,
        problem.runbook ? el("a", { href: href(["runbooks", problem.runbook], { topic: problem.topic ?? "" }) }, t("status.runbook")) : null,
        problem.code === "refused" ? null : silenceButton(problem)];

    /** A problem; its sentence follows the newest snapshot. */
    function line(problem) {
        const at = now.indexOf(problem);
        return el("li", { class: problem.severity, "data-code": problem.code }, icon(problem.severity), el("span", { class: "problem-text" }, text(() => sentenceOf(now[at]))), silenceLine(problem), links(problem));
    }

    /** A fold that stays as the user left it. */
    function fold(key, summary, children) {
        const box = el("details", { open: open.has(key), on: { toggle: () => (box.open ? open.add(key) : open.delete(key)) } }, el("summary", {}, summary), el("ul", { class: "problems" }, children));
        return box;
    }

    function draw() {
        const groups = groupsOf(now.filter((problem) => !problem.silenced)), silenced = now.filter((problem) => problem.silenced);
        texts = [];
        fill(list,
            (isWhole ? groups : groups.slice(0, SHOWN)).map(([name, group]) => group.length === 1 ? line(group[0])
                : el("li", { class: group[0].severity, "data-code": group[0].code }, icon(group[0].severity), fold(name, el("span", { class: "problem-text" }, groupSentence(group), namesOf(group)), group.map(line)))),
            leftOut ? el("li", {}, t("status.more", { n: leftOut })) : null,
            groups.length > SHOWN ? el("li", {}, el("button", { type: "button", class: "plain", "aria-expanded": String(isWhole), on: { click: () => {
                isWhole = !isWhole;
                draw();
                /** @type {any} */ (list.querySelector("button[aria-expanded]")).focus();
            } } }, isWhole ? t("status.fewer") : t("status.kinds", { n: groups.length - SHOWN }))) : null,
            silenced.length ? el("li", { class: "silenced" }, fold("silenced", t("silence.list", { n: silenced.length }), silenced.map(line))) : null);
    }

    return {
        node,
        update(status, totals) {
            const { problems } = status;
            const loud = problems.filter((problem) => !problem.silenced), n = problems.length - loud.length;
            const worst = loud.some((problem) => problem.severity === "critical") || (!status.well && !problems.length) ? "critical" : loud.length ? "warning" : "well";
            const words = worst === "critical" ? t("status.not") : loud.length ? t("status.but") : n ? t("status.silenced", { n }) : app.language === "en" || !totals ? status.sentence
                : t("status.well", { topics: totals.topics, jobs: totals.delayed + totals.retrying + totals.ready + totals.leased + totals.dead });
            const key = JSON.stringify([worst, problems.map(({ code, topic, severity, silenced }) => [code, topic, severity, silenced]), status.problems_left_out]);
            now = problems;
            leftOut = status.problems_left_out ?? 0;
            setText(sentence, words);
            if (last === key) {
                for (const [node, words] of texts) setText(node, words());
                return;
            }
            last = key;
            mark(node, "data-well", worst);
            fill(shape, icon(worst));
            setText(aloud, [words, ...loud.map(sentenceOf)].join(" "));
            draw();
        },
    };
}
