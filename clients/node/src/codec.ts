/** The codec of bodies and results between the program and the server: compression, encryption, storage elsewhere. docs/codec.md has the format. */

import { createCipheriv, createDecipheriv, createHmac, randomBytes } from "node:crypto";
import { open, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { TarryError } from "./errors.js";
import type { Job } from "./job.js";

const ENCODED = "application/vnd.tarry.encoded";
const [GZIP, AES_GCM, CLAIM_CHECK] = ["gzip", "aes-gcm", "claim-check"] as const;
const ORDER: readonly string[] = [GZIP, AES_GCM, CLAIM_CHECK];
const INFLATED_BYTES = 64 << 20;
const [KEY_BYTES, NONCE_BYTES, TAG_BYTES] = [32, 12, 16] as const;
const KEY_ID = /^[A-Za-z0-9._-]{1,32}$/;

export type Part = "body" | "result";

/** A body or a result cannot be encoded or decoded. The detail names the key, the step or the limit. */
export class CodecError extends TarryError {
  override name = "CodecError";

  constructor(detail: string, cause?: unknown) {
    super(detail, { code: "codec", cause });
  }
}

export interface GzipOptions {
  /** Data of at least so many bytes is compressed, if it becomes smaller. Default: 1024. */
  above?: number | undefined;
  /** Data that inflates to more bytes is an error. Default: 64 MiB. */
  inflated?: number | undefined;
}

export interface AesGcmOptions {
  /** The id of the key that encrypts. */
  current: string;
  /** The keys that decrypt, by their ids: 32 bytes, or these in base64. */
  keys: Readonly<Record<string, Uint8Array | string>>;
}

/** Where bodies are stored in place of the server. A name is 32 hexadecimal digits. */
export interface Store {
  put(name: string, data: Buffer): Promise<unknown>;
  /** Undefined: the store does not have it. */
  get(name: string): Promise<Uint8Array | undefined>;
  /** Does nothing if the store does not have it. */
  delete(name: string): Promise<unknown>;
}

export interface ClaimCheckOptions {
  store: Store;
  /** Larger data is stored in the store. The server gets its name. Default: 65536. */
  above?: number | undefined;
  /** Whether a worker deletes the data of a body after the ack of its job. Default: true. */
  delete?: boolean | undefined;
}

export interface CodecOptions {
  /** True: with the defaults. */
  gzip?: GzipOptions | boolean | undefined;
  aesGcm?: AesGcmOptions | undefined;
  claimCheck?: ClaimCheckOptions | undefined;
  /** Such as the name of a service. Must be the same for those that encrypt and decrypt: data of another context is rejected. */
  context?: string | undefined;
}

/** A directory that all producers and consumers share. The files are synced to the disk. */
export class DirectoryStore implements Store {
  constructor(readonly path: string) {}

  async put(name: string, data: Buffer): Promise<void> {
    const temporary = join(this.path, `.${name}`);
    const file = await open(temporary, "wx", 0o600);
    try {
      await file.writeFile(data);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, join(this.path, name));
    const directory = await open(this.path);
    try {
      await directory.sync();
    } finally {
      await directory.close();
    }
  }

  async get(name: string): Promise<Buffer | undefined> {
    try {
      return await readFile(join(this.path, name));
    } catch (fault) {
      if ((fault as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw fault;
    }
  }

  async delete(name: string): Promise<void> {
    await rm(join(this.path, name), { force: true });
  }
}

/** How to encode. `isSteady`, for schedules: equal data has equal bytes and is never stored elsewhere. `nonce` is for tests. @internal */
export interface Encoding {
  part?: Part;
  isSteady?: boolean;
  nonce?: Uint8Array;
}

/** new Codec({ gzip: true, aesGcm: { current: "2026-11", keys: { "2026-11": key } }, claimCheck: { store: new DirectoryStore("/srv/bodies") } }). Encodes in this order. */
export class Codec {
  readonly #gzip: GzipOptions | undefined;
  readonly #claimCheck: ClaimCheckOptions | undefined;
  readonly #context: string;
  readonly #current: string | undefined;
  readonly #keys = new Map<string, { key: Buffer; nonces: Buffer }>();

  constructor(options: CodecOptions) {
    this.#gzip = options.gzip === true ? {} : options.gzip || undefined;
    this.#claimCheck = options.claimCheck;
    this.#context = options.context ?? "";
    this.#current = options.aesGcm?.current;
    for (const [id, given] of Object.entries(options.aesGcm?.keys ?? {})) {
      const key = typeof given === "string" ? Buffer.from(given, "base64") : Buffer.from(given);
      if (!KEY_ID.test(id)) throw new TypeError(`bad id of a key '${id}', give 1 to 32 letters, digits, dots, underscores and hyphens`);
      if (key.length !== KEY_BYTES) throw new TypeError(`the key '${id}' has ${key.length} bytes, give ${KEY_BYTES}`);
      this.#keys.set(id, { key, nonces: createHmac("sha256", key).update("tarry-codec nonce").digest() });
    }
    if (this.#current !== undefined && !this.#keys.has(this.#current)) throw new TypeError(`there is no key '${this.#current}', add it to the keys`);
  }

  /** The bytes of a body for the server, and their content type. */
  encode(data: Buffer, contentType: string): Promise<[data: Buffer, contentType: string]> {
    return this.encodeBy(data, contentType, {});
  }

  /** @internal */
  async encodeBy(data: Buffer, contentType: string, how: Encoding): Promise<[data: Buffer, contentType: string]> {
    const kind = Buffer.from(contentType);
    const { part = "body", isSteady = false } = how;
    if (kind.length > 255) throw new CodecError("the content type has more than 255 bytes");
    const steps: string[] = [];
    let out = Buffer.concat([Buffer.of(kind.length), kind, data]);
    if (this.#gzip && data.length >= (this.#gzip.above ?? 1024)) {
      const packed = gzipSync(out);
      if (packed.length < out.length) {
        out = packed;
        steps.push(GZIP);
      }
    }
    const key = this.#current;
    if (key !== undefined) {
      steps.push(AES_GCM);
      out = this.#encrypt(out, this.#bound(part, steps, key), key, isSteady, how.nonce);
    }
    if (this.#claimCheck && !isSteady && out.length > (this.#claimCheck.above ?? 65_536)) {
      const name = randomBytes(16).toString("hex");
      await this.#claimCheck.store.put(name, out);
      steps.push(CLAIM_CHECK);
      out = Buffer.from(name);
    }
    if (steps.length === 0) return [data, contentType];
    return [out, `${ENCODED}; steps=${steps.join("+")}${key === undefined ? "" : `; key=${key}`}`];
  }

  /** The bytes and the content type as they were before encode(). Data that is not encoded stays as it is. `storedAs`: its name in the store. */
  async decode(data: Uint8Array, contentType: string, part: Part = "body"): Promise<{ data: Buffer; contentType: string; storedAs: string | undefined }> {
    let out = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
    let storedAs: string | undefined;
    if (!isEncoded(contentType)) return { data: out, contentType, storedAs };
    const { steps, key } = stepsOf(contentType, part);
    if (steps.at(-1) === CLAIM_CHECK) {
      steps.pop();
      storedAs = out.toString("latin1");
      out = await this.#fetch(storedAs, part);
    }
    if (steps.includes(AES_GCM)) out = this.#decrypt(out, this.#bound(part, steps, key), key, part);
    if (steps.includes(GZIP)) out = inflate(out, this.#gzip?.inflated ?? INFLATED_BYTES, part);
    const end = 1 + (out[0] ?? 0);
    if (out.length < end) throw new CodecError(`the ${part} is too short`);
    return { data: out.subarray(end), contentType: out.toString("utf8", 1, end), storedAs };
  }

  /** Deletes the stored body of an acked job, if it has one. A worker does this itself. */
  async deleteStored(job: Job): Promise<void> {
    if (job.storedAs && this.#claimCheck && this.#claimCheck.delete !== false) await this.#claimCheck.store.delete(job.storedAs);
  }

  /** The additional data that is authenticated. */
  #bound(part: Part, steps: readonly string[], key: string): Buffer {
    return Buffer.from(`tarry-codec 1\n${part}\n${steps.join("+")}\n${key}\n${this.#context}`);
  }

  #encrypt(data: Buffer, bound: Buffer, id: string, isSteady: boolean, given: Uint8Array | undefined): Buffer<ArrayBuffer> {
    const { key, nonces } = this.#keys.get(id) as { key: Buffer; nonces: Buffer };
    const steady = (): Buffer => createHmac("sha256", nonces).update(bound).update("\n").update(data).digest().subarray(0, NONCE_BYTES);
    const nonce = given ?? (isSteady ? steady() : randomBytes(NONCE_BYTES));
    const cipher = createCipheriv("aes-256-gcm", key, nonce, { authTagLength: TAG_BYTES }).setAAD(bound);
    return Buffer.concat([nonce, cipher.update(data), cipher.final(), cipher.getAuthTag()]);
  }

  #decrypt(data: Buffer, bound: Buffer, id: string, part: Part): Buffer<ArrayBuffer> {
    if (this.#keys.size === 0) throw new CodecError(`the ${part} is encrypted with the key '${id}', and the codec has no keys`);
    const key = this.#keys.get(id)?.key;
    if (!key) throw new CodecError(`the ${part} is encrypted with the key '${id}', which the codec does not have`);
    if (data.length < NONCE_BYTES + TAG_BYTES) throw new CodecError(`the ${part} is too short to be encrypted`);
    const end = data.length - TAG_BYTES;
    const decipher = createDecipheriv("aes-256-gcm", key, data.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES }).setAAD(bound).setAuthTag(data.subarray(end));
    try {
      return Buffer.concat([decipher.update(data.subarray(NONCE_BYTES, end)), decipher.final()]);
    } catch {
      throw new CodecError(`the ${part} cannot be decrypted with the key '${id}': it was changed, or has another context`);
    }
  }

  async #fetch(name: string, part: Part): Promise<Buffer<ArrayBuffer>> {
    if (!this.#claimCheck) throw new CodecError(`the ${part} is stored elsewhere, and the codec has no store`);
    if (!/^[0-9a-f]{32}$/.test(name)) throw new CodecError(`the ${part} is stored elsewhere, but its name is not valid`);
    let found: Uint8Array | undefined;
    try {
      found = await this.#claimCheck.store.get(name);
    } catch (fault) {
      throw new CodecError(`the ${part} is stored elsewhere as '${name}' and cannot be read: ${fault instanceof Error ? fault.message : String(fault)}`, fault);
    }
    if (!found) throw new CodecError(`the ${part} is stored elsewhere as '${name}', which the store does not have`);
    return Buffer.from(found);
  }
}

/** @internal */
export function isEncoded(contentType: string | undefined): boolean {
  return contentType?.split(";", 1)[0]?.trim() === ENCODED;
}

/** Decodes body and result. Reading one that cannot be decoded throws. @internal */
export async function decodeJob(job: Job, codec: Codec | undefined): Promise<Job> {
  for (const [part, type] of [["body", "contentType"], ["result", "resultType"]] as const) {
    const data = job[part];
    const kind = job[type];
    if (!data?.length || kind === undefined || !isEncoded(kind)) continue;
    try {
      if (!codec) throw new CodecError(`the ${part} is encoded (${stepsOf(kind, part).steps.join(", ")}), and the client has no codec`);
      const found = await codec.decode(data, kind, part);
      Object.assign(job, { [part]: found.data, [type]: found.contentType, ...(part === "body" ? { storedAs: found.storedAs } : {}) });
    } catch (fault) {
      Object.assign(job, { codecError: fault });
      const get = (): never => {
        throw fault;
      };
      Object.defineProperty(job, part, { get, enumerable: false });
    }
  }
  return job;
}

/** The steps in the order of their application, and the id of the key. */
function stepsOf(contentType: string, part: Part): { steps: string[]; key: string } {
  const members = new Map<string, string>();
  for (const one of contentType.split(";").slice(1)) {
    const [name = "", ...value] = one.trim().split("=");
    members.set(name, value.join("="));
  }
  const steps = (members.get("steps") ?? "").split("+");
  const key = members.get("key") ?? "";
  const unknown = steps.find((one) => !ORDER.includes(one));
  if (unknown !== undefined) throw new CodecError(`the ${part} has the step '${unknown}', which the codec does not have`);
  const isInOrder = steps.every((one, at) => at === 0 || ORDER.indexOf(one) > ORDER.indexOf(steps[at - 1] ?? ""));
  if (!isInOrder || steps.includes(AES_GCM) !== KEY_ID.test(key)) throw new CodecError(`the content type of the ${part} is not valid`);
  return { steps, key };
}

function inflate(data: Buffer, most: number, part: Part): Buffer<ArrayBuffer> {
  const bad = (): CodecError => new CodecError(`the ${part} is not valid gzip`);
  let found: { buffer: Buffer<ArrayBuffer>; engine: { bytesWritten: number } };
  try {
    found = gunzipSync(data, { maxOutputLength: most, info: true }) as unknown as typeof found;
  } catch (fault) {
    if ((fault as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE") throw new CodecError(`the ${part} inflates to more than ${most} bytes`);
    throw bad();
  }
  if (found.engine.bytesWritten !== data.length) throw bad(); // bytes after the end
  return found.buffer;
}
