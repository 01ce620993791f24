/**
 * `bun tests/http/generators/main.ts`: openapi-typescript, hey-api and orval each generate a client from the served document, which must
 * type-check under strict and run the quick start against the started service. The generators are installed into .data/generators.
 */
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startMerchantWorld } from "../../links/merchant-world.ts";
import { signUp } from "../../support/sign-up.ts";

type Generator = {
  name: string;
  /** Arguments of its program, which writes `generated.ts` or the folder `generated`. */
  program: string;
  args: (document: string) => string[];
};

const HERE = import.meta.dir;
const CACHE = join(HERE, "../../../.data/generators");
const MODULES = join(CACHE, "node_modules");
const GENERATORS: readonly Generator[] = [
  {
    name: "openapi-typescript",
    program: "openapi-typescript/bin/cli.js",
    args: (document) => [document, "-o", "generated.ts"],
  },
  {
    name: "hey-api",
    program: "@hey-api/openapi-ts/bin/run.js",
    args: (document) => ["-i", document, "-o", "generated"],
  },
  { name: "orval", program: "orval/dist/bin/orval.mjs", args: () => ["--config", "orval.config.mjs"] },
];
/** The clients name files as their generators do, without an ending. */
const COMPILER = {
  strict: true,
  noUncheckedIndexedAccess: true,
  target: "es2023",
  module: "esnext",
  moduleResolution: "bundler",
  lib: ["es2023", "dom", "dom.iterable"],
  types: ["node"],
  typeRoots: [join(HERE, "../../../node_modules/@types")],
  noEmit: true,
  skipLibCheck: true,
};

await install();
const world = await startMerchantWorld({ processes: ["api", "worker"] });
try {
  const { client } = await signUp(world.baseUrl);
  const scopes = ["links:read", "links:write", "transactions:read"];
  const { body } = await client.post("/v1/api-keys", { name: "Generated", scopes });
  const env = { ...process.env, BASE_URL: world.baseUrl, API_KEY: body.data.key };
  const document = join(CACHE, "openapi.json");
  writeFileSync(document, (await client.get("/openapi.json")).text);
  for (const generator of GENERATORS) await tryGenerator(generator, document, env);
} finally {
  await world.stop();
}
process.exit(0);

async function install(): Promise<void> {
  mkdirSync(CACHE, { recursive: true });
  const wanted = readFileSync(join(HERE, "package.json"), "utf8");
  const file = join(CACHE, "package.json");
  if (existsSync(MODULES) && existsSync(file) && readFileSync(file, "utf8") === wanted) return;
  writeFileSync(file, wanted);
  await run("install", [process.execPath, "install", "--ignore-scripts", "--no-save"], { cwd: CACHE });
}

async function tryGenerator(
  { name, program, args }: Generator,
  document: string,
  env: Record<string, string | undefined>,
): Promise<void> {
  const folder = join(CACHE, name);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  copyFileSync(join(HERE, `${name}.txt`), join(folder, "quick-start.ts"));
  writeFileSync(
    join(folder, "orval.config.mjs"),
    `export default ${JSON.stringify({
      api: {
        input: document,
        output: { target: "generated.ts", client: "fetch", baseUrl: { getBaseUrlFromSpecification: true } },
      },
    })};`,
  );
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  writeFileSync(
    join(folder, "tsconfig.json"),
    JSON.stringify({
      compilerOptions: COMPILER,
      include: ["quick-start.ts", "generated*", "generated/**/*"],
    }),
  );
  const options = { cwd: folder, env };
  await run(`${name}: generate`, ["node", join(MODULES, program), ...args(document)], options);
  await run(`${name}: types`, ["node", join(MODULES, "typescript/bin/tsc"), "-p", "."], options);
  await run(`${name}: quick start`, [process.execPath, "quick-start.ts"], options);
  const lines = ["generated.ts", "generated/types.gen.ts"]
    .filter((file) => existsSync(join(folder, file)))
    .map((file) => `${file} has ${readFileSync(join(folder, file), "utf8").split("\n").length} lines`);
  console.log(`✓ ${name}: ${lines.join(", ")}`);
}

async function run(
  what: string,
  command: string[],
  options: { cwd: string; env?: Record<string, string | undefined> },
): Promise<void> {
  const child = Bun.spawn(command, { ...options, stdout: "pipe", stderr: "pipe" });
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  if (code !== 0) throw new Error(`${what} ended with ${code}:\n${out}${err}`);
}
