/**
 * A merchant, a payer and an accountant use the service once over HTTP with real components: SMTP mail, a passkey's keys, a chain's
 * blocks. Each step is printed once it has happened, with its duration in milliseconds.
 */
import { randomBytes } from "node:crypto";
import { bytesToHex } from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { formatUnits, parseUnits, toAmountNumber } from "../core/domain/money.ts";
import { type Hex, NETWORKS, type NetworkId } from "../core/domain/networks.ts";
import { fundUsdc, readUsdcBalance } from "./chain/usdc.ts";
import { type DemoClient, openDemoClient } from "./demo-client.ts";
import type { StoredMail } from "./mailbox/mail-message.ts";
import { createSoftwarePasskey } from "./passkey/software-passkey.ts";

export type DemoWorld = {
  apiUrl: string;
  /** The origin of the browser; the passkey is bound to it. */
  origin: string;
  rpId: string;
  mailboxUrl: string;
  rpcUrl: string;
  network: NetworkId;
};

/** One step: actor, description, duration. */
export type DemoStep = { who: "merchant" | "payer" | "accountant"; what: string; ms: number };

type User = { id: string; status: string; permissions?: string[] };
type Link = { id: string; amount: number; status: string; url: string; aiUrl: string };
type Requirement = { payTo: Hex; amount: string; asset?: Hex; verifyingContract?: Hex; chainId: number };
type Outcome = { success: boolean; txHash: Hex | null; settled?: boolean };
type History = { data: { transactions: { type: string; amount: string; status: string; title: string }[] } };

const PAYER_FUNDS_UNITS = 25_000_000n;
const WAIT_MS = 60_000;
const POLL_MS = 25;
const VALID_S = 600;

/** The page of a link that is still to be paid. Throws at the first response that is not as documented. */
export async function runDemo(world: DemoWorld, report: (step: DemoStep) => void): Promise<string> {
  const client = openDemoClient(world.apiUrl);
  const timed = startClock(report);
  const email = `merchant-${randomBytes(3).toString("hex")}@example.com`;
  await signUp(world, client, email, timed);
  const wallet = await setUpWallet(world, client, timed);
  const link = await createLink(world, client, timed, PAID_LINK);
  await payLink(world, link, timed);
  await settle(world, client, { link, wallet }, timed);
  await account(client, timed);
  return (await createLink(world, client, timed, OPEN_LINK)).url;
}

const PAID_LINK = { amount: 12.5, description: "Two coffees and a book", expiresInHours: 24 };
const OPEN_LINK = { amount: 5, description: "Yours to pay in the browser", expiresInHours: 2_160 };

type Clock = (who: DemoStep["who"], what: string) => void;

/** Reports each step with the time since the previous one. */
function startClock(report: (step: DemoStep) => void): Clock {
  let last = performance.now();
  return (who, what) => {
    const now = performance.now();
    report({ who, what, ms: Math.round(now - last) });
    last = now;
  };
}

async function signUp(world: DemoWorld, client: DemoClient, email: string, timed: Clock): Promise<void> {
  const registered = await client.post<{ userId: string; status: string }>("/v1/identity/register", {
    email,
  });
  timed("merchant", `registers ${email}: ${registered.body.userId} is ${registered.body.status}`);

  const mail = await waitFor("the mail with the code", async () => {
    const list = await fetch(`${world.mailboxUrl}/messages?to=${encodeURIComponent(email)}`);
    return ((await list.json()) as { messages: StoredMail[] }).messages[0];
  });
  const otp = /\b\d{6}\b/.exec(mail.text)?.[0];
  if (!otp) throw new Error(`the mail "${mail.subject}" holds no code of six digits`);
  timed("merchant", `gets the mail "${mail.subject}" by SMTP and reads the code in it`);

  const verified = await client.post<{ user: User }>("/v1/email-verification/verify", { email, otp });
  timed("merchant", `proves the address with the code: ${verified.body.user.status}`);
}

async function setUpWallet(world: DemoWorld, client: DemoClient, timed: Clock): Promise<Hex> {
  const { network } = world;
  const start = await client.post<{
    challengeId: string;
    passkeyChallenge: { challenge: string; rp: { id: string } };
  }>("/v1/wallets/setup/start", { network });
  const passkey = await createSoftwarePasskey({ rpId: world.rpId, origin: world.origin });
  const { id, rawId, response, type } = await passkey.register(start.body.passkeyChallenge);
  const passkeyResponse = { id, rawId, response, type };
  const complete = await client.post<{ user: User; wallet: { address: Hex } }>("/v1/wallets/setup/complete", {
    challengeId: start.body.challengeId,
    network,
    passkeyResponse,
  });
  const { user, wallet } = complete.body;
  timed("merchant", `makes a passkey; its smart account is ${wallet.address}: ${user.status}`);
  return wallet.address;
}

