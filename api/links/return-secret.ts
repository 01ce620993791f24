/** The secret that signs a merchant's return URLs: created on first use, encrypted at rest. */
import { newReturnSecret } from "../../core/domain/return-url.ts";
import { type KeyList, seal, tryUnseal, unseal } from "../../core/domain/seal-secrets.ts";
import {
  findMerchantPage,
  keepFirstReturnSecret,
  replaceReturnSecret,
} from "../../db/links/page-settings.ts";
import type { Tx } from "../../db/postgres/client.ts";

type Keys = { webhookSealKeys: KeyList };

/** The merchant's secret, still encrypted; a new one if there is none yet. */
export async function ensureReturnSecret(
  tx: Tx,
  { webhookSealKeys }: Keys,
  userId: string,
): Promise<Uint8Array> {
  const known = (await findMerchantPage(tx, userId))?.sealedReturnSecret;
  return known ?? keepFirstReturnSecret(tx, userId, sealNew(webhookSealKeys, userId).sealed);
}

/** Throws when none of the keys decrypts it. */
export async function getReturnSecret(tx: Tx, keys: Keys, userId: string): Promise<string> {
  return unseal(keys.webhookSealKeys, placeOf(userId), await ensureReturnSecret(tx, keys, userId));
}

/** Replaces the secret; the old one is no longer used for signing. */
export async function rotateReturnSecret(tx: Tx, { webhookSealKeys }: Keys, userId: string): Promise<string> {
  const { secret, sealed } = sealNew(webhookSealKeys, userId);
  await replaceReturnSecret(tx, userId, sealed);
  return secret;
}

/** Undefined when none of the keys decrypts it: payment pages work without it. */
export function openReturnSecret(keys: KeyList, userId: string, sealed: Uint8Array): string | undefined {
  return tryUnseal(keys, placeOf(userId), sealed)?.text;
}

function sealNew(keys: KeyList, userId: string): { secret: string; sealed: Uint8Array } {
  const secret = newReturnSecret();
  return { secret, sealed: seal(keys, placeOf(userId), secret) };
}

function placeOf(userId: string) {
  return { purpose: "return secret", id: userId } as const;
}
