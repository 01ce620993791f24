/** Payments as the API accepts them, and the ways their authorizations reach the chain. */
import { encodeFunctionData, multicall3Abi } from "viem";
import { generatePrivateKey, type PrivateKeyAccount, privateKeyToAccount } from "viem/accounts";
import { encodeTransferWithVrs } from "../../core/chain/usdc.ts";
import type { Authorization } from "../../core/domain/authorization.ts";
import { newPaymentId } from "../../core/domain/ids.ts";
import { CONTRACTS, type Hex } from "../../core/domain/networks.ts";
import { lockLinks } from "../../db/links/lock-links.ts";
import { type AuthorizedPayment, insertPayments } from "../../db/payments/accept-payments.ts";
import {
  insertFacilitatedPayments,
  type NewFacilitatedPayment,
} from "../../db/payments/facilitated-payments.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { type Lab, linkOf, NETWORK, send, USDC } from "./indexer-lab.ts";
import { signAuthorization } from "./payer.ts";

export type Signer = PrivateKeyAccount & { lower: Hex };

/** A payer with a key and USDC. */
export async function makeSigner(lab: Lab, units = 1_000_000_000n): Promise<Signer> {
  const account = privateKeyToAccount(generatePrivateKey());
  const lower = account.address.toLowerCase() as Hex;
  await fundUsdc(lab.chain.rpcUrl, lower, units);
  return { ...account, lower };
}

/** An authorization of this payer and the calldata that executes it, whoever sends it. */
export async function authorize(
  signer: Signer,
  fields: { to: Hex; value: bigint; nonce?: Hex },
): Promise<{ authorization: Authorization; data: Hex }> {
  const { authorization, signature } = await signAuthorization(signer, fields);
  return { authorization, data: encodeTransferWithVrs(authorization, signature) };
}

/**
 * The payment row of an authorization for a link, as the API accepts it, a second ago: what is accepted within the second of its block
 * counts as later. Undefined when the link does not take it.
 */
export async function acceptPayment(
  lab: Lab,
  linkId: string,
  authorization: Authorization,
): Promise<string | undefined> {
  const link = await linkOf(lab, linkId);
  const id = newPaymentId();
  const accepted = await lab.sql.begin(async (tx) => {
    await lockLinks(tx, [linkId]);
    const payment = toAuthorizedPayment(id, authorization);
    const inserted = await insertPayments(tx, [{ ...payment, linkId, network: link.network }]);
    await makeSecondOlder(tx, id);
    return inserted;
  });
  return accepted.has(id) ? id : undefined;
}

/** As `acceptPayment`, for a resource of a third party: the payment belongs to no link. Undefined when the authorization is known. */
export async function acceptFacilitatedPayment(
  { sql }: Lab,
  client: Pick<NewFacilitatedPayment, "facilitatorUserId" | "facilitatorKeyId">,
  authorization: Authorization,
): Promise<string | undefined> {
  const id = newPaymentId();
  const payment = { ...toAuthorizedPayment(id, authorization), ...client };
  const accepted = await sql.begin(async (tx) => {
    const inserted = await insertFacilitatedPayments(tx, [payment]);
    await makeSecondOlder(tx, id);
    return inserted;
  });
  return accepted.has(id) ? id : undefined;
}

export function toAuthorizedPayment(id: string, authorization: Authorization): AuthorizedPayment {
  return {
    ...({ id, network: NETWORK, token: USDC, payer: authorization.from, payerKind: "EOA" } as const),
    ...{ recipient: authorization.to, amountUnits: authorization.value, nonce: authorization.nonce },
    ...{ validAfter: authorization.validAfter, validBefore: authorization.validBefore, signature: "0x" },
    ...{ idempotencyKey: null, requestId: null },
  };
}

async function makeSecondOlder(tx: Tx, id: string): Promise<void> {
  await tx`update payments set created_at = created_at - interval '1 second' where id = ${id}`;
}

/** Several calls in one transaction through Multicall3. */
export function sendBatch(
  lab: Lab,
  from: Hex,
  calls: readonly { target: Hex; callData: Hex }[],
): Promise<Hex> {
  const data = encodeFunctionData({
    abi: multicall3Abi,
    functionName: "aggregate3",
    args: [calls.map((call) => ({ ...call, allowFailure: false }))],
  });
  return send(lab, from, CONTRACTS.multicall3, data);
}

export type PaymentRow = { state: string; reason: string | null; txHash: Hex | null; relayId: bigint | null };

export async function paymentOf(lab: Lab, id: string | undefined): Promise<PaymentRow> {
  const [row] = await lab.sql<PaymentRow[]>`
    select state, reason, tx_hash, relay_id from payments where id = ${id ?? ""}`;
  if (!row) throw new Error(`no payment ${id}`);
  return row;
}
