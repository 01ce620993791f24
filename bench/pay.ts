/**
 * x402 payments through the service and through the reference facilitator as its users would tune it, on the same machine: alternating over
 * several rounds, each run on a new chain. `bun run bench pay 1` runs one round instead of three. `bun run bench pay --processes 1.1.1,4.4.2 3 4000 64`
 * compares numbers of api, worker and indexer processes instead, three rounds of 4,000 payments each at concurrency 64: all run at once, each is measured in its turn,
 * since a machine's speed may change within a minute. `bun run bench pay --sustained 64 10`
 * runs one service from its start, ten windows of 1,500 payments at concurrency 64.
 */
import type { PayCase } from "./pay-load.ts";
import { measureReference } from "./pay-reference.ts";
import {
  measureService,
  measureSustained,
  type OpenService,
  openService,
  type Shape,
  warmUpOf,
} from "./pay-service.ts";
import { describeMachine, printTable, type Row } from "./report.ts";

const ROUNDS = 3;
const CASES: readonly PayCase[] = [
  { blockTimeS: 0, concurrency: 1, payments: 150 },
  { blockTimeS: 0, concurrency: 64, payments: 1_500 },
  { blockTimeS: 0, concurrency: 256, payments: 1_500 },
  { blockTimeS: 1, concurrency: 64, payments: 512 },
];
const CONTENDERS = [
  (load: PayCase) => measureService(load),
  (load: PayCase) => measureReference("Bun", load),
  (load: PayCase) => measureReference("Node", load),
];

export async function run(): Promise<void> {
  console.log(JSON.stringify({ bench: "pay", machine: describeMachine() }));
  if (process.argv[3] === "--processes") return runShapes(process.argv.slice(4));
  if (process.argv[3] === "--sustained") return runSustained(process.argv.slice(4));
  const rounds = Number(process.argv[3] ?? ROUNDS);
  const rows: Row[] = [];
  for (let round = 1; round <= rounds; round++) {
    for (const load of CASES) {
      for (const measure of CONTENDERS) {
        const row = await measure(load);
        console.log(JSON.stringify({ round, ...row }));
        rows.push(row);
      }
    }
  }
  const cases = Object.values(
    Object.groupBy(rows, (row) => `${row["block s"]} ${row.concurrency} ${row.who}`),
  );
  printTable(cases.map((same = []) => summarise(same)));
}

async function runShapes([list = "", rounds = ROUNDS, payments = 4_000, concurrency = 64]: (
  | string
  | number
)[]): Promise<void> {
  const shapes = String(list).split(",");
  const isShape = (text: string): text is Shape => /^[1-9]\d*\.[1-9]\d*\.[1-9]\d*$/.test(text);
  if (!shapes.every(isShape))
    throw new Error("--processes takes api.worker.indexer, for example 1.1.1,4.4.2");
  const load = { blockTimeS: 0, concurrency: Number(concurrency), payments: Number(payments) };
  // all after the same number of payments in database and chain
  const warmUp = Math.max(...shapes.map(warmUpOf));
  const services: OpenService[] = [];
  const rows: Row[] = [];
  try {
    for (const shape of shapes)
      services.push(await openService({ shape, warmUp, blockTimeS: load.blockTimeS }));
    for (let round = 1; round <= Number(rounds); round++) {
      const measured: Row[] = [];
      // the order rotates each round
      for (const service of round % 2 === 1 ? services : services.toReversed())
        measured.push(await service.measure(load));
      if (round % 2 === 0) measured.reverse();
      const [first] = measured;
      for (const row of measured) {
        row["CPU, times the first's"] = toHundredths(
          Number(row["CPU ms/payment"]) / Number(first?.["CPU ms/payment"]),
        );
        console.log(JSON.stringify({ round, ...row }));
        rows.push(row);
      }
    }
  } finally {
    await Promise.all(services.map((service) => service.stop()));
  }
  printTable(
    Object.values(Object.groupBy(rows, (row) => String(row.who))).map((same = []) => summarise(same)),
  );
}

async function runSustained([concurrency = 64, windows = 10]: (string | number)[]): Promise<void> {
  const rows: Row[] = [];
  const load = { blockTimeS: 0, concurrency: Number(concurrency), payments: 1_500 };
  for await (const row of measureSustained(load, Number(windows))) {
    console.log(JSON.stringify(row));
    rows.push(row);
  }
  printTable(rows);
}

const toHundredths = (value: number) => Math.round(value * 100) / 100;

/** The median of the rounds; for CPU and rate also minimum and maximum. */
function summarise(rows: readonly Row[]): Row {
  const [first = {}] = rows;
  const summary: Row = {};
  for (const name of Object.keys(first)) {
    const values = rows.map((row) => row[name] ?? "");
    const sorted = values.filter((value) => typeof value === "number").toSorted((a, b) => a - b);
    const [lower, upper] = [
      sorted[Math.floor((sorted.length - 1) / 2)],
      sorted[Math.floor(sorted.length / 2)],
    ];
    const median = lower === undefined || upper === undefined ? undefined : toHundredths((lower + upper) / 2);
    summary[name] = median ?? values[0] ?? "";
    if (["CPU ms/payment", "payments/s"].includes(name) && rows.length > 1)
      summary[name] = `${median} (${sorted[0]} to ${sorted.at(-1)})`;
  }
  return summary;
}
