/** One merchant whose links are paid and claimed from outside, with processes of its own. */
import { expect } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { type Answer, openClient } from "../support/http-client.ts";
import { openPauses } from "../support/poll.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import type { WorldOptions } from "../support/world.ts";
import { type MerchantWorld, startMerchantWorld } from "./merchant-world.ts";
import { newPayer, type ProvingPayer } from "./payers.ts";

export const PAYER_PAGE = "/api/v1/public/payment-links";
const PAYER_UNITS = 10_000_000_000n;
const TIMEOUT_MS = 90_000;
/** Micro-USDC; more than a link's unique amount adds. */
const AMOUNT_STEP = 1_000;

export type PayerSide = {
  world: MerchantWorld;
  rpcUrl: string;
  ann: Merchant;
  wallet: Hex;
  payer: Hex;
  /** A link with an unused amount, or with the amount of the latest link. */
  makeLink: (amount?: "same" | bigint) => Promise<{ id: string; amountUnits: bigint }>;
  claim: (linkId: string, transactionHash: string, clientWalletAddress?: string) => Promise<Answer>;
  /** The same with the payer's signature over the typed data of the first response. */
  prove: (linkId: string, transactionHash: string, payer: ProvingPayer) => Promise<Answer>;
  statusOf: (linkId: string) => Promise<string>;
  waitForStatus: (linkId: string, status: string) => Promise<unknown>;
  claimRow: (linkId: string) => Promise<{ id: string; state: string; reason: string | null } | undefined>;
};

export async function startPayerSide(options: WorldOptions = {}): Promise<PayerSide> {
  const world = await startMerchantWorld(options);
  const { rpcUrl } = world.chain;
  const ann = await signUp(world.baseUrl);
  const payer = await newPayer(rpcUrl, PAYER_UNITS);
  let counter = 0;

  async function makeLink(amount?: "same" | bigint) {
    if (amount === undefined) counter += 1;
    const amountUnits = typeof amount === "bigint" ? amount : BigInt(1_000_000 + AMOUNT_STEP * counter);
    const given = { amount: Number(amountUnits) / 1e6, description: "Claimed" };
    const { status, body } = await ann.client.post("/v1/payment-links", given);
    expect(status).toBe(201);
    return { id: body.id as string, amountUnits };
  }
  const claim = (linkId: string, transactionHash: string, clientWalletAddress: string = payer) =>
    openClient(world.baseUrl).post(`${PAYER_PAGE}/${linkId}/complete`, {
      transactionHash,
      clientWalletAddress,
    });
  async function prove(linkId: string, transactionHash: string, { lower, signTypedData }: ProvingPayer) {
    const { body } = await claim(linkId, transactionHash, lower);
    return openClient(world.baseUrl).post(`${PAYER_PAGE}/${linkId}/complete`, {
      ...{ transactionHash, clientWalletAddress: lower },
      signature: await signTypedData(body.typedData ?? body.error.details.typedData),
    });
  }
  const statusOf = async (linkId: string): Promise<string> =>
    (await openClient(world.baseUrl).get(`${PAYER_PAGE}/${linkId}/data`)).body.status;
  const waitForStatus = (linkId: string, status: string) =>
    waitFor(`${linkId} to be ${status}`, async () => (await statusOf(linkId)) === status);
  const claimRow = async (linkId: string) => {
    const [row] = await world.sql<{ id: string; state: string; reason: string | null }[]>`
      select id, state, reason
      from claims
      where link_id = ${linkId}`;
    return row;
  };
  const wallet = ann.walletAddress as Hex;
  return { world, rpcUrl, ann, wallet, payer, makeLink, claim, prove, statusOf, waitForStatus, claimRow };
}

export async function waitFor<Value>(
  what: string,
  read: () => Promise<Value | undefined | false>,
): Promise<Value> {
  const deadline = Date.now() + TIMEOUT_MS;
  const pause = openPauses(50);
  for (;;) {
    const value = await read();
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`waited ${TIMEOUT_MS} ms for ${what}`);
    await pause();
  }
}
