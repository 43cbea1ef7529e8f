#!/bin/sh
# Builds, tests and packs the client into build/; then a program in an empty project, with what was packed, pushes and takes one job of the server at TARRY_URL.
set -eu
cd "$(dirname "$0")"
: "${TARRY_URL:?give the URL of a server}"
[ -d node_modules/typescript ] || npm ci --silent
rm -rf build
npm run --silent build
npm test --silent
npm pack --silent --ignore-scripts=false --pack-destination build

project=$(mktemp -d)
trap 'rm -rf "$project"' EXIT
package=$(echo "$PWD"/build/*.tgz)
cat > "$project/package.json" <<'END'
{ "name": "empty", "private": true, "type": "module" }
END
cat > "$project/main.ts" <<'END'
import { Client, Worker, type Job } from "@tarry/client";

const client = new Client();
const topic = `check-${process.pid}`;
const { id } = await client.push(topic, { order: 1001 }, { delay: "10ms" });
const seen: Job[] = [];
const worker: Worker = new Worker(client, topic, (job) => seen.push(job), { onDone: () => worker.stop() });
await worker.run();
const [job] = seen;
if (seen.length !== 1 || job?.id !== id || job.json<{ order: number }>().order !== 1001) throw new Error("the job did not come");
console.log(`${id} was pushed and taken`);
END
cat > "$project/tsconfig.json" <<'END'
{ "compilerOptions": { "target": "es2022", "module": "nodenext", "strict": true, "exactOptionalPropertyTypes": true, "types": ["node"] } }
END
mkdir -p "$project/node_modules/@types"
(cd "$project" && npm install --silent --offline --no-save "$package")
mkdir -p "$project/node_modules/@types"
ln -s "$PWD/node_modules/@types/node" "$project/node_modules/@types/node"
node_modules/.bin/tsc -p "$project"
node "$project/main.js"
