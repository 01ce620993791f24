/**
 * A node that can stay on the branch that a reorganisation replaces, in front of a real one. Headers, receipts and logs of the newest blocks
 * are those of the old branch; older blocks, transactions and the chain's state are the real node's.
 */
import { fieldOf, toQuantity } from "../../core/rpc/parse-answers.ts";
import { callRpc, callRpcBatch } from "../../local/chain/rpc.ts";
import { type Answer, type Call, postJson } from "./fault-proxy.ts";

export type StaleNode = {
  url: string;
  /** Stays on the present branch, for this share of requests: 1, or less for one of two nodes behind a load balancer. */
  stay: (share: number) => Promise<void>;
  /** Follows the chain again. */
  heal: () => void;
  /** Requests answered from an old branch. */
  staleRequests: () => number;
  stop: () => Promise<void>;
};

type Block = { number: number; hash: string; header: unknown; receipts: unknown[] };
type Branch = { lowest: number; head: number; blocks: readonly Block[] };

/** More than the deepest reorganisation replaces. */
const BLOCKS_KEPT = 40;

export function startStaleNode(nodeUrl: string, random: () => number): StaleNode {
  let branch: Branch | undefined;
  let share = 1;
  let staleRequests = 0;
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 60,
    async fetch(request) {
      if (request.method !== "POST") return new Response("POST only", { status: 405 });
      const given = (await request.json()) as Call | Call[];
      const calls = [given].flat();
      const passed = (await postJson(nodeUrl, calls)) as Answer[];
      const stale = random() < share ? branch : undefined;
      if (stale) staleRequests += 1;
      const answers = calls.map((call) => {
        const answer = passed.find(({ id }) => id === call.id) ?? { id: call.id };
        return stale ? answerFrom(stale, call, answer) : answer;
      });
      return Response.json(Array.isArray(given) ? answers : answers[0]);
    },
  });

  /** `answer`: the real node's. */
  function answerFrom(
    { head, lowest, blocks }: Branch,
    { id, method, params }: Call,
    answer: Answer,
  ): Answer {
    const [asked] = params;
    const findBlock = () =>
      blocks.find(({ number, hash }) => hash === asked || (isNumber(asked) && number === Number(asked)));
    const olderThanBranch = (number: unknown): Answer =>
      number !== undefined && Number(number) < lowest ? answer : { id, result: null };
    switch (method) {
      case "eth_blockNumber":
        return { id, result: toQuantity(head) };
      case "eth_getBlockByNumber":
        if (asked === "latest") return { id, result: blocks.at(-1)?.header };
        if (!isNumber(asked)) return answer;
        return { id, result: findBlock()?.header ?? olderThanBranch(asked).result };
      case "eth_getBlockByHash":
        return {
          id,
          result: findBlock()?.header ?? olderThanBranch(fieldOf(answer.result, "number")).result,
        };
      case "eth_getBlockReceipts": {
        const [first] = Array.isArray(answer.result) ? answer.result : [];
        const number = isNumber(asked) ? asked : fieldOf(first, "blockNumber");
        return { id, result: findBlock()?.receipts ?? olderThanBranch(number).result };
      }
      case "eth_getTransactionReceipt": {
        const receipts = blocks.flatMap((block) => block.receipts);
        const kept = receipts.find((receipt) => fieldOf(receipt, "transactionHash") === asked);
        return { id, result: kept ?? olderThanBranch(fieldOf(answer.result, "blockNumber")).result };
      }
      case "eth_getLogs":
        return getLogs({ lowest, blocks }, asked, answer);
      default:
        return answer;
    }
  }

  function getLogs({ lowest, blocks }: Omit<Branch, "head">, filter: unknown, answer: Answer): Answer {
    const logsOf = (block: Block) =>
      block.receipts
        .flatMap((receipt) => fieldOf(receipt, "logs") as unknown[])
        .filter((log) => isWanted(filter, log));
    const { id } = answer;
    const blockHash = fieldOf(filter, "blockHash");
    if (blockHash !== undefined) {
      const block = blocks.find(({ hash }) => hash === blockHash);
      if (block) return { id, result: logsOf(block) };
      // nodes differ in what they say about a block that they do not have
      return random() < 0.5 ? { id, result: [] } : { id, error: { code: -32000, message: "unknown block" } };
    }
    if (!Array.isArray(answer.result)) return answer;
    const [from, to] = [Number(fieldOf(filter, "fromBlock")), Number(fieldOf(filter, "toBlock"))];
    const older = answer.result.filter((log) => Number(fieldOf(log, "blockNumber")) < lowest);
    const newer = blocks.filter(({ number }) => number >= from && number <= to).flatMap(logsOf);
    return { id, result: [...older, ...newer] };
  }

  return {
    url: `http://127.0.0.1:${server.port}`,
    async stay(given) {
      branch = await readBranch(nodeUrl);
      share = given;
    },
    heal() {
      branch = undefined;
    },
    staleRequests: () => staleRequests,
    stop: () => server.stop(true),
  };
}

async function readBranch(nodeUrl: string): Promise<Branch> {
  const head = Number(await callRpc(nodeUrl, "eth_blockNumber"));
  const lowest = Math.max(0, head - BLOCKS_KEPT + 1);
  const numbers = Array.from({ length: head - lowest + 1 }, (_, index) => lowest + index);
  const answers = await callRpcBatch(
    nodeUrl,
    numbers.flatMap((number) => [
      { method: "eth_getBlockByNumber", params: [toQuantity(number), false] },
      { method: "eth_getBlockReceipts", params: [toQuantity(number)] },
    ]),
  );
  const blocks = numbers.map((number, index) => {
    const header = answers[2 * index];
    const hash = String(fieldOf(header, "hash"));
    return { number, hash, header, receipts: answers[2 * index + 1] as unknown[] };
  });
  return { lowest, head, blocks };
}

/** No tag and no hash. */
function isNumber(value: unknown): boolean {
  return typeof value === "string" && /^0x[0-9a-f]{1,16}$/i.test(value);
}

function isWanted(filter: unknown, log: unknown): boolean {
  const addresses = [fieldOf(filter, "address") ?? []].flat().map((address) => String(address).toLowerCase());
  if (addresses.length > 0 && !addresses.includes(String(fieldOf(log, "address")).toLowerCase()))
    return false;
  const topics = fieldOf(log, "topics") as readonly string[];
  const wanted = (fieldOf(filter, "topics") ?? []) as readonly (string | string[] | null)[];
  return wanted.every((values, place) => values === null || [values].flat().includes(topics[place] ?? ""));
}
