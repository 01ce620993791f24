/**
 * The RPC pool of one network: several nodes, tried in order of health, with one promise to callers.
 * RpcResponseError is the chain's answer; RpcTransportError means there was no verdict, whatever the method was.
 */
import { type Hex, NETWORKS, type Network, type NetworkId } from "../domain/networks.ts";
import { WALLET_FACTORIES } from "../domain/wallet-factories.ts";
import { RpcTransportError } from "./errors.ts";
import { type Announcement, listenForHeads } from "./new-heads.ts";
import { listenForLogs, type SubscribedLogs } from "./new-logs.ts";
import { type ChainNode, openNode, type RpcCall, type RpcOutcome } from "./node.ts";
import { byHealth, noteFailure } from "./node-health.ts";
import { parseQuantity } from "./parse-answers.ts";
import { exchange, exchangeAll } from "./send-batches.ts";
import type { SubscriptionSocket } from "./subscription-socket.ts";

export type Chain = {
  readonly network: Network;
  /** Factories whose deployments a payer's signature may include (ERC-6492). Lower case. */
  readonly walletFactories: readonly Hex[];
  /** In the order of the URLs given. */
  readonly nodes: readonly ChainNode[];
  /** The result of one call, from the healthiest node that responds. */
  readonly request: (method: string, params: readonly unknown[]) => Promise<unknown>;
  /**
   * All from one node, in as many HTTP batches as it requires; outcomes in the order of the calls. Throws when no node responded.
   */
  readonly batch: (calls: readonly RpcCall[]) => Promise<RpcOutcome[]>;
  /**
   * The same one after the other. `together`: how many of the first calls one HTTP request carried, so that one state of the node answered
   * them. `askedAtMs`: when the node that answered was asked, by `performance.now()`. If `check` throws for unusable outcomes, the
   * next node is tried.
   */
  readonly batchInOrder: (
    calls: readonly RpcCall[],
    check?: (outcomes: readonly RpcOutcome[]) => void,
  ) => Promise<{ outcomes: RpcOutcome[]; together: number; askedAtMs: number }>;
  /** Several requests to one node: the healthiest that answers all of them. */
  readonly withNode: <T>(attempt: (node: ChainNode) => Promise<T>) => Promise<T>;
  /** The same from this node only, without a second attempt: for second opinions. */
  readonly requestOn: (node: ChainNode, method: string, params: readonly unknown[]) => Promise<unknown>;
  /** `inOrder`: one HTTP batch after the other, for large answers. */
  readonly batchOn: (
    node: ChainNode,
    calls: readonly RpcCall[],
    options?: { inOrder: boolean },
  ) => Promise<RpcOutcome[]>;
  /** Every node, best first, as a call made now would try them. */
  readonly nodesByHealth: () => ChainNode[];
  /** Asks every node for its head, for the order above and for /health. Never throws. */
  readonly refreshHeads: () => Promise<void>;
  /** Announcements of new blocks over WebSocket: may be missing or duplicated. Returns a function that stops them. */
  readonly onNewHead: (announce: (announcement: Announcement) => void) => () => void;
  /** Announcements that a log of these filters was written: equally unreliable; their contents are not used. */
  readonly onNewLogs: (
    filters: readonly SubscribedLogs[],
    announce: (blockNumber: number) => void,
  ) => SubscriptionSocket;
  readonly close: () => void;
};

export type ChainOptions = {
  readonly network: NetworkId;
  readonly urls: readonly string[];
  /** Timeout of one HTTP exchange. After twice this, a call starts no more attempts. */
  readonly timeoutMs: number;
  /** Default: WALLET_FACTORIES. */
  readonly walletFactories?: readonly Hex[];
  /** Called once for a node that serves another chain, and again only after it has served the right one. */
  readonly onWrongChain?: (message: string) => void;
};

