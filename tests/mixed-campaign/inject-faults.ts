/** The faults of the mixed campaign: reorganisations, processes killed and frozen, nodes that lag, lie and fail. Several last at the same time. */
import { drawFaults } from "../support/fault-proxy.ts";
import { freeze } from "../support/freeze.ts";
import { drawOne, drawWeighted } from "../support/seeded-random.ts";
import type { ProcessName } from "../support/world.ts";
import type { CampaignChain } from "./campaign-chain.ts";
import { reorganiseChain, resendDropped } from "./reorganise.ts";
import { count, PROCESSES, type Stage } from "./stage.ts";

type Fault = "reorganisation" | "resend" | "kill" | "freeze" | "node";

const FAULTS: readonly (readonly [weight: number, Fault])[] = [
  [40, "reorganisation"],
  [10, "resend"],
  [18, "kill"],
  [17, "freeze"],
  [15, "node"],
];
const PAUSE_MIN_MS = 200;
const PAUSE_SPAN_MS = 900;
const RESENT_SHARE = 0.5;
const KILLED_MAX_MS = 1_500;
/** A short freeze is shorter than a lease; a long one outlasts it and the clients' timeout, and another process takes over. */
const SHORT_FREEZE_MAX_MS = 3_000;
const LONG_FREEZE_MIN_MS = 12_500;
const LONG_FREEZE_SPAN_MS = 4_000;
const LONG_FREEZE_SHARE = 0.3;
/** Processes that are down or frozen when a further one is frozen. */
const DOWN_MAX = 3;
const HEALED_NODE_SHARE = 0.3;

/** One fault after another until `mayGoOn` says no; then ends all of them. Returns how many there were. */
export async function injectFaultsWhile(stage: Stage, mayGoOn: () => boolean): Promise<number> {
  const down = new Set<ProcessName>();
  const outages: Promise<void>[] = [];
  let struck = 0;
  const begin = (name: ProcessName, outage: () => Promise<void>) => {
    down.add(name);
    const done = outage()
      .catch((error: unknown) => {
        stage.unexpected.push(`outage of ${name}: ${error}`);
      })
      .finally(() => down.delete(name));
    outages.push(done);
  };
  const inject = async (fault: Fault): Promise<boolean> => {
    const chain = drawOne(stage.random, stage.chains);
    if (fault === "reorganisation") return reorganiseChain(stage, chain);
    if (fault === "node") return changeNode(stage, chain);
    if (fault === "resend") {
      await resendDropped(stage, chain, RESENT_SHARE);
      return false;
    }
    const name = drawOne(stage.random, PROCESSES);
    if (down.has(name) || (fault === "freeze" && down.size > DOWN_MAX)) return false;
    begin(name, () => (fault === "kill" ? killFor(stage, name) : freezeFor(stage, name)));
    return true;
  };
  while (mayGoOn()) {
    await Bun.sleep(PAUSE_MIN_MS + stage.random() * PAUSE_SPAN_MS);
    const fault = drawWeighted(stage.random, FAULTS);
    const isInjected = await inject(fault).catch((error: unknown) => {
      stage.unexpected.push(`${fault}: ${error}`);
      return false;
    });
    if (isInjected) struck += 1;
  }
  await Promise.all(outages);
  for (const { proxies } of stage.chains) for (const proxy of proxies) proxy.heal();
  return struck;
}

async function killFor(stage: Stage, name: ProcessName): Promise<void> {
  await stage.service.kill(name, "SIGKILL");
  count(stage, `killed ${name}`);
  await Bun.sleep(stage.random() * KILLED_MAX_MS);
  await stage.service.start(name);
}

async function freezeFor(stage: Stage, name: ProcessName): Promise<void> {
  const { random, service } = stage;
  const pid = service.pidOf(name);
  const isLong = random() < LONG_FREEZE_SHARE;
  const frozenMs = isLong
    ? LONG_FREEZE_MIN_MS + random() * LONG_FREEZE_SPAN_MS
    : random() * SHORT_FREEZE_MAX_MS;
  try {
    await freeze(pid);
    count(stage, `froze ${name}`);
    await Bun.sleep(frozenMs);
  } finally {
    process.kill(pid, "SIGCONT");
  }
}

/** Other faults for one of the service's nodes, or none. */
function changeNode(stage: Stage, { proxies }: CampaignChain): boolean {
  const proxy = drawOne(stage.random, proxies);
  if (stage.random() < HEALED_NODE_SHARE) proxy.heal();
  else proxy.set(drawFaults(stage.random));
  count(stage, "node's faults changed");
  return true;
}
