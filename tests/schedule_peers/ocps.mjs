// Plays the suites of croner for OCPS with tarry in place of croner: node ocps.mjs FOLDER FIRES ZONES, with the folder of ocps-*.test.ts.
// Prints a line for each case: its name, and the error if it fails.
import assert from "node:assert";
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { stripVTControlCharacters } from "node:util";

const [folder, fires, zones] = process.argv.slice(2), cases = [];

class Cron {
    constructor(pattern, { timezone = "UTC", domAndDow = false } = {}) {
        const fields = pattern.trim().split(/\s+/), day = fields.length === 7 ? 5 : fields.length - 1; // tarry requires both day fields after a plus
        if (domAndDow && fields.length > 4) fields[day] = `+${fields[day]}`;
        this.pattern = domAndDow ? fields.join(" ") : pattern;
        this.zone = timezone;
        this.nextRuns(1, new Date());
    }
    nextRuns(count, from = new Date()) {
        const line = `${this.zone}|${this.pattern}|${Math.floor(new Date(from).getTime() / 1000)}|${count}|skip`; // of gap and fold, the choice of OCPS
        const { stdout } = spawnSync(fires, [zones], { input: line, encoding: "utf8" });
        if (stdout.startsWith("error:")) throw new Error(stdout.trim());
        return stdout.trim().split(" ").filter(Boolean).map((second) => new Date(second * 1000));
    }
    nextRun(from) {
        return this.nextRuns(1, from)[0] ?? null;
    }
}

for (const file of readdirSync(folder).filter((name) => /^ocps-.*\.test\.ts$/.test(name)).sort()) {
    const text = readFileSync(`${folder}/${file}`, "utf8").replace(/^import .*$/gm, "").replace(/([\w)\]])!(?=[.;,)\]])/g, "$1"); // the only types in them
    new Function("test", "assert", "assertEquals", "assertThrows", "Cron", text)((name, run) => cases.push([name, run]), assert.ok, assert.deepStrictEqual, (run) => assert.throws(run), Cron);
}
for (const [name, run] of cases) {
    let error = "";
    try {
        run();
    } catch (caught) {
        error = stripVTControlCharacters(caught.message).replace(/\s+/g, " ");
    }
    console.log(`${name}\t${error}`);
}
