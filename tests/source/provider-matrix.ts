/** `bun tests/source/provider-matrix.ts [part of a title]`: every row of the provider matrix from 1,000 blocks behind, one after the other. */
import { openProviderLab } from "./provider-lab.ts";
import { allRows } from "./provider-rows.ts";

const BLOCKS = 1_000;

const [part = ""] = process.argv.slice(2);
const lab = await openProviderLab(BLOCKS);
let failed = 0;
for (const row of allRows().filter(({ title }) => title.includes(part))) {
  const startedMs = performance.now();
  const fault = await lab.runRow(row).then(
    () => undefined,
    (error: unknown) => String(error),
  );
  if (fault) failed += 1;
  const seconds = ((performance.now() - startedMs) / 1_000).toFixed(1);
  console.log(`${fault ? "FAILED" : "ok"} ${seconds} s · ${row.title}${fault ? `\n  ${fault}` : ""}`);
}
await lab.stop();
console.log(failed > 0 ? `${failed} failed` : "every row caught up, nothing missing, nothing twice");
process.exit(failed > 0 ? 1 : 0);
