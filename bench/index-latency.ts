/** Latency from a block to its link being PAID, as a payer's page sees it over HTTP. */
import { openDatabase } from "../db/postgres/client.ts";
import { startTestChain } from "../tests/support/chain.ts";
import { startTestMailbox } from "../tests/support/mailbox.ts";
import { createTestDatabase } from "../tests/support/postgres.ts";
import { seedLinks, seedMerchant } from "../tests/support/seed.ts";
import { startService } from "../tests/support/world.ts";
import { type Arrivals, measureArrivals } from "./block-latency.ts";
import { startHttpOnly } from "./http-only.ts";

/** With `hasWebSocket` false the indexer has to poll its node. Milliseconds, sorted. */
export async function measureLatency(arrivals: Arrivals, hasWebSocket: boolean): Promise<number[]> {
  const [db, chain, smtp] = await Promise.all([createTestDatabase(), startTestChain(), startTestMailbox()]);
  const sql = openDatabase(db.url, { name: "bench", maxConnections: 4 });
  const httpOnly = hasWebSocket ? undefined : await startHttpOnly(chain.port);
  const service = await startService({
    db,
    chain: { ...chain, rpcUrl: httpOnly?.url ?? chain.rpcUrl },
    smtp,
    processes: ["api", "worker", "indexer"],
    env: { LOG_LEVEL: "warn" },
  });
  try {
    const merchant = await seedMerchant(sql);
    return await measureArrivals(chain, arrivals, async (amountUnits) => {
      const [linkId = ""] = await seedLinks(sql, merchant, { count: 1, amountUnits });
      const url = `${service.baseUrl}/api/v1/public/payment-links/${linkId}/data`;
      const isSeen = async () => ((await (await fetch(url)).json()) as { status?: string }).status === "PAID";
      return { to: merchant.address, isSeen };
    });
  } finally {
    await sql.end();
    await service.stop();
    httpOnly?.stop();
    await Promise.all([db.drop(), chain.stop(), smtp.stop()]);
  }
}
