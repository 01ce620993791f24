/**
 * Determines from a refund's body which payment is refunded, how much and to whom, and refuses more than what is left. The
 * rules are in core/domain/refund.ts. Used for refunds and refund requests.
 */
import { conflict, invalid, notFound } from "../../core/domain/errors.ts";
import { formatUnits, toAmountNumber } from "../../core/domain/money.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { parseRecipient } from "../../core/domain/recipient.ts";
import { chooseRefund, type RefundChoice, type RefundRequest } from "../../core/domain/refund.ts";
import type { OperationTerms } from "../../core/domain/wallet-operation.ts";
import { findLink } from "../../db/links/links.ts";
import type { Tx } from "../../db/postgres/client.ts";
import type { PaymentLink, User, Wallet } from "../../db/schema.ts";
import { listRefundable } from "../../db/wallet-ops/list-refundable.ts";
import type { NewRefund } from "../../db/wallet-ops/refunds.ts";
import { findWallet } from "../../db/wallets/wallets.ts";
import type { ApiDeps } from "../http/deps.ts";
import { readLiterals, toExactUnits } from "../links/parse-amount.ts";
import { RECIPIENT_ISSUES } from "./parse-recipients.ts";

export type RefundBody = {
  amount?: number | string | undefined;
  toAddress?: string | undefined;
  reason?: string | undefined;
  transactionId?: string | undefined;
};

export type AskedRefund = {
  user: User;
  linkId: string;
  body: RefundBody;
  bodyText: string;
  idempotencyKey: string | undefined;
  requestId: string;
};

export type Chosen = Extract<RefundChoice, { ok: true }>;

/** Throws NOT_FOUND for another user's link and without a wallet on its network. */
export async function getRefundedLink(
  { sql }: Pick<ApiDeps, "sql">,
  { user, linkId }: Pick<AskedRefund, "user" | "linkId">,
): Promise<{ link: PaymentLink; wallet: Wallet }> {
  const link = await findLink(sql, { id: linkId, userId: user.id });
  if (!link) throw notFound("Payment link");
  const wallet = await findWallet(sql, user.id, link.network);
  if (!wallet) throw notFound(`A wallet of yours on ${link.network}`);
  return { link, wallet };
}

/** Throws CONFLICT when nothing or too little is left, VALIDATION_ERROR when the recipient is ambiguous. */
export async function readRefundChoice(
  tx: Tx,
  { link, wallet }: { link: PaymentLink; wallet: Wallet },
  asked: Pick<AskedRefund, "body" | "bodyText">,
): Promise<Chosen> {
  const request = readRequest(asked, wallet);
  return need(chooseRefund(link, await listRefundable(tx, link.id), request));
}

/** The row of the chosen refund. */
export function toNewRefund(
  { transfer, to, toSource, amountUnits }: Chosen,
  { id, link, body }: { id: string; link: PaymentLink; body: RefundBody },
): NewRefund {
  return {
    id,
    userId: link.userId,
    linkId: link.id,
    network: link.network,
    amountUnits,
    toAddress: to,
    toSource,
    paidTxHash: transfer.txHash,
    paidLogIndex: transfer.logIndex,
    reason: body.reason ?? null,
  };
}

function readRequest(
  { body, bodyText }: Pick<AskedRefund, "body" | "bodyText">,
  wallet: Wallet,
): RefundRequest {
  const { document, literals } = readLiterals(bodyText === "" ? "{}" : bodyText, "amount");
  const { amount, toAddress, transactionId } = body;
  return {
    transactionId,
    toAddress: toAddress === undefined ? undefined : readAddress(toAddress, wallet),
    amountUnits: amount === undefined ? undefined : toExactUnits("amount", amount, literals.get(document)),
  };
}

function readAddress(text: string, { network, address }: Wallet): Hex {
  const recipient = parseRecipient(text, { network, wallet: address });
  if (recipient.ok) return recipient.address;
  throw invalid("toAddress", recipient.issue, `toAddress ${RECIPIENT_ISSUES[recipient.issue]}`);
}

function need(choice: RefundChoice): Chosen {
  if (choice.ok) return choice;
  switch (choice.issue) {
    case "nothing_to_refund":
      throw conflict("Nothing is left to refund on this link", { issue: choice.issue });
    case "exceeds_refundable":
      throw exceeds(choice.refundableUnits);
    case "payer_ambiguous":
      throw invalid(
        "transactionId",
        choice.issue,
        "Several transfers were received for this link: choose one with transactionId",
      );
    case "unknown_transaction":
      throw notFound("A CONFIRMED transaction of this link with this id");
  }
}

export type Reserved = {
  id: string;
  linkId: string;
  paidTxHash: Hex;
  paidLogIndex: number;
  amountUnits: bigint;
};

/**
 * What is left may have changed since the choice. Call under the link's lock when reserving; at confirmation the amount is already
 * reserved, so only the chain can have changed it. Throws CONFLICT.
 */
export async function refuseAboveRefundable(tx: Tx, refund: Reserved): Promise<void> {
  const current = (await listRefundable(tx, refund.linkId, { except: refund.id })).find(
    ({ txHash, logIndex }) => txHash === refund.paidTxHash && logIndex === refund.paidLogIndex,
  );
  const leftUnits = current?.leftUnits ?? 0n;
  if (leftUnits < refund.amountUnits) throw exceeds(leftUnits > 0n ? leftUnits : 0n);
}

function exceeds(refundableUnits: bigint) {
  return conflict(`At most ${formatUnits(refundableUnits)} USDC can be refunded`, {
    field: "amount",
    issue: "exceeds_refundable",
    refundable: toAmountNumber(refundableUnits),
  });
}

/** The sender of a plain transfer is not necessarily the customer. */
export function senderWarnings(to: Hex, isContract: boolean): OperationTerms["warnings"] {
  const exchange = `${to} may belong to an exchange, where refunds can be lost. Ask the customer for an address`;
  const contract = `${to} is a contract, possibly a router or bridge: ask the customer for an address`;
  return [
    { code: "payer_may_be_an_exchange", message: exchange },
    ...(isContract ? [{ code: "payer_is_a_contract" as const, message: contract }] : []),
  ];
}
