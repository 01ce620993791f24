/** Exports with proofs: verified against the chain by a command without the service, and every forgery of them noticed. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Hex } from "../../core/domain/networks.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { verifyFile } from "../../ops/verify-export/verify-file.ts";
import { newPayer, sendUsdc } from "../links/payers.ts";
import { startTestChain } from "../support/chain.ts";
import { randomAddress } from "../support/indexer-lab.ts";
import { refundLab } from "../support/refund-lab.ts";
import { confirmSend, prepareSend, waitForSend } from "../support/sends.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { startWorld, type World } from "../support/world.ts";
import { insertHistory } from "../transactions/history.ts";
import { EXPORT_PATH, exportAs, fetchFile } from "./ask.ts";

setDefaultTimeout(120_000);

// biome-ignore lint/suspicious/noExplicitAny: a file that is forged in every place
type Proven = any;

let world: World;
let merchant: Merchant;
let rpcUrl: string;
let file: string;
const { until, paidByX402, refunded } = refundLab(() => ({ world, sql: world.sql, merchant }));

beforeAll(async () => {
  world = await startWorld({ env: { RATE_LIMITS: "0", NODE_ENV: "test" } });
  rpcUrl = world.chain.rpcUrl;
  merchant = await signUp(world.baseUrl);
  const friend = await newPayer(rpcUrl, 20_000_000n);
  await sendUsdc(rpcUrl, friend, merchant.walletAddress as Hex, 7_000_000n);
  const { linkId } = await paidByX402(2.5);
  await refunded(linkId, { amount: 0.75 });
  const prepared = await prepareSend(merchant, {
    network: "base-sepolia",
    to: randomAddress(),
    amount: 1.234567,
  });
  await confirmSend(merchant, prepared);
  await waitForSend(merchant, prepared.sendId);
  file = await until(async () => {
    const made = await exportAs(merchant.client, { format: "json", proof: true });
    if (made.status !== 200) throw new Error(made.text);
    return JSON.parse(made.text).totals.confirmed === 4 ? made.text : undefined;
  });
});
afterAll(() => world?.stop());

const verify = (text: string, wallet?: Hex) => verifyFile(text, { rpcUrls: [rpcUrl], wallet });
const own = () => merchant.walletAddress.toLowerCase() as Hex;

/** What is said of a file in which something was changed. */
async function problemsOf(change: (file: Proven) => void): Promise<string[]> {
  const forged = JSON.parse(file);
  change(forged);
  const { ok, problems } = await verify(JSON.stringify(forged), own());
  expect(ok).toBe(problems.length === 0);
  return problems.map(({ problem }) => problem);
}
const rowOf = (forged: Proven, type: string) => forged.transactions.find((row: Proven) => row.type === type);

