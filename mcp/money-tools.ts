/** Tools about the history: list, sum up, export. All read only. */
import type { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { z } from "zod";
import { compactTransaction } from "./compact-answers.ts";
import type { McpOptions } from "./options.ts";
import { answering, answerWith, reading } from "./tool-result.ts";

const NETWORKS = ["base", "base-sepolia"] as const;
const LISTED_DEFAULT = 20;
const LISTED_MAX = 100;
/** A file of at most this many characters is returned as text; longer ones are downloaded. */
const INLINE_MAX_CHARS = 60_000;
const INLINE_MAX_BYTES = 4 * INLINE_MAX_CHARS;
const EXPORT_WAIT_MS = 45_000;

/** An empty list is refused: the service would read it as no filter, and sum up everything. */
const filters = {
  types: z
    .array(z.enum(["PAYMENT_LINK", "RECEIVE", "SEND"]))
    .min(1)
    .optional()
    .describe(
      "PAYMENT_LINK: received by a link; RECEIVE: other money in; SEND: money out, including refunds",
    ),
  statuses: z
    .array(z.enum(["PENDING", "DETECTED", "CONFIRMED", "FAILED", "ORPHANED"]))
    .min(1)
    .optional()
    .describe("Only CONFIRMED is money that arrived or left"),
  networks: z.array(z.enum(NETWORKS)).min(1).optional(),
  dateFrom: z.string().optional().describe("ISO 8601, for example 2026-01-01 or 2026-01-01T00:00:00Z"),
  dateTo: z.string().optional().describe("ISO 8601"),
  search: z.string().optional().describe("Address, transaction hash, reference or words"),
};
type Filters = { [Name in keyof typeof filters]?: z.infer<(typeof filters)[Name]> };
export function registerMoneyTools(server: McpServer, { service, signal }: McpOptions): void {
  const { transactions, exports } = service;

  server.registerTool(
    "list_transactions",
    {
      title: "List transactions",
      description:
        "Transactions of the merchant's wallet, newest first: what came in by links or otherwise, and what went out. For totals use summarize, for a whole file export. `nextCursor` continues the list. If `totalIsLowerBound` is set, there are more than `total`.",
      inputSchema: z.strictObject({
        ...filters,
        limit: z.int().min(1).max(LISTED_MAX).default(LISTED_DEFAULT),
        cursor: z.string().optional().describe("nextCursor of the previous answer, with the same filters"),
      }),
      annotations: reading,
    },
    ({ limit, cursor, ...given }) =>
      answering(async () => {
        const page = await transactions.page({
          ...filtersOf(given),
          limit,
          ...(cursor === undefined ? {} : { cursor }),
        });
        return answerWith({
          transactions: page.transactions.map(compactTransaction),
          nextCursor: page.nextCursor,
          total: page.pagination.total,
          ...(page.pagination.totalIsLowerBound ? { totalIsLowerBound: true } : {}),
        });
      }),
  );

  server.registerTool(
    "summarize",
    {
      title: "Sum up transactions",
      description:
        "Count and sum of the transactions that match, by network, type and status, exact to the micro-USDC. USDC on base-sepolia is test money: never add it to the rest. Use it for every question about totals instead of adding up list_transactions. `confirmed` is final money; everything else has not arrived or has failed.",
      inputSchema: z.strictObject(filters),
      annotations: reading,
    },
    (given) =>
      answering(async () => {
        const networks = given.networks ? [...new Set(given.networks)] : NETWORKS;
        const sums = await Promise.all(
          networks.map(async (network) => {
            const { summary } = await transactions.summary(filtersOf({ ...given, networks: [network] }));
            return summary.map((sum) => ({ network, ...sum }));
          }),
        );
        const summary = sums.flat();
        return answerWith({
          currency: "USDC",
          confirmed: summary.filter(({ status }) => status === "CONFIRMED"),
          notConfirmed: summary.filter(({ status }) => status !== "CONFIRMED"),
        });
      }),
  );

  server.registerTool(
    "export",
    {
      title: "Export transactions as a file",
      description:
        "Creates a file of the transactions that match. Short csv and json files are returned as `text`; anything else as a `downloadUrl`, which the user opens while signed in to the dashboard or fetches with the API key. `profile` books is for bookkeeping (confirmed money, gross, fee and net); xlsx and excel_csv are always books.",
      inputSchema: z.strictObject({
        format: z.enum(["csv", "json", "pdf", "xlsx", "excel_csv"]).default("csv"),
        profile: z.enum(["standard", "accounting", "books"]).optional(),
        timeZone: z.string().optional().describe("IANA time zone, for example Europe/Berlin; default UTC"),
        ...filters,
      }),
      annotations: { readOnlyHint: false, destructiveHint: false, openWorldHint: false },
    },
    ({ format, profile, timeZone, ...given }, extra) =>
      answering(async () => {
        const body = {
          format,
          ...(profile === undefined ? {} : { profile }),
          ...(timeZone === undefined ? {} : { timeZone }),
          ...filtersOf(given),
        };
        const { id } = await exports.start(body);
        const over = AbortSignal.any([
          ...[extra.signal, AbortSignal.timeout(EXPORT_WAIT_MS)],
          ...(signal ? [signal] : []),
        ]);
        const file = await exports.waitUntilReady(id, { signal: over }).catch((error: unknown) => {
          if (over.aborted) return exports.get(id);
          throw error;
        });
        const { status, downloadUrl, total, byteSize, truncated, expiresAt } = file;
        const facts = {
          exportId: id,
          format,
          status,
          downloadUrl,
          rows: total,
          byteSize,
          truncated,
          expiresAt,
        };
        const isText = format === "csv" || format === "json";
        // a long file must not be held in the memory of the process that answers
        if (status !== "READY" || !isText || byteSize === null || byteSize > INLINE_MAX_BYTES)
          return answerWith(facts);
        const text = await (await exports.download(id, { signal: over })).text();
        return answerWith(text.length <= INLINE_MAX_CHARS ? { ...facts, text } : facts);
      }),
  );
}

function filtersOf(given: Filters) {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as {
    [Name in keyof Filters]: Exclude<Filters[Name], undefined>;
  };
}
