/** No blocks while payers, workers and keys go on; then they are made all at once. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { assertInvariants } from "../support/invariants.ts";
import { type Lab, newOrders, pay, relaysOf, startLab, waitFor, waitForLink } from "../support/relay-lab.ts";

const WAVES = 3;
const WAVE = 40;
/** The same bytes go out again every few seconds while no block comes. */
const SENDS = 4;
const BLOCKS_AT_ONCE = 20;
let lab: Lab;

beforeAll(async () => {
  lab = await startLab({
    keys: 4,
    env: { RELAY_BATCH_MAX: "5", PAY_WAIT_MS: "500" },
    processes: ["api", "worker", "worker-2", "worker-3", "indexer"],
  });
}, 120_000);
afterAll(() => lab?.stop());

test(`behavior: three workers, four keys, ${WAVES * WAVE} payments and twenty seconds without a block: each is paid once`, async () => {
  await lab.rpc("evm_setAutomine", [false]);
  const orders = await newOrders(lab, WAVES * WAVE);
  for (let wave = 0; wave < WAVES; wave++) {
    const some = orders.slice(wave * WAVE, (wave + 1) * WAVE);
    const answers = await Promise.all(some.map((order) => pay(lab, order)));
    // on their way, or not known to be: no payer hears "failed"
    expect(answers.filter(({ status }) => status !== 202)).toEqual([]);
  }
  await waitFor("the same bytes to have been sent again and again", async () => {
    const [row] = await lab.sql<{ most: number }[]>`
      select coalesce(max(sends), 0)::int as most
      from relay_attempts`;
    return (row?.most ?? 0) >= SENDS;
  });
  // without blocks a higher fee buys nothing: no fee was raised
  const raised = await lab.sql`select relay_id from relay_attempts group by relay_id having count(*) > 1`;
  expect(raised).toHaveLength(0);
  await lab.rpc("anvil_mine", [`0x${BLOCKS_AT_ONCE.toString(16)}`]);
  await lab.rpc("evm_setAutomine", [true]);
  for (const { linkId } of orders) await waitForLink(lab, linkId, "PAID");
  const relays = await waitFor("all relays to be mined", async () => {
    const rows = await relaysOf(lab);
    return rows.every(({ succeeded }) => succeeded !== null) && rows;
  });
  expect(relays.filter(({ state, succeeded }) => state === "LOST" || !succeeded)).toEqual([]);
  expect(new Set(relays.map(({ relayer }) => relayer)).size).toBe(4);
  expect(await lab.sql`select id from payments where state = 'FAILED'`).toHaveLength(0);
  await assertInvariants(lab.sql, lab.chain);
}, 120_000);