describe("an export with proofs", () => {
  test("is proven by header, receipts root, receipt and log of every confirmed movement", async () => {
    expect(await verify(file, own())).toEqual({
      ...{ ok: true, rows: 4, proven: 4, unconfirmed: 0, moneyIn: "9.500000", moneyOut: "1.984567" },
      byNetwork: [{ network: "base-sepolia", moneyIn: "9.500000", moneyOut: "1.984567" }],
      ...{ wallets: [{ network: "base-sepolia", address: own() }], problems: [] },
    });
    expect(await problemsOf(() => {})).toEqual([]);
  });

  test.each<[string, (file: Proven) => void, string]>([
    [
      "a higher amount whose total fits",
      (forged) => {
        rowOf(forged, "PAYMENT_LINK").amount = "3.500000";
        forged.totals.moneyIn = "10.500000";
      },
      "its amount is 3500000, but on the chain 2500000",
    ],
    [
      "an omitted row",
      (forged) => {
        forged.transactions.splice(1, 1);
      },
      "the file's total says rows 4",
    ],
    [
      "a repeated row, with totals that fit",
      (forged) => {
        forged.transactions.push(rowOf(forged, "RECEIVE"));
        Object.assign(forged.totals, { rows: 5, confirmed: 5, moneyIn: "16.500000" });
      },
      "the same transfer is in the file twice",
    ],
    [
      "test money as a total of a network with real money",
      (forged) => {
        forged.totalsByNetwork[0].network = "base";
      },
      "the file's total of base says rows 4, but its rows add up to 0",
    ],
    [
      "a higher total of a network",
      (forged) => {
        forged.totalsByNetwork[0].moneyIn = "9.500001";
      },
      "the file's total of base-sepolia says money in 9.500001, but its rows add up to 9.500000",
    ],
    [
      "another row's proof",
      (forged) => {
        rowOf(forged, "RECEIVE").proof = rowOf(forged, "PAYMENT_LINK").proof;
      },
      "the transaction hash is not that of the proven receipt",
    ],
    [
      "another payer",
      (forged) => {
        rowOf(forged, "RECEIVE").accounting.payer = randomAddress();
      },
      "its payer is",
    ],
    [
      "another time",
      (forged) => {
        rowOf(forged, "RECEIVE").detectedAt = "2026-01-01T00:00:00.000Z";
      },
      "its time is",
    ],
    [
      "money out that is shown as money in",
      (forged) => {
        rowOf(forged, "SEND").type = "RECEIVE";
      },
      "its wallet is",
    ],
    [
      "a confirmed row without proof",
      (forged) => {
        rowOf(forged, "SEND").proof = null;
      },
      "has no proof",
    ],
    [
      "an unconfirmed row that was confirmed",
      (forged) => {
        rowOf(forged, "SEND").status = "FAILED";
      },
      "the file's total says confirmed rows 4",
    ],
    [
      "another wallet",
      (forged) => {
        forged.wallets[0].address = randomAddress();
      },
      "the file is about another wallet",
    ],
    [
      "a second wallet of a network, whose movements are not checked",
      (forged) => {
        forged.wallets.push({ ...forged.wallets[0] });
      },
      "the file is about two wallets on base-sepolia",
    ],
    [
      "an unknown status",
      (forged) => {
        rowOf(forged, "SEND").status = "Confirmed";
        Object.assign(forged.totals, { confirmed: 3, moneyOut: "0.750000" });
      },
      "not an export with proofs: transactions.",
    ],
    [
      "a block that is not on the chain",
      (forged) => {
        rowOf(forged, "RECEIVE").proof.blockHash = `0x${"ab".repeat(32)}`;
      },
      "your node has a different block",
    ],
    [
      "a changed node of the trie",
      (forged) => {
        const { proof } = rowOf(forged, "RECEIVE");
        proof.nodes[proof.nodes.length - 1] = flipped(proof.nodes.at(-1));
      },
      "a node of the trie is missing or changed",
    ],
    [
      "a changed header",
      (forged) => {
        const { proof } = rowOf(forged, "RECEIVE");
        proof.header = flipped(proof.header);
      },
      "the header does not match the block's hash",
    ],
    [
      "another network",
      (forged) => {
        rowOf(forged, "RECEIVE").network = "base";
      },
      "no node was given for base (chain 8453)",
    ],
    [
      "a log at another position",
      (forged) => {
        rowOf(forged, "PAYMENT_LINK").proof.logPosition = 99;
      },
      "the receipt lacks the log",
    ],
  ])("with %s is refused", async (_, change, problem) => {
    expect((await problemsOf(change)).join("\n")).toContain(problem);
  });

  test("of the same blocks on another chain of that number is refused", async () => {
    const other = await startTestChain();
    try {
      await callRpc(other.rpcUrl, "anvil_mine", ["0x100"]);
      const { ok, proven } = await verifyFile(file, { rpcUrls: [other.rpcUrl] });
      expect([ok, proven]).toEqual([false, 0]);
    } finally {
      await other.stop();
    }
  });

  test("is checked by a command that needs no database: exit code, summary, JSON", async () => {
    const folder = await mkdtemp(join(tmpdir(), "verify-export-"));
    const run = async (...args: string[]) => {
      const child = Bun.spawn([process.execPath, "ops/verify-export/main.ts", ...args], {
        env: { PATH: process.env.PATH ?? "" },
        stdout: "pipe",
        stderr: "pipe",
      });
      const [out, err] = [await new Response(child.stdout).text(), await new Response(child.stderr).text()];
      return { code: await child.exited, out, err };
    };
    try {
      const [good, bad] = [join(folder, "good.json"), join(folder, "bad.json")];
      await writeFile(good, file);
      await writeFile(bad, file.replace('"2.500000"', '"2.500001"'));
      const proven = await run(good, "--rpc", rpcUrl, "--wallet", merchant.walletAddress);
      expect([proven.code, proven.err]).toEqual([0, ""]);
      expect(proven.out).toContain("4 transactions: 4 proven");
      const forged = await run(bad, "--rpc", rpcUrl, "--json");
      expect([forged.code, JSON.parse(forged.out).ok]).toEqual([1, false]);
      const unreachable = await run(good, "--rpc", "http://127.0.0.1:1");
      expect([unreachable.code, unreachable.err]).toEqual([
        2,
        expect.stringContaining("your node does not answer"),
      ]);
      expect((await run(good)).code).toBe(2);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  test.each([
    [{ format: "csv", proof: true }],
    [{ format: "json", profile: "books", proof: true }],
    [{ format: "json", profile: "standard", proof: true }],
    [{ format: "json", proof: "yes" }],
  ])("%j is refused with 400", async (body) => {
    expect((await exportAs(merchant.client, body)).status).toBe(400);
  });

  test("does not reveal a row omitted together with its part of the totals, as documented", async () => {
    const cut = (forged: Proven) => {
      const [row] = forged.transactions.splice(
        forged.transactions.findIndex(({ type }: Proven) => type === "RECEIVE"),
        1,
      );
      expect(row.amount).toBe("7.000000");
      for (const totals of [forged.totals, forged.totalsByNetwork[0]])
        Object.assign(totals, { rows: 3, confirmed: 3, moneyIn: "2.500000" });
    };
    expect(await problemsOf(cut)).toEqual([]);
  });

  test("has its totals for each network, too; a file of an earlier version, without them, is still verified", async () => {
    const { totals, totalsByNetwork } = JSON.parse(file);
    expect(totalsByNetwork).toEqual([{ network: "base-sepolia", ...totals }]);
    const withoutThem = (forged: Proven) => {
      delete forged.totalsByNetwork;
    };
    expect(await problemsOf(withoutThem)).toEqual([]);
  });

  test("accepts 1,000 transactions, and one more is refused with 400", async () => {
    const bob = await signUp(world.baseUrl);
    const proven = { format: "json", proof: true };
    const row = { detectedAt: "2025-03-03T03:03:03.000Z", status: "FAILED" as const };
    await insertHistory(
      world.sql,
      bob.userId,
      Array.from({ length: 1_000 }, () => row),
    );
    const taken = await exportAs(bob.client, proven);
    expect([taken.status, JSON.parse(taken.text).totals.rows]).toEqual([200, 1_000]);
    await insertHistory(world.sql, bob.userId, [row]);
    const refused = await exportAs(bob.client, proven);
    expect([refused.status, JSON.parse(refused.text).error.details.field]).toEqual([400, "proof"]);
  });

  test("without `proof` is still a plain list", async () => {
    const plain = await exportAs(merchant.client, { format: "json" });
    expect(JSON.parse(plain.text)).toBeArrayOfSize(4);
  });
});

function flipped(bytes: Hex): Hex {
  const at = bytes.length - 20;
  const digit = bytes[at] === "0" ? "1" : "0";
  return `${bytes.slice(0, at)}${digit}${bytes.slice(at + 1)}` as Hex;
}

test("race: a row that arrives while a proven file is read does not make it incomplete", async () => {
  const kim = await signUp(world.baseUrl);
  const row = { status: "FAILED", txHash: null, blockNumber: null } as const;
  await insertHistory(world.sql, kim.userId, [row]);
  const body = JSON.stringify({ format: "json", proof: true });
  const headers = { "content-type": "application/json", prefer: "respond-async" };
  const made = await world.sql.begin(async (tx) => {
    const asked = await fetchFile(kim.client, EXPORT_PATH, { method: "POST", body, headers });
    expect(asked.status).toBe(202);
    const { id } = JSON.parse(asked.text).data.export;
    await tx`lock table wallets in access exclusive mode`;
    // the file's snapshot is taken, and its rows are still to be read
    await until(async () => {
      const waiting = await world.sql`
        select from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and query like '%export_rows%'`;
      return waiting.length > 0 || undefined;
    });
    await insertHistory(world.sql, kim.userId, [row]);
    return id as string;
  });
  const ready = await until(async () => {
    const { body: answer } = await kim.client.get(`/v1/transactions/exports/${made}`);
    return answer.data.export.status === "READY" ? answer.data.export : undefined;
  });
  expect([ready.progress.rowsTotal, ready.total, ready.truncated]).toEqual([1, 1, false]);
});
