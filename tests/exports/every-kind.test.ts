/** Every kind of movement on the chain, and every account of it: ledger, summary, days, books, statement, documents and links add up to the wallet's balance. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { formatUnits } from "../../core/domain/money.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fundEth, readUsdcBalance } from "../../local/chain/usdc.ts";
import { mine, newPayer, sendUsdc } from "../links/payers.ts";
import { randomAddress } from "../support/indexer-lab.ts";
import { refundLab } from "../support/refund-lab.ts";
import { confirmSend, prepareSend, waitForSend } from "../support/sends.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { startWorld, type World } from "../support/world.ts";
import { exportAs, fetchFile } from "./ask.ts";
import { parseCsv } from "./read-files.ts";

setDefaultTimeout(180_000);
const NETWORK = "base-sepolia" as const;
const DAY_MS = 86_400_000;

let world: World;
let ann: Merchant;
let bob: Merchant;
const lab = refundLab(() => ({ world, sql: world.sql, merchant: ann }));
const { until, makeLink, paidByX402, transferFor, refunded } = lab;

const units = (text: string) => BigInt(text.replace(/[.,]/g, ""));
const total = (given: readonly bigint[]) => given.reduce((all, one) => all + one, 0n);
const dayFromNow = (days: number) => new Date(Date.now() + days * DAY_MS).toISOString().slice(0, 10);

/** The history row of a transfer into or out of a wallet, once it is confirmed. */
function rowOf(hash: Hex, type: string, who = ann) {
  return until(async () => {
    const { body } = await who.client.get(`/v1/transactions?search=${hash}&types=${type}`);
    const [row] = body.data.transactions;
    return row?.status === "CONFIRMED" ? row : undefined;
  });
}

beforeAll(async () => {
  const env = { SEND_FEE_USDC: "0.05", FEE_ADDRESS: randomAddress(), RATE_LIMITS: "0", NODE_ENV: "test" };
  world = await startWorld({ env: { ...env, EXPORT_WAIT_MS: "60000" } });
  const { rpcUrl } = world.chain;
  await callRpc(rpcUrl, "anvil_autoImpersonateAccount", [true]);
  ann = await signUp(world.baseUrl);
  bob = await signUp(world.baseUrl);
  const wallet = ann.walletAddress as Hex;
  await fundEth(rpcUrl, wallet, 10n ** 18n);
  const friend = await newPayer(rpcUrl, 1_000_000_000n);

  // from nowhere: an amount, dust, and nothing at all
  for (const amount of [20_000_000n, 1n, 0n]) await sendUsdc(rpcUrl, friend, wallet, amount);
  const { linkId } = await paidByX402(2.5);
  const over = await makeLink(1);
  await transferFor(over, 1_500_000n);
  const under = await makeLink(3);
  await transferFor(under, 1_000_000n);
  const twice = await makeLink(2);
  await transferFor(twice, 2_000_000n);
  await transferFor(twice, 2_000_000n);
  const late = await makeLink(1.25);
  await world.sql`update payment_links set expires_at = now() - interval '1 minute' where id = ${late}`;
  await transferFor(late, 1_250_000n);
  // fits two links: assigned; another one assigned and taken back; another accepted for a link with another price
  const [one] = [await makeLink(7), await makeLink(7)];
  const ambiguous = await rowOf(await sendUsdc(rpcUrl, friend, wallet, 7_000_000n), "RECEIVE");
  const assign = (id: string, body: object) => ann.client.post(`/v1/transactions/${id}/assign`, body);
  expect((await assign(ambiguous.id, { linkId: one })).status).toBe(200);
  const wrong = await makeLink(9);
  const back = await rowOf(await sendUsdc(rpcUrl, friend, wallet, 6_500_000n), "RECEIVE");
  await assign(back.id, { linkId: wrong });
  expect((await ann.client.post(`/v1/transactions/${back.id}/unassign`, {})).status).toBe(200);
  const cheap = await makeLink(5);
  const less = await rowOf(await sendUsdc(rpcUrl, friend, wallet, 4_900_000n), "RECEIVE");
  expect((await assign(less.id, { linkId: cheap, accept: true })).status).toBe(200);
  // out: a part and all of what was paid, a send to another merchant, and what the wallet did without this service
  await refunded(linkId, { amount: 0.75 });
  await refunded(over);
  await refunded(cheap);
  const prepared = await prepareSend(ann, {
    network: NETWORK,
    to: bob.walletAddress as Hex,
    amount: 1.234567,
  });
  await confirmSend(ann, prepared);
  await waitForSend(ann, prepared.sendId);
  await sendUsdc(rpcUrl, wallet, wallet, 300_000n);
  await sendUsdc(rpcUrl, wallet, friend, 400_001n);
  await sendUsdc(rpcUrl, wallet, friend, 0n);
  const lost = await sendUsdc(rpcUrl, friend, wallet, 9_000_000n);
  await until(async () => {
    const [row] = await world.sql`select from transfers where tx_hash = ${lost}`;
    return row;
  });
  await callRpc(rpcUrl, "anvil_reorg", [1, []]);
  await mine(rpcUrl, 3);
});
afterAll(() => world?.stop());

