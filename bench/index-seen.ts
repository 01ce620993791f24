/** Latency from a transfer in the block being built to "payment seen" on the stream of its link's page. */
import { topicOfAddress } from "../core/chain/bloom.ts";
import { TRANSFER_TOPIC } from "../core/chain/usdc.ts";
import type { Hex } from "../core/domain/networks.ts";
import { fieldOf } from "../core/rpc/parse-answers.ts";
import { openDatabase } from "../db/postgres/client.ts";
import { startTestChain } from "../tests/support/chain.ts";
import { startTestMailbox } from "../tests/support/mailbox.ts";
import { createTestDatabase } from "../tests/support/postgres.ts";
import { randomAddress, seedLinks, seedMerchant } from "../tests/support/seed.ts";
import { startService } from "../tests/support/world.ts";
import { USDC } from "./indexer-process.ts";

/** Base builds a block from parts of 200 ms: the moments of transfers are spread over more than a poll. */
const SPREAD_MS = 500;
const GOLDEN_RATIO = (Math.sqrt(5) - 1) / 2;
const TIMEOUT_MS = 30_000;

/** Milliseconds, sorted. */
export async function measureSeen(payments: number): Promise<number[]> {
  const [db, chain, smtp] = await Promise.all([createTestDatabase(), startTestChain(), startTestMailbox()]);
  const sql = openDatabase(db.url, { name: "bench", maxConnections: 2 });
  // any transfer shows that the node has pending logs
  const others = transferTo(randomAddress(), 1n);
  let pending = [others];
  const node = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      // no WebSocket here
      if (request.method !== "POST") return new Response(null, { status: 404 });
      const body = await request.text();
      const call: unknown = JSON.parse(body);
      if (!isPendingQuery(call))
        return fetch(chain.rpcUrl, { method: "POST", body, headers: { "content-type": "application/json" } });
      return Response.json({ jsonrpc: "2.0", id: fieldOf(call, "id"), result: pending });
    },
  });
  const service = await startService({
    ...{ db, chain: { ...chain, rpcUrl: node.url.href }, smtp, processes: ["api", "worker", "indexer"] },
    env: { LOG_LEVEL: "warn", RATE_LIMITS: "0" },
  });
  const times: number[] = [];
  try {
    const merchant = await seedMerchant(sql);
    for (let n = 0; n < payments; n++) {
      const amountUnits = 1_000_000n + BigInt(n);
      const [linkId = ""] = await seedLinks(sql, merchant, { count: 1, amountUnits });
      const leaving = new AbortController();
      const url = `${service.baseUrl}/api/v1/public/payment-links/${linkId}/events`;
      const { body } = await fetch(url, {
        signal: AbortSignal.any([leaving.signal, AbortSignal.timeout(TIMEOUT_MS)]),
      });
      const reader = (body as ReadableStream<Uint8Array>).getReader();
      await readUntil(reader, "data: ");
      await Bun.sleep(SPREAD_MS + ((n * GOLDEN_RATIO) % 1) * SPREAD_MS);
      const startedMs = performance.now();
      pending = [others, transferTo(merchant.address, amountUnits)];
      await readUntil(reader, '"seen":true');
      times.push(performance.now() - startedMs);
      pending = [others];
      leaving.abort();
    }
    return times.sort((a, b) => a - b);
  } finally {
    await sql.end();
    await service.stop();
    await node.stop(true);
    await Promise.all([db.drop(), chain.stop(), smtp.stop()]);
  }
}

type Reader = { read: () => Promise<{ done: boolean; value?: Uint8Array | undefined }> };

async function readUntil(reader: Reader, wanted: string): Promise<void> {
  const decoder = new TextDecoder();
  for (let text = ""; !text.includes(wanted); ) {
    const { done, value } = await reader.read();
    if (done) throw new Error(`the stream ended before ${wanted}`);
    text += decoder.decode(value, { stream: true });
  }
}

function isPendingQuery(call: unknown): boolean {
  const params = fieldOf(call, "params");
  return (
    fieldOf(call, "method") === "eth_getLogs" &&
    Array.isArray(params) &&
    fieldOf(params[0], "fromBlock") === "pending"
  );
}

function transferTo(to: Hex, amountUnits: bigint): object {
  return {
    ...{ address: USDC, topics: [TRANSFER_TOPIC, topicOfAddress(randomAddress()), topicOfAddress(to)] },
    data: `0x${amountUnits.toString(16).padStart(64, "0")}`,
    ...{ blockNumber: "0x7fffffff", blockHash: `0x${"0".repeat(64)}`, logIndex: "0x0" },
    ...{ transactionHash: `0x${"ab".repeat(32)}`, transactionIndex: "0x0", removed: false },
  };
}
