import { afterAll, beforeAll, expect, test } from "bun:test";
import { type MerchantWorld, startMerchantWorld } from "../links/merchant-world.ts";
import { waitFor } from "../links/payer-side.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { insertHistory } from "../transactions/history.ts";
import { exportAs, fetchFile } from "./ask.ts";
import { parseCsv } from "./read-files.ts";

let world: MerchantWorld;
let ann: Merchant;

beforeAll(async () => {
  world = await startMerchantWorld({
    processes: ["api", "worker"],
    env: { RATE_LIMITS: "1", EXPORT_WAIT_MS: "1" },
  });
  ann = await signUp(world.baseUrl);
  await insertHistory(
    world.sql,
    ann.userId,
    Array.from({ length: 500 }, (_, n) => ({ amountUnits: BigInt(n + 1) })),
  );
}, 120_000);
afterAll(() => world?.stop());

test("answers 202 with the download URL when the wait ends before the file is made", async () => {
  const asked = await exportAs(ann.client, { format: "csv" });
  expect(asked.status).toBe(202);
  expect(asked.headers.get("preference-applied")).toBeNull();
  const { data } = JSON.parse(asked.text);
  const file = await waitFor("the file", async () => {
    const found = await fetchFile(ann.client, data.export.downloadUrl);
    return found.status === 200 ? found : undefined;
  });
  expect(parseCsv(file.text).length).toBe(501);
});

test("error: the 21st export within an hour is 429, downloads and the list are not counted", async () => {
  const statuses: number[] = [];
  for (let n = 0; n < 21; n++)
    statuses.push((await exportAs(ann.client, { format: "csv" }, { prefer: "respond-async" })).status);
  // one was requested above
  expect(statuses).toEqual([...Array(19).fill(202), 429, 429]);
  const refused = await exportAs(ann.client, { format: "csv" });
  expect(JSON.parse(refused.text).error.code).toBe("RATE_LIMITED");
  expect(refused.headers.get("x-ratelimit-limit")).toBe("20");
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(3_000);
  const { status, body } = await ann.client.get("/v1/transactions/exports");
  expect([status, body.data.exports.length]).toEqual([200, 20]);
  expect((await ann.client.get("/v1/transactions")).status).toBe(200);
});
