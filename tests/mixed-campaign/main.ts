/**
 * Everything that the service does under everything that may happen to it: two networks, passkey wallets, links paid in every way, refunds,
 * sends and owner changes, while two processes of each kind are killed and frozen, nodes lag, lie and fail, and both chains are reorganised and
 * rolled back by up to 8 blocks. A round ends in quiet, and is judged from the receipts of the chains: no payer is charged twice, no refund is
 * made twice, no sum is wrong, no wallet is stuck. By hand: `bun tests/mixed-campaign/main.ts 8 7` (rounds, seed), one to three minutes a
 * round. Prints a line a round, the totals and every violation. At the first one it ends with exit code 1 and names a folder with the logs,
 * tables, links and chains. A round in which anvil lost a block of its own is not judged, and the next one begins with new chains.
 * Linux, for its SIGSTOP.
 */
import { seededRandom } from "../support/seeded-random.ts";
import { findLostBlock } from "./campaign-chain.ts";
import { injectFaultsWhile } from "./inject-faults.ts";
import { judgeRound } from "./judge-round.ts";
import { payLinks } from "./pay-links.ts";
import { resendDropped } from "./reorganise.ts";
import { saveEvidence } from "./save-evidence.ts";
import { openStage, PROCESSES, type Stage } from "./stage.ts";
import { useWallet } from "./use-wallets.ts";

const LOAD_MS = 40_000;
const LINK_MAKERS = 10;
/** Payers on each network: more than a round has needed. */
const ACCOUNTS_A_ROUND = 200;
/** Rounds after which part of what was dropped comes back at the end; in the others it stays lost. */
const RESEND_ROUND_SHARE = 0.5;
const RESENT_SHARE = 0.5;
const UNEXPECTED_SHOWN = 20;

/** What a round consisted of. */
type Load = { links: number; operations: number; ownerChanges: number; faults: number };

export type MixedReport = Load & {
  rounds: number;
  judged: number;
  /** anvil lost a block: see findLostBlock. */
  notJudged: number;
  counts: Record<string, number>;
  /** Errors of the campaign's own steps: requests without an answer, for the most part. */
  unexpected: string[];
  violations: string[];
  /** Where the evidence of the violations is. */
  folder: string | undefined;
  seconds: number;
};

export async function runMixedCampaign(rounds: number): Promise<MixedReport> {
  process.env.TEST_SEED ??= String(Math.floor(Math.random() * 2 ** 31));
  const random = seededRandom(`mixed campaign of ${rounds} rounds`);
  const startedMs = performance.now();
  const report: MixedReport = {
    ...{ rounds: 0, judged: 0, notJudged: 0, links: 0, operations: 0, ownerChanges: 0, faults: 0 },
    ...{ counts: {}, unexpected: [], violations: [], folder: undefined, seconds: 0 },
  };
  while (report.rounds < rounds && report.violations.length === 0) {
    const left = rounds - report.rounds;
    const stage = await openStage(random, left * ACCOUNTS_A_ROUND);
    try {
      await runRounds(stage, left, report);
    } finally {
      addTotals(report, stage);
      await stage.stop();
    }
  }
  report.seconds = Math.round((performance.now() - startedMs) / 1000);
  return report;
}

/** On one stage: until a violation, or a lost block, with which its chain is of no more use. */
async function runRounds(stage: Stage, rounds: number, report: MixedReport): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    const load = await runLoad(stage);
    for (const name of ["links", "operations", "ownerChanges", "faults"] as const) report[name] += load[name];
    report.rounds += 1;
    const { lost, violations, judgedMs } = await concludeRound(stage);
    const verdict = lost
      ? `not judged, anvil lost ${lost}`
      : `judged in ${Math.round(judgedMs / 1_000)} s, ${violations.length} violations`;
    console.log(`round ${report.rounds}: ${describeLoad(load)}; ${verdict}`);
    if (lost) report.notJudged += 1;
    else report.judged += 1;
    report.violations = violations;
    if (violations.length > 0) report.folder = await saveEvidence(stage, violations);
    if (lost || violations.length > 0) return;
  }
}

type Conclusion = { lost: string | undefined; violations: string[]; judgedMs: number };

/** A service that cannot be started or asked any more violates what must hold too. */
async function concludeRound(stage: Stage): Promise<Conclusion> {
  const startedMs = performance.now();
  let violations: string[] = [];
  try {
    await stage.service.startMissing();
    for (const chain of stage.chains)
      await resendDropped(stage, chain, stage.random() < RESEND_ROUND_SHARE ? RESENT_SHARE : 0);
    const lost = await findLost(stage);
    if (lost) return { lost, violations, judgedMs: 0 };
    violations = await judgeRound(stage);
  } catch (error) {
    violations = [`the round cannot be judged: ${Bun.inspect(error)}`];
  }
  return { lost: undefined, violations, judgedMs: performance.now() - startedMs };
}

/** All payers have their answers then, all killed processes run again, and no node fails. */
async function runLoad(stage: Stage): Promise<Load> {
  const { links, operations, ownerChanges } = stage;
  const before = [links.length, operations.length, ownerChanges.length] as const;
  let isOver = false;
  const mayGoOn = () => !isOver;
  const load = Promise.all([
    injectFaultsWhile(stage, mayGoOn),
    ...stage.merchants.map((merchant) => useWallet(stage, merchant, mayGoOn)),
    ...Array.from({ length: LINK_MAKERS }, () => payLinks(stage, mayGoOn)),
  ]);
  await Bun.sleep(LOAD_MS);
  isOver = true;
  const [faults] = await load;
  noteDeaths(stage);
  return {
    links: links.length - before[0],
    operations: operations.length - before[1],
    ownerChanges: ownerChanges.length - before[2],
    faults,
  };
}

function describeLoad({ links, operations, ownerChanges, faults }: Load): string {
  return `${links} links, ${operations} sends and refunds, ${ownerChanges} owner changes, ${faults} faults`;
}

/** A process that ended by itself would need its supervisor. */
function noteDeaths({ service, unexpected }: Stage): void {
  for (const name of PROCESSES) {
    try {
      service.pidOf(name);
    } catch {
      unexpected.push(
        `${name} ended by itself: ${service.logOf(name).trimEnd().split("\n").slice(-3).join(" | ")}`,
      );
    }
  }
}

async function findLost(stage: Stage): Promise<string | undefined> {
  for (const chain of stage.chains) {
    const block = await findLostBlock(chain);
    if (block !== undefined) return `block ${block} of ${chain.network}`;
  }
  return undefined;
}

function addTotals(report: MixedReport, stage: Stage): void {
  report.unexpected = [...new Set([...report.unexpected, ...stage.unexpected])].slice(0, UNEXPECTED_SHOWN);
  for (const [name, count] of [...Object.entries(stage.counts), ...Object.entries(stage.outcomes)])
    report.counts[name] = (report.counts[name] ?? 0) + count;
}

if (import.meta.main) {
  const [, , rounds = "8", seed] = process.argv;
  if (seed !== undefined) process.env.TEST_SEED = seed;
  const report = await runMixedCampaign(Number(rounds));
  console.log(JSON.stringify(report, null, 2));
  process.exit(report.violations.length > 0 ? 1 : 0);
}