const ATTEMPTS_MAX = 3;
const BATCH_CALLS_MAX = 1000;
const RETRY_PAUSE_MS = 50;

/** Opens a pool. No request is made before the first call; every node's chain id is verified before it is trusted. */
export function openChain({
  network: networkId,
  urls,
  timeoutMs,
  walletFactories = WALLET_FACTORIES,
  onWrongChain,
}: ChainOptions): Chain {
  const network = NETWORKS[networkId];
  if (urls.length === 0) throw new RangeError(`${networkId} needs at least one RPC URL`);
  const nodes = urls.map((url, index) => openNode(url, network, index));
  const closers = new Set<() => void>();
  let isClosed = false;

  async function ask(
    node: ChainNode,
    calls: readonly RpcCall[],
    { inOrder = false } = {},
  ): Promise<RpcOutcome[][]> {
    if (calls.length > BATCH_CALLS_MAX) {
      throw new RangeError(`a batch has ${calls.length} calls, at most ${BATCH_CALLS_MAX} are sent`);
    }
    if (isClosed) throw new RpcTransportError("closed", `the RPC pool of ${networkId} is closed`);
    const restMs = Math.ceil(node.health.restUntilMs - performance.now());
    if (restMs > 0) {
      const message = `${node.label} asked for no requests during the next ${restMs} ms`;
      throw new RpcTransportError("rate-limit", message, { retryAfterMs: restMs });
    }
    await proveChainId(node, { chainId: network.chainId, timeoutMs, onWrongChain });
    return exchangeAll(node, calls, { timeoutMs, inOrder });
  }

  const batchOn: Chain["batchOn"] = async (node, calls, options) => (await ask(node, calls, options)).flat();

  function withNode<T>(attempt: (node: ChainNode) => Promise<T>): Promise<T> {
    probeFailing(nodes, (node) => {
      node.health.chainIdProof = undefined;
      return ask(node, []);
    });
    return withFailover(nodes, timeoutMs, attempt);
  }

  const batch = (calls: readonly RpcCall[]) => withNode((node) => batchOn(node, calls));

  return {
    network,
    walletFactories,
    nodes,
    request: async (method, params) => resultOf(await batch([{ method, params }])),
    batch,
    async batchInOrder(calls, check) {
      return withNode(async (node) => {
        const askedAtMs = performance.now();
        const batches = await ask(node, calls, { inOrder: true });
        const outcomes = batches.flat();
        check?.(outcomes);
        return { outcomes, together: batches[0]?.length ?? 0, askedAtMs };
      });
    },
    withNode,
    requestOn: async (node, method, params) => resultOf(await batchOn(node, [{ method, params }])),
    batchOn,
    nodesByHealth: () => byHealth(nodes, performance.now()),
    async refreshHeads() {
      await Promise.allSettled(
        nodes.map((node) => batchOn(node, [{ method: "eth_blockNumber", params: [] }])),
      );
    },
    onNewHead(announce) {
      const stop = listenForHeads(nodes, announce);
      closers.add(stop);
      return () => {
        closers.delete(stop);
        stop();
      };
    },
    onNewLogs(filters, announce) {
      const socket = listenForLogs(nodes, filters, announce);
      closers.add(socket.stop);
      const stop = () => {
        closers.delete(socket.stop);
        socket.stop();
      };
      return { isLive: socket.isLive, stop };
    },
    close() {
      isClosed = true;
      for (const stop of closers) stop();
      closers.clear();
    },
  };
}

