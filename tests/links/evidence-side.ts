/** A service whose links are paid and claimed by payers with their own keys: every transaction and claim is really signed. */
import { expect } from "bun:test";
import { keccak256 } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { encodeTransfer } from "../../core/chain/usdc.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fundEth, fundUsdc } from "../../local/chain/usdc.ts";
import type { FaultProxy } from "../rpc/fault-proxy.ts";
import type { TestChain } from "../support/chain.ts";
import { type Answer, openClient } from "../support/http-client.ts";
import { makePayer, type Payer, type SignedPayment, shapeA } from "../support/payer.ts";
import { openPauses } from "../support/poll.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { type ProcessName, type Service, startFaultyWorld } from "../support/world.ts";

export const PUBLIC_LINKS = "/api/v1/public/payment-links";
export const USDC = NETWORKS["base-sepolia"].usdc.address;
const CHAIN_ID = NETWORKS["base-sepolia"].chainId;
const ONE_ETH = 10n ** 18n;
const PERSON_UNITS = 10_000_000_000n;
const GAS_LIMIT = 500_000n;
const MAX_FEE = 20n * 10n ** 9n;
const TIMEOUT_MS = 90_000;

/** EIP-712 typed data as the service returns it. */
export type TypedData = {
  types: Record<string, { name: string; type: string }[]>;
  primaryType: string;
  domain: { name: string; version: string; chainId: number };
  message: { statement: string; linkId: string; recipient: Hex; transactionHash: Hex };
};

export type SignedTransaction = { raw: Hex; hash: Hex };

export type LinkRow = {
  status: string;
  exception: string;
  settledBy: string | null;
  paidUnits: bigint | null;
  amountUnits: bigint;
  payAmountUnits: bigint | null;
  tag: Hex;
};

export type HistoryRow = {
  id: string;
  type: string;
  status: string;
  linkId: string | null;
  settledBy: string | null;
  candidates: string[] | null;
  transferId: bigint | null;
};

export type ClaimRow = {
  state: string;
  reason: string | null;
  proof: string | null;
  isEarly: boolean;
};

export type EvidenceSide = {
  service: Service;
  chain: TestChain;
  proxy: FaultProxy;
  rpcUrl: string;
  sql: Sql;
  ann: Merchant;
  wallet: Hex;
  stop: () => Promise<void>;
};

/** `confirmations`: blocks until a transfer is CONFIRMED; with 2 or more a link is PENDING between. */
export async function startEvidenceSide(
  options: { confirmations?: number; processes?: readonly ProcessName[] } = {},
): Promise<EvidenceSide> {
  const service = await startFaultyWorld({
    hasWebSocket: true,
    env: {
      ...{ NODE_ENV: "test", RATE_LIMITS: "0" },
      CONFIRMATIONS_BASE_SEPOLIA: String(options.confirmations ?? 1),
    },
    ...(options.processes ? { processes: options.processes } : {}),
  });
  const { chain, proxy, sql, stop } = service;
  const ann = await signUp(service.baseUrl);
  const wallet = ann.walletAddress.toLowerCase() as Hex;
  return { service, chain, proxy, rpcUrl: chain.rpcUrl, sql, ann, wallet, stop };
}

let lastUnits = 20_000_000n;

/** An amount that no other link of this test file uses, unique amounts included. */
export function nextUnits(): bigint {
  lastUnits += 10_000n;
  return lastUnits;
}

/** Open links of one price. */
export async function makeLinks(
  { ann }: Pick<EvidenceSide, "ann">,
  count: number,
  units: bigint = nextUnits(),
): Promise<string[]> {
  const ids: string[] = [];
  for (let index = 0; index < count; index++) {
    const given = { amount: Number(units) / 1e6, description: `Order ${index + 1}` };
    const { status, body } = await ann.client.post("/v1/payment-links", given);
    expect(status).toBe(201);
    ids.push(body.id);
  }
  return ids;
}

/** The link to be paid, another link of the same price, and that price. */
export async function makeTwins(side: EvidenceSide): Promise<{ meant: string; twin: string; units: bigint }> {
  const units = nextUnits();
  const [meant = "", twin = ""] = await makeLinks(side, 2, units);
  return { meant, twin, units };
}

/** A payer with a key, ETH and USDC. */
export async function makePerson({ rpcUrl }: Pick<EvidenceSide, "rpcUrl">): Promise<Payer> {
  const person = makePayer();
  await fundEth(rpcUrl, person.address, ONE_ETH);
  await fundUsdc(rpcUrl, person.address, PERSON_UNITS);
  return person;
}

