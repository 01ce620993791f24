/** How each alarm is provoked on a running service, and what the runbook says to do about it, done. */
import { privateKeyToAccount } from "viem/accounts";
import { LEADER_CLASS } from "../../db/ledger/indexer-leader-lock.ts";
import { fundEth } from "../../local/chain/usdc.ts";
import { payByHand } from "../payments/second-payer.ts";
import { randomAddress } from "../support/indexer-lab.ts";
import { type Lab, newOrder, pay, relaysOf, waitFor } from "../support/relay-lab.ts";
import type { ProcessName } from "../support/world.ts";
import { LEDGER_SCENARIOS } from "./game-day-ledger.ts";
import { MACHINE_SCENARIOS } from "./game-day-machine.ts";
import { repeat, type Scenario } from "./game-day-scenario.ts";

const LOW_WEI = "0xe35fa931a0000"; // 0.004 ETH
const ETH = 10n ** 18n;

export const SCENARIOS: readonly Scenario[] = [
  {
    alert: "ServiceDown",
    cureText: "Restart it; nothing is lost by that",
    async provoke({ lab }) {
      await lab.service.kill("worker");
      return () => lab.service.start("worker");
    },
  },
  {
    alert: "ProcessMissing",
    cureText: "start it, or correct `prometheus.yaml`",
    async provoke({ prometheus, targets }) {
      prometheus.scrape(targets.filter(({ kind }) => kind !== "indexer"));
      return async () => prometheus.scrape(targets);
    },
  },
  {
    alert: "IndexerWithoutLeader",
    cureText: "start an indexer; look at the logs of the running ones",
    async provoke({ lab }) {
      await lab.service.kill("indexer");
      const held = await lab.sql.reserve();
      await waitFor("the leader's lock to be free", async () => {
        const [row] = await held<{ taken: boolean }[]>`
          select pg_try_advisory_lock(${LEADER_CLASS}, hashtext('base-sepolia')) as taken`;
        return row?.taken;
      });
      await lab.service.start("indexer");
      return async () => {
        await held`select pg_advisory_unlock_all()`;
        held.release();
      };
    },
  },
  {
    alert: "RelayerLow",
    cureText: "send ETH to the address that the alert names",
    async provoke({ lab }) {
      await lab.rpc("anvil_setBalance", [lab.relayer, LOW_WEI]);
      return () => fundEth(lab.chain.rpcUrl, lab.relayer, ETH);
    },
  },
  {
    alert: "SignerFails",
    cureText: "`kind` of `relayer_sign_failures_total` and the worker's log say which",
    async provoke({ lab, signer }) {
      signer.behave(async () => ({ error: { code: -32000, message: "the key is locked" } }));
      const paying = payInBackground(lab);
      return async () => {
        signer.behave(async () => "honest");
        await paying;
      };
    },
  },
  {
    alert: "FeeBudgetNearlySpent",
    cureText: "raise `RELAY_DAILY_FEE_MAX_WEI` if the load is honest",
    async provoke({ lab }) {
      await pay(lab, await newOrder(lab));
      const used = await waitFor("fees to be booked", async () => {
        const [row] = await lab.sql<{ used: bigint }[]>`
          select used from relay_budgets where scope = 'FEES' and used > 0 order by day desc`;
        return row?.used;
      });
      await restartWith(lab, "worker", { RELAY_DAILY_FEE_MAX_WEI: ((used * 11n) / 10n).toString() });
      return () => restartWith(lab, "worker", { RELAY_DAILY_FEE_MAX_WEI: (used * 100n).toString() });
    },
  },
  {
    alert: "JobsFailed",
    cureText: "`select graphile_worker.complete_jobs(array[123])` drops it",
    async provoke({ lab }) {
      await lab.sql`select graphile_worker.add_job('send_receipt_email', '{}'::json, max_attempts => 1)`;
      return () => lab.sql`
        select graphile_worker.complete_jobs(array(
          select id from graphile_worker._private_jobs where attempts >= max_attempts
        ))`;
    },
  },
  {
    alert: "ApiErrors",
    cureText: "`/health` names the component",
    async provoke({ lab }) {
      const node = lab.proxy.fault;
      lab.proxy.fault = () => ({ kind: "status", status: 503 });
      const stop = repeat(() => fetch(`${lab.service.baseUrl}/health/ready`));
      return async () => {
        lab.proxy.fault = node;
        await stop();
      };
    },
  },
  {
    alert: "ApiSlow",
    cureText: "`select pg_cancel_backend(123)` ends a statement that is not the service's own",
    async provoke({ lab }) {
      const stop = repeat(async () => {
        await lab.sql.begin(async (tx) => {
          await tx`lock table users in access exclusive mode`;
          await tx`select pg_sleep(1.5)`;
        });
        await fetch(`${lab.service.baseUrl}/v1/auth/options`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ email: "merchant@example.com" }),
        });
      }, 4);
      return stop;
    },
  },
  {
    alert: "SigningWaits",
    cureText: "as `IndexerLags`",
    async provoke({ lab }) {
      const pid = lab.service.pidOf("indexer");
      process.kill(pid, "SIGSTOP");
      // a foreign transfer in an unread block: only the ledger can tell whom it pays
      await payByHand(lab, 777_777n);
      const paying = Promise.all([payInBackground(lab), payInBackground(lab), payInBackground(lab)]);
      return async () => {
        process.kill(pid, "SIGCONT");
        await paying;
      };
    },
  },
  {
    alert: "PaymentsRefusedByService",
    cureText: "as `PaymentsStuck`",
    async provoke({ lab }) {
      const node = lab.proxy.fault;
      lab.proxy.fault = () => ({ kind: "status", status: 503 });
      const stop = repeat(async () => pay(lab, await newOrder(lab)), 2);
      return async () => {
        lab.proxy.fault = node;
        await stop();
      };
    },
  },
  {
    alert: "NoNodeAnswers",
    cureText: "check the provider; add a URL of a second one",
    async provoke({ lab }) {
      const node = lab.proxy.fault;
      lab.proxy.fault = () => ({ kind: "status", status: 503 });
      return async () => {
        lab.proxy.fault = node;
      };
    },
  },
  {
    alert: "PaymentsStuck",
    cureText: "the node accepts no transactions: change the RPC URL",
    async provoke({ lab }) {
      const node = lab.proxy.fault;
      lab.proxy.fault = (calls) =>
        calls.some(({ method }) => method === "eth_sendRawTransaction")
          ? { kind: "error", code: -32000, message: "the pool is closed" }
          : undefined;
      const before = (await relaysOf(lab)).length;
      const paying = payInBackground(lab);
      await waitFor("a signed relay", async () => (await relaysOf(lab)).length > before);
      return async () => {
        lab.proxy.fault = node;
        await paying;
      };
    },
  },
  ...LEDGER_SCENARIOS,
  ...MACHINE_SCENARIOS,
  {
    alert: "Reorganisation",
    cureText: "compare the providers' block hashes",
    async provoke({ lab, prometheus }) {
      // an increase is seen from a first scrape on
      await waitFor(
        "the counter to be scraped",
        async () => (await prometheus.countSeries("indexer_reorg_blocks_total").catch(() => 0)) > 0,
      );
      await lab.rpc("anvil_mine", ["0x14"]);
      const head = Number(await lab.rpc("eth_blockNumber"));
      await waitFor("the indexer to have read the head", async () => {
        const [row] = await lab.sql<{ number: bigint }[]>`select number from cursors`;
        return Number(row?.number ?? -1) >= head;
      });
      // empty blocks of one second would be the same blocks again
      await lab.rpc("anvil_setCoinbase", [randomAddress()]);
      await lab.rpc("anvil_reorg", [12, []]);
      await lab.rpc("anvil_mine", ["0x2"]);
      return async () => {};
    },
  },
];

/** A payment whose answer does not matter: the payer of the provoked fault. */
async function payInBackground(lab: Lab): Promise<unknown> {
  const order = await newOrder(lab);
  return pay(lab, order).catch(() => undefined);
}

async function restartWith(lab: Lab, name: ProcessName, env: Record<string, string>): Promise<void> {
  Object.assign(lab.env, env);
  await lab.service.restart(name);
}

export function relayerOf(key: `0x${string}`): string {
  return privateKeyToAccount(key).address;
}
