/**
 * Two people pay one link at the same moment, each in a browser of their own, again and again: one payment, one page that thanks, and the
 * other keeps the money and is not thanked. `bun tests/checkout/two-payers-campaign.ts 20 7` (rounds, seed).
 */
import { readUsdcBalance } from "../../local/chain/usdc.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { type CheckoutWorld, startCheckoutWorld } from "./checkout-world.ts";

const FUNDS_UNITS = 50_000_000n;
/** Between the two signatures, at most. */
const APART_MAX_MS = 120;
const PAID_MS = 60_000;

export type TwoPayersReport = { rounds: number; wonByFirst: number; wonBySecond: number };

/** Throws at the first round that did not end with exactly one payment, by the payer who is thanked. */
export async function payTogether(world: CheckoutWorld, rounds: number): Promise<TwoPayersReport> {
  const random = seededRandom(`two payers, ${rounds} rounds`);
  const wins = [0, 0];
  for (let round = 0; round < rounds; round++) {
    const winner = await playRound(world, round, Math.floor((random() * 2 - 1) * APART_MAX_MS));
    wins[winner] = (wins[winner] ?? 0) + 1;
  }
  return { rounds, wonByFirst: wins[0] ?? 0, wonBySecond: wins[1] ?? 0 };
}

/** `apartMs`: how long the second signs after the first, or before it. Returns who paid: 0 or 1. */
async function playRound(world: CheckoutWorld, round: number, apartMs: number): Promise<number> {
  const { id, amountUnits } = await world.makeLink();
  const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const wallets = await Promise.all(
    gates.map(({ promise }) => world.wallet({ fundsUnits: FUNDS_UNITS, holdUntil: promise })),
  );
  const visits = await Promise.all(
    wallets.map((wallet) => world.open(id, [wallet], { allowedErrors: /409 \(Conflict\)/ })),
  );
  try {
    await Promise.all(
      visits.map(async ({ page }) => {
        await page.getByRole("button", { name: "Pay with" }).click();
        await page.getByText("Confirm in Test Wallet").waitFor();
      }),
    );
    const [earlier, later] = apartMs < 0 ? [1, 0] : [0, 1];
    gates[earlier]?.resolve();
    await Bun.sleep(Math.abs(apartMs));
    gates[later]?.resolve();
    await Promise.all(
      visits.map(({ page }) => page.getByRole("heading", { name: "Paid" }).waitFor({ timeout: PAID_MS })),
    );
    const thanked = await Promise.all(
      visits.map(async ({ page }) => (await page.getByText(/^Thank you\./).count()) > 0),
    );
    const spent = await Promise.all(
      wallets.map(async ({ address }) => FUNDS_UNITS - (await readUsdcBalance(world.rpcUrl, address))),
    );
    const winner = thanked.indexOf(true);
    const transfers = await world.world.sql`
      select from_address, amount_units, pays, link_id
      from transfers
      where from_address = any(${wallets.map(({ address }) => address)}::bytea[])`;
    const isRight =
      thanked.filter(Boolean).length === 1 &&
      spent[winner] === amountUnits &&
      spent[1 - winner] === 0n &&
      transfers.length === 1 &&
      transfers[0]?.pays === true &&
      transfers[0].linkId === id &&
      transfers[0].amountUnits === amountUnits &&
      transfers[0].fromAddress === wallets[winner]?.address;
    if (!isRight)
      throw new Error(`round ${round}, ${apartMs} ms apart: ${String(thanked)}, spent ${String(spent)}`);
    for (const visit of visits) visit.expectClean();
    return winner;
  } finally {
    await Promise.all(visits.map((visit) => visit.close()));
  }
}

if (import.meta.main) {
  const [rounds, seed] = process.argv.slice(2);
  if (seed !== undefined) process.env.TEST_SEED = seed;
  const world = await startCheckoutWorld();
  try {
    console.log(JSON.stringify(await payTogether(world, Number(rounds ?? 20))));
  } finally {
    await world.stop();
  }
  process.exit(0);
}