/** Best node first, then the others, then again after a pause: at most ATTEMPTS_MAX exchanges. Answers end it at once. */
async function withFailover<T>(
  nodes: readonly ChainNode[],
  timeoutMs: number,
  attempt: (node: ChainNode) => Promise<T>,
): Promise<T> {
  const deadlineMs = performance.now() + timeoutMs * 2;
  const tried = new Set<ChainNode>();
  let lastError = new RpcTransportError("closed", "no node was asked");
  for (let attempts = 0; attempts < ATTEMPTS_MAX; attempts++) {
    const { node, waitMs } = nextNode(nodes, tried, performance.now());
    if (!node || performance.now() + waitMs >= deadlineMs) {
      const message = `every node asked for no requests during the next ${waitMs} ms`;
      lastError = new RpcTransportError("rate-limit", message, { retryAfterMs: waitMs });
      break;
    }
    // a timer may fire a little early
    if (waitMs > 0) await Bun.sleep(waitMs + 1);
    tried.add(node);
    try {
      return await attempt(node);
    } catch (error) {
      if (!(error instanceof RpcTransportError)) throw error;
      lastError = error;
      // whoever gives it, an answer has the same size
      if (error.kind === "closed" || error.kind === "too-large" || performance.now() >= deadlineMs) break;
    }
  }
  throw lastError;
}

/** The next node to try and how long to wait before: nodes that are not resting first, untried before tried. */
function nextNode(
  nodes: readonly ChainNode[],
  tried: ReadonlySet<ChainNode>,
  nowMs: number,
): { node: ChainNode | undefined; waitMs: number } {
  const rested = byHealth(nodes, nowMs).filter(({ health }) => health.restUntilMs <= nowMs);
  const untried = rested.find((node) => !tried.has(node));
  if (untried) return { node: untried, waitMs: 0 };
  const again = rested[0];
  if (again) return { node: again, waitMs: RETRY_PAUSE_MS * (0.5 + Math.random()) };
  const soonest = nodes.toSorted((a, b) => a.health.restUntilMs - b.health.restUntilMs)[0];
  return { node: soonest, waitMs: soonest ? Math.ceil(soonest.health.restUntilMs - nowMs) : 0 };
}

/** Failing nodes are probed in the background, so that no caller waits for their recovery. */
function probeFailing(nodes: readonly ChainNode[], probe: (node: ChainNode) => Promise<unknown>): void {
  if (nodes.length < 2) return;
  const nowMs = performance.now();
  for (const node of nodes) {
    const isDue = node.health.errorsInARow > 0 && node.health.probeAtMs <= nowMs;
    if (!isDue || node.health.restUntilMs > nowMs || node.health.isProbing) continue;
    node.health.isProbing = true;
    // The outcome is noted in the node's health, which is all a probe is for.
    probe(node)
      .catch(() => undefined)
      .finally(() => {
        node.health.isProbing = false;
      });
  }
}

/** EIP-155 id of the node, asked once a connection. A node of another chain is never trusted. */
function proveChainId(
  node: ChainNode,
  {
    chainId,
    timeoutMs,
    onWrongChain,
  }: { chainId: number; timeoutMs: number; onWrongChain: ChainOptions["onWrongChain"] },
): Promise<void> {
  node.health.chainIdProof ??= (async () => {
    const outcomes = await exchange(node, [{ method: "eth_chainId", params: [] }], timeoutMs);
    const answered = parseQuantity(resultOf(outcomes), `eth_chainId on ${node.label}`);
    const wasWrong = node.health.servesWrongChain;
    node.health.servesWrongChain = answered !== BigInt(chainId);
    if (!node.health.servesWrongChain) return;
    const message = `${node.label} serves chain ${answered}, expected ${chainId}`;
    if (!wasWrong) onWrongChain?.(message);
    const error = new RpcTransportError("wrong-chain", message);
    noteFailure(node.health, error, performance.now());
    throw error;
  })();
  const proof = node.health.chainIdProof;
  proof.catch(() => {
    if (node.health.chainIdProof === proof) node.health.chainIdProof = undefined;
  });
  return proof;
}

function resultOf(outcomes: readonly RpcOutcome[]): unknown {
  const first = outcomes[0];
  if (first?.ok) return first.result;
  throw first?.error ?? new RpcTransportError("malformed", "a node answered nothing");
}
