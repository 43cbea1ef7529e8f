// The vectors that all clients share, stores, and what a client does with a job that it cannot decode.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { decodeJob } from "../build/codec.js";
import { Codec, CodecError, DirectoryStore } from "../build/index.js";
import { jobOf } from "../build/job.js";

const found = JSON.parse(readFileSync(new URL("../../conformance/codec.json", import.meta.url), "utf8"));
const bytes = (text) => Buffer.from(text, "base64");

function codecOf(one) {
  const store = { get: async (name) => (one.stored?.[name] === undefined ? undefined : bytes(one.stored[name])) };
  return new Codec({ gzip: { inflated: one.inflated }, aesGcm: one.no_keys ? undefined : { current: found.current, keys: found.keys }, claimCheck: one.no_store ? undefined : { store }, context: one.context ?? found.context });
}

test("encodes_as_every_client_does", async () => {
  for (const one of found.vectors) {
    const [data, kind] = await codecOf(one).encodeBy(bytes(one.body_base64), one.content_type, { part: one.part, isSteady: one.is_steady, nonce: one.nonce_base64 && bytes(one.nonce_base64) });
    assert.deepEqual([data.toString("base64"), kind], [one.encoded_base64, one.encoded_type], one.about);
  }
});

test("decodes_what_every_client_encodes", async () => {
  for (const one of [...found.vectors, ...found.decodes, ...Object.values(found.outputs).flat()]) {
    const { data, contentType } = await codecOf(one).decode(bytes(one.encoded_base64), one.encoded_type, one.part);
    assert.deepEqual([data.toString("base64"), contentType], [one.body_base64, one.content_type], one.about);
  }
});

test("reports_what_is_wrong", async () => {
  for (const one of found.errors) {
    await assert.rejects(codecOf(one).decode(bytes(one.encoded_base64), one.encoded_type, one.part), (fault) => {
      assert.ok(fault instanceof CodecError, one.about);
      assert.equal(fault.detail, one.error, one.about);
      return true;
    });
  }
});

test("only_what_becomes_smaller_is_compressed", async () => {
  const mine = new Codec({ gzip: { above: 100 } });
  for (const data of [Buffer.alloc(99, "a"), randomBytes(200)]) assert.deepEqual(await mine.encode(data, "text/plain"), [data, "text/plain"]);
  assert.equal((await mine.encode(Buffer.alloc(100, "a"), "text/plain"))[1], "application/vnd.tarry.encoded; steps=gzip");
});

test("large_bodies_are_stored_and_deleted", async () => {
  const path = mkdtempSync(join(tmpdir(), "tarry-"));
  try {
    const mine = new Codec({ claimCheck: { store: new DirectoryStore(path), above: 20 } });
    const [data, kind] = await mine.encode(Buffer.from("a body that is longer"), "text/plain");
    assert.deepEqual([readdirSync(path), kind], [[data.toString()], "application/vnd.tarry.encoded; steps=claim-check"]);
    assert.equal(statSync(join(path, data.toString())).mode & 0o777, 0o600);
    const job = await decodeJob(jobOf({ topic: "t", id: "1", body_base64: data.toString("base64"), content_type: kind }), mine);
    assert.deepEqual([job.text, job.contentType, job.storedAs], ["a body that is longer", "text/plain", data.toString()]);
    await mine.deleteStored(job);
    await mine.deleteStored(job);
    assert.deepEqual(readdirSync(path), []);
  } finally {
    rmSync(path, { recursive: true });
  }
});

test("a_body_that_cannot_be_decoded_is_never_read_as_it_is", async () => {
  const [one] = found.vectors;
  for (const mine of [undefined, new Codec({})]) {
    const job = await decodeJob(jobOf({ topic: "t", id: "1", body_base64: one.encoded_base64, content_type: one.encoded_type }), mine);
    for (const read of [() => job.body, () => job.text, () => job.json()]) assert.throws(read, CodecError);
    assert.ok(job.codecError && JSON.stringify(job).includes('"topic":"t"'));
  }
});

test("bad_keys_are_rejected", () => {
  for (const [current, keys] of [["a", { b: Buffer.alloc(32) }], ["a", { a: Buffer.alloc(16) }], ["a b", { "a b": Buffer.alloc(32) }]]) assert.throws(() => new Codec({ aesGcm: { current, keys } }), TypeError);
});
