/**
 * Run by Node with the built command line's file: executes it once for each line of standard input, `{ id, args, env }`, as a module of its
 * own with these arguments and this environment, and prints `{ id, code, out, err }`. Most of a short call's CPU is the start of Node.
 */
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [, script, file] = process.argv;
const own = { stdout: process.stdout.write, stderr: process.stderr.write };

/** What is written to `name` from here on, until `end`. */
function capture(name) {
  let text = "";
  process[name].write = (chunk) => {
    text += chunk;
    return true;
  };
  return () => {
    process[name].write = own[name];
    return text;
  };
}

// one after the other: arguments, environment and output are the process's
for await (const line of createInterface({ input: process.stdin })) {
  const { id, args, env } = JSON.parse(line);
  process.argv = [process.execPath, script, ...args];
  process.env = env;
  process.exitCode = undefined;
  const [endOut, endErr] = [capture("stdout"), capture("stderr")];
  await import(`${pathToFileURL(file).href}?call=${id}`);
  const [out, err] = [endOut(), endErr()];
  process.stdout.write(`${JSON.stringify({ id, code: process.exitCode, out, err })}\n`);
}
process.exitCode = 0;
