/** `bun run build:sdk`: JavaScript of each entry and its types, into sdk/dist, for `npm publish sdk`. */
import { join } from "node:path";

const ENTRIES = ["client", "errors", "pay-link", "verify-webhook"];
const FOLDER = import.meta.dir;

const built = await Bun.build({
  entrypoints: ENTRIES.map((name) => join(FOLDER, `${name}.ts`)),
  outdir: join(FOLDER, "dist"),
  target: "browser",
  minify: true,
  splitting: true,
});
if (!built.success) throw new AggregateError(built.logs, "the SDK cannot be built");
const types = Bun.spawnSync([join(FOLDER, "../node_modules/.bin/tsc"), "-p", join(FOLDER, "tsconfig.json")], {
  stdout: "inherit",
  stderr: "inherit",
});
process.exit(types.exitCode);
