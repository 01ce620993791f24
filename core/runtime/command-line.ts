/** The arguments of operator commands. An unknown one ends the command: running it without the intended option could change a database. */
import { type ParseArgsOptionsConfig, parseArgs } from "node:util";

/** Settings of npm itself, which may be set for other reasons. */
const NPM_SETTINGS = ["json", "offline"];

type Given<Options extends ParseArgsOptionsConfig> = ReturnType<
  typeof parseArgs<{ options: Options; allowPositionals: true; strict: true }>
>;

/** Ends the process with `usage` unless the arguments are `options` and exactly `positionals` others. */
export function readArgumentsOrExit<const Options extends ParseArgsOptionsConfig>(
  usage: string,
  options: Options,
  { positionals = 0 }: { positionals?: number } = {},
): Given<Options> {
  const taken = Object.keys(options).find(isTakenByNpm);
  if (taken !== undefined)
    endWithUsage(`npm took --${taken} as its own option: write -- before the options\n${usage}`);
  const given = parse(options);
  if (given?.positionals.length !== positionals) endWithUsage(usage);
  return given;
}

export function endWithUsage(usage: string): never {
  console.error(usage);
  process.exit(64); // EX_USAGE of sysexits.h
}

function parse<Options extends ParseArgsOptionsConfig>(options: Options): Given<Options> | undefined {
  try {
    return parseArgs({ options, allowPositionals: true, strict: true });
  } catch {
    return undefined;
  }
}

/** `npm run migrate --plan` runs the command without the option and gives it to scripts as a variable. */
function isTakenByNpm(name: string): boolean {
  return !NPM_SETTINGS.includes(name) && process.env[`npm_config_${name}`] !== undefined;
}