/** Signs a call with the person's next nonce, without sending it. */
export async function signCall(
  { rpcUrl }: Pick<EvidenceSide, "rpcUrl">,
  person: Pick<Payer, "address" | "privateKey">,
  call: { to: Hex; data: Hex },
): Promise<SignedTransaction> {
  const nonce = Number(await callRpc(rpcUrl, "eth_getTransactionCount", [person.address, "pending"]));
  const raw = await privateKeyToAccount(person.privateKey).signTransaction({
    ...{ type: "eip1559", chainId: CHAIN_ID, nonce, gas: GAS_LIMIT, ...call },
    ...{ maxFeePerGas: MAX_FEE, maxPriorityFeePerGas: 1_000_000n },
  });
  return { raw, hash: keccak256(raw) };
}

/** Sends signed bytes. */
export async function broadcast(
  { rpcUrl }: Pick<EvidenceSide, "rpcUrl">,
  { raw, hash }: SignedTransaction,
): Promise<Hex> {
  await callRpc(rpcUrl, "eth_sendRawTransaction", [raw]);
  return hash;
}

/** A plain transfer; `tail` is appended to its calldata. */
export async function signTransfer(
  side: Pick<EvidenceSide, "rpcUrl">,
  person: Pick<Payer, "address" | "privateKey">,
  { to, units, tail = "" }: { to: Hex; units: bigint; tail?: string },
): Promise<SignedTransaction> {
  return signCall(side, person, { to: USDC, data: `${encodeTransfer(to, units)}${tail}` });
}

/** A plain transfer to the merchant's wallet, sent and read by the indexer. */
export async function pay(
  side: EvidenceSide,
  person: Pick<Payer, "address" | "privateKey">,
  given: { units: bigint; tail?: string },
): Promise<Hex> {
  const hash = await broadcast(side, await signTransfer(side, person, { to: side.wallet, ...given }));
  await indexed(side);
  return hash;
}

export async function mine({ rpcUrl }: Pick<EvidenceSide, "rpcUrl">, blocks = 1): Promise<void> {
  for (let n = 0; n < blocks; n++) await callRpc(rpcUrl, "evm_mine", []);
}

/** Waits until everything sent is in a block and the indexer's cursor stands on the head. */
export function indexed({ rpcUrl, sql }: Pick<EvidenceSide, "rpcUrl" | "sql">): Promise<unknown> {
  return waitFor("the cursor at the head", async () => {
    const pool = (await callRpc(rpcUrl, "txpool_status")) as { pending: string };
    if (Number(pool.pending) > 0) return false;
    const head = (await callRpc(rpcUrl, "eth_getBlockByNumber", ["latest", false])) as { hash: string };
    const [row] = await sql<{ hash: string }[]>`select hash from cursors where network = 'base-sepolia'`;
    return row?.hash === head.hash;
  });
}

/** Waits until the indexer has also processed everything stored before this call, which it does between two blocks. */
export async function settledLate(side: Pick<EvidenceSide, "rpcUrl" | "sql">): Promise<void> {
  for (let round = 0; round < 2; round++) {
    await mine(side);
    await indexed(side);
  }
}

export function claim(
  { service }: Pick<EvidenceSide, "service">,
  linkId: string,
  given: { hash: Hex; address: Hex; signature?: Hex | undefined },
): Promise<Answer> {
  const { hash: transactionHash, address: clientWalletAddress, signature } = given;
  const body = { transactionHash, clientWalletAddress, ...(signature ? { signature } : {}) };
  return openClient(service.baseUrl).post(`${PUBLIC_LINKS}/${linkId}/complete`, body);
}

/** What a claim's sender has to sign, composed from the documentation. */
export async function typedDataOf(side: EvidenceSide, linkId: string, hash: Hex): Promise<TypedData> {
  const { merchantName, amount } = (await dataOf(side, linkId)).body;
  const statement =
    `I sent this transaction to ${merchantName} for this payment link of ${Number(amount).toFixed(6)} USDC on Base Sepolia. ` +
    "Signing moves no money: it proves to the merchant which order the transfer pays.";
  return {
    types: {
      EIP712Domain: [
        { name: "name", type: "string" },
        { name: "version", type: "string" },
        { name: "chainId", type: "uint256" },
      ],
      Claim: [
        { name: "statement", type: "string" },
        { name: "linkId", type: "string" },
        { name: "recipient", type: "address" },
        { name: "transactionHash", type: "bytes32" },
      ],
    },
    primaryType: "Claim",
    domain: { name: new URL(side.service.baseUrl).host, version: "1", chainId: CHAIN_ID },
    message: { statement, linkId, recipient: side.wallet, transactionHash: hash },
  };
}

