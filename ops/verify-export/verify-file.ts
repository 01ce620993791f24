/**
 * Checks an export with proofs against the chain. Of the user's own nodes only headers and lists of transaction hashes are taken; header,
 * receipts root, receipt and log are computed from the file. Needs neither the service nor its database.
 */
import { z } from "zod";
import { readProof, type TransferProof } from "../../core/chain/transfer-proof.ts";
import { formatUnits, parseUnits } from "../../core/domain/money.ts";
import { type Hex, NETWORK_IDS, NETWORKS, type NetworkId } from "../../core/domain/networks.ts";
import { TRANSACTION_STATUSES } from "../../core/domain/payment.ts";
import { PROVEN_FORMAT } from "../../core/domain/proven-export.ts";
import { readBlocks, readNetworks, type TrustedBlock } from "./trusted-blocks.ts";

const hex = z
  .string()
  .regex(/^0x([0-9a-f]{2})*$/)
  .transform((text) => text as Hex);
const address = z
  .string()
  .regex(/^0x[0-9a-f]{40}$/i)
  .transform((text) => text.toLowerCase() as Hex);
const proofSchema = z.object({
  blockNumber: z.int().min(0),
  blockHash: hex,
  header: hex,
  transactionIndex: z.int().min(0),
  logPosition: z.int().min(0),
  nodes: z.array(hex),
});
const rowSchema = z.object({
  id: z.string(),
  type: z.enum(["RECEIVE", "PAYMENT_LINK", "SEND"]),
  status: z.enum(TRANSACTION_STATUSES),
  amount: z.string(),
  network: z.enum(NETWORK_IDS),
  transactionHash: hex.nullable(),
  blockNumber: z.int().nullable(),
  detectedAt: z.iso.datetime(),
  accounting: z.object({ payer: z.string(), payee: z.string() }),
  proof: proofSchema.nullable(),
});
const totalsSchema = z.object({
  rows: z.int(),
  confirmed: z.int(),
  moneyIn: z.string(),
  moneyOut: z.string(),
});
const fileSchema = z.object({
  format: z.literal(PROVEN_FORMAT),
  wallets: z.array(z.object({ network: z.enum(NETWORK_IDS), address })),
  totals: totalsSchema,
  /** Not in a file of an earlier version. */
  totalsByNetwork: z.array(totalsSchema.extend({ network: z.enum(NETWORK_IDS) })).optional(),
  transactions: z.array(rowSchema),
});
type Row = z.infer<typeof rowSchema>;
type File = z.infer<typeof fileSchema>;

export type Problem = { row: string | null; problem: string };
export type Verification = {
  ok: boolean;
  rows: number;
  proven: number;
  /** Rows that are not confirmed carry no proof and no sum. */
  unconfirmed: number;
  /** Of every network; `byNetwork` has those of each network with confirmed rows. */
  moneyIn: string;
  moneyOut: string;
  byNetwork: { network: NetworkId; moneyIn: string; moneyOut: string }[];
  wallets: { network: NetworkId; address: Hex }[];
  problems: Problem[];
};

export type Trust = {
  rpcUrls: readonly string[];
  /** Whose movements these should be; without it, those of the wallets that the file names. */
  wallet?: Hex | undefined;
};

/** Throws when a node is unavailable: nothing is known then. */
export async function verifyFile(text: string, { rpcUrls, wallet }: Trust): Promise<Verification> {
  const file = readFile(text);
  if ("problem" in file) return failed(file.problem);
  const problems: Problem[] = [];
  const networks = await readNetworks(rpcUrls);
  const wallets = file.wallets.map((one) => (wallet ? { ...one, address: wallet } : one));
  if (wallet && file.wallets.some((one) => one.address !== wallet))
    problems.push({ row: null, problem: `the file is about another wallet than ${wallet}` });
  for (const network of NETWORK_IDS)
    if (file.wallets.filter((one) => one.network === network).length > 1)
      problems.push({ row: null, problem: `the file is about two wallets on ${network}` });
  const confirmed = file.transactions.filter(({ status }) => status === "CONFIRMED");
  const blocks = await readBlocks(networks, confirmed);
  const seen = new Set<string>();
  let proven = 0;
  for (const row of confirmed) {
    const units = parseUnits(row.amount);
    const own = wallets.find(({ network }) => network === row.network)?.address;
    const problem =
      networks.has(row.network) === false
        ? `no node was given for ${row.network} (chain ${NETWORKS[row.network].chainId})`
        : checkRow(row, { units, own, block: blocks.get(blockKey(row)), seen });
    if (problem === undefined) proven += 1;
    else problems.push({ row: row.id, problem });
  }
  problems.push(...checkTotals(file));
  const { moneyIn, moneyOut } = sumUp(confirmed);
  return {
    ok: problems.length === 0,
    rows: file.transactions.length,
    proven,
    unconfirmed: file.transactions.length - confirmed.length,
    ...{ moneyIn, moneyOut },
    byNetwork: NETWORK_IDS.flatMap((network) => {
      const sums = sumUp(ofNetwork(confirmed, network));
      return sums.rows > 0 ? [{ network, moneyIn: sums.moneyIn, moneyOut: sums.moneyOut }] : [];
    }),
    wallets,
    problems,
  };
}

