/** The limits of public JSON-RPC providers, each refused in its own words. */
import type { ProviderLimits, Refusal } from "../support/provider-proxy.ts";

/** `runs`: the row is run once for each; `others` are wallets that are not paid. */
export type ProviderRow = {
  readonly title: string;
  readonly limits: ProviderLimits;
  readonly runs: readonly ProviderRun[];
  /** The cap is met on the way. */
  readonly isRefused: boolean;
  /** One of its rule's, for the short matrix; the others differ in words only. */
  readonly isShort: boolean;
};
export type ProviderRun = { readonly others: number; readonly finalized?: "missing" | "null" };

/** More wallets than are requested by their addresses: every block is read whole then. */
const MANY_WALLETS = 1_001;
const SPARSE: ProviderRun = { others: 0 };
/** Without a final block every block is read. */
const WHOLE: ProviderRun = { others: 0, finalized: "missing" };
const WHOLE_MANY: ProviderRun = { others: MANY_WALLETS, finalized: "null" };

const refusal = (code: number, message: string, rest: Omit<Refusal, "code" | "message"> = {}): Refusal => ({
  ...{ code, message, ...rest },
});

/** A cap, how it is refused, and the runs of the short matrix. */
type Cap = readonly [number, Refusal, (readonly ProviderRun[])?];

const BATCHES: readonly Cap[] = [
  [10, refusal(-32014, "maximum 10 calls in 1 batch"), [WHOLE]],
  [10, refusal(-32600, "batch too large", { status: 400 })],
  [10, { message: "Request Entity Too Large", status: 413, form: "text" }],
  [10, { message: "upstream failure", status: 500, form: "text" }, [WHOLE]],
  [10, refusal(-32005, "too many requests in the batch", { form: "each" }), [WHOLE]],
  [3, refusal(31, "Batch of more than 3 requests are not allowed on free tier", { status: 500 })],
  [3, refusal(-32603, "internal error", { form: "each" }), [WHOLE]],
  [1, refusal(-32600, "batch requests are not supported")],
  [1, { message: "expected an object", status: 400, form: "text" }, [WHOLE]],
];

const RANGES: readonly Cap[] = [
  [5, refusal(-32614, "eth_getLogs is limited to a 5 range"), [WHOLE]],
  [
    10,
    refusal(
      -32600,
      "Under the Free tier plan, you can make eth_getLogs requests with up to a 10 block range",
    ),
    [SPARSE],
  ],
  [100, refusal(-32005, "Maximum allowed number of requested blocks is 100")],
  [100, refusal(-32602, "query exceeds max block range 100"), [SPARSE]],
  [500, refusal(-32000, "exceed maximum block range: 500")],
  [500, refusal(-32603, "request failed or timed out"), [SPARSE]],
  [800, refusal(-32000, "block range is too wide")],
  [0, refusal(-32601, "the method eth_getLogs takes a block hash only"), [WHOLE]],
  [1_000, refusal(-32000, "range is too large, max is 1k blocks")],
  [10_000, refusal(-32614, "eth_getLogs is limited to a 10,000 blocks range")],
  [10_000, refusal(-32000, "ranges over 10000 blocks are not supported")],
  [10_000, refusal(-32000, "eth_getLogs is limited to 0 - 10000 blocks range")],
];

const RESULTS: readonly Cap[] = [
  [3, refusal(-32005, "query returned more than 3 results"), [SPARSE]],
  [3, refusal(-32602, "Log response size exceeded"), [WHOLE_MANY]],
  [10, refusal(-32005, "query returned more than 10 results. Try with this block range [0x1, 0x2].")],
  [100, refusal(-32000, "logs matched by query exceeds limit of 100")],
];

/** What is missing, and whether it belongs to the short matrix. */
const LACKING: readonly [string, ProviderLimits, boolean][] = [
  ["no archive of states", { stateBlocks: 32 }, false],
  ["no tag finalized", { finalized: "missing" }, false],
  ["no finalized block", { finalized: "null" }, false],
  ["no receipts by block", { missingMethods: ["eth_getBlockReceipts"] }, true],
  ["a websocket that never announces a block", { socket: "silent" }, true],
  ["429 for every tenth request", { limitedEvery: 10, retryAfterS: 1 }, false],
  ["429 for every fortieth request", { limitedEvery: 40, retryAfterS: 1 }, true],
];

const SMALLEST: ProviderLimits = {
  ...{ batchMax: 3, refuseBatch: refusal(31, "Batch of more than 3 requests"), finalized: "missing" },
  ...{ rangeMax: 5, refuseRange: refusal(-32614, "eth_getLogs is limited to a 5 range") },
  ...{ resultsMax: 3, refuseResults: refusal(-32005, "query returned more than 3 results") },
  ...{ stateBlocks: 32, socket: "silent" },
};

/** Every row: from 1,000 blocks behind. */
export function allRows(): ProviderRow[] {
  return rows((blocks) => blocks, false);
}

/** A row for each rule, over a chain of some 300 blocks: longer ranges are refused there too. */
export function shortRows(): ProviderRow[] {
  return rows((blocks) => Math.min(blocks, 100), true).filter(({ isShort }) => isShort);
}

function rows(shrink: (blocks: number) => number, isBrief: boolean): ProviderRow[] {
  const ofCap = ([cap, , short]: Cap, all: readonly ProviderRun[], isRefused: boolean) => ({
    ...{ runs: isBrief && short ? short : all, isShort: short !== undefined },
    isRefused: isRefused || cap < 100,
  });
  return [
    ...BATCHES.map((cap) => ({
      title: `at most ${cap[0]} calls in a batch: ${JSON.stringify(cap[1])}`,
      limits: { batchMax: cap[0], refuseBatch: cap[1] },
      ...ofCap(cap, [WHOLE], true),
    })),
    ...RANGES.map((cap) => ({
      title: `at most ${cap[0]} blocks in a log query: ${JSON.stringify(cap[1])}`,
      limits: { rangeMax: shrink(cap[0]), refuseRange: cap[1] },
      ...ofCap(cap, [WHOLE, SPARSE], isBrief),
    })),
    ...RESULTS.map((cap) => ({
      title: `at most ${cap[0]} results of a log query: ${JSON.stringify(cap[1])}`,
      limits: { resultsMax: cap[0], refuseResults: cap[1] },
      ...ofCap(cap, [SPARSE, WHOLE_MANY], false),
    })),
    ...LACKING.map(([title, limits, isShort]) => ({
      ...{ title, limits, runs: [SPARSE], isRefused: false, isShort },
    })),
    {
      title: "no receipts by block, and at most 3 results: the receipts of its transactions",
      limits: {
        ...{ missingMethods: ["eth_getBlockReceipts"], resultsMax: 3 },
        refuseResults: refusal(-32005, "query returned more than 3 results"),
      },
      ...{ runs: [SPARSE], isRefused: true, isShort: true },
    },
    {
      title: "every smallest cap at once",
      ...{ limits: SMALLEST, runs: [WHOLE], isRefused: true, isShort: true },
    },
  ];
}
