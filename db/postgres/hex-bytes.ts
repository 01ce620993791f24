/** Hashes, addresses, nonces and signatures: `0x…` text in TypeScript, bytea in the tables that grow. db/postgres/client.ts maps rows and parameters. */
import type { Hex } from "../../core/domain/networks.ts";

/** Columns that hold other bytes and arrive as a Buffer. Every other bytea column arrives as `0x…`. */
const BINARY_COLUMNS = new Set([
  ...[
    "answerDigest",
    "assertionHash",
    "bytes",
    "challenge",
    "codeHmac",
    "coseKey",
    "keyHash",
    "logo",
    "publicKeyX",
    "publicKeyY",
  ],
  ...[
    "raw",
    "requestHash",
    "sealedCode",
    "sealedOldSecret",
    "sealedReturnSecret",
    "sealedSecret",
    "stateHash",
  ],
]);
const BYTEA_OID = 17;

/** The driver's type for bytea. A parameter is bytes, or `0x…` for them. */
export const BYTEA_TYPE = {
  to: BYTEA_OID,
  from: [BYTEA_OID],
  serialize: (value: Uint8Array | Hex) =>
    typeof value === "string" ? toByteaText(value) : `\\x${Buffer.from(value).toString("hex")}`,
  parse: (text: string) => Buffer.from(text.slice(2), "hex"),
};

/** What a column's value becomes in a row. */
export function presentColumn(value: unknown, column: { type: number; name: string }): unknown {
  if (column.type !== BYTEA_OID || value === null || BINARY_COLUMNS.has(column.name)) return value;
  return `0x${(value as Buffer).toString("hex")}`;
}

/** Postgres' own notation, for rows that travel as JSON: `0x…` would be taken for the bytes of its characters. */
export function toByteaText(hex: Hex): string {
  if (!hex.startsWith("0x")) throw new Error("bytes must be given as 0x and hexadecimal digits");
  return `\\x${hex.slice(2)}`;
}
