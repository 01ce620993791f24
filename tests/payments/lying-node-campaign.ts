/**
 * A node that fails one send in ten, answers one in ten without passing it on, passes one in ten on and reports a failure, and lags
 * behind with receipts: how many payments get lost, or are wrongly called failed? By hand: `bun tests/payments/lying-node-campaign.ts 1000`
 * (payments), the seed from TEST_SEED when that is set.
 */
import { keccak256 } from "viem";
import type { Hex } from "../../core/domain/networks.ts";
import { openDatabase } from "../../db/postgres/client.ts";
import { type Fault, type ProxiedCall, startFaultProxy } from "../rpc/fault-proxy.ts";
import { startTestChain } from "../support/chain.ts";
import { startTestMailbox } from "../support/mailbox.ts";
import { createTestDatabase } from "../support/postgres.ts";
import { seedMerchant } from "../support/seed.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { startService } from "../support/world.ts";
import { type Answers, judge, payWhile, type Verdict } from "./campaign-load.ts";

const SEND_SHARE = 0.1;
const LATE_RECEIPTS_SHARE = 0.5;
const LOST_REQUESTS_SHARE = 0.05;

export type LyingNodeReport = Verdict &
  Omit<Answers, "linkIds"> & { payments: number; lies: Record<string, number>; seconds: number };

export async function runLyingNodeCampaign(payments: number): Promise<LyingNodeReport> {
  const draw = openLies(seededRandom(`lying node, ${payments} payments`));
  const startedMs = performance.now();
  const [db, chain, smtp] = await Promise.all([createTestDatabase(), startTestChain(), startTestMailbox()]);
  const proxy = startFaultProxy(chain.rpcUrl);
  const sql = openDatabase(db.url, { name: "campaign", maxConnections: 4 });
  const service = await startService({
    ...{ db, chain: { ...chain, rpcUrl: proxy.url }, smtp },
    env: { RELAY_BATCH_MAX: "4" },
  });
  try {
    const stage = { sql, chain, merchant: await seedMerchant(sql), baseUrl: () => service.baseUrl };
    proxy.fault = draw.fault;
    let taken = 0;
    const { linkIds, ...answers } = await payWhile(stage, () => taken++ < payments);
    // the ledger must become right under the same lies
    const verdict = await judge(stage, linkIds);
    const seconds = Math.round((performance.now() - startedMs) / 1000);
    return { payments: linkIds.length, ...verdict, ...answers, lies: draw.counts, seconds };
  } finally {
    await sql.end();
    await service.stop();
    await proxy.stop();
    await Promise.all([db.drop(), chain.stop(), smtp.stop()]);
  }
}

/** One draw a request decides how it suffers. */
export function openLies(random: () => number) {
  const counts: Record<string, number> = {};
  const counted = (name: string, fault: Fault): Fault => {
    counts[name] = (counts[name] ?? 0) + 1;
    return fault;
  };
  const fault = (calls: readonly ProxiedCall[]): Fault | undefined => {
    const chance = random();
    const method = calls[0]?.method;
    if (method === "eth_sendRawTransaction") {
      if (chance < SEND_SHARE) return counted("sendFailed", { kind: "status", status: 503 });
      if (chance < 2 * SEND_SHARE)
        return counted("sendSwallowed", { kind: "reply", reply: (call) => keccak256(call.params[0] as Hex) });
      if (chance < 3 * SEND_SHARE)
        return counted("sentButReportedFailed", { kind: "edit", edit: reportFailed });
      return undefined;
    }
    if (method === "eth_getTransactionReceipt" && chance < LATE_RECEIPTS_SHARE)
      return counted("receiptsLate", { kind: "reply", reply: () => null });
    return chance > 1 - LOST_REQUESTS_SHARE
      ? counted("requestLost", { kind: "status", status: 502 })
      : undefined;
  };
  return { fault, counts };
}

function reportFailed(answer: unknown): unknown {
  const fail = ({ id }: { id: number }) => ({
    ...{ jsonrpc: "2.0", id },
    error: { code: -32603, message: "internal error" },
  });
  return Array.isArray(answer) ? answer.map(fail) : fail(answer as { id: number });
}

if (import.meta.main) {
  console.log(JSON.stringify(await runLyingNodeCampaign(Number(process.argv[2] ?? 1_000))));
  process.exit(0);
}
