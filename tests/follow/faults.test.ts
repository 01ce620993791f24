import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { roundsOf } from "../support/depth.ts";
import { type FaultProxy, type Faults, startFaultProxy } from "../support/fault-proxy.ts";
import {
  type Lab,
  mine,
  openLab,
  type RunningIndexer,
  settled,
  startIndexer,
} from "../support/indexer-lab.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { assertAllPaid, makeTraffic, openTraffic, runFaultCampaign, type Traffic } from "./campaign.ts";

setDefaultTimeout(300_000);
const random = seededRandom("faults");
/** A long chain is a command: `bun tests/follow/campaign.ts`. */
/** Shorter than a node hangs. */
const RPC_TIMEOUT_MS = 1_000;
const CAMPAIGN_BLOCKS = 200;
const ROUNDS = roundsOf({ few: 3, many: 6 });

let lab: Lab;
let traffic: Traffic;
beforeAll(async () => {
  lab = await openLab();
  traffic = await openTraffic(lab, random);
});
afterAll(() => lab.stop());

const KINDS: Record<string, Faults> = {
  "a lagging head": { lagBlocks: 3, lagging: 1 },
  "flapping heads behind a balancer": { lagBlocks: 3, lagging: 0.5 },
  "flapping heads that answer [] for blocks they do not have": {
    ...{ lagBlocks: 3, lagging: 0.5, laggingIsSilent: true },
  },
  "emptied logs": { emptiedLogs: 0.3 },
  "truncated logs": { truncatedLogs: 0.3 },
  "duplicated logs": { duplicatedLogs: 0.5 },
  "headers without their bloom": { blankBlooms: 0.5 },
  "429, 500 and broken bodies": { rateLimited: 0.1, failing: 0.1, brokenJson: 0.1 },
  "hanging requests": { hanging: 0.05, hangMs: 1_500 },
  "cut connections": { reset: 0.2 },
  "a node that is of another chain now and then": { wrongChain: 0.5, failing: 0.2 },
};

describe.each(Object.keys(KINDS))("%s", (name) => {
  let proxy: FaultProxy;
  let indexer: RunningIndexer;
  beforeAll(async () => {
    proxy = await startFaultProxy(lab.chain.rpcUrl, { random });
    indexer = startIndexer(lab, { urls: [proxy.url], rpcTimeoutMs: RPC_TIMEOUT_MS });
    await settled(lab);
    proxy.set(KINDS[name] ?? {});
  });
  afterAll(async () => {
    await indexer.stop();
    await proxy.stop();
  });

  test("misses nothing and counts nothing twice", async () => {
    const links: string[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      links.push(...(await makeTraffic(traffic)));
      await Bun.sleep(random() * 20);
    }
    // a lagging node reports the last blocks only when further ones come
    await mine(lab, 4);
    await Bun.sleep(200);
    proxy.heal();
    await settled(lab);
    await assertAllPaid(lab, links);
  });
});

/** Wallets above this number make the bloom useless: logs are asked for and proven only when they touch a wallet. */
const MANY_WALLETS = 6_000;

test.each([0, MANY_WALLETS])(
  "two nodes with every fault at once, %d other wallets: 0 missed, 0 duplicated",
  async (wallets) => {
    const report = await runFaultCampaign({ blocks: CAMPAIGN_BLOCKS, wallets, random });
    console.log(JSON.stringify(report));
    expect(report.links).toBeGreaterThanOrEqual(5);
  },
);
