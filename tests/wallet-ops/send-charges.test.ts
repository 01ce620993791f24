/** What a relay of operations counts for: the network's share for sends, and each user's part of it. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { buildUserOperation, bundleItemGas } from "../../core/chain/user-operation.ts";
import { CONTRACTS, type Hex } from "../../core/domain/networks.ts";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import { BudgetExceededError, settleCharges } from "../../db/relays/budgets.ts";
import { ensureLane } from "../../db/relays/nonces.ts";
import { markMined } from "../../db/relays/relays.ts";
import { storeRelay } from "../../worker/sender/send-relay.ts";
import { operationCharges, type SendLimits } from "../../worker/wallet-ops/send-budgets.ts";
import { beginWithinDay } from "../support/begin-within-day.ts";
import { type BooksLab, NETWORK, openBooks, randomHash } from "../support/ledger-lab.ts";

let lab: BooksLab;
/** Signing asks no node. */
let chain: Chain;
let address: Hex;
const privateKey = generatePrivateKey();
const NO_LIMITS: SendLimits = { sendGasPerDay: 5_000_000n, sendGasTotalPerDay: undefined };

beforeAll(async () => {
  lab = await openBooks();
  chain = openChain({ network: NETWORK, urls: ["http://127.0.0.1:1"], timeoutMs: 1_000 });
  address = privateKeyToAccount(privateKey).address.toLowerCase() as Hex;
  await ensureLane(lab.sql, { network: NETWORK, relayer: address }, 0n);
});
beforeEach(beginWithinDay);
afterAll(async () => {
  chain?.close();
  await lab?.stop();
});

function operationOf(userId: string, transfers: number) {
  const call = { to: address, data: "0x" as Hex };
  const calls = Array.from({ length: transfers }, () => call);
  return { userId, bundleItem: { operation: buildUserOperation({ sender: address, nonce: 0n, calls }) } };
}
type Bundle = ReturnType<typeof operationOf>[];

const gasOf = (bundle: Bundle) => bundle.reduce((sum, { bundleItem }) => sum + bundleItemGas(bundleItem), 0n);

async function sign(bundle: Bundle, limits: SendLimits): Promise<bigint> {
  const call = { to: CONTRACTS.entryPointV06, data: "0x1fad948c" as const, gas: gasOf(bundle) };
  const fees = { maxFeePerGas: 1_000n, maxPriorityFeePerGas: 10n };
  const { relayId } = await lab.sql.begin((tx) =>
    storeRelay(
      tx,
      chain,
      { address, privateKey },
      {
        ...{ kind: "OPERATIONS", call, fees, dailyFeeMaxWei: undefined },
        bind: async () => operationCharges(NETWORK, bundle, limits),
      },
    ),
  );
  return relayId;
}

async function mine(relayId: bigint, { gasUsed, succeeded }: { gasUsed: bigint; succeeded: boolean }) {
  const place = { blockNumber: 90n, blockHash: randomHash() };
  const receipt = { relayId, txHash: randomHash(), ...place, succeeded, gasUsed, feeWei: gasUsed };
  await lab.sql.begin(async (tx) => {
    await markMined(tx, [receipt]);
    await settleCharges(tx, [relayId]);
  });
}

async function budgetOf(scope: string, subject: string) {
  const [row] = await lab.sql<{ used: bigint; reserved: bigint }[]>`
    select used, reserved from relay_budgets where scope = ${scope} and subject = ${subject}`;
  return row && { used: row.used, reserved: row.reserved };
}

test("a relay just within the network's maximum is signed, one gas more is not, and counts nothing", async () => {
  const bundle = [operationOf("user_full", 1)];
  const total = gasOf(bundle);
  await expect(sign(bundle, { ...NO_LIMITS, sendGasTotalPerDay: total - 1n })).rejects.toBeInstanceOf(
    BudgetExceededError,
  );
  expect(await budgetOf("SENDER", "user_full")).toBeUndefined();
  const relayId = await sign(bundle, { ...NO_LIMITS, sendGasTotalPerDay: total });
  expect(await budgetOf("SENDS", NETWORK)).toEqual({ used: 0n, reserved: total });
  await expect(sign(bundle, { ...NO_LIMITS, sendGasTotalPerDay: 2n * total - 1n })).rejects.toBeInstanceOf(
    BudgetExceededError,
  );
  await mine(relayId, { gasUsed: 1n, succeeded: true });
  expect(await budgetOf("SENDS", NETWORK)).toEqual({ used: 1n, reserved: 0n });
  await lab.sql`delete from relay_budgets`;
});

test("a user's maximum is counted, but never refuses what was confirmed", async () => {
  const bundle = [operationOf("user_above", 1)];
  await sign(bundle, { ...NO_LIMITS, sendGasPerDay: 1n });
  await sign(bundle, { ...NO_LIMITS, sendGasPerDay: 1n });
  expect(await budgetOf("SENDER", "user_above")).toEqual({ used: 0n, reserved: 2n * gasOf(bundle) });
  await lab.sql`delete from relay_budgets`;
});

test("a bundle's gas is divided by the limits of its operations, even if it reverted", async () => {
  for (const succeeded of [true, false]) {
    const bundle = [operationOf("user_one", 1), operationOf("user_many", 100), operationOf("user_one", 1)];
    const relayId = await sign(bundle, NO_LIMITS);
    const gasUsed = 3_000_001n;
    await mine(relayId, { gasUsed, succeeded });
    expect(await budgetOf("SENDS", NETWORK)).toEqual({ used: gasUsed, reserved: 0n });
    const share = (part: Bundle) => (gasUsed * gasOf(part) + gasOf(bundle) - 1n) / gasOf(bundle);
    const [one, many] = [bundle.filter(({ userId }) => userId === "user_one"), bundle.slice(1, 2)];
    expect(await budgetOf("SENDER", "user_one")).toEqual({ used: share(one), reserved: 0n });
    expect(await budgetOf("SENDER", "user_many")).toEqual({ used: share(many), reserved: 0n });
    expect(share(many)).toBeGreaterThan(share(one));
    await lab.sql`delete from relay_budgets`;
  }
});
