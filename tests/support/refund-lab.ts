/** Links with money, and their refunds as the merchant's browser makes them. */
import { encodeTransfer } from "../../core/chain/usdc.ts";
import type { Hex } from "../../core/domain/networks.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import type { Answer } from "./http-client.ts";
import { makeSender } from "./indexer-lab-reorgs.ts";
import { makePayer, shapeA, signPayment } from "./payer.ts";
import { openPauses } from "./poll.ts";
import type { Merchant } from "./sign-up.ts";
import type { World } from "./world.ts";

const WAIT_MS = 90_000;

/** `given` is read at each call: a file's `beforeAll` sets what it returns. */
export function refundLab(given: () => { world: Pick<World, "chain">; sql: Sql; merchant: Merchant }) {
  async function until<Value>(read: () => Promise<Value | undefined>): Promise<Value> {
    const deadline = Date.now() + WAIT_MS;
    const pause = openPauses();
    for (;;) {
      const value = await read();
      if (value !== undefined) return value;
      if (Date.now() > deadline) throw new Error("timed out");
      await pause();
    }
  }

  async function makeLink(amount: number): Promise<string> {
    const { client } = given().merchant;
    const answer = await client.post("/v1/payment-links", { amount, description: "Bicycle" });
    if (answer.status !== 201) throw new Error(answer.text);
    return answer.body.id;
  }

  const linkOf = async (id: string) => (await given().merchant.client.get(`/v1/payment-links/${id}`)).body;

  function waitForPaid(id: string) {
    return until(async () => {
      const link = await linkOf(id);
      return link.status === "PAID" ? link : undefined;
    });
  }

  /** A link paid by x402; returns its payer. */
  async function paidByX402(
    amount: number,
    headers?: Record<string, string>,
  ): Promise<{ linkId: string; payer: Hex }> {
    const { world, merchant } = given();
    const linkId = await makeLink(amount);
    const payer = makePayer();
    const units = BigInt(Math.round(amount * 1_000_000));
    await fundUsdc(world.chain.rpcUrl, payer.address, units);
    const to = merchant.walletAddress as Hex;
    const payment = await signPayment(payer, { to, amountUnits: units });
    const answer = await merchant.client.post(`/v1/x402/${linkId}/pay`, shapeA(payment), headers);
    // 202: accepted, and its outcome is waited for below
    if (answer.status !== 200 && answer.status !== 202) throw new Error(answer.text);
    await waitForPaid(linkId);
    return { linkId, payer: payer.address.toLowerCase() as Hex };
  }

  /** A plain transfer that names the link by its tag, whatever its value. Its chain impersonates. */
  async function transferFor(linkId: string, units: bigint): Promise<{ hash: Hex; from: Hex }> {
    const { world, sql, merchant } = given();
    const { body } = await merchant.client.get(`/api/v1/public/payment-links/${linkId}/data`);
    const sender = await makeSender({ chain: world.chain });
    const call = encodeTransfer(merchant.walletAddress as Hex, units);
    const { txHash: hash } = await sender.call(`${call}${body.tag.slice(2)}`);
    await until(async () => {
      const [row] = await sql`
        select from transfers where tx_hash = ${hash} and link_id = ${linkId} and status = 'CONFIRMED'`;
      return row;
    });
    return { hash, from: sender.address };
  }

  function refund(linkId: string, body?: unknown, headers?: Record<string, string>): Promise<Answer> {
    return given().merchant.client.post(`/v1/payment-links/${linkId}/refunds`, body ?? {}, headers);
  }

  async function confirm(prepared: Answer["body"]): Promise<Answer> {
    const { client, passkey } = given().merchant;
    return client.post(`/v1/refunds/${prepared.refundId}/confirm`, {
      challengeId: prepared.challengeId,
      passkeyResponse: await passkey.authenticate(prepared.passkeyChallenge),
    });
  }

  function waitForRefund(refundId: string, status = "CONFIRMED") {
    return until(async () => {
      const shown = (await given().merchant.client.get(`/v1/refunds/${refundId}`)).body;
      return shown.status === status ? shown : undefined;
    });
  }

  /** Prepares, confirms and waits until it is CONFIRMED. */
  async function refunded(linkId: string, body?: unknown) {
    const prepared = await refund(linkId, body);
    if (prepared.status !== 201) throw new Error(prepared.text);
    const answer = await confirm(prepared.body);
    if (answer.status !== 202) throw new Error(answer.text);
    return waitForRefund(prepared.body.refundId);
  }

  return {
    ...{ until, makeLink, linkOf, waitForPaid, paidByX402, transferFor },
    ...{ refund, confirm, waitForRefund, refunded },
  };
}
