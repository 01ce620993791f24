/** The accounting profile over real payments. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { type MerchantWorld, startMerchantWorld } from "../links/merchant-world.ts";
import { waitFor } from "../links/payer-side.ts";
import { mine, newPayer, sendUsdc } from "../links/payers.ts";
import { makePayer, shapeA, signPayment } from "../support/payer.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { exportAs } from "./ask.ts";
import { parseCsv } from "./read-files.ts";

let world: MerchantWorld;
let ann: Merchant;

beforeAll(async () => {
  world = await startMerchantWorld();
  ann = await signUp(world.baseUrl);
}, 120_000);
afterAll(() => world?.stop());

test("an accounting export names payer, payee, block, log, link, and our relayer's fee where it paid one", async () => {
  const { rpcUrl } = world.chain;
  const wallet = ann.walletAddress as Hex;
  const { body: link } = await ann.client.post("/v1/payment-links", { amount: 2.5, description: "Relayed" });
  const payer = makePayer();
  await fundUsdc(rpcUrl, payer.address, 10_000_000n);
  const payment = await signPayment(payer, { to: wallet, amountUnits: 2_500_000n });
  const paid = await ann.client.post(`/v1/x402/${link.id}/pay`, shapeA(payment));
  expect([paid.status, paid.body.success]).toEqual([200, true]);
  const friend = await newPayer(rpcUrl, 5_000_000n);
  const hash = await sendUsdc(rpcUrl, friend, wallet, 1_234_567n);
  await mine(rpcUrl, 3);
  await waitFor("both to be confirmed, and the fee booked", async () => {
    const { body } = await ann.client.get("/v1/transactions?statuses=CONFIRMED");
    const [row] = await world.sql`select 1 from relays where kind = 'PAYMENTS' and fee_wei is not null`;
    return body.data.pagination.total === 2 && row !== undefined;
  });
  const file = await exportAs(ann.client, { format: "csv", profile: "accounting" });
  const [header = [], ...records] = parseCsv(file.text);
  const rows = records.map((record) =>
    Object.fromEntries(header.map((name, index) => [name, record[index] ?? ""])),
  );
  const relayed = rows.find((row) => row["Transaction Hash"] === paid.body.txHash);
  const plain = rows.find((row) => row["Transaction Hash"] === hash);
  expect(relayed).toMatchObject({
    Type: "PAYMENT_LINK",
    Amount: "2.500000",
    Description: "Relayed",
    Payer: payer.address,
    Payee: wallet,
    "Payment Link ID": link.id,
  });
  expect(plain).toMatchObject({
    Type: "RECEIVE",
    Amount: "1.234567",
    Payer: friend,
    Payee: wallet,
    "Payment Link ID": "",
    "Network Fee (ETH)": "",
  });
  for (const row of [relayed, plain]) {
    expect(Number(row?.Block)).toBeGreaterThan(0);
    expect(row?.["Log Index"]).toMatch(/^\d+$/);
    expect(["confirmed", "finalized"]).toContain(row?.Finality ?? "");
  }
  const [booked] = await world.sql<
    { feeWei: bigint }[]
  >`select fee_wei from relays where kind = 'PAYMENTS' and fee_wei is not null`;
  expect(booked?.feeWei).toBeGreaterThan(0n);
  const [whole = "", fraction = ""] = (relayed?.["Network Fee (ETH)"] ?? "").split(".");
  expect(BigInt(whole) * 10n ** 18n + BigInt(fraction.padEnd(18, "0"))).toBe(booked?.feeWei ?? 0n);
}, 120_000);

test("an export that fails is attempted three times, becomes FAILED, and does not delay others", async () => {
  const [user] = await world.sql<{ id: string }[]>`select id from users where email = ${ann.email}`;
  const id = "exp_AAAAAAAAAAAAAAAAAAAAAA";
  await world.sql`
    insert into exports (id, user_id, format, request, expires_at) values (${id}, ${user?.id ?? ""}, 'csv', '{"nonsense":true}', now() + interval '1 day')`;
  await world.sql`select graphile_worker.add_job('build_export', ${JSON.stringify({ exportId: id })}::text::json)`;
  const { body } = await ann.client.get("/v1/transactions/exports");
  expect(body.data.exports.find((one: { id: string }) => one.id === id)).toMatchObject({ contents: null });
  const statusOf = async () =>
    (await ann.client.get(`/v1/transactions/exports/${id}`)).body.data.export.status;
  await waitFor("its first failure", async () => {
    const [row] = await world.sql`select error from exports where id = ${id}`;
    return row?.error !== null;
  });
  expect((await exportAs(ann.client, { format: "json" })).status).toBe(200);
  // the queue's backoff grows after every failure; the test shortens it
  for (let n = 0; n < 2; n++)
    await world.sql`select graphile_worker.add_job('build_export', ${JSON.stringify({ exportId: id })}::text::json)`;
  await waitFor("it to be FAILED", async () => (await statusOf()) === "FAILED");
  expect((await ann.client.get(`/v1/transactions/exports/${id}/download`)).status).toBe(409);
  const [row] = await world.sql`select attempts from exports where id = ${id}`;
  expect(row?.attempts).toBe(3);
}, 120_000);
