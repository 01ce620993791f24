/** From a block to its link PAID: in the database, and as a payer's page sees it over HTTP. */
import { encodeTransfer } from "../core/chain/usdc.ts";
import { NETWORKS } from "../core/domain/networks.ts";
import { openDatabase } from "../db/client.ts";
import { callRpc } from "../local/rpc.ts";
import { fundEth, fundUsdc } from "../local/usdc.ts";
import { startTestChain } from "../tests/support/chain.ts";
import { type FaultProxy, startFaultProxy } from "../tests/support/fault-proxy.ts";
import { startTestMailbox } from "../tests/support/mailbox.ts";
import { createTestDatabase } from "../tests/support/postgres.ts";
import { seedLinks, seedMerchant } from "../tests/support/seed.ts";
import { startService } from "../tests/support/world.ts";
import { percentile, type Row } from "./report.ts";

const USDC = NETWORKS["base-sepolia"].usdc.address;
const PAYER = `0x${"d0".repeat(20)}` as const;
const WARM_UP = 20;
const PAUSE_MS = 30;
const IDLE_POLL_MS = 1_000;
const TIMEOUT_MS = 10_000;

/** With `hasWebSocket` false the indexer's node takes no WebSocket: it polls. */
export async function measureLatency(payments: number, hasWebSocket: boolean): Promise<Row> {
  const [db, chain, smtp] = await Promise.all([createTestDatabase(), startTestChain(), startTestMailbox()]);
  const sql = openDatabase(db.url, { name: "bench", maxConnections: 4 });
  const proxy: FaultProxy | undefined = hasWebSocket
    ? undefined
    : await startFaultProxy(chain.rpcUrl, { random: () => 1 });
  const seen = { ...chain, rpcUrl: proxy?.url ?? chain.rpcUrl };
  const service = await startService({
    db,
    chain: seen,
    smtp,
    processes: ["api", "worker", "indexer"],
    env: { LOG_LEVEL: "warn" },
  });
  const heads = await listenForBlocks(chain.wsUrl);
  const told = new Map<string, number>();
  const listening = await sql.listen("outcome", (payload) => {
    const nowMs = performance.now();
    for (const id of payload.split(",")) if (!told.has(id)) told.set(id, nowMs);
  });
  try {
    await callRpc(chain.rpcUrl, "anvil_autoImpersonateAccount", [true]);
    await fundEth(chain.rpcUrl, PAYER, 10n ** 24n);
    await fundUsdc(chain.rpcUrl, PAYER, 10n ** 15n);
    const merchant = await seedMerchant(sql);
    const inDatabase: number[] = [];
    const overHttp: number[] = [];
    for (let n = 0; n < payments + WARM_UP; n++) {
      const units = 1_000_000n + BigInt(n);
      const [linkId = ""] = await seedLinks(sql, merchant, { count: 1, amountUnits: units });
      const before = heads.count();
      const data = encodeTransfer(merchant.address, units);
      await callRpc(chain.rpcUrl, "eth_sendTransaction", [{ from: PAYER, to: USDC, data, gas: "0x30000" }]);
      const blockMs = await heads.next(before);
      const httpMs = await pollUntilPaid(service.baseUrl, linkId);
      while (!told.has(linkId)) await Bun.sleep(1);
      if (n >= WARM_UP) {
        inDatabase.push((told.get(linkId) ?? 0) - blockMs);
        overHttp.push(httpMs - blockMs);
      }
      // any moment between two looks of an idle indexer
      await Bun.sleep(PAUSE_MS + Math.random() * (hasWebSocket ? PAUSE_MS : IDLE_POLL_MS));
    }
    return toRow(hasWebSocket ? "websocket nudge" : "polling", inDatabase, overHttp);
  } finally {
    heads.close();
    await listening.unlisten();
    await sql.end();
    await service.stop();
    await proxy?.stop();
    await Promise.all([db.drop(), chain.stop(), smtp.stop()]);
  }
}

function toRow(what: string, inDatabase: number[], overHttp: number[]): Row {
  const sorted = (values: number[]) => values.toSorted((a, b) => a - b);
  const [database, http] = [sorted(inDatabase), sorted(overHttp)];
  return {
    bench: "index latency",
    what,
    payments: database.length,
    "committed p50 ms": percentile(database, 0.5),
    "committed p99 ms": percentile(database, 0.99),
    "HTTP p50 ms": percentile(http, 0.5),
    "HTTP p99 ms": percentile(http, 0.99),
    "HTTP max ms": percentile(http, 1),
  };
}

async function pollUntilPaid(baseUrl: string, linkId: string): Promise<number> {
  const deadline = Date.now() + TIMEOUT_MS;
  while (Date.now() < deadline) {
    const response = await fetch(`${baseUrl}/api/v1/public/payment-links/${linkId}/data`);
    const link = (await response.json()) as { status?: string };
    if (link.status === "PAID") return performance.now();
  }
  throw new Error(`link ${linkId} was not PAID within ${TIMEOUT_MS} ms`);
}

/** When each block was announced by the node, by our own subscription. */
async function listenForBlocks(wsUrl: string) {
  const times: number[] = [];
  const socket = new WebSocket(wsUrl);
  await new Promise<void>((resolve, reject) => {
    socket.onopen = () => resolve();
    socket.onerror = () => reject(new Error(`no WebSocket at ${wsUrl}`));
  });
  socket.onmessage = (event) => {
    if (String(event.data).includes("eth_subscription")) times.push(performance.now());
  };
  socket.send(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "eth_subscribe", params: ["newHeads"] }));
  await Bun.sleep(PAUSE_MS);
  return {
    count: () => times.length,
    async next(after: number): Promise<number> {
      while (times.length <= after) await Bun.sleep(0);
      return times[after] ?? performance.now();
    },
    close: () => socket.close(),
  };
}
