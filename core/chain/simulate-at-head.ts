/**
 * A simulation of payments with everything that decides about signing them, asked of one node, in one batch where it takes one: the head it stands on,
 * whether other authorizations are used, and which transfers came to the payees in its newest blocks.
 */
import type { Hex } from "../domain/networks.ts";
import { CONTRACTS } from "../domain/networks.ts";
import type { Chain } from "../rpc/chain-client.ts";
import { RpcTransportError } from "../rpc/errors.ts";
import type { RpcCall, RpcOutcome } from "../rpc/node.ts";
import { fieldOf, parseData, parseQuantity, toQuantity } from "../rpc/parse-answers.ts";
import { hexWord } from "./abi-words.ts";
import { codeSizesCall, readHaveCode } from "./accounts-with-code.ts";
import { decodeAggregate3, encodeAggregate3 } from "./multicall.ts";
import { prepareSimulation, type RelayItem, type SimulationResult } from "./relay.ts";
import { decodeTransferLog, encodeAuthorizationState, TRANSFER_TOPIC } from "./usdc.ts";

export type AuthorizationKey = { readonly authorizer: Hex; readonly nonce: Hex };
export type SeenTransfer = {
  readonly txHash: Hex;
  readonly from: Hex;
  readonly to: Hex;
  readonly amountUnits: bigint;
};

export type Questions = {
  /** Authorizations to check for use, including by pending transactions. */
  readonly authorizations: readonly AuthorizationKey[];
  /** Transfers to these payees after this block are requested, and that block's hash. */
  readonly unread: { readonly afterNumber: bigint; readonly payees: readonly Hex[] } | undefined;
};

export type HeadSimulation = {
  /** In the order of the items; without meaning for any of them when a payer who should have none has code, which may use up the gas of others. */
  readonly results: readonly SimulationResult[];
  /** Whether a payer has code, in the order of the items; none of a contract's. */
  readonly haveCode: readonly boolean[];
  readonly headNumber: bigint;
  readonly headHash: Hex;
  /** When the node that gave this head was asked, by `performance.now()`. */
  readonly askedAtMs: number;
  /** In the order of the requested authorizations. */
  readonly areUsed: readonly boolean[];
  /** With the hash of the block that they follow. Undefined when not requested, or when the node's answer is unreliable. */
  readonly unread: { readonly afterHash: Hex; readonly transfers: readonly SeenTransfer[] } | undefined;
};

/** Throws RpcTransportError when the chain gave no verdict. A node that can't list logs leaves `unread` undefined. */
export async function simulateAtHead(
  chain: Chain,
  relayer: Hex,
  items: readonly RelayItem[],
  { authorizations, unread }: Questions,
): Promise<HeadSimulation> {
  const simulation = prepareSimulation(chain.network, relayer, items);
  const keyed = items.flatMap(({ isContract, authorization }) => (isContract ? [] : [authorization.from]));
  // the head comes first: what the others see is as new or newer. Only in one request is it the same node's state for certain: behind a
  // balancer another one may lack the logs of blocks up to that head, so they count for nothing when the node takes no batch of this size.
  // They follow a block that must be the ledger's own: heights agree across a reorganisation that the ledger has not read.
  // Which payers have code may be said by another state: it comes last, and some providers take three calls at a time
  const ofOneState = [
    blockCall("latest"),
    simulation.call,
    ...(authorizations.length > 0 ? [statesCall(chain, authorizations)] : []),
    ...(unread ? [transfersCall(chain, unread), blockCall(toQuantity(unread.afterNumber))] : []),
  ];
  const needed = authorizations.length > 0 ? 3 : 2;
  const { outcomes, together, askedAtMs } = await chain.batchInOrder(
    [...ofOneState, ...(keyed.length > 0 ? [codeSizesCall(keyed)] : [])],
    (given) => assertVerdicts(given.slice(0, needed)),
  );
  const [head, simulated, ...others] = outcomes;
  const areUsed = authorizations.length > 0 ? readStates(others.shift(), authorizations.length) : [];
  const transfers = unread && readTransfers(others.shift());
  const after = unread && readBlock(others.shift());
  const haveCode = keyed.length > 0 ? await readHaveCode(chain, keyed, others.shift()) : [];
  const results = haveCode.includes(true) ? [] : simulation.read(simulated);
  if (!results) return simulateHalves(chain, relayer, items, authorizations);
  return {
    results,
    haveCode,
    ...readHead(head),
    askedAtMs,
    areUsed,
    unread:
      together >= ofOneState.length && transfers && after ? { afterHash: after.hash, transfers } : undefined,
  };
}