async function statement(who: Merchant) {
  const body = { network: NETWORK, dateFrom: dayFromNow(-1), dateTo: dayFromNow(1), format: "json" };
  const file = await fetchFile(who.client, "/v1/statements", {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "content-type": "application/json" },
  });
  return JSON.parse(file.text);
}

async function everyAccountOf(who: Merchant) {
  const shown = await until(async () => {
    const balance = await readUsdcBalance(world.chain.rpcUrl, who.walletAddress as Hex);
    const made = await statement(who);
    const isWhole = units(made.closingBalance) === balance && made.chain.outcome === "equal";
    return isWhole ? made : undefined;
  });
  const closing = units(shown.closingBalance);
  const movements: { id: string; amount: string; kind: string }[] = shown.movements;
  expect(total(movements.map(({ amount }) => units(amount)))).toBe(closing);
  expect(new Set(movements.map(({ id }) => id)).size).toBe(movements.length);
  for (const { kind, count, amount } of shown.totals) {
    const same = movements.filter((one) => one.kind === kind).map((one) => units(one.amount));
    const sum = total(same);
    expect([kind, count, amount]).toEqual([kind, same.length, formatUnits(sum < 0n ? -sum : sum)]);
  }
  const books = JSON.parse((await exportAs(who.client, { format: "json", profile: "books" })).text);
  expect(total(books.map((row: { net: string }) => units(row.net)))).toBe(closing);
  expect(books.map((row: { rowId: string }) => row.rowId)).toEqual(movements.map(({ id }) => id));
  const [header = [], ...records] = parseCsv(
    (await exportAs(who.client, { format: "csv", profile: "accounting" })).text,
  );
  const cell = (record: string[], name: string) => record[header.indexOf(name)] ?? "";
  const confirmed = records.filter((record) => cell(record, "Status") === "CONFIRMED");
  const wallet = who.walletAddress.toLowerCase();
  const change = (record: string[]) => {
    const amount = units(cell(record, "Amount"));
    expect([cell(record, "Payer"), cell(record, "Payee")].map((one) => one.toLowerCase())).toContain(wallet);
    return cell(record, "Type") === "SEND" ? -amount : amount;
  };
  expect(total(confirmed.map(change))).toBe(closing);
  const { body } = await who.client.get("/v1/transactions/summary?statuses=CONFIRMED");
  const sums: { type: string; amount: string; count: number }[] = body.data.summary;
  const of = (type: string) => units(sums.find((one) => one.type === type)?.amount ?? "0.000000");
  expect(of("PAYMENT_LINK") + of("RECEIVE") - of("SEND")).toBe(closing);
  const { body: stats } = await who.client.get(
    "/v1/payment-links/stats?by=day&days=3&timeZone=Asia/Kathmandu",
  );
  expect(total(stats.days.map((day: { received: string }) => units(day.received)))).toBe(
    of("PAYMENT_LINK") + of("RECEIVE"),
  );
  const { body: balance } = await who.client.get(`/v1/wallets/balance?network=${NETWORK}`);
  expect(units(balance.balance.amount)).toBe(closing);
  return { shown, movements, of, stats };
}

test("a merchant's accounts all end with the balance on the chain", async () => {
  const { movements, of, stats } = await everyAccountOf(ann);
  const kinds = Map.groupBy(movements, ({ kind }) => kind);
  const amounts = (kind: string) => (kinds.get(kind) ?? []).map(({ amount }) => amount).toSorted();
  expect(amounts("PAYMENT")).toEqual(["1.250000", "2.000000", "2.500000", "4.900000", "7.000000"]);
  expect(amounts("RECEIVE")).toEqual([
    ...["0.000001", "0.300000", "1.000000", "1.500000", "2.000000", "20.000000", "6.500000"],
  ]);
  expect(amounts("REFUND")).toEqual(["-0.500000", "-0.750000", "-4.900000"]);
  expect(amounts("SEND")).toEqual(["-0.300000", "-0.400001", "-1.234567"]);
  expect(new Set(amounts("FEE"))).toEqual(new Set(["-0.050000"]));
  // what the links say they earned and returned is what the receipts and credit notes say
  type Shown = { kind: string; amount: number; status: string };
  const documents = await until(async () => {
    const { body } = await ann.client.get("/v1/documents?status=VALID");
    return body.documents.length === 8 ? (body.documents as Shown[]) : undefined;
  });
  const sumOf = (kind: string) =>
    total(documents.filter((one) => one.kind === kind).map(({ amount }) => BigInt(Math.round(amount * 1e6))));
  expect(sumOf("RECEIPT")).toBe(of("PAYMENT_LINK"));
  expect(sumOf("RECEIPT")).toBe(BigInt(Math.round(stats.totalEarnings * 1e6)));
  expect(sumOf("CREDIT_NOTE")).toBe(BigInt(Math.round(stats.totalRefunded * 1e6)));
});

test("so do those of the merchant who was sent to", async () => {
  const { movements } = await everyAccountOf(bob);
  expect(movements.map(({ kind, amount }) => [kind, amount])).toEqual([["RECEIVE", "1.234567"]]);
});
