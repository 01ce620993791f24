/** A relayer key is replaced by another while a payment it signed is pending. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { privateKeyToAccount } from "viem/accounts";
import type { Hex } from "../../core/domain/networks.ts";
import { localRelayerKeys } from "../../local/chain/accounts.ts";
import {
  countTransfers,
  type Lab,
  newOrder,
  pay,
  relaysOf,
  startLab,
  waitFor,
  waitForLink,
} from "../support/relay-lab.ts";

let lab: Lab;

beforeAll(async () => {
  lab = await startLab({ env: { PAY_WAIT_MS: "500" } });
}, 120_000);
afterAll(() => lab?.stop());

test("behavior: relays of a removed key are still resent and monitored, and the new key signs the next payment", async () => {
  const [, newKey] = localRelayerKeys();
  if (!newKey) throw new Error("there is one local relayer key only");
  const newRelayer = privateKeyToAccount(newKey).address.toLowerCase() as Hex;
  await lab.rpc("evm_setAutomine", [false]);
  const order = await newOrder(lab);
  expect((await pay(lab, order)).status).toBe(202);
  await waitFor("the payment to be sent", async () =>
    (await relaysOf(lab)).some(({ kind, state }) => kind === "PAYMENTS" && state === "BROADCAST"),
  );
  lab.env.RELAYER_PRIVATE_KEYS = newKey;
  await lab.service.kill("worker");
  const [attempt] = await lab.sql<{ txHash: Hex }[]>`select tx_hash from relay_attempts`;
  await lab.rpc("anvil_dropTransaction", [attempt?.txHash]);
  await lab.service.start("worker");
  await lab.rpc("evm_setAutomine", [true]);
  await waitForLink(lab, order.linkId, "PAID");
  expect(await countTransfers(lab, order.linkId)).toBe(1);
  const next = await newOrder(lab);
  await pay(lab, next);
  await waitForLink(lab, next.linkId, "PAID");
  const payments = (await relaysOf(lab)).filter(({ kind }) => kind === "PAYMENTS");
  expect(payments.map(({ relayer }) => relayer).sort()).toEqual([lab.relayer, newRelayer].sort());
}, 120_000);
