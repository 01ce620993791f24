/** The appearance and settings of a merchant's payment pages: one row for each merchant, inserted when it is first needed. */
import type { Tx } from "../postgres/client.ts";
import type { MerchantPage } from "./schema.ts";

export async function findMerchantPage(tx: Tx, userId: string): Promise<MerchantPage | undefined> {
  const [row] = await tx<MerchantPage[]>`
    select ${columns(tx)}
    from merchant_pages
    where user_id = ${userId}`;
  return row;
}

/** Everything except the logo itself, which is read only where it is rendered. */
const columns = (tx: Tx) => tx`user_id, sealed_return_secret, frame_origins, accent, logo_digest, updated_at`;

/** Stores the secret unless the merchant has one, and returns the stored one. */
export async function keepFirstReturnSecret(tx: Tx, userId: string, sealed: Uint8Array): Promise<Uint8Array> {
  const [row] = await tx<{ sealedReturnSecret: Uint8Array }[]>`
    insert into merchant_pages (user_id, sealed_return_secret)
    values (${userId}, ${Buffer.from(sealed)}::bytea)
    on conflict (user_id) do update
    set sealed_return_secret = coalesce(merchant_pages.sealed_return_secret, excluded.sealed_return_secret)
    returning sealed_return_secret`;
  return row?.sealedReturnSecret ?? sealed;
}

/** From now on only the new one signs. */
export async function replaceReturnSecret(tx: Tx, userId: string, sealed: Uint8Array): Promise<void> {
  await tx`
    insert into merchant_pages (user_id, sealed_return_secret)
    values (${userId}, ${Buffer.from(sealed)}::bytea)
    on conflict (user_id) do update
    set sealed_return_secret = excluded.sealed_return_secret, updated_at = now()`;
}

export type SealedReturnSecret = { userId: string; sealedReturnSecret: Uint8Array };

/** Of all merchants, by id. */
export async function listReturnSecrets(
  tx: Tx,
  page: { afterUserId: string; limit: number },
): Promise<SealedReturnSecret[]> {
  return tx<SealedReturnSecret[]>`
    select user_id, sealed_return_secret
    from merchant_pages
    where user_id > ${page.afterUserId} and sealed_return_secret is not null
    order by user_id
    limit ${page.limit}`;
}

/** Stores the same secret encrypted with another key. False when it was replaced concurrently. */
export async function resealReturnSecret(
  tx: Tx,
  { userId, sealed, renewed }: { userId: string; sealed: Uint8Array; renewed: Uint8Array },
): Promise<boolean> {
  const rows = await tx`
    update merchant_pages
    set sealed_return_secret = ${Buffer.from(renewed)}::bytea
    where user_id = ${userId} and sealed_return_secret = ${Buffer.from(sealed)}::bytea
    returning user_id`;
  return rows.length > 0;
}

/** Omitted settings are unchanged; null removes the accent. */
export async function updatePageSettings(
  tx: Tx,
  userId: string,
  {
    frameOrigins,
    accent,
  }: { frameOrigins?: readonly string[] | undefined; accent?: string | null | undefined },
): Promise<MerchantPage> {
  const origins = frameOrigins ? [...frameOrigins] : null;
  const [row] = await tx<MerchantPage[]>`
    insert into merchant_pages (user_id, frame_origins, accent)
    values (${userId}, coalesce(${origins}::text[], '{}'), ${accent ?? null})
    on conflict (user_id) do update
    set
      frame_origins = coalesce(${origins}::text[], merchant_pages.frame_origins),
      accent = ${accent === undefined ? tx`merchant_pages.accent` : accent},
      updated_at = now()
    returning ${columns(tx)}`;
  if (!row) throw new Error(`the page settings of ${userId} were not stored`);
  return row;
}

/** `logo`: a PNG with the digest that names it; null removes it. */
export async function replaceLogo(
  tx: Tx,
  userId: string,
  logo: { png: Uint8Array; digest: string } | null,
): Promise<MerchantPage> {
  const png = logo && Buffer.from(logo.png);
  const [row] = await tx<MerchantPage[]>`
    insert into merchant_pages (user_id, logo, logo_digest)
    values (${userId}, ${png}::bytea, ${logo?.digest ?? null})
    on conflict (user_id) do update
    set logo = excluded.logo, logo_digest = excluded.logo_digest, updated_at = now()
    returning ${columns(tx)}`;
  if (!row) throw new Error(`the logo of ${userId} was not stored`);
  return row;
}

/** By the digest in its URL. Merchants with the same image share it. */
export async function findLogo(tx: Tx, digest: string): Promise<Uint8Array | undefined> {
  const [row] = await tx<{ logo: Uint8Array }[]>`
    select logo
    from merchant_pages
    where logo_digest = ${digest}
    limit 1`;
  return row?.logo;
}