async function createLink(
  world: DemoWorld,
  client: DemoClient,
  timed: Clock,
  wanted: typeof PAID_LINK,
): Promise<Link> {
  const created = await client.post<Link>("/v1/payment-links", { ...wanted, network: world.network });
  const { id, amount, status } = created.body;
  timed("merchant", `asks for ${amount} USDC with ${id}: ${status}`);
  return created.body;
}

async function payLink(world: DemoWorld, link: Link, timed: Clock): Promise<void> {
  const network = NETWORKS[world.network];
  const payer = privateKeyToAccount(generatePrivateKey());
  await fundUsdc(world.rpcUrl, payer.address, PAYER_FUNDS_UNITS);
  timed("payer", `${payer.address} holds ${formatUnits(PAYER_FUNDS_UNITS)} USDC and no ETH`);

  const visitor = openDemoClient(world.apiUrl);
  const path = `/v1/x402/${link.id}`;
  const asked = await visitor.get<{ accepts: Requirement[] }>(path, 402);
  const [requirement] = asked.body.accepts;
  if (!requirement) throw new Error(`${path} has no payment requirements`);
  timed("payer", `GET ${path} answers 402: ${requirement.amount} units to ${requirement.payTo}`);

  const now = Math.floor(Date.now() / 1000);
  const authorization = {
    from: payer.address,
    to: requirement.payTo,
    value: BigInt(requirement.amount),
    validAfter: BigInt(now - VALID_S),
    validBefore: BigInt(now + VALID_S),
    nonce: bytesToHex(randomBytes(32)),
  };
  const signature = await payer.signTypedData({
    domain: {
      name: network.usdc.name,
      version: network.usdc.version,
      chainId: network.chainId,
      verifyingContract: network.usdc.address,
    },
    types: { TransferWithAuthorization },
    primaryType: "TransferWithAuthorization",
    message: authorization,
  });
  timed("payer", "signs an ERC-3009 authorization for exactly that");

  const paid = await visitor.post<Outcome>(
    `${path}/pay`,
    {
      network: world.network,
      payload: {
        ...authorization,
        value: requirement.amount,
        validAfter: now - VALID_S,
        validBefore: now + VALID_S,
        data: "0x",
        signature,
      },
    },
    [200, 202],
  );
  if (!paid.body.success) throw new Error(`the payment was refused: ${JSON.stringify(paid.body)}`);
  timed("payer", `POST ${path}/pay answers ${paid.status}: relayed as ${paid.body.txHash}`);
}

/** EIP-3009. */
const TransferWithAuthorization = [
  { name: "from", type: "address" },
  { name: "to", type: "address" },
  { name: "value", type: "uint256" },
  { name: "validAfter", type: "uint256" },
  { name: "validBefore", type: "uint256" },
  { name: "nonce", type: "bytes32" },
] as const;

async function settle(
  world: DemoWorld,
  client: DemoClient,
  { link, wallet }: { link: Link; wallet: Hex },
  timed: Clock,
): Promise<void> {
  const paid = await waitFor(`${link.id} to be PAID`, async () => {
    const { body } = await client.get<Link>(`/v1/payment-links/${link.id}`);
    return body.status === "PAID" ? body : undefined;
  });
  const balance = await client.get<{ balance: { amount: string } }>(
    `/v1/wallets/balance?network=${world.network}`,
  );
  const onChain = await readUsdcBalance(world.rpcUrl, wallet);
  if (parseUnits(balance.body.balance.amount) !== onChain || toAmountNumber(onChain) !== link.amount) {
    throw new Error(
      `the wallet holds ${formatUnits(onChain)} USDC, the service says ${balance.body.balance.amount}`,
    );
  }
  timed("merchant", `${paid.id} is ${paid.status}, the wallet holds ${balance.body.balance.amount} USDC`);
}

async function account(client: DemoClient, timed: Clock): Promise<void> {
  const history = await client.get<History>("/v1/transactions");
  const [first] = history.body.data.transactions;
  if (!first) throw new Error("the history is empty");
  timed(
    "accountant",
    `GET /v1/transactions: ${first.type} ${first.amount} ${first.status}, "${first.title}"`,
  );

  const file = await client.post<string>("/v1/transactions/export", { format: "csv" });
  const rows = file.body.trim().split("\r\n");
  if (rows.length < 2) throw new Error(`the CSV has no row: ${file.body}`);
  timed(
    "accountant",
    `downloads the CSV, ${rows.length - 1} row:\n${rows.map((row) => `    ${row}`).join("\n")}`,
  );
}

async function waitFor<Found>(what: string, look: () => Promise<Found | undefined>): Promise<Found> {
  const deadline = Date.now() + WAIT_MS;
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    if (Date.now() > deadline) throw new Error(`waited ${WAIT_MS} ms for ${what}`);
    await Bun.sleep(POLL_MS);
  }
}
