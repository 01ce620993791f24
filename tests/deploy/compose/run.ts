/** Commands of the start through containers, with what they print. */
import { join } from "node:path";

export const ROOT = join(import.meta.dir, "../../..");

export type Ran = { code: number; output: string };
type Options = { env?: Record<string, string | undefined>; cwd?: string; lines?: readonly string[] };

export async function run(command: readonly string[], { env, cwd, lines = [] }: Options = {}): Promise<Ran> {
  const child = Bun.spawn([...command], {
    cwd: cwd ?? ROOT,
    env: { ...process.env, ...env },
    ...({ stdin: Buffer.from(`${lines.join("\n")}\n`), stdout: "pipe", stderr: "pipe" } as const),
  });
  const [output, errors] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { code: await child.exited, output: output + errors };
}

/** What a command prints. Throws it when the command fails. */
export async function runOrThrow(command: readonly string[], options?: Options): Promise<string> {
  const { code, output } = await run(command, options);
  if (code !== 0) throw new Error(`${command.join(" ")} ended with ${code}:\n${output}`);
  return output.trim();
}