/** A key's signature of a claim, by viem's own EIP-712. */
export async function signClaim(
  side: EvidenceSide,
  person: Pick<Payer, "privateKey">,
  claimed: { linkId: string; hash: Hex },
): Promise<Hex> {
  const { types, ...typedData } = await typedDataOf(side, claimed.linkId, claimed.hash);
  return signTypedData(person, { types, ...typedData });
}

export function signTypedData(person: Pick<Payer, "privateKey">, typedData: TypedData): Promise<Hex> {
  return privateKeyToAccount(person.privateKey).signTypedData(typedData);
}

/** A claim with its sender's signature. */
export async function prove(
  side: EvidenceSide,
  linkId: string,
  { hash, person }: { hash: Hex; person: Payer },
): Promise<Answer> {
  const signature = await signClaim(side, person, { linkId, hash });
  return claim(side, linkId, { hash, address: person.address, signature });
}

/** Presents an authorization to a link like an x402 client. */
export async function show(
  { service }: Pick<EvidenceSide, "service">,
  linkId: string,
  payment: SignedPayment,
): Promise<Answer> {
  return openClient(service.baseUrl).post(`/v1/x402/${linkId}/pay`, shapeA(payment));
}

export function dataOf({ service }: Pick<EvidenceSide, "service">, linkId: string): Promise<Answer> {
  return openClient(service.baseUrl).get(`${PUBLIC_LINKS}/${linkId}/data`);
}

export async function statusOf(side: Pick<EvidenceSide, "service">, linkId: string): Promise<string> {
  return (await dataOf(side, linkId)).body.status;
}

export async function linkOf({ sql }: Pick<EvidenceSide, "sql">, linkId: string): Promise<LinkRow> {
  const [row] = await sql<LinkRow[]>`
    select status, exception, settled_by, paid_units, amount_units, pay_amount_units, tag
    from payment_links
    where id = ${linkId}`;
  if (!row) throw new Error(`no link ${linkId}`);
  return row;
}

export function waitForLink(
  side: Pick<EvidenceSide, "sql">,
  linkId: string,
  expected: Partial<LinkRow>,
): Promise<LinkRow> {
  const names = Object.keys(expected) as (keyof LinkRow)[];
  return waitFor(`${linkId} to be ${names.map((name) => expected[name]).join(", ")}`, async () => {
    const row = await linkOf(side, linkId);
    return names.every((name) => row[name] === expected[name]) && row;
  });
}

/** The merchant's rows of a transaction. */
export async function historyOf(
  { sql, ann }: Pick<EvidenceSide, "sql" | "ann">,
  hash: Hex,
): Promise<HistoryRow[]> {
  return sql<HistoryRow[]>`
    select id, type, status, link_id, settled_by, candidates, transfer_id
    from transactions
    where tx_hash = ${hash} and owner = owner_key(${ann.userId})
    order by log_index nulls last, id`;
}

export async function claimOf(
  { sql }: Pick<EvidenceSide, "sql">,
  linkId: string,
  hash: Hex,
): Promise<ClaimRow | undefined> {
  const [row] = await sql<ClaimRow[]>`
    select state, reason, proof, is_early
    from claims
    where link_id = ${linkId} and tx_hash = ${hash}`;
  return row;
}

/** Received by the merchant without a link, with these links as candidates. */
export async function expectReceived(
  side: Pick<EvidenceSide, "sql" | "ann">,
  hash: Hex,
  candidates: readonly string[],
): Promise<void> {
  const rows = await historyOf(side, hash);
  expect(rows.map(({ type, linkId, settledBy }) => ({ type, linkId, settledBy }))).toEqual([
    { type: "RECEIVE", linkId: null, settledBy: null },
  ]);
  expect([...(rows[0]?.candidates ?? [])].sort()).toEqual([...candidates].sort());
}

export async function waitFor<Value>(
  what: string,
  read: () => Promise<Value | undefined | false>,
  timeoutMs = TIMEOUT_MS,
): Promise<Value> {
  const deadline = Date.now() + timeoutMs;
  const pause = openPauses();
  for (;;) {
    const value = await read();
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`waited ${timeoutMs} ms for ${what}`);
    await pause();
  }
}
