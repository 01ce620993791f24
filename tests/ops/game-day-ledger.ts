/** Alarms of a ledger that is behind or wrong, and of sends that no node takes. */
import { join } from "node:path";
import type { Hex } from "../../core/domain/networks.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { payByHand, waitForLedger } from "../payments/second-payer.ts";
import { randomAddress } from "../support/indexer-lab.ts";
import { type Lab, newOrder, pay, waitFor, waitForLink } from "../support/relay-lab.ts";
import { confirmSend, prepareSend, waitForSend } from "../support/sends.ts";
import { signUp } from "../support/sign-up.ts";
import { repeat, type Scenario } from "./game-day-scenario.ts";

const ROOT = join(import.meta.dir, "../..");
/** Longer than the indexer waits for an answer. */
const SLOW_ANSWER_MS = 8_000;
/** Every way in which the indexer reads the logs of a block. */
const READS_OF_LOGS = new Set(["eth_getLogs", "eth_getBlockReceipts", "eth_getTransactionReceipt"]);
const BLOCK_EVERY_MS = 1_000;
/** Deeper than what the local chain calls final. */
const FINAL_BLOCKS = "0x50";
/** Reconciliation runs once a minute. */
const RECONCILED_WITHIN_MS = 180_000;

export const LEDGER_SCENARIOS: readonly Scenario[] = [
  {
    alert: "IndexerLags",
    cureText: "add or change an RPC URL",
    async provoke({ lab }) {
      const fast = lab.proxy.delay;
      lab.proxy.delay = (calls) =>
        calls.some(({ method }) => READS_OF_LOGS.has(method)) ? Bun.sleep(SLOW_ANSWER_MS) : undefined;
      // a block whose logs have to be read; the ones after it are only heads
      await payByHand(lab, 888_888n);
      const stopMining = repeat(async () => {
        await lab.rpc("evm_mine");
        await Bun.sleep(BLOCK_EVERY_MS);
      });
      return async () => {
        await stopMining();
        lab.proxy.delay = fast;
        await waitForLedger(lab);
      };
    },
  },
  {
    alert: "LedgerDiffersFromChain",
    cureText: "`bun run rebuild` reads the chain again",
    async provoke({ lab }) {
      // what a wallet holds beside its transfers is settled by its first comparison
      await makeFinal(lab);
      await waitFor("the wallet to be compared once", () => isCompared(lab), RECONCILED_WITHIN_MS);
      const order = await newOrder(lab);
      await pay(lab, order);
      await waitForLink(lab, order.linkId, "PAID");
      await lab.sql`update transfers set amount_units = amount_units + 1 where link_id = ${order.linkId}`;
      await makeFinal(lab);
      return async () => {
        const output = await rebuild(lab);
        if (!output.includes("different from the previous state")) throw new Error(`rebuild: ${output}`);
        await waitForLink(lab, order.linkId, "PAID");
        const [row] = await lab.sql<{ amountUnits: bigint }[]>`
          select amount_units from transfers where link_id = ${order.linkId} and status <> 'ORPHANED'`;
        if (row?.amountUnits !== BigInt(order.payment.value))
          throw new Error(`rebuild left ${row?.amountUnits} of ${order.payment.value}`);
        await waitFor("a comparison without differences", () => hasNoDifference(lab), RECONCILED_WITHIN_MS);
      };
    },
  },
  {
    alert: "RecordsRefused",
    cureText: "by a version that corrects it brings the record back",
    async provoke({ lab, prometheus }) {
      const scraped = "indexer_refused_records_total == 0";
      await waitFor(
        "the counter to be scraped at 0",
        async () => (await prometheus.countSeries(scraped).catch(() => 0)) > 0,
      );
      // what a table that does not fit a record does
      await lab.sql`alter table wallet_operation_events add constraint game_day check (false) not valid`;
      const owner = await signUp(lab.service.baseUrl);
      await fundUsdc(lab.chain.rpcUrl, owner.walletAddress as Hex, 5_000_000n);
      const to = randomAddress();
      const prepared = await prepareSend(owner, { to, amount: "1" });
      await confirmSend(owner, prepared);
      await waitFor("the transfer to be there without its operation", async () => {
        const [row] = await lab.sql<{ count: number }[]>`
          select count(*)::int as count from transfers where to_address = ${to}`;
        return row?.count === 1;
      });
      return async () => {
        await lab.sql`alter table wallet_operation_events drop constraint game_day`;
        await rebuild(lab);
        await waitForSend(owner, prepared.sendId);
      };
    },
  },
  {
    alert: "SendsStuck",
    cureText: "the node accepts no transactions: change the RPC URL",
    async provoke({ lab }) {
      const owner = await signUp(lab.service.baseUrl);
      await fundUsdc(lab.chain.rpcUrl, owner.walletAddress as Hex, 5_000_000n);
      const prepared = await prepareSend(owner, { to: randomAddress(), amount: "1" });
      const healthy = lab.proxy.fault;
      lab.proxy.fault = (calls) =>
        calls.some(({ method }) => method === "eth_sendRawTransaction")
          ? { kind: "error", code: -32000, message: "the pool is closed" }
          : undefined;
      const { status, text } = await confirmSend(owner, prepared);
      if (status !== 202) throw new Error(`confirm: ${status} ${text}`);
      return async () => {
        lab.proxy.fault = healthy;
        await waitForSend(owner, prepared.sendId);
      };
    },
  },
];

/** Everything paid so far is read, and so deep that it is compared with balances. */
async function makeFinal(lab: Lab): Promise<void> {
  await lab.rpc("anvil_mine", [FINAL_BLOCKS, "0x0"]);
  await waitForLedger(lab);
}

async function isCompared({ sql, merchant }: Lab): Promise<boolean | undefined> {
  const [row] = await sql<{ isCompared: boolean }[]>`
    select reconciled_at is not null as is_compared from wallets where id = ${merchant.walletId}`;
  return row?.isCompared;
}

/** As Prometheus reads it: absent while no indexer leads, and then what the last comparison found. */
async function hasNoDifference({ service }: Lab): Promise<boolean> {
  const response = await fetch(`http://${service.metricsOf("indexer")}/metrics`);
  return /^indexer_reconciliation_differences\{.*\} 0$/m.test(await response.text());
}

/** `bun run rebuild` beside the running service. Its exit code 1 says that something differed. */
async function rebuild(lab: Lab): Promise<string> {
  const { PATH, HOME } = process.env;
  const child = Bun.spawn([process.execPath, "--no-env-file", join(ROOT, "indexer/rebuild-main.ts")], {
    env: {
      ...{ PATH, HOME, NODE_ENV: "development", NETWORKS: "base-sepolia", CONFIRMATIONS_BASE_SEPOLIA: "1" },
      ...{ DATABASE_URL: lab.db.url, RPC_URL_BASE_SEPOLIA: lab.chain.rpcUrl },
    },
    ...({ stdout: "pipe", stderr: "pipe" } as const),
  });
  const [output, errors] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  const code = await child.exited;
  if (code > 1) throw new Error(`rebuild ended with ${code}: ${errors}`);
  return output;
}
