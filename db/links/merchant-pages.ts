/** How a merchant's pages look and work: one row a merchant, made when it is first needed. */
import type { Tx } from "../postgres/client.ts";
import type { MerchantPage } from "./schema.ts";

export async function findMerchantPage(tx: Tx, userId: string): Promise<MerchantPage | undefined> {
  const [row] = await tx<MerchantPage[]>`
    select *
    from merchant_pages
    where user_id = ${userId}`;
  return row;
}

/** Stores the secret unless the merchant has one, and returns the one that counts. */
export async function keepFirstReturnSecret(tx: Tx, userId: string, sealed: Uint8Array): Promise<Uint8Array> {
  const [row] = await tx<{ sealedReturnSecret: Uint8Array }[]>`
    insert into merchant_pages (user_id, sealed_return_secret)
    values (${userId}, ${Buffer.from(sealed)}::bytea)
    on conflict (user_id) do update
    set sealed_return_secret = coalesce(merchant_pages.sealed_return_secret, excluded.sealed_return_secret)
    returning sealed_return_secret`;
  return row?.sealedReturnSecret ?? sealed;
}

/** From now on the new one signs alone. */
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

/** Stores the same secret under another seal. False when it was replaced concurrently. */
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

/** Settings that are not given keep their value. */
export async function updatePageSettings(
  tx: Tx,
  userId: string,
  { frameOrigins }: { frameOrigins?: readonly string[] | undefined },
): Promise<MerchantPage> {
  const [row] = await tx<MerchantPage[]>`
    insert into merchant_pages (user_id, frame_origins)
    values (${userId}, coalesce(${frameOrigins ? [...frameOrigins] : null}::text[], '{}'))
    on conflict (user_id) do update
    set
      frame_origins = coalesce(${frameOrigins ? [...frameOrigins] : null}::text[], merchant_pages.frame_origins),
      updated_at = now()
    returning *`;
  if (!row) throw new Error(`the page settings of ${userId} were not stored`);
  return row;
}
