// Prints the next four fires of expressions in UTC, by croner or cron-parser: node next.mjs LIBRARY <<< "EXPRESSION|SECONDS SINCE 1970".
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const load = createRequire(`${process.env.MODULES}/`);

const libraries = {
    croner: (text, from) => new (load("croner").Cron)(text, { timezone: "UTC" }).nextRuns(4, from),
    "cron-parser": (text, from) => {
        const found = load("cron-parser").CronExpressionParser.parse(text, { currentDate: from, tz: "UTC" });
        return [0, 1, 2, 3].map(() => found.next().toDate());
    },
};

const fires = libraries[process.argv[2]];
const out = readFileSync(0, "utf8").trim().split("\n").map((line) => {
    const [text, from] = line.split("|");
    try {
        return fires(text, new Date(from * 1000)).map((at) => at.getTime() / 1000).join(" ");
    } catch (error) {
        return `error: ${error.message}`;
    }
});
console.log(out.join("\n"));
