/**
 * The command line of the service: `node cli/bin.mjs help`. Reads SERVICE_URL and API_KEY; prints tables, or JSON with --json. Exit code 1
 * for a refusal or error, 2 for wrong usage.
 */
import packageJson from "../package.json" with { type: "json" };
import { ConnectionError } from "../sdk/errors.ts";
import { UnknownOutcomeError } from "../sdk/pay-link.ts";
import { parseCommand, UsageError } from "./arguments.ts";
import { doctor } from "./doctor.ts";
import { exportFile } from "./export-file.ts";
import { cancelLink, createLink, listLinks } from "./links.ts";
import { listen } from "./listen.ts";
import { type Output, openOutput } from "./output.ts";
import { pay } from "./pay.ts";
import { prepareSend } from "./prepare-send.ts";
import { type Command, openSettings } from "./settings.ts";
import { USAGE } from "./usage.ts";

const COMMANDS: Readonly<Record<string, Command>> = {
  "links create": createLink,
  "links list": listLinks,
  "links cancel": cancelLink,
  pay,
  listen,
  export: exportFile,
  doctor,
  send: prepareSend,
  mcp: async (_given, { url }) => {
    // the protocol's library is large, and only this command needs it
    const { readStdioSettings, serveStdio } = await import("../mcp/stdio.ts");
    await serveStdio(readStdioSettings({ ...process.env, SERVICE_URL: url }));
    return 0;
  },
};

/** By the code of a refusal. */
const HINTS: Readonly<Record<string, string>> = {
  UNAUTHORIZED:
    "Set API_KEY to a key that is not revoked, from the dashboard: Developers → API keys (/developers/keys).",
  FORBIDDEN: "Create a key with that scope at /developers/keys.",
  OVER_LIMIT: "Nothing was paid. Raise --max if you want to pay that much.",
  AMOUNT_REQUIRED: "The payer chooses the amount: pass --amount.",
};

// whoever reads the output has read enough, as `head` does
process.stdout.once("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
  process.exit(0);
});
process.exitCode = await main(process.argv.slice(2));

async function main(args: readonly string[]): Promise<number> {
  const output = openOutput({ isJson: args.includes("--json") });
  if (args.length === 0 || args.includes("--help") || args[0] === "help") {
    output.line(USAGE);
    return 0;
  }
  if (args[0] === "--version") {
    output.line(packageJson.version);
    return 0;
  }
  const two = args.slice(0, 2).join(" ");
  const name = Object.hasOwn(COMMANDS, two) ? two : (args[0] ?? "");
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  try {
    if (!command) throw new UsageError(`There is no command ${args[0] === "links" ? two : args[0]}`);
    const given = parseCommand(name, args.slice(name.split(" ").length));
    return await command(given, openSettings(given, process.env), output);
  } catch (error) {
    return report(error, output);
  }
}

function report(error: unknown, output: Output): number {
  if (error instanceof UsageError) {
    output.fail({ code: "USAGE", message: error.message, hint: "`help` lists the commands and options." });
    return 2;
  }
  if (error instanceof UnknownOutcomeError) {
    const hint = "The payment may have been made: check the link (`links list`) before paying again.";
    output.fail({ code: "OUTCOME_UNKNOWN", message: error.message, hint });
    return 1;
  }
  if (error instanceof ConnectionError) {
    const hint = "Is the service running, and is SERVICE_URL its address? `doctor` checks both.";
    output.fail({ code: "UNREACHABLE", message: error.message, hint });
    return 1;
  }
  const { code, advice, requestId } = error as { code?: string; advice?: string; requestId?: string };
  const message = error instanceof Error ? error.message : String(error);
  output.fail({
    code: code ?? (error instanceof Error ? error.name : "ERROR"),
    message,
    hint: advice ?? (code === undefined ? undefined : HINTS[code]),
    requestId,
  });
  return 1;
}
