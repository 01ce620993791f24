/** Statements over real money: every kind of movement, and the chain's word at the end. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { balanceOfCall } from "../../core/chain/usdc.ts";
import { formatUnits } from "../../core/domain/money.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import { mine, newPayer, sendUsdc } from "../links/payers.ts";
import { randomAddress } from "../support/indexer-lab.ts";
import { refundLab } from "../support/refund-lab.ts";
import { confirmSend, prepareSend, waitForSend } from "../support/sends.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { startWorld, type World } from "../support/world.ts";
import { insertHistory } from "../transactions/history.ts";
import { exportAs, fetchFile } from "./ask.ts";
import { half } from "./rate-source.ts";
import { parseCsv, pdfPageCount, pdfTexts } from "./read-files.ts";

setDefaultTimeout(120_000);
const DAY_MS = 86_400_000;
const NETWORK = "base-sepolia" as const;

let world: World;
let merchant: Merchant;
let chain: Chain;
const lab = refundLab(() => ({ world, sql: world.sql, merchant }));
const { until, makeLink, paidByX402, transferFor, refunded } = lab;

beforeAll(async () => {
  const env = { SEND_FEE_USDC: "0.05", FEE_ADDRESS: randomAddress(), RATE_LIMITS: "0", NODE_ENV: "test" };
  world = await startWorld({ env });
  await callRpc(world.chain.rpcUrl, "anvil_autoImpersonateAccount", [true]);
  merchant = await signUp(world.baseUrl);
  chain = openChain({ network: NETWORK, urls: [world.chain.rpcUrl], timeoutMs: 10_000 });
});
afterAll(() => world?.stop());

const dayFromNow = (days: number) => new Date(Date.now() + days * DAY_MS).toISOString().slice(0, 10);
/** Whatever day it becomes while the test runs. */
const THESE_DAYS = { network: NETWORK, dateFrom: dayFromNow(-1), dateTo: dayFromNow(1) };

async function statement(body: Record<string, unknown>, who = merchant) {
  const file = await fetchFile(who.client, "/v1/statements", {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "content-type": "application/json" },
  });
  if (file.status !== 200) throw new Error(`${file.status} ${file.text}`);
  return file;
}
const json = async (body: Record<string, unknown>, who = merchant) =>
  JSON.parse((await statement({ ...body, format: "json" }, who)).text);

type Movement = { kind: string; amount: string; balance: string; transactionHash: string; logIndex: number };
const units = (text: string) => BigInt(text.replace(".", ""));

