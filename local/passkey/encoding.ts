/** Byte formats of authenticators: CBOR, COSE keys, DER signatures. */
import { createHash } from "node:crypto";

/** Order of P-256: s and ORDER - s are both valid; the wallet accepts the lower one. */
const ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;

/** COSE_Key of an EC2 point on P-256 (RFC 9053 7.1.1). */
export function toCoseKey(point: { x: Uint8Array; y: Uint8Array }, alg: number): Buffer {
  const [kty, algorithm, curve, x, y] = [1, 3, -1, -2, -3];
  const entries: [number, Cbor][] = [
    [kty, 2],
    [algorithm, alg],
    [curve, 1],
    [x, point.x],
    [y, point.y],
  ];
  return cbor(new Map(entries));
}

/** DER of a raw r || s (64 bytes), with the chosen one of s and n - s; s unchanged without a choice. */
export function toDer(raw: ArrayBuffer, choice?: "low" | "high"): Buffer {
  const bytes = Buffer.from(raw);
  const s = BigInt(`0x${bytes.toString("hex", 32)}`);
  const isHigh = s > ORDER / 2n;
  const chosen = choice === undefined || (choice === "high") === isHigh ? s : ORDER - s;
  const parts = [bytes.subarray(0, 32), Buffer.from(chosen.toString(16).padStart(64, "0"), "hex")].map(
    toDerInteger,
  );
  const body = Buffer.concat(parts);
  return Buffer.concat([Buffer.from([0x30, body.length]), body]);
}

function toDerInteger(bytes: Buffer): Buffer {
  const start = bytes.findIndex((byte) => byte !== 0);
  const digits = bytes.subarray(start < 0 ? bytes.length - 1 : start);
  const padded = (digits[0] ?? 0) >= 0x80 ? Buffer.concat([Buffer.alloc(1), digits]) : digits;
  return Buffer.concat([Buffer.from([0x02, padded.length]), padded]);
}

export type Cbor =
  | number
  | string
  | Uint8Array
  | ReadonlyMap<number, Cbor>
  | { readonly [key: string]: Cbor };

/** The CBOR subset used by authenticators (RFC 8949): integers, text, bytes, maps. */
export function cbor(value: Cbor): Buffer {
  if (typeof value === "number") return value < 0 ? cborHead(1, -1 - value) : cborHead(0, value);
  if (typeof value === "string")
    return Buffer.concat([cborHead(3, Buffer.byteLength(value)), Buffer.from(value)]);
  if (value instanceof Uint8Array) return Buffer.concat([cborHead(2, value.length), value]);
  const entries: [number | string, Cbor][] = value instanceof Map ? [...value] : Object.entries(value);
  return Buffer.concat([cborHead(5, entries.length), ...entries.flatMap(([k, v]) => [cbor(k), cbor(v)])]);
}

function cborHead(major: number, count: number): Buffer {
  if (count < 24) return uint((major << 5) | count, 1);
  const bytes = count < 0x100 ? 1 : 2;
  return Buffer.concat([uint((major << 5) | (23 + bytes), 1), uint(count, bytes)]);
}

/** Big-endian, `bytes` long. */
export function uint(value: number, bytes: number): Buffer {
  const buffer = Buffer.alloc(bytes);
  buffer.writeUIntBE(value, 0, bytes);
  return buffer;
}

export function sha256(data: Uint8Array): Buffer {
  return createHash("sha256").update(data).digest();
}
