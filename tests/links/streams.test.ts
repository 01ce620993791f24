/** Many concurrent pages that wait for a link to be paid, some of them misbehaving. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { connect, type Socket } from "node:net";
import type { Hex } from "../../core/domain/networks.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { type SeededMerchant, seedLinks, seedMerchant } from "../support/seed.ts";
import { startWorld, type World } from "../support/world.ts";
import { waitFor } from "./payer-side.ts";
import { mine, newPayer, sendUsdc } from "./payers.ts";

const CONFIRMATIONS = 3;
/** At most 20 of one address, and 500 in all. */
const PAGES_AN_ADDRESS = 20;
const ADDRESSES = 20;

let world: World;
let sql: Sql;
let merchant: SeededMerchant;
let payer: Hex;
let units = 3_000_000n;

beforeAll(async () => {
  world = await startWorld({
    env: {
      ...{ NODE_ENV: "test", RATE_LIMITS: "0", TRUSTED_PROXIES: "127.0.0.1,::1" },
      CONFIRMATIONS_BASE_SEPOLIA: String(CONFIRMATIONS),
    },
  });
  sql = world.sql;
  merchant = await seedMerchant(sql);
  payer = await newPayer(world.chain.rpcUrl, 1_000_000_000n);
}, 120_000);
afterAll(() => world?.stop());

type Stream = { socket: Socket; text: () => string; statuses: () => string[]; isOver: () => boolean };

const open: Stream[] = [];

function watchLink(linkId: string, { client, reads = true }: { client: string; reads?: boolean }): Stream {
  const socket = connect(Number(new URL(world.baseUrl).port), "localhost");
  let text = "";
  let isOver = false;
  const take = (piece: Buffer) => {
    text += piece.toString();
  };
  if (reads) socket.on("data", take);
  socket.on("error", () => undefined);
  socket.on("close", () => {
    isOver = true;
  });
  socket.write(
    `GET /api/v1/public/payment-links/${linkId}/events HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: ${client}\r\n\r\n`,
  );
  // a message may repeat the status: of a payment that was seen but is in no block yet
  const statuses = () =>
    [...text.matchAll(/"status":"([A-Z]+)"/g)]
      .map(([, status]) => status ?? "")
      .filter((status, n, all) => status !== all[n - 1]);
  const stream = { socket, text: () => text, statuses, isOver: () => isOver || text.endsWith("0\r\n\r\n") };
  open.push(stream);
  return stream;
}

async function closeAll(): Promise<void> {
  for (const { socket } of open.splice(0)) socket.resetAndDestroy();
}

async function newLink(): Promise<{ id: string; amountUnits: bigint }> {
  units += 1n;
  const [id = ""] = await seedLinks(sql, merchant, { count: 1, amountUnits: units });
  // the test chain's clock may be a second behind ours
  await sql`update payment_links set created_at = now() - interval '1 minute' where id = ${id}`;
  return { id, amountUnits: units };
}

test("a waiting page is notified when the payment's block is reorganised away, and when it is paid again", async () => {
  const link = await newLink();
  const { rpcUrl } = world.chain;
  const page = watchLink(link.id, { client: "192.0.2.1" });
  await waitFor("ACTIVE", async () => page.statuses().at(-1) === "ACTIVE");
  await sendUsdc(rpcUrl, payer, merchant.address, link.amountUnits);
  await waitFor("PENDING", async () => page.statuses().at(-1) === "PENDING");
  await callRpc(rpcUrl, "anvil_reorg", [1, []]);
  await callRpc(rpcUrl, "evm_setTime", [Math.floor(Date.now() / 1000)]);
  await mine(rpcUrl, 1);
  await waitFor("ACTIVE again", async () => page.statuses().at(-1) === "ACTIVE");
  await sendUsdc(rpcUrl, payer, merchant.address, link.amountUnits);
  await mine(rpcUrl, CONFIRMATIONS);
  await waitFor("its end", async () => page.isOver());
  expect(page.statuses().slice(0, 3)).toEqual(["ACTIVE", "PENDING", "ACTIVE"]);
  expect(page.statuses().at(-1)).toBe("PAID");
  expect(page.text()).toContain("x-accel-buffering: no");
}, 120_000);

test(`of ${ADDRESSES * PAGES_AN_ADDRESS} waiting pages are all notified, despite some that never read`, async () => {
  const link = await newLink();
  const deaf = Array.from({ length: PAGES_AN_ADDRESS }, () =>
    watchLink(link.id, { client: "192.0.2.99", reads: false }),
  );
  const pages = Array.from({ length: ADDRESSES * PAGES_AN_ADDRESS }, (_, n) =>
    watchLink(link.id, { client: `192.0.2.${1 + (n % ADDRESSES)}` }),
  );
  await waitFor("all ACTIVE", async () => pages.every((page) => page.statuses().at(-1) === "ACTIVE"));
  await sendUsdc(world.chain.rpcUrl, payer, merchant.address, link.amountUnits);
  await mine(world.chain.rpcUrl, CONFIRMATIONS);
  await waitFor("all PAID", async () => pages.every((page) => page.statuses().at(-1) === "PAID"));
  expect(deaf.every((page) => page.text() === "")).toBe(true);
  await closeAll();
}, 120_000);
