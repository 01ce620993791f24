/** `bun run bench NAME [argument]`: measures and prints, never judges. Without a name it lists the benches. */
import { describeMachine } from "./report.ts";

const BENCHES: Record<string, { about: string; run: () => Promise<void> }> = {
  pay: {
    about:
      "x402 payments through HTTP beside the tuned reference facilitator: CPU a payment, rate, latency (rounds: 3; pay --sustained 64 10: one service from its start)",
    run: async () => (await import("./pay.ts")).run(),
  },
  page: {
    about:
      "the payment page: server CPU, bytes, time to the button that works on a slow phone, signature to paid",
    run: async () => (await import("./page.ts")).run(),
  },
  send: {
    about: "sends out of passkey wallets: gas, CPU and time, alone, together and as a payout",
    run: async () => (await import("./send.ts")).run(),
  },
  verify: {
    about: "signature verifications per second: ours beside noble and viem",
    run: async () => (await import("./verify.ts")).run(),
  },
  api: {
    about: "requests per second of a public and a signed-in route, beside a bare Elysia",
    run: async () => (await import("./api.ts")).run(),
  },
  index: {
    about:
      "the indexer beside Ponder: backfill, block to PAID, what more wallets cost (index backfill, index latency: that alone; index store: Postgres' CPU for a transfer read in bulk)",
    run: async () =>
      process.argv[3] === "store"
        ? (await import("./index-store.ts")).run()
        : (await import("./follow.ts")).run(),
  },
  rpc: {
    about: "calls and compute units an hour at a provider: idle, with an open link, busy, 10,000 wallets",
    run: async () => (await import("./rpc.ts")).run(),
  },
  list: {
    about: "the transactions list through HTTP, at growing sizes",
    run: async () => (await import("./list.ts")).run(),
  },
  reconcile: {
    about:
      "comparing one wallet of many transfers with the chain (10,000 and 1,000,000, or as named: 10000000)",
    run: async () => (await import("./reconcile.ts")).run(),
  },
  export: {
    about:
      "exports of 10,000 rows in every format; --beside 7 json,csv: their effect on other requests alone",
    run: async () => (await import("./export.ts")).run(),
  },
  statement: {
    about: "statements of a wallet with 1,000,000 movements, or as many as named",
    run: async () => (await import("./statement.ts")).run(),
  },
  dashboard: {
    about:
      "the dashboard at 10,000 transactions: script of a page change, memory over 500, another device's change to the screen",
    run: async () => (await import("./dashboard.ts")).run(),
  },
  growth: {
    about:
      "bytes of disk and log a payment leaves, by table, and the share of HOT updates (50,000 payments, or as many as named)",
    run: async () => (await import("./growth.ts")).run(),
  },
};

const name = process.argv[2];
const bench = name === undefined ? undefined : BENCHES[name];
if (!bench) {
  console.log(`usage: bun run bench NAME   (here: ${describeMachine()})\n`);
  for (const [key, { about }] of Object.entries(BENCHES)) console.log(`  ${key.padEnd(8)} ${about}`);
  process.exit(name === undefined ? 0 : 1);
}
// commits reach the disk, as in production
process.env.TEST_POSTGRES_DURABLE ??= "1";
await bench.run();
process.exit(0);
