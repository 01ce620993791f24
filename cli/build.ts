/** `bun run build:cli`: the command line as one file for Node, cli/dist/usdc.mjs (or the path given), which is self-contained. */
import { join } from "node:path";

const FOLDER = import.meta.dir;

const built = await Bun.build({
  entrypoints: [join(FOLDER, "main.ts")],
  target: "node",
  format: "esm",
  minify: true,
  banner: "#!/usr/bin/env node",
});
const [output, ...others] = built.outputs;
if (!output || others.length > 0) throw new Error(`the command line became ${built.outputs.length} files`);
const file = process.argv[2] ?? join(FOLDER, "dist/usdc.mjs");
await Bun.write(file, output, { mode: 0o755 });
console.log(`${file} (${Math.round(output.size / 1_000)} kB)`);
