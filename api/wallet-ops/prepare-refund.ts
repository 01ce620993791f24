/** Prepares a refund: which transfer's money, how much, to whom; reserved under the link's lock before anybody signs. */
import { conflict, invalid, notFound } from "../../core/domain/errors.ts";
import { newRefundId } from "../../core/domain/ids.ts";
import { formatUnits, toAmountNumber } from "../../core/domain/money.ts";
import type { Hex } from "../../core/domain/networks.ts";
import {
  chooseRefund,
  type RefundChoice,
  type RefundRequest,
  refundableUnits,
} from "../../core/domain/refund.ts";
import type { OperationTerms } from "../../core/domain/wallet-operation.ts";
import { parseRecipient } from "../../core/domain/wallet-operation.ts";
import { findLink } from "../../db/links/links.ts";
import type { PaymentLink, User, Wallet } from "../../db/schema.ts";
import { insertRefund, listRefundable, lockForRefunds } from "../../db/wallet-ops/refunds.ts";
import { findWallet } from "../../db/wallets/wallets.ts";
import type { ApiDeps } from "../http/deps.ts";
import { readLiterals, toExactUnits } from "../links/amount.ts";
import { getEnabledChain } from "../wallets/enabled-network.ts";
import { findReplay, type Prepared, prepareOperation } from "./prepare.ts";

export type RefundBody = {
  amount?: number | string | undefined;
  toAddress?: string | undefined;
  reason?: string | undefined;
  transactionId?: string | undefined;
};

type Asked = {
  user: User;
  linkId: string;
  body: RefundBody;
  bodyText: string;
  idempotencyKey: string | undefined;
  requestId: string;
};

/** Throws NOT_FOUND for another user's link, CONFLICT when nothing or too little is left, VALIDATION_ERROR when it is not clear to whom. */
export async function prepareRefund(deps: ApiDeps, asked: Asked): Promise<Prepared> {
  const { user, linkId, body } = asked;
  const link = await findLink(deps.sql, { id: linkId, userId: user.id });
  if (!link) throw notFound("Payment link");
  const chain = getEnabledChain(deps, link.network);
  const wallet = await findWallet(deps.sql, user.id, link.network);
  if (!wallet) throw notFound(`A wallet of yours on ${link.network}`);
  const same = {
    kind: "REFUND" as const,
    request: { linkId, ...body },
    idempotencyKey: asked.idempotencyKey,
  };
  // before what is left is asked: the refund itself has taken it
  const replay = await findReplay(deps, { ...same, wallet });
  if (replay) return { operation: replay, isReplay: true };
  const request = readRequest(asked, wallet);
  const choice = need(chooseRefund(link, await listRefundable(deps.sql, linkId), request));
  const { transfer, to, toSource, amountUnits } = choice;
  const id = newRefundId(new Date());
  return prepareOperation(deps, chain, {
    ...{ ...same, id, wallet, requestId: asked.requestId },
    items: [{ to, amountUnits, note: "", isFee: false }],
    extraWarnings: ({ areContracts }) =>
      toSource === "transfer_sender" ? senderWarnings(to, areContracts[0] ?? false) : [],
    reserve: async (tx) => {
      await lockForRefunds(tx, linkId);
      // what is left may have changed since the choice: the same transfer is asked for again, under the lock
      const current = (await listRefundable(tx, linkId)).find(
        ({ txHash, logIndex }) => txHash === transfer.txHash && logIndex === transfer.logIndex,
      );
      const leftUnits = current?.leftUnits ?? 0n;
      if (leftUnits < amountUnits)
        need({ ok: false, issue: "exceeds_refundable", refundableUnits: leftUnits });
      await insertRefund(tx, {
        ...{ id, userId: user.id, linkId, network: link.network, amountUnits, toAddress: to, toSource },
        ...{ paidTxHash: transfer.txHash, paidLogIndex: transfer.logIndex, reason: body.reason ?? null },
      });
    },
  });
}

function readRequest({ body, bodyText }: Asked, wallet: Wallet): RefundRequest {
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
  throw invalid("toAddress", recipient.issue);
}

function need(choice: RefundChoice): Extract<RefundChoice, { ok: true }> {
  if (choice.ok) return choice;
  switch (choice.issue) {
    case "nothing_to_refund":
      throw conflict("Nothing of this link's money is left to refund", { issue: choice.issue });
    case "exceeds_refundable":
      throw conflict(`At most ${formatUnits(choice.refundableUnits)} USDC can be refunded`, {
        field: "amount",
        issue: choice.issue,
        refundable: toAmountNumber(choice.refundableUnits),
      });
    case "payer_ambiguous":
      throw invalid(
        "transactionId",
        choice.issue,
        "Several transfers came for this link: name one by transactionId",
      );
    case "unknown_transaction":
      throw notFound("A CONFIRMED transaction of this link with this id");
  }
}

/** The sender of a plain transfer need not be the customer. */
function senderWarnings(to: Hex, isContract: boolean): OperationTerms["warnings"] {
  const exchange = `${to} may belong to an exchange: money sent back there can be lost. Ask the customer for an address`;
  const contract = `${to} is a contract (a router or a bridge, perhaps): ask the customer for an address`;
  return [
    { code: "payer_may_be_an_exchange", message: exchange },
    ...(isContract ? [{ code: "payer_is_a_contract" as const, message: contract }] : []),
  ];
}

/** What may still be refunded of a link. */
export async function readRefundable({ sql }: Pick<ApiDeps, "sql">, link: Pick<PaymentLink, "id">) {
  return refundableUnits(await listRefundable(sql, link.id));
}
