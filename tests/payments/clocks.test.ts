/** A chain whose newest block is seconds old: what is valid by the clock is valid for the chain a moment later. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { makePayer, signPayment } from "../support/payer.ts";
import { type Lab, pay, startLab } from "../support/relay-lab.ts";
import { seedLink } from "../support/seed.ts";

const AMOUNT = 3_000_000n;
/** How far the chain's clock is behind ours. */
const BEHIND_S = 5;
let lab: Lab;

beforeAll(async () => {
  lab = await startLab();
}, 120_000);

afterAll(() => lab?.stop());

test("behavior: an authorization valid since a second ago is paid when the chain's clock has caught up", async () => {
  const linkId = await seedLink(lab.sql, lab.merchant, { amountUnits: AMOUNT });
  const payer = makePayer();
  await fundUsdc(lab.chain.rpcUrl, payer.address, AMOUNT);
  const nowS = Math.floor(Date.now() / 1000);
  await lab.rpc("evm_setTime", [nowS - BEHIND_S]);
  const terms = { to: lab.merchant.address, amountUnits: AMOUNT, validAfter: nowS - 2 };
  const payment = await signPayment(payer, terms);
  expect(await pay(lab, { linkId, payment })).toMatchObject({ status: 200, body: { success: true } });
}, 120_000);
