/**
 * Parses the recipients of a send from its body, which has one of two forms: `to` and `amount`, or `payments`. core/domain/recipient.ts decides
 * which recipients are refused; this file has the message for each reason. The total must be at least `minUnits`.
 */
import { invalid } from "../../core/domain/errors.ts";
import { formatUnits } from "../../core/domain/money.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import { parseRecipient, type RecipientIssue } from "../../core/domain/recipient.ts";
import type { Wallet } from "../../db/schema.ts";
import type { NewOperationItem } from "../../db/wallet-ops/operations.ts";
import { readLiterals, toExactUnits } from "../links/parse-amount.ts";

type Payment = { to?: string | undefined; amount?: number | string | undefined; note?: string | undefined };
export type SendBody = Payment & { network?: NetworkId | undefined; payments?: Payment[] | undefined };

/** To be read after the field's name. */
export const RECIPIENT_ISSUES: Readonly<Record<RecipientIssue, string>> = {
  invalid: "must be an address: 0x and 40 hex digits",
  bad_checksum: "is mistyped: its capital letters do not match the address checksum (EIP-55)",
  zero_address: "is the zero address",
  token_contract: "is the USDC contract itself",
  not_a_recipient: "is a contract of the wallet's infrastructure",
  own_wallet: "is this wallet itself",
};

/** Throws VALIDATION_ERROR naming the field, `payments.3.to` for one of several. */
export function parseRecipients(
  { body, bodyText, minUnits }: { body: SendBody; bodyText: string; minUnits: bigint },
  wallet: Pick<Wallet, "network" | "address">,
): NewOperationItem[] {
  const { document, literals } = readLiterals(bodyText, "amount");
  const several = body.payments;
  if (several && (body.to !== undefined || body.amount !== undefined))
    throw invalid("payments", "must not be combined with to and amount");
  const sources = several ? (document as { payments: unknown[] }).payments : [document];
  const items = (several ?? [body]).map((payment, index) => {
    const prefix = several ? `payments.${index}.` : "";
    return readPayment(payment, { prefix, literal: literals.get(sources[index]), wallet });
  });
  const total = items.reduce((sum, { amountUnits }) => sum + amountUnits, 0n);
  if (total < minUnits)
    throw invalid(
      "amount",
      "below_minimum",
      `amount must be at least ${formatUnits(minUnits)} USDC in total`,
    );
  return items;
}

function readPayment(
  { to, amount, note = "" }: Payment,
  given: { prefix: string; literal: string | undefined; wallet: Pick<Wallet, "network" | "address"> },
): NewOperationItem {
  const { prefix, literal, wallet } = given;
  if (to === undefined) throw invalid(`${prefix}to`, "is required");
  const recipient = parseRecipient(to, { network: wallet.network, wallet: wallet.address });
  if (!recipient.ok)
    throw invalid(`${prefix}to`, recipient.issue, `${prefix}to ${RECIPIENT_ISSUES[recipient.issue]}`);
  if (amount === undefined) throw invalid(`${prefix}amount`, "is required");
  const amountUnits = toExactUnits(`${prefix}amount`, amount, literal);
  return { to: recipient.address, amountUnits, note, isFee: false };
}