function readFile(text: string): File | { problem: string } {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return { problem: "the file is not JSON" };
  }
  const file = fileSchema.safeParse(parsed);
  if (file.success) return file.data;
  const [issue] = file.error.issues;
  return { problem: `not an export with proofs: ${issue?.path.join(".")} ${issue?.message}` };
}

type Facts = {
  units: bigint | undefined;
  own: Hex | undefined;
  block: TrustedBlock | undefined;
  seen: Set<string>;
};

/** What is wrong with a row; undefined when the chain says the same. */
function checkRow(row: Row, { units, own, block, seen }: Facts): string | undefined {
  const { proof } = row;
  if (!proof) return "it is CONFIRMED but has no proof";
  if (!block || block.hash !== proof.blockHash)
    return `your node has a different block ${proof.blockNumber}: ${block?.hash ?? "none"}`;
  if (block.transactions[proof.transactionIndex] !== row.transactionHash)
    return "the transaction hash is not that of the proven receipt";
  const place = `${row.network} ${proof.blockHash} ${proof.transactionIndex} ${proof.logPosition} ${row.type === "SEND"}`;
  if (seen.has(place)) return "the same transfer is in the file twice";
  seen.add(place);
  const transfer = provenBy(row, proof);
  if (typeof transfer === "string") return transfer;
  const stated: [string, unknown, unknown][] = [
    ["amount", units, transfer.amountUnits],
    ["payer", row.accounting.payer.toLowerCase(), transfer.from],
    ["payee", row.accounting.payee.toLowerCase(), transfer.to],
    ["wallet", own, row.type === "SEND" ? transfer.from : transfer.to],
    ["block", row.blockNumber, proof.blockNumber],
    ["time", Date.parse(row.detectedAt), transfer.timeS * 1000],
  ];
  const wrong = stated.find(([, given, shown]) => given !== shown);
  return wrong && `its ${wrong[0]} is ${wrong[1]}, but on the chain ${wrong[2]}`;
}

function provenBy(row: Row, proof: TransferProof): ReturnType<typeof readProof> | string {
  try {
    return readProof(proof, NETWORKS[row.network]);
  } catch (error) {
    if (error instanceof RangeError) return `its proof is invalid: ${error.message}`;
    throw error;
  }
}

type Totals = z.infer<typeof totalsSchema>;

function checkTotals({ totals, totalsByNetwork, transactions }: File): Problem[] {
  const problems = compareTotals("total", totals, sumUp(transactions));
  if (!totalsByNetwork) return problems;
  const stated = NETWORK_IDS.flatMap((network) => {
    const given = totalsByNetwork.find((one) => one.network === network) ?? sumUp([]);
    return compareTotals(`total of ${network}`, given, sumUp(ofNetwork(transactions, network)));
  });
  return [...problems, ...stated];
}

function compareTotals(name: string, given: Totals, counted: Totals): Problem[] {
  const compared: [string, unknown, unknown][] = [
    ["rows", given.rows, counted.rows],
    ["confirmed rows", given.confirmed, counted.confirmed],
    ["money in", given.moneyIn, counted.moneyIn],
    ["money out", given.moneyOut, counted.moneyOut],
  ];
  return compared
    .filter(([, one, other]) => one !== other)
    .map(([field, one, other]) => ({
      row: null,
      problem: `the file's ${name} says ${field} ${one}, but its rows add up to ${other}`,
    }));
}

function sumUp(rows: readonly Row[]): Totals {
  const confirmed = rows.filter(({ status }) => status === "CONFIRMED");
  let [moneyIn, moneyOut] = [0n, 0n];
  for (const { type, amount } of confirmed) {
    const units = parseUnits(amount) ?? 0n;
    if (type === "SEND") moneyOut += units;
    else moneyIn += units;
  }
  return {
    rows: rows.length,
    confirmed: confirmed.length,
    moneyIn: formatUnits(moneyIn),
    moneyOut: formatUnits(moneyOut),
  };
}

function ofNetwork(rows: readonly Row[], network: NetworkId): Row[] {
  return rows.filter((row) => row.network === network);
}

function blockKey({ network, proof }: Row): string {
  return `${network}:${proof?.blockNumber}`;
}

function failed(problem: string): Verification {
  return {
    ok: false,
    rows: 0,
    proven: 0,
    unconfirmed: 0,
    moneyIn: "0.000000",
    moneyOut: "0.000000",
    byNetwork: [],
    wallets: [],
    problems: [{ row: null, problem }],
  };
}
