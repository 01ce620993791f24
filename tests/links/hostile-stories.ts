/** One link's scenario in the hostile campaign: how its payers pay, and what attackers, third parties and its merchant do. */
import { encodeFunctionData, parseAbi } from "viem";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { callRpcText } from "../../local/chain/rpc.ts";
import { fundEth, fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import { makePayer, type Payer, type SignedPayment } from "../support/payer.ts";
import { broadcastAsStranger, cancelAuthorization } from "../support/stranger.ts";
import {
  claimAsPayer,
  payByX402,
  proveAsPayer,
  readStatus,
  sendTransfer,
  signForLink,
  signTransfer,
} from "./hostile-payers.ts";
import { askAsMerchant, type Deed, type HostileLink, type Stage, waitUntilSeen } from "./hostile-stage.ts";
import { claimAsThief, claimNothing, forgeProof, showGarbage, showToTwin } from "./hostile-thieves.ts";

const TRANSFER_WAYS = ["plain", "claim", "tagged", "payAmount", "proof"] as const;
const RELAYED_WAYS = ["x402", "x402Header", "strangerTagged", "strangerFirst", "cancelled"] as const;
export type Way = (typeof TRANSFER_WAYS)[number] | (typeof RELAYED_WAYS)[number];

/** All random draws of a scenario, made before anything runs, so that a seed gives the same plan. */
export type Plan = {
  way: Way;
  /** Another payer of the same link, this long after the first began. */
  second: { way: Way; afterMs: number } | undefined;
  /** The merchant cancels before the payment. */
  isCancelled: boolean;
  /** The attacker's target link, the time of the claim, and the claimed sender. */
  thief: "twin" | "misfit" | undefined;
  order: "thiefFirst" | "payerFirst" | "documented" | "late";
  asSender: boolean;
  forges: boolean;
  showsToTwin: boolean;
  showsGarbage: boolean;
  provesIfAsked: boolean;
  copies: number;
  strangerAfterMs: number;
  payerAfterMs: number;
};

/** `isUnopposed`: attackers may claim early what nobody else claims, which the chain cannot decide. */
type Scene = {
  link: HostileLink;
  plan: Plan;
  twin: HostileLink | undefined;
  misfit: HostileLink | undefined;
  isUnopposed: boolean;
};

const ONE_ETH = 10n ** 18n;
/** Each payer could pay this many times. */
const FUNDS = 3n;
const STATE_ABI = parseAbi(["function authorizationState(address, bytes32) view returns (bool)"]);
const USDC = NETWORKS["base-sepolia"].usdc.address;

export async function playLink(stage: Stage, scene: Scene): Promise<void> {
  const { link, plan } = scene;
  if (plan.isCancelled) await cancelDespiteClaims(stage, link);
  await Promise.all([payLink(stage, scene, plan.way, false), plan.second && paySecond(stage, scene)]);
}

async function paySecond(stage: Stage, scene: Scene): Promise<void> {
  const { second } = scene.plan;
  if (!second) return;
  await Bun.sleep(second.afterMs);
  const plan: Plan = { ...scene.plan, thief: undefined, showsToTwin: false, showsGarbage: false };
  await payLink(stage, { ...scene, plan }, second.way, true);
}

/** Claims without a transaction hold nothing: the merchant can still cancel. */
async function cancelDespiteClaims(stage: Stage, link: HostileLink): Promise<void> {
  await Promise.all([claimNothing(stage, link), claimNothing(stage, link)]);
  const fromMs = Date.now();
  const reply = await askAsMerchant(stage, link.shop, `/v1/payment-links/${link.id}/cancel`, {});
  link.cancelled = { fromMs, toMs: Date.now() };
  const isDone = reply.status === 200 || reply.body?.error?.details?.issue === "CANCELLED";
  if (!isDone) stage.wrong.push(`cancel of ${link.id}: ${reply.status} ${JSON.stringify(reply.body)}`);
}

async function payLink(stage: Stage, scene: Scene, way: Way, isSecond: boolean): Promise<void> {
  const payer = makePayer();
  await fundUsdc(stage.chain.rpcUrl, payer.address, scene.link.amountUnits * FUNDS);
  await fundEth(stage.chain.rpcUrl, payer.address, ONE_ETH);
  const isTransfer = (TRANSFER_WAYS as readonly Way[]).includes(way);
  if (isTransfer) return payByTransfer(stage, scene, { payer, way, isSecond });
  if (way === "cancelled") return payAfterCancelling(stage, scene, { payer, way, isSecond });
  return payByAuthorization(stage, scene, { payer, way, isSecond });
}

type Player = { payer: Payer; way: Way; isSecond: boolean };

function openDeed(
  stage: Stage,
  { link }: Scene,
  { payer, way, isSecond }: Player,
  amountUnits?: bigint,
): Deed {
  const deed: Deed = {
    ...{ linkId: link.id, payer: payer.address, way, isSecond },
    amountUnits: amountUnits ?? link.amountUnits,
  };
  stage.deeds.push(deed);
  return deed;
}

async function payByTransfer(stage: Stage, scene: Scene, player: Player): Promise<void> {
  const { link, plan } = scene;
  const { payer, way } = player;
  const units = way === "payAmount" ? (link.payAmountUnits ?? link.amountUnits) : link.amountUnits;
  const terms = { to: link.wallet, units, ...(way === "tagged" ? { tag: link.tag } : {}) };
  const signed = await signTransfer(payer, terms);
  const { txHash } = signed;
  const deed = openDeed(stage, scene, player, units);
  deed.txHash = txHash;
  const prove = () => proveAndCheck(stage, { deed, link, payer, txHash });
  const speak = async () => {
    if (way === "claim") await claimAsPayer(stage, deed, txHash);
    if (way === "proof") await prove();
  };
  const order = orderOf(scene, way);
  const steal = () => stealTransfer(stage, scene, { order, txHash, sender: payer.address });
  if (order === "thiefFirst") await steal();
  if (order === "thiefFirst" || order === "payerFirst") await speak();
  if (order === "payerFirst") await steal();
  await Promise.all([sendTransfer(stage, signed), order === "documented" && speak().then(steal)]);
  if (order === "late") await speak();
  await waitUntilSeen(stage, txHash);
  if (order === "late") await steal();
  if (plan.forges && scene.twin)
    await forgeProof(stage, { target: scene.twin, txHash, sender: payer.address });
  if (way !== "claim" || !plan.provesIfAsked) return;
  if ((await readStatus(stage, link.id)) !== "PAID") await prove();
}

/** Transfers without the payer's evidence are claimed by attackers only once they are in the ledger. */
function orderOf({ plan, isUnopposed }: Scene, way: Way): Plan["order"] {
  const isOpposed = way !== "plain" || plan.thief !== "twin";
  return isOpposed || isUnopposed ? plan.order : "late";
}

async function stealTransfer(
  stage: Stage,
  scene: Scene,
  { order, txHash, sender }: { order: Plan["order"]; txHash: Hex; sender: Hex },
): Promise<void> {
  const { thief, asSender } = scene.plan;
  const target = thief === "twin" ? scene.twin : thief === "misfit" ? scene.misfit : undefined;
  if (!target) return;
  const given = { target, txHash, sender: asSender ? sender : undefined };
  await claimAsThief(stage, `claim for a ${thief}, ${order}`, given);
}

async function proveAndCheck(stage: Stage, given: Parameters<typeof proveAsPayer>[1]): Promise<void> {
  const { status, body } = await proveAsPayer(stage, given);
  if (status !== 200) stage.wrong.push(`proof for ${given.link.id}: ${status} ${JSON.stringify(body)}`);
}

async function payByAuthorization(stage: Stage, scene: Scene, player: Player): Promise<void> {
  const { link, plan } = scene;
  const { payer, way } = player;
  const payment = await signForLink(payer, link, way === "strangerTagged");
  const deed = openDeed(stage, scene, player);
  deed.nonce = payment.nonce;
  const byHeader = way === "x402Header";
  const show = () => payByX402(stage, { deed, payment, byHeader });
  if (way === "strangerFirst" || way === "strangerTagged") {
    const execute = async () => {
      await Bun.sleep(plan.strangerAfterMs);
      await broadcastAsStranger(stage.chain.rpcUrl, payment);
      await stealAuthorization(stage, scene, payment);
    };
    const come = async () => {
      await Bun.sleep(plan.payerAfterMs);
      await show();
    };
    await Promise.all([execute(), (way === "strangerFirst" || plan.provesIfAsked) && come()]);
    return;
  }
  const copies = byHeader ? 1 : plan.copies;
  const [end] = await Promise.all(Array.from({ length: copies }, show));
  await stealAuthorization(stage, scene, payment);
  if (end?.kind === "settled" && scene.twin && plan.thief)
    await claimAsThief(stage, "claim of a relay for a twin", {
      ...{ target: scene.twin, txHash: end.txHash as Hex },
      sender: plan.asSender ? payer.address : undefined,
    });
}

/** Once executed, an authorization is public on the chain. */
async function stealAuthorization(stage: Stage, scene: Scene, payment: SignedPayment): Promise<void> {
  const { plan, link, twin } = scene;
  if (!(await isExecuted(stage, payment))) return;
  if (plan.showsToTwin && twin) await showToTwin(stage, twin, payment);
  if (plan.showsGarbage) await showGarbage(stage, link, { payment, byHeader: plan.asSender });
}

/** The payer cancels the first authorization before or while it is presented to us, and pays with another one if that was refused. */
async function payAfterCancelling(stage: Stage, scene: Scene, player: Player): Promise<void> {
  const { link, plan } = scene;
  const { payer } = player;
  const { rpcUrl } = stage.chain;
  const payment = await signForLink(payer, link, false);
  const deed = openDeed(stage, scene, player);
  deed.nonce = payment.nonce;
  const takeBack = () => cancelAuthorization(rpcUrl, payer, payment.nonce);
  const isBefore = plan.copies > 1;
  if (isBefore) await takeBack();
  const [end] = await Promise.all([payByX402(stage, { deed, payment }), isBefore || takeBack()]);
  if (isBefore && end.kind === "settled")
    stage.wrong.push(`${link.id} was called paid by a cancelled authorization`);
  // a careful payer pays again only when refused, and when the balance agrees
  const isUntouched = (await readUsdcBalance(rpcUrl, payer.address)) === link.amountUnits * FUNDS;
  if (end.kind !== "refused" || !isUntouched) return;
  const again = await signForLink(payer, link, false);
  const next = openDeed(stage, scene, player);
  next.nonce = again.nonce;
  await payByX402(stage, { deed: next, payment: again });
}

async function isExecuted({ chain }: Stage, { from, nonce }: SignedPayment): Promise<boolean> {
  const data = encodeFunctionData({ abi: STATE_ABI, args: [from, nonce] });
  return BigInt(await callRpcText(chain.rpcUrl, "eth_call", [{ to: USDC, data }, "latest"])) === 1n;
}