describe("a statement", () => {
  test("has every movement of the wallet, and ends with its balance on the chain in the named block", async () => {
    const { rpcUrl } = world.chain;
    const wallet = merchant.walletAddress as Hex;
    await merchant.client.patch("/v1/settings/books", {
      legalName: "Müller & Söhne GmbH",
      postalAddress: "Hauptstraße 1\n10115 Berlin",
      taxId: "DE123456789",
    });
    const friend = await newPayer(rpcUrl, 12_000_000n);
    await sendUsdc(rpcUrl, friend, wallet, 3_000_000n);
    const { linkId } = await paidByX402(2.5);
    const over = await makeLink(1);
    await transferFor(over, 1_500_000n);
    const twice = await makeLink(2);
    await transferFor(twice, 2_000_000n);
    await transferFor(twice, 2_000_000n);
    const late = await makeLink(1.25);
    await world.sql`update payment_links set expires_at = now() - interval '1 minute' where id = ${late}`;
    await transferFor(late, 1_250_000n);
    await refunded(linkId, { amount: 0.75 });
    await refunded(over);
    const [second] = await world.sql<{ id: string }[]>`
      select history.id
      from transactions history
      join transfers transfer on transfer.id = history.transfer_id
      where transfer.link_id = ${twice} and not transfer.pays`;
    await refunded(twice, { transactionId: second?.id, amount: 2 });
    const prepared = await prepareSend(merchant, { network: NETWORK, to: randomAddress(), amount: 1.234567 });
    await confirmSend(merchant, prepared);
    await waitForSend(merchant, prepared.sendId);
    // seen in a block that is reorganised away: no movement
    const lost = await sendUsdc(rpcUrl, friend, wallet, 9_000_000n);
    await until(async () => {
      const [row] = await world.sql`select from transfers where tx_hash = ${lost}`;
      return row;
    });
    await callRpc(rpcUrl, "anvil_reorg", [1, []]);
    await mine(rpcUrl, 3);
    const balance = await readUsdcBalance(rpcUrl, wallet);
    const shown = await until(async () => {
      const made = await json(THESE_DAYS);
      return units(made.closingBalance) === balance && made.chain.outcome === "equal" ? made : undefined;
    });

    const movements: Movement[] = shown.movements;
    expect(shown.openingBalance).toBe("0.000000");
    expect(movements.filter(({ transactionHash }) => transactionHash === lost)).toEqual([]);
    const byKind = Map.groupBy(movements, ({ kind }) => kind);
    const amounts = (kind: string) => (byKind.get(kind) ?? []).map(({ amount }) => amount).toSorted();
    expect(amounts("REFUND")).toEqual(["-0.500000", "-0.750000", "-2.000000"]);
    expect(amounts("SEND")).toEqual(["-1.234567"]);
    expect(amounts("FEE").every((amount) => amount === "-0.050000")).toBe(true);
    expect(amounts("FEE").length).toBeGreaterThan(0);
    expect(amounts("PAYMENT")).toEqual(["1.250000", "2.000000", "2.500000"]);
    expect(amounts("RECEIVE")).toEqual(["1.500000", "2.000000", "3.000000"]);
    let running = 0n;
    for (const movement of movements) {
      running += units(movement.amount);
      expect(movement.balance).toBe(formatUnits(running));
    }
    expect(running).toBe(balance);
    // asked of the chain by the test itself
    const { number, hash } = shown.chain.block;
    const call = balanceOfCall(chain, wallet, `0x${number.toString(16)}`);
    expect(BigInt((await chain.request(call.method, call.params)) as string)).toBe(balance);
    expect(
      ((await chain.request("eth_getBlockByNumber", [`0x${number.toString(16)}`, false])) as { hash: string })
        .hash,
    ).toBe(hash);
    expect(shown.isFinal).toBe(false);
  });

  test("has the sum of the books, with the receipts of payments and the credit notes of refunds", async () => {
    const { closingBalance, movements } = await json(THESE_DAYS);
    const asked = { format: "json", profile: "books", fiatCurrency: "USD", networks: [NETWORK] };
    const books: Record<string, string>[] = JSON.parse((await exportAs(merchant.client, asked)).text);
    for (const name of ["net", "fiatValue"]) {
      const total = books.reduce((sum, row) => sum + units(row[name] ?? ""), 0n);
      expect([name, formatUnits(total)]).toEqual([name, closingBalance]);
    }
    expect(books.map(({ rowId }) => rowId)).toEqual(movements.map(({ id }: { id: string }) => id));
    // refunds, sends, fees, what came late, twice or was too much, in two more currencies: each row by itself
    await merchant.client.patch("/v1/settings/books", { rateSource: "own" });
    for (const [currency, rate, rateE10] of [
      ["EUR", "0.8731", 8_731_000_000n],
      ["JPY", "157.25", 1_572_500_000_000n],
    ] as const) {
      const entered = { currency, dateFrom: THESE_DAYS.dateFrom, dateTo: THESE_DAYS.dateTo, rate };
      expect((await merchant.client.post("/v1/exchange-rates", entered)).status).toBe(200);
      for (const format of ["json", "csv"]) {
        const file = await exportAs(merchant.client, { ...asked, format, fiatCurrency: currency });
        const [header = [], ...records] = format === "csv" ? parseCsv(file.text) : [];
        const values: string[][] =
          format === "csv"
            ? records.map((record) => ["Net", "Fiat Value"].map((name) => record[header.indexOf(name)] ?? ""))
            : JSON.parse(file.text).map((row: Record<string, string>) => [row.net, row.fiatValue]);
        expect(values.map(([amount = ""]) => amount)).toEqual(books.map((row) => row.net ?? ""));
        expect(values.map(([, value = ""]) => units(value))).toEqual(
          values.map(([amount = ""]) => half(units(amount) * rateE10, 10n ** 10n)),
        );
      }
    }
    type Shown = { kind: string; amount: number; receiptNumber: string | null };
    const documents = await until(async () => {
      const { body } = await merchant.client.get("/v1/documents?status=VALID");
      return body.documents.length === 6 ? (body.documents as Shown[]) : undefined;
    });
    const amountsOf = (fits: (one: Shown) => boolean) =>
      documents
        .filter(fits)
        .map(({ amount }) => amount)
        .toSorted();
    expect(amountsOf(({ kind }) => kind === "RECEIPT")).toEqual([1.25, 2, 2.5]);
    // what was too much, or came twice, paid no link and has no receipt to correct
    expect(amountsOf(({ receiptNumber }) => receiptNumber !== null)).toEqual([0.75]);
    expect(amountsOf(({ kind }) => kind === "CREDIT_NOTE")).toEqual([0.5, 0.75, 2]);
  });

  test("is the same in CSV and PDF, which names merchant, address and tax id", async () => {
    const shown = await json(THESE_DAYS);
    const csv = parseCsv((await statement({ ...THESE_DAYS, format: "csv" })).text);
    const [header = [], opening = [], ...rest] = csv;
    const cell = (record: string[], name: string) => record[header.indexOf(name)] ?? "";
    const chainRecord = rest.at(-1) ?? [];
    const closing = rest.at(-2) ?? [];
    const lines = rest.slice(0, -2);
    expect([cell(opening, "Kind"), cell(opening, "Balance (USDC)")]).toEqual(["OPENING", "0.000000"]);
    expect([cell(closing, "Kind"), cell(closing, "Balance (USDC)")]).toEqual([
      "CLOSING",
      shown.closingBalance,
    ]);
    expect([cell(chainRecord, "Kind"), cell(chainRecord, "Balance (USDC)")]).toEqual([
      "CHAIN",
      shown.closingBalance,
    ]);
    expect(cell(chainRecord, "Description")).toContain(`equal to the balance in block `);
    expect(new Set(csv.slice(1).map((record) => record[0])).size).toBe(csv.length - 1);
    // a refund names the payment it returns by an id that the file has
    const ids = lines.map((record) => cell(record, "Transaction ID"));
    const returned = lines.map((record) => cell(record, "Refund Of")).filter(Boolean);
    expect(returned.length).toBe(3);
    for (const id of returned) expect(ids).toContain(id);
    expect(shown.movements.map((one: { transactionId: string }) => one.transactionId)).toEqual(ids);
    const month = new Date().toISOString().slice(0, 7);
    const named = await statement({ network: NETWORK, month, format: "csv" });
    expect(named.headers.get("content-disposition")).toBe(
      `attachment; filename="statement-${NETWORK}-${month}.csv"`,
    );
    expect(
      lines.map((record) => [
        cell(record, "Row ID"),
        cell(record, "In (USDC)") || `-${cell(record, "Out (USDC)")}`,
        cell(record, "Balance (USDC)"),
      ]),
    ).toEqual(
      shown.movements.map((one: { id: string; amount: string; balance: string }) => [
        one.id,
        one.amount,
        one.balance,
      ]),
    );
    const file = await statement({ ...THESE_DAYS, format: "pdf" });
    const texts = pdfTexts(file.bytes);
    expect(pdfPageCount(file.bytes)).toBeGreaterThan(0);
    for (const text of [
      "Account statement",
      "No real money.",
      "Müller & Söhne GmbH",
      "Hauptstraße 1",
      "10115 Berlin",
      "Tax ID DE123456789",
    ])
      expect(texts).toContain(text);
    for (const { balance } of shown.movements) expect(texts).toContain(balance);
  });

  test("of a period before the chain began states that it was not checked, and months join without a gap", async () => {
    const bob = await signUp(world.baseUrl);
    const rows = [
      // Berlin: the last second of January, the first of February, the last of the year
      { detectedAt: "2024-01-31T22:59:59.000Z", amountUnits: 5_000_000n },
      { detectedAt: "2024-01-31T23:00:00.000Z", amountUnits: 1_000_001n },
      { detectedAt: "2024-02-10T10:00:00.000Z", amountUnits: 2_000_000n, type: "SEND" as const },
      { detectedAt: "2024-02-11T10:00:00.000Z", amountUnits: 8_000_000n, status: "FAILED" as const },
      { detectedAt: "2024-12-31T22:59:59.000Z", amountUnits: 7n },
      { detectedAt: "2024-12-31T23:00:00.000Z", amountUnits: 9n },
    ];
    await insertHistory(world.sql, bob.userId, rows);
    const month = (text: string) => json({ network: NETWORK, month: text, timeZone: "Europe/Berlin" }, bob);
    const [january, february] = [await month("2024-01"), await month("2024-02")];
    expect([january.openingBalance, january.closingBalance]).toEqual(["0.000000", "5.000000"]);
    expect([february.openingBalance, february.closingBalance]).toEqual(["5.000000", "4.000001"]);
    expect(february.movements.map(({ balance }: Movement) => balance)).toEqual(["6.000001", "4.000001"]);
    expect(january.chain).toMatchObject({ outcome: "not_checked", balance: null, block: null });
    const year = await json(
      { network: NETWORK, dateFrom: "2024-02-01", dateTo: "2024-12-31", timeZone: "Europe/Berlin" },
      bob,
    );
    expect([year.openingBalance, year.closingBalance, year.movements.length]).toEqual([
      "5.000000",
      "4.000008",
      3,
    ]);
  });

  test("begins with the wallet's balance from before the ledger began to follow it", async () => {
    const dora = await signUp(world.baseUrl);
    const detectedAt = "2024-01-31T12:00:00.000Z";
    await insertHistory(world.sql, dora.userId, [{ detectedAt, amountUnits: 1n }]);
    // only then, for the indexer writes it when it has read the wallet's earlier blocks
    await until(async () => {
      const [row] = await world.sql`
        update wallets set opening_units = 7000000000 where user_id = ${dora.userId} and backfilled_at is not null returning id`;
      return row;
    });
    const january = await json({ network: NETWORK, month: "2024-01" }, dora);
    expect([january.openingBalance, january.closingBalance]).toEqual(["7000.000000", "7000.000001"]);
    // when it arrived is not known, so the statement does not say that it was there when the month began
    const [wallet] = await world.sql<{ createdAt: Date }[]>`
      select created_at from wallets where user_id = ${dora.userId}`;
    const since = wallet?.createdAt.toISOString().slice(0, 10);
    const note = `includes 7000.000000 USDC that the wallet had when this service began to follow it on ${since}`;
    expect(january.openingNote).toBe(note);
    const asked = { network: NETWORK, month: "2024-01" };
    const [, opening = []] = parseCsv((await statement({ ...asked, format: "csv" }, dora)).text);
    expect(opening[4]).toBe(`Opening balance, ${note}`);
    const pdf = pdfTexts((await statement({ ...asked, format: "pdf" }, dora)).bytes).join(" ");
    expect(pdf).toContain("includes 7,000.000000 USDC");
    await world.sql`update wallets set created_at = '2024-01-01T00:00:00Z' where user_id = ${dora.userId}`;
    expect((await json(asked, dora)).openingNote).toBeNull();
  });

  test("error: 409 for a period that the ledger has not reached, instead of one without movements", async () => {
    const eve = await signUp(world.baseUrl);
    await insertHistory(world.sql, eve.userId, [
      { detectedAt: "2024-01-31T12:00:00.000Z", amountUnits: 5n },
      { detectedAt: "2024-02-01T12:00:00.000Z", amountUnits: 7n, status: "DETECTED" },
      { detectedAt: "2024-03-10T12:00:00.000Z", amountUnits: 9n },
    ]);
    const ask = (month: string) =>
      eve.client.post("/v1/statements", { format: "json", network: NETWORK, month });
    const february = await json({ network: NETWORK, month: "2024-02" }, eve);
    expect([february.isFinal, february.closingBalance]).toEqual([false, "0.000005"]);
    const march = await ask("2024-03");
    expect([march.status, march.body.error.details]).toEqual([409, { field: "export", issue: "refused" }]);
    expect(march.body.error.message).toContain("is confirmed up to 2024-02-01 12:00:00 +00:00");
    await world.sql`
      update transactions set status = 'CONFIRMED' where owner = owner_key(${eve.userId}) and status = 'DETECTED'`;
    expect((await json({ network: NETWORK, month: "2024-03" }, eve)).closingBalance).toBe("0.000021");
  });

  test("states the chain's balance when it differs", async () => {
    const carl = await signUp(world.baseUrl);
    // the local chain's balance, set without a transfer
    await fundUsdc(world.chain.rpcUrl, carl.walletAddress as Hex, 3_000_000_000n);
    const shown = await until(async () => {
      await mine(world.chain.rpcUrl, 1);
      const made = await json(THESE_DAYS, carl);
      return made.chain.outcome === "different" ? made : undefined;
    });
    expect([shown.closingBalance, shown.chain.balance]).toEqual(["0.000000", "3000.000000"]);
    expect(shown.chain.text).toStartWith("different: the chain has 3000.000000 USDC in block ");
    const pdf = pdfTexts((await statement({ ...THESE_DAYS, format: "pdf" }, carl)).bytes).join(" ");
    expect(pdf.split("different: the chain has 3,000.000000 USDC")).toHaveLength(3);
  });

  test.each([
    [{ month: "2026-13" }, "month"],
    [{ month: "2026-01", dateFrom: "2026-01-01" }, "month"],
    [{}, "dateFrom"],
    [{ dateFrom: "2026-01-01" }, "dateTo"],
    [{ dateFrom: "2026-02-30", dateTo: "2026-03-01" }, "dateFrom"],
    [{ dateFrom: "2026-01-02", dateTo: "2026-01-01" }, "dateFrom"],
    [{ month: "2999-01" }, "month"],
    [{ month: "0000-01" }, "month"],
    [{ dateFrom: "0000-01-01", dateTo: "2026-01-01" }, "dateFrom"],
    [{ dateFrom: "2026-01-01", dateTo: "9999-12-31" }, "dateTo"],
    [{ month: "2026-01", timeZone: "+02:00" }, "timeZone"],
    [{ month: "2026-01", format: "text" }, "format"],
  ])("error: %j is 400", async (body, field) => {
    const { status, body: answer } = await merchant.client.post("/v1/statements", {
      format: "csv",
      network: NETWORK,
      ...body,
    });
    expect([status, answer.error?.details?.field]).toEqual([400, field]);
  });

  test("error: 400 for more movements than a statement holds, by the counters, without counting rows", async () => {
    const busy = await signUp(world.baseUrl);
    await world.sql`
      insert into transaction_count_deltas (count, day, amount_bucket, user_id, network, type, status)
      values (100001, '2025-03-15', 1100, ${busy.userId}, ${NETWORK}, 'RECEIVE', 'CONFIRMED')`;
    const given = { format: "csv", network: NETWORK, month: "2025-03" };
    const { status, body } = await busy.client.post("/v1/statements", given);
    expect([status, body.error?.details?.field]).toEqual([400, "month"]);
    expect(JSON.stringify(body)).toContain("has more than 100000 movements");
  });

  test("error: 404 for a network without a wallet", async () => {
    const { status } = await merchant.client.post("/v1/statements", {
      ...{ format: "csv", network: "base", month: "2026-01" },
    });
    expect(status).toBe(404);
  });
});
