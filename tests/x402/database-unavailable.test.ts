/** An unavailable database: payers get x402's own error, retryable, and the same payment pays once it is back. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { openDatabase } from "../../db/postgres/client.ts";
import { shapeA, standardV2 } from "../support/payer.ts";
import { type Lab, newOrder, startLab, waitFor } from "../support/relay-lab.ts";

let lab: Lab;

beforeAll(async () => {
  lab = await startLab({ env: { RATE_LIMITS: "1" } });
}, 120_000);

afterAll(() => lab?.stop());

/** Runs `work` while no client can connect to the service's database. */
async function withoutDatabase(work: () => Promise<void>): Promise<void> {
  const name = new URL(lab.db.url).pathname.slice(1);
  const admin = openDatabase(new URL("/postgres", lab.db.url).href, { name: "admin", maxConnections: 1 });
  await admin`alter database ${admin(name)} allow_connections false`;
  await admin`select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = ${name}`;
  try {
    await work();
  } finally {
    await admin`alter database ${admin(name)} allow_connections true`;
    await admin.end({ timeout: 1 });
  }
}

test("the page and the receipt of a link that cannot be read do not say that nothing was charged", async () => {
  const { linkId } = await newOrder(lab);
  await withoutDatabase(async () => {
    for (const path of [`/pay/${linkId}`, `/pay/${linkId}/receipt`]) {
      const page = await fetch(`${lab.service.baseUrl}${path}`);
      const text = await page.text();
      expect([path, page.status, text.includes("Nothing was charged")]).toEqual([path, 503, false]);
      expect(text).toContain("If you have already paid, do not pay again.");
    }
  });
}, 120_000);

test("error: INTERNAL_ERROR by every route while the database is unavailable; nothing is stored, and it pays later", async () => {
  const order = await newOrder(lab);
  const url = `${lab.service.baseUrl}/v1/x402/${order.linkId}`;
  const header = Buffer.from(JSON.stringify(standardV2(order.payment))).toString("base64");
  const body = JSON.stringify(shapeA(order.payment));
  const payByJson = () =>
    fetch(`${url}/pay`, { method: "POST", headers: { "content-type": "application/json" }, body });
  await withoutDatabase(async () => {
    for (const ask of [
      payByJson,
      () => fetch(url, { headers: { "payment-signature": header } }),
      () => fetch(url),
    ]) {
      const response = await ask();
      expect(response.status).toBe(500);
      expect(response.headers.get("access-control-allow-origin")).toBe("*");
      expect(await response.json()).toMatchObject({
        success: false,
        txHash: null,
        error: "INTERNAL_ERROR",
        retryable: true,
      });
    }
  });
  const paid = await waitFor("the payment", async () => {
    const response = await payByJson();
    return response.status !== 500 && response;
  });
  expect(await paid.json()).toMatchObject({ success: true, error: null });
}, 120_000);
