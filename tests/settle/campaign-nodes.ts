/** The nodes that the ledger campaign's indexers read: the chain's own one, or two that fail, lie and stay on replaced branches. */
import { drawFaults, type FaultProxy, type Faults, startFaultProxy } from "../support/fault-proxy.ts";
import { drawOne } from "../support/seeded-random.ts";
import { type StaleNode, startStaleNode } from "../support/stale-node.ts";

/** `faulty`: they lag, fail and lose logs. `stale`: they stay on branches that were replaced, and lie about what blocks hold. */
export const NODE_MODES = ["honest", "faulty", "stale"] as const;
export type NodeMode = (typeof NODE_MODES)[number];

type CampaignNode = { branch: StaleNode; proxy: FaultProxy };

export type CampaignNodes = {
  mode: NodeMode;
  /** What an indexer is given. */
  urls: readonly string[];
  nodes: readonly CampaignNode[];
  random: () => number;
};

const NODES = 2;
const LIES = 0.5;
/** Of the reorganisations, how many a node misses, and for which part of its requests. */
const MISSED = 0.7;
const STALE_SHARES = [1, 0.5, 0.2] as const;

export async function openNodes(
  rpcUrl: string,
  { mode, random }: { mode: NodeMode; random: () => number },
): Promise<CampaignNodes> {
  const nodes: CampaignNode[] = [];
  while (mode !== "honest" && nodes.length < NODES) {
    const branch = startStaleNode(rpcUrl, random);
    nodes.push({ branch, proxy: await startFaultProxy(branch.url, { random }) });
  }
  const urls = mode === "honest" ? [rpcUrl] : nodes.map(({ proxy }) => proxy.url);
  return { mode, urls, nodes, random };
}

export async function closeNodes({ nodes }: CampaignNodes): Promise<void> {
  for (const { branch, proxy } of nodes) {
    await proxy.stop();
    await branch.stop();
  }
}

/** One node gets other faults than it had. */
export function spoilAnyNode({ mode, nodes, random }: CampaignNodes): void {
  if (nodes.length === 0) return;
  drawOne(random, nodes).proxy.set(mode === "stale" ? drawLies(random) : drawFaults(random));
}

function drawLies(random: () => number): Faults {
  const some = () => (random() < LIES ? LIES : 0);
  return { blankBlooms: some(), foreignReceipts: some(), removedLogs: some(), foreignLogs: some() };
}

export function healAnyNode({ nodes, random }: CampaignNodes): void {
  if (nodes.length > 0) heal(drawOne(random, nodes));
}

export function healNodes({ nodes }: CampaignNodes): void {
  for (const node of nodes) heal(node);
}

function heal({ branch, proxy }: CampaignNode): void {
  branch.heal();
  proxy.heal();
}

/** Before a reorganisation: a node may miss it. */
export async function maybeStayBehind({ mode, nodes, random }: CampaignNodes): Promise<void> {
  if (mode !== "stale" || random() >= MISSED) return;
  await drawOne(random, nodes).branch.stay(drawOne(random, STALE_SHARES));
}

/** How often the nodes failed or lied, by fault. */
export function countFaults({ nodes }: CampaignNodes): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { branch, proxy } of nodes)
    for (const [fault, count] of Object.entries({ ...proxy.counts(), stale: branch.staleRequests() }))
      counts[fault] = (counts[fault] ?? 0) + count;
  return counts;
}
