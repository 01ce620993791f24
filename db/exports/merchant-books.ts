/** What a merchant's documents say about him, and where his months begin. */
import type { Tx } from "../postgres/client.ts";
import type { MerchantBooks } from "./schema.ts";

export async function findMerchantBooks(tx: Tx, userId: string): Promise<MerchantBooks | undefined> {
  const [row] = await tx<MerchantBooks[]>`
    select *
    from merchant_books
    where user_id = ${userId}`;
  return row;
}

export type BooksChanges = {
  [Name in "legalName" | "postalAddress" | "taxId"]?: string | null | undefined;
} & { timeZone?: string | undefined; monthlyStatements?: boolean | undefined };

/** Omitted ones are unchanged. Monthly statements begin with the month that is not over when they are switched on. */
export async function updateMerchantBooks(
  tx: Tx,
  userId: string,
  { legalName, postalAddress, taxId, timeZone, monthlyStatements }: BooksChanges,
): Promise<MerchantBooks> {
  await tx`
    insert into merchant_books (user_id)
    values (${userId})
    on conflict (user_id) do nothing`;
  const [row] = await tx<MerchantBooks[]>`
    update merchant_books
    set
      legal_name = ${legalName === undefined ? tx`legal_name` : legalName},
      postal_address = ${postalAddress === undefined ? tx`postal_address` : postalAddress},
      tax_id = ${taxId === undefined ? tx`tax_id` : taxId},
      time_zone = coalesce(${timeZone ?? null}::text, time_zone),
      monthly_since = case
        when ${monthlyStatements ?? null}::boolean and not monthly_statements then now()
        else monthly_since
      end,
      monthly_statements = coalesce(${monthlyStatements ?? null}::boolean, monthly_statements),
      updated_at = now()
    where user_id = ${userId}
    returning *`;
  if (!row) throw new Error(`the books settings of ${userId} were not stored`);
  return row;
}