/** A node may follow the chain and lack its state, or run no calls for us now. */
function assertVerdicts(outcomes: readonly RpcOutcome[]): void {
  readHead(outcomes[0]);
  for (const outcome of outcomes)
    if (!outcome.ok && outcome.error instanceof RpcTransportError) throw outcome.error;
}

function blockCall(number: string): RpcCall {
  return { method: "eth_getBlockByNumber", params: [number, false] };
}

function readHead(outcome: RpcOutcome | undefined): Pick<HeadSimulation, "headNumber" | "headHash"> {
  const head = readBlock({ ok: true, result: resultOf(outcome, "the head") });
  if (!head) throw new RpcTransportError("malformed", "a node has no latest block");
  return { headNumber: head.number, headHash: head.hash };
}

/** Undefined when the node does not know the block. */
function readBlock(outcome: RpcOutcome | undefined): { number: bigint; hash: Hex } | undefined {
  if (!outcome?.ok || outcome.result === null) return undefined;
  const { result } = outcome;
  const number = parseQuantity(fieldOf(result, "number"), "block number");
  return { number, hash: parseData(fieldOf(result, "hash"), "block hash", 32) };
}

/** Each half has a head of its own; the higher one counts for both. */
async function simulateHalves(
  chain: Chain,
  relayer: Hex,
  items: readonly RelayItem[],
  authorizations: readonly AuthorizationKey[],
): Promise<HeadSimulation> {
  const middle = Math.ceil(items.length / 2);
  const questions = { authorizations, unread: undefined };
  const first = await simulateAtHead(chain, relayer, items.slice(0, middle), questions);
  const second = await simulateAtHead(chain, relayer, items.slice(middle), questions);
  return {
    results: [...first.results, ...second.results],
    haveCode: [...first.haveCode, ...second.haveCode],
    ...placeOf(first.headNumber > second.headNumber ? first : second),
    areUsed: first.areUsed.map((isUsed, index) => isUsed || second.areUsed[index] === true),
    unread: undefined,
  };
}

function placeOf({ headNumber, headHash, askedAtMs }: HeadSimulation) {
  return { headNumber, headHash, askedAtMs };
}

function statesCall(chain: Chain, authorizations: readonly AuthorizationKey[]): RpcCall {
  const to = chain.network.usdc.address;
  const data = encodeAggregate3(authorizations.map((key) => ({ to, data: encodeAuthorizationState(key) })));
  return { method: "eth_call", params: [{ to: CONTRACTS.multicall3, data }, "pending"] };
}

function readStates(outcome: RpcOutcome | undefined, count: number): boolean[] {
  const answers = decodeAggregate3(resultOf(outcome, "authorizationState"), count);
  return answers.map(({ success, data }) => {
    if (!success) throw new RpcTransportError("malformed", "authorizationState was not answered");
    return parseQuantity(data, "authorizationState") !== 0n;
  });
}

function transfersCall(chain: Chain, unread: NonNullable<Questions["unread"]>): RpcCall {
  const payees = [...new Set(unread.payees)].map((payee) => `0x${hexWord(payee)}`);
  const query = {
    fromBlock: toQuantity(unread.afterNumber + 1n),
    toBlock: "latest",
    address: chain.network.usdc.address,
    topics: [TRANSFER_TOPIC, null, payees],
  };
  return { method: "eth_getLogs", params: [query] };
}

function readTransfers(outcome: RpcOutcome | undefined): SeenTransfer[] | undefined {
  if (!outcome?.ok || !Array.isArray(outcome.result)) return undefined;
  const transfers: SeenTransfer[] = [];
  for (const log of outcome.result as unknown[]) {
    const transfer = readTransfer(log);
    if (!transfer) return undefined;
    transfers.push(transfer);
  }
  return transfers;
}

function readTransfer(log: unknown): SeenTransfer | undefined {
  const [topics, data, txHash] = [
    fieldOf(log, "topics"),
    fieldOf(log, "data"),
    fieldOf(log, "transactionHash"),
  ];
  const isWhole =
    Array.isArray(topics) &&
    typeof data === "string" &&
    typeof txHash === "string" &&
    fieldOf(log, "removed") !== true;
  const transfer = isWhole ? decodeTransferLog({ topics, data }) : undefined;
  return transfer && { ...transfer, txHash: String(txHash).toLowerCase() as Hex };
}

function resultOf(outcome: RpcOutcome | undefined, what: string): unknown {
  if (outcome?.ok) return outcome.result;
  if (outcome && outcome.error instanceof RpcTransportError) throw outcome.error;
  throw new RpcTransportError("malformed", `${what} was not answered`);
}
