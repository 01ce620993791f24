/**
 * Runs the samples of a guide as a reader would: one shell for the page, in which files are saved under their captions and commands follow
 * each other. `<!-- test: … -->` in a guide is a command that checks what the samples did.
 */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

const ROOT = join(import.meta.dir, "../..");
const LIMIT_S = 100;
const SHELL = "sh";
/** Saved under their captions, and run by a command of the page. */
const FILES = ["ts", "js", "python", "html"];
/** Shown, not run. */
const DATA = "json";

export type Sample = { language: string; name: string; code: string };

/** Fenced blocks and test commands in their order. */
export function readSamples(markdown: string): Sample[] {
  const parts = /^```(\w+) ?([\w.-]*)\n([\s\S]*?)^```$|^<!-- test: (.*) -->$/gm;
  return [...markdown.matchAll(parts)].map(([, language, name = "", code = "", command]) =>
    command === undefined
      ? { language: language ?? "", name, code }
      : { language: SHELL, name: "test", code: `${command}\n` },
  );
}

/** Why the page's samples cannot be run, if so. */
export function findFaults(samples: readonly Sample[]): string[] {
  const commands = samples.filter(({ language }) => language === SHELL).map(({ code }) => code);
  return samples.flatMap(({ language, name, code }) => {
    if (language === SHELL) return [];
    if (language === DATA) return isJson(code) ? [] : ["a json block is not JSON"];
    if (!FILES.includes(language)) return [`no test runs ${language}`];
    if (name === "") return [`a block of ${language} has no file name`];
    if (language === "html") return [];
    return commands.some((command) => command.includes(` ${name}`)) ? [] : [`no command runs ${name}`];
  });
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** `values` replace texts of the samples; `variables` are the environment. Throws with everything that was printed. */
export async function runSamples(
  samples: readonly Sample[],
  { values, variables }: { values: Record<string, string>; variables: Record<string, string> },
): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "test-guide-"));
  const replace = (text: string) =>
    Object.entries(values).reduce((done, [from, to]) => done.replaceAll(from, to), text);
  try {
    mkdirSync(join(folder, "work"));
    symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
    const paths = {
      "usdc-payment-sdk": [join(ROOT, "sdk/client.ts")],
      "usdc-payment-sdk/*": [join(ROOT, "sdk/*.ts")],
    };
    writeFileSync(join(folder, "work/tsconfig.json"), JSON.stringify({ compilerOptions: { paths } }));
    const commands = [`set -euo pipefail\n. "${join(import.meta.dir, "steps.sh")}"\n`];
    for (const { language, name, code } of samples) {
      if (language === SHELL) commands.push(replace(code));
      if (FILES.includes(language)) writeFileSync(join(folder, "work", name), replace(code));
    }
    writeFileSync(join(folder, "page.sh"), commands.join("\n"));
    const output = join(folder, "output");
    const child = Bun.spawn(["bash", "-c", `timeout ${LIMIT_S} bash ../page.sh > ../output 2>&1`], {
      cwd: join(folder, "work"),
      env: {
        ...process.env,
        PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
        ROOT,
        OUTPUT: output,
        ...variables,
      },
    });
    const code = await child.exited;
    const printed = await Bun.file(output).text();
    if (code !== 0) throw new Error(`the samples ended with ${code}:\n${printed}`);
    return printed;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
