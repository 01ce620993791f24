/** The honest payers of the hostile campaign: every documented way of paying a link, each by a payer with a separate key. */
import { randomBytes } from "node:crypto";
import { concat, encodeFunctionData, erc20Abi, keccak256 } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { claimTypedData } from "../../core/domain/claim-proof.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { type Payer, type SignedPayment, shapeA, signPayment, standardV1 } from "../support/payer.ts";
import {
  ask,
  askOnce,
  claim,
  type Deed,
  type HostileLink,
  isRetryable,
  postJson,
  type Reply,
  type Stage,
  waitPatiently,
} from "./hostile-stage.ts";

const NETWORK = "base-sepolia";
const { chainId, usdc } = NETWORKS[NETWORK];
const TRANSFER_GAS = 120_000n;
const MAX_FEE_WEI = 100_000_000_000n;
const PAY_PATIENCE_MS = 90_000;
/** How long a payer retries while another payment is in progress. */
const BUSY_PATIENCE_MS = 6_000;
const PAUSE_MS = 150;
const AUTHORIZATION_S = 1_800;

type SignedTransfer = { raw: Hex; txHash: Hex };

/** A plain transfer, signed but not sent: its hash is known before it is public. */
export async function signTransfer(
  payer: Payer,
  { to, units, tag }: { to: Hex; units: bigint; tag?: Hex },
): Promise<SignedTransfer> {
  const call = encodeFunctionData({ abi: erc20Abi, functionName: "transfer", args: [to, units] });
  const raw = await privateKeyToAccount(payer.privateKey).signTransaction({
    type: "eip1559",
    chainId,
    nonce: 0,
    to: usdc.address,
    data: tag ? concat([call, tag]) : call,
    gas: TRANSFER_GAS,
    maxFeePerGas: MAX_FEE_WEI,
    maxPriorityFeePerGas: 1n,
  });
  return { raw, txHash: keccak256(raw) };
}

/** Sends it to the real chain and waits for its block. */
export async function sendTransfer({ chain }: Stage, { raw, txHash }: SignedTransfer): Promise<void> {
  await callRpc(chain.rpcUrl, "eth_sendRawTransaction", [raw]);
  await waitPatiently(`${txHash} to be mined`, async () => {
    return (await callRpc(chain.rpcUrl, "eth_getTransactionReceipt", [txHash])) !== null;
  });
}

export function signForLink(payer: Payer, link: HostileLink, isTagged: boolean): Promise<SignedPayment> {
  return signPayment(payer, {
    to: link.wallet,
    amountUnits: link.amountUnits,
    validBefore: Math.floor(Date.now() / 1000) + AUTHORIZATION_S,
    ...(isTagged ? { nonce: concat([link.tag, `0x${randomBytes(16).toString("hex")}`]) } : {}),
  });
}

/** The documented claim, sent as soon as the wallet has the hash. */
export async function claimAsPayer(stage: Stage, deed: Deed, txHash: Hex): Promise<Reply> {
  const sentAtMs = Date.now();
  const reply = await claim(stage, deed.linkId, { transactionHash: txHash, clientWalletAddress: deed.payer });
  if (reply.status === 200) deed.claimedAtMs = sentAtMs;
  return reply;
}

/** The claim with the payer's signature, which must be accepted whatever the link's status. */
export async function proveAsPayer(
  stage: Stage,
  { deed, link, payer, txHash }: { deed: Deed; link: HostileLink; payer: Payer; txHash: Hex },
): Promise<Reply> {
  const typedData = claimTypedData({
    linkId: link.id,
    network: NETWORK,
    merchantName: link.merchantName,
    amountUnits: link.amountUnits,
    recipient: link.wallet,
    transactionHash: txHash,
    host: new URL(stage.service.baseUrl).host,
  });
  const domain = { ...typedData.domain, chainId: BigInt(chainId) };
  const signature = await privateKeyToAccount(payer.privateKey).signTypedData({ ...typedData, domain });
  const given = { transactionHash: txHash, clientWalletAddress: payer.address, signature };
  const reply = await claim(stage, link.id, given);
  if (reply.status === 200) deed.provenAtMs = Date.now();
  return reply;
}

/** The outcome of a payer's request for a relayed payment. */
type PayEnd =
  | { kind: "settled"; txHash: string }
  | { kind: "refused"; code: string }
  | { kind: "unanswered" };

/** Presents the same authorization until the response is final, as x402 clients do. */
export async function payByX402(
  stage: Stage,
  { deed, payment, byHeader = false }: { deed: Deed; payment: SignedPayment; byHeader?: boolean },
): Promise<PayEnd> {
  const startedMs = Date.now();
  deed.shownAtMs ??= startedMs;
  while (Date.now() - startedMs < PAY_PATIENCE_MS) {
    const reply = await showOnce(stage, deed.linkId, payment, byHeader).catch(() => undefined);
    const end = reply && endOf(stage, reply, Date.now() - startedMs);
    if (end?.kind === "settled") deed.toldSettled = end.txHash;
    if (end) return end;
    await Bun.sleep(PAUSE_MS);
  }
  return { kind: "unanswered" };
}

/** One attempt; throws when the process is killed during it. */
function showOnce(stage: Stage, linkId: string, payment: SignedPayment, byHeader: boolean): Promise<Reply> {
  if (!byHeader) return askOnce(stage, `/v1/x402/${linkId}/pay`, postJson(shapeA(payment)));
  const header = Buffer.from(JSON.stringify(standardV1(payment))).toString("base64");
  return askOnce(stage, `/v1/x402/${linkId}`, { headers: { "x-payment": header } });
}

/** Undefined while the payer has to retry. */
function endOf(stage: Stage, reply: Reply, passedMs: number): PayEnd | undefined {
  const { status, body } = reply;
  const code: string = body?.error ?? String(status);
  stage.answers[`${status} ${code}`] = (stage.answers[`${status} ${code}`] ?? 0) + 1;
  if (status === 200 && body.success === true) return { kind: "settled", txHash: body.txHash };
  // answered before, but the response was lost; for a nonce of another link the message differs
  const isOfOther = String(body?.message).includes("another link");
  if (status === 409 && code === "NONCE_USED" && body.txHash && !isOfOther)
    return { kind: "settled", txHash: body.txHash };
  if (status === 202 || isRetryable(reply)) return undefined;
  if (code === "PAYMENT_IN_PROGRESS" && passedMs < BUSY_PATIENCE_MS) return undefined;
  if (status >= 500) stage.wrong.push(`pay: ${status} ${JSON.stringify(body)}`);
  return { kind: "refused", code };
}

/** Public status of a link. */
export async function readStatus(stage: Stage, linkId: string): Promise<string> {
  return (await ask(stage, `/api/v1/public/payment-links/${linkId}/data`)).body.status;
}
