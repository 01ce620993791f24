/**
 * Stored responses by Idempotency-Key: a repeated request gets the stored response and is not executed again; with another body it is
 * refused (CONFLICT). Kept for seven days (core/domain/retention.ts).
 */
import { createHash } from "node:crypto";
import { conflict, invalid } from "../../core/domain/errors.ts";
import type { Tx } from "../postgres/client.ts";

export const IDEMPOTENCY_KEY_MAX = 255;

export type KeptAnswer = { status: number; body: unknown };

export type IdempotentRequest = {
  /** The namespace of keys, for example `create_link:user_…`. Equal keys of different scopes are unrelated. */
  scope: string;
  key: string;
  /** What identifies equal requests: parsed values, not bytes. */
  request: unknown;
};

/**
 * Runs `run` once per key inside the caller's transaction and stores its response with its effects; a repetition gets the stored response.
 * A concurrent request waits for the first to commit. A throw stores nothing, so the client may retry.
 * Throws CONFLICT when the key was used with another request.
 */
export async function runIdempotent<Answer extends KeptAnswer>(
  tx: Tx,
  given: IdempotentRequest | undefined,
  run: () => Promise<Answer>,
): Promise<{ answer: KeptAnswer; isReplay: boolean }> {
  if (!given) return { answer: await run(), isReplay: false };
  const kept = await claimKey(tx, given);
  if (kept) return { answer: kept, isReplay: true };
  const answer = await run();
  await keepAnswer(tx, given, answer);
  return { answer, isReplay: false };
}

/** Claims the key for this transaction, or returns the stored response. Throws CONFLICT as described above. */
export async function claimKey(tx: Tx, given: IdempotentRequest): Promise<KeptAnswer | undefined> {
  const requestHash = hashOf(given.request);
  const claimed = await tx`
    insert into idempotency_keys (scope, key, request_hash)
    values (${given.scope}, ${given.key}, ${requestHash})
    on conflict do nothing
    returning key`;
  if (claimed.length > 0) return undefined;
  const [row] = await tx<{ requestHash: Uint8Array; status: number | null; body: unknown }[]>`
    select request_hash, status, body
    from idempotency_keys
    where scope = ${given.scope} and key = ${given.key}`;
  if (!row || row.status === null)
    throw conflict("A request with this Idempotency-Key is still running.", {
      field: "Idempotency-Key",
      issue: "in_progress",
    });
  if (!Buffer.from(row.requestHash).equals(requestHash))
    throw conflict("This Idempotency-Key was used with another request.", {
      field: "Idempotency-Key",
      issue: "other_request",
    });
  return { status: row.status, body: row.body };
}

export async function keepAnswer(
  tx: Tx,
  { scope, key }: { scope: string; key: string },
  answer: KeptAnswer,
): Promise<void> {
  await tx`
    update idempotency_keys
    set status = ${answer.status}, body = ${JSON.stringify(answer.body)}::text::json
    where scope = ${scope} and key = ${key}`;
}

/** Reads the header. Throws VALIDATION_ERROR when it is empty, too long or not printable ASCII. */
export function parseIdempotencyKey(header: string | null | undefined): string | undefined {
  if (header === null || header === undefined) return undefined;
  if (header.length < 1 || header.length > IDEMPOTENCY_KEY_MAX || !/^[\x20-\x7e]+$/.test(header))
    throw invalid("Idempotency-Key", `must be 1 to ${IDEMPOTENCY_KEY_MAX} printable ASCII characters`);
  return header;
}

/** SHA-256 of a request's content, independent of key order. */
export function hashOf(request: unknown): Buffer {
  return createHash("sha256").update(stableText(request)).digest();
}

/** JSON with sorted keys, so that equal values give equal text. */
function stableText(value: unknown): string {
  return JSON.stringify(value, (_, inner) =>
    typeof inner === "object" && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : typeof inner === "bigint"
        ? inner.toString()
        : inner,
  );
}
