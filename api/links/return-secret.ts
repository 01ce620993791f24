/** The secret that signs a merchant's return addresses: made when it is first needed, sealed at rest. */
import { newReturnSecret } from "../../core/domain/return-url.ts";
import { type KeyList, seal, tryUnseal, unseal } from "../../core/domain/seal-secrets.ts";
import {
  findMerchantPage,
  keepFirstReturnSecret,
  replaceReturnSecret,
} from "../../db/links/page-settings.ts";
import type { Tx } from "../../db/postgres/client.ts";

type Keys = { webhookSealKeys: KeyList };

/** The merchant's secret, still sealed; a new one if there is none yet. */
export async function ensureReturnSecret(
  tx: Tx,
  { webhookSealKeys }: Keys,
  userId: string,
): Promise<Uint8Array> {
  const known = (await findMerchantPage(tx, userId))?.sealedReturnSecret;
  return known ?? keepFirstReturnSecret(tx, userId, sealNew(webhookSealKeys, userId).sealed);
}

/** Throws when none of the keys opens it. */
export async function getReturnSecret(tx: Tx, keys: Keys, userId: string): Promise<string> {
  return unseal(keys.webhookSealKeys, placeOf(userId), await ensureReturnSecret(tx, keys, userId));
}

/** Replaces it; the old one signs nothing from now on. */
export async function rotateReturnSecret(tx: Tx, { webhookSealKeys }: Keys, userId: string): Promise<string> {
  const { secret, sealed } = sealNew(webhookSealKeys, userId);
  await replaceReturnSecret(tx, userId, sealed);
  return secret;
}

/** Undefined when none of the keys opens it: the page of a link works without. */
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
