/**
 * Encrypts a stream in chunks: AES-256-GCM with a separate key for each file (HKDF-SHA256 of the secret and 32 random bytes), a counter
 * as nonce, and a mark in the last chunk's, so that a changed, reordered or shortened file is refused.
 */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";

const MAGIC = Buffer.from("usdcbak1");
const SALT_BYTES = 32;
const CHUNK_BYTES = 64 * 1024;
const TAG_BYTES = 16;
const SEALED_BYTES = CHUNK_BYTES + TAG_BYTES;

type Chunks = AsyncIterable<Uint8Array>;

export async function* sealStream(plain: Chunks, secret: string): AsyncGenerator<Buffer> {
  const salt = randomBytes(SALT_BYTES);
  const key = keyOf(secret, salt);
  yield Buffer.concat([MAGIC, salt]);
  let number = 0;
  for await (const { bytes, isLast } of inChunks(plain, CHUNK_BYTES)) {
    const cipher = createCipheriv("aes-256-gcm", key, nonceOf(number++, isLast));
    yield Buffer.concat([cipher.update(bytes), cipher.final(), cipher.getAuthTag()]);
  }
}

/** Tries each of `secrets`. Throws when none decrypts the stream, or when it was altered or truncated. */
export async function* openStream(sealed: Chunks, secrets: readonly string[]): AsyncGenerator<Buffer> {
  let key: Buffer | undefined;
  let number = 0;
  let head: Buffer | undefined;
  const body = withoutHead(sealed, MAGIC.length + SALT_BYTES, (bytes) => {
    head = bytes;
  });
  for await (const { bytes, isLast } of inChunks(body, SEALED_BYTES)) {
    const salt = saltOf(head);
    const candidates = key ? [key] : secrets.map((secret) => keyOf(secret, salt));
    const opened = candidates
      .map((one) => ({ key: one, plain: openChunk(bytes, one, nonceOf(number, isLast)) }))
      .find(({ plain }) => plain !== undefined);
    if (opened?.plain === undefined)
      throw new Error(
        number === 0
          ? "no key in BACKUP_KEY decrypts this backup, or its beginning was altered"
          : "the backup was altered or is incomplete",
      );
    key = opened.key;
    number++;
    yield opened.plain;
  }
  if (number === 0) throw new Error("the backup is empty or incomplete");
}

function openChunk(bytes: Buffer, key: Buffer, nonce: Buffer): Buffer | undefined {
  if (bytes.length < TAG_BYTES) return undefined;
  const decipher = createDecipheriv("aes-256-gcm", key, nonce);
  decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
  try {
    return Buffer.concat([decipher.update(bytes.subarray(0, -TAG_BYTES)), decipher.final()]);
  } catch {
    return undefined;
  }
}

function saltOf(head: Buffer | undefined): Buffer {
  if (!head?.subarray(0, MAGIC.length).equals(MAGIC)) throw new Error("this is not a backup of this service");
  return head.subarray(MAGIC.length);
}

function keyOf(secret: string, salt: Uint8Array): Buffer {
  return Buffer.from(hkdfSync("sha256", secret, salt, "usdc-payment-service backup", 32));
}

function nonceOf(number: number, isLast: boolean): Buffer {
  const nonce = Buffer.alloc(12);
  nonce.writeUIntBE(number, 5, 6);
  nonce[11] = isLast ? 1 : 0;
  return nonce;
}

/** Pieces of `size` bytes; the last one is marked, may be shorter, and comes also for an empty stream. */
async function* inChunks(stream: Chunks, size: number): AsyncGenerator<{ bytes: Buffer; isLast: boolean }> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of stream) {
    rest = Buffer.concat([rest, chunk]);
    for (; rest.length > size; rest = rest.subarray(size))
      yield { bytes: rest.subarray(0, size), isLast: false };
  }
  yield { bytes: rest, isLast: true };
}

async function* withoutHead(
  stream: Chunks,
  size: number,
  onHead: (head: Buffer) => void,
): AsyncGenerator<Buffer> {
  let head: Buffer | undefined = Buffer.alloc(0);
  for await (const chunk of stream) {
    if (head === undefined) {
      yield Buffer.from(chunk);
      continue;
    }
    head = Buffer.concat([head, chunk]);
    if (head.length < size) continue;
    onHead(head.subarray(0, size));
    yield head.subarray(size);
    head = undefined;
  }
  if (head !== undefined) throw new Error("the backup is empty or incomplete");
}
