/** Rows a test starts from, written straight into the database: an active merchant with a wallet, and links of theirs. */
import { randomBytes } from "node:crypto";
import { newLinkId, newUserId, newWalletId } from "../../core/domain/ids.ts";
import { linkTag } from "../../core/domain/link-tag.ts";
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import { CONTRACTS } from "../../core/domain/networks.ts";
import type { Sql } from "../../db/postgres/client.ts";

export type SeededMerchant = {
  userId: string;
  walletId: string;
  address: Hex;
  network: NetworkId;
  email: string;
};

/** An ACTIVE user with one wallet at a random address. */
export async function seedMerchant(
  sql: Sql,
  options: { network?: NetworkId; address?: Hex } = {},
): Promise<SeededMerchant> {
  const network = options.network ?? "base-sepolia";
  const userId = newUserId();
  const walletId = newWalletId();
  const address = options.address ?? randomAddress();
  const email = `${userId.slice(5, 13)}@example.test`;
  const passkeyId = randomBytes(16).toString("base64url");
  const point = randomBytes(32);
  await sql`insert into users (id, email, status) values (${userId}, ${email}, 'ACTIVE')`;
  await sql`
    insert into passkeys (id, user_id, cose_key, public_key_x, public_key_y, device_type, backed_up, rp_id)
    values (${passkeyId}, ${userId}, ${randomBytes(77)}, ${point}, ${point}, 'multiDevice', true, 'localhost')`;
  await sql`
    insert into wallets (id, user_id, network, address, passkey_id, factory, owners)
    values (${walletId}, ${userId}, ${network}, ${address}, ${passkeyId}, ${CONTRACTS.smartWalletFactory}, ${[`0x${"11".repeat(64)}`]})`;
  return { userId, walletId, address, network, email };
}

/** Ids of `count` ACTIVE links of the merchant. */
export async function seedLinks(
  sql: Sql,
  merchant: SeededMerchant,
  options: {
    count?: number;
    amountUnits?: bigint;
    expiresInS?: number;
    description?: string;
    /** Paid by any number of payers. */
    isReusable?: boolean;
  } = {},
): Promise<string[]> {
  const count = options.count ?? 1;
  // a millisecond each, as links are made one by one: rows are found by that part of their ids
  const firstMs = Date.now() - count;
  const ids = Array.from({ length: count }, (_, index) => newLinkId(new Date(firstMs + index)));
  const isReusable = options.isReusable ?? false;
  await sql`
    insert into payment_links (
      id, tag, is_reusable, max_payments, user_id, network, recipient, amount_units, description, expires_at
    )
    select
      id, case when ${isReusable} then null else tag end, ${isReusable}, ${isReusable ? null : 1}::int, ${merchant.userId}, ${merchant.network}, ${merchant.address}::bytea, ${options.amountUnits ?? 1_000_000n},
      ${options.description ?? "a test link"}, now() + make_interval(secs => ${options.expiresInS ?? 3_600}::float8)
    from unnest(${ids}::text[], ${ids.map(linkTag)}::bytea[]) as made (id, tag)`;
  return ids;
}

export async function seedLink(
  sql: Sql,
  merchant: SeededMerchant,
  options: { amountUnits?: bigint; expiresInS?: number; description?: string } = {},
): Promise<string> {
  const [id] = await seedLinks(sql, merchant, options);
  if (!id) throw new Error("no link was made");
  return id;
}

export function randomAddress(): Hex {
  return `0x${randomBytes(20).toString("hex")}`;
}
