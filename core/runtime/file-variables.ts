/** Variables given as files: `JWT_SECRET_FILE=/run/secrets/jwt` instead of `JWT_SECRET`, as container secrets and systemd credentials are. */
import { readFileSync } from "node:fs";

type Environment = Readonly<Record<string, string | undefined>>;

const SUFFIX = "_FILE";

export type FileVariables = {
  /** Each name's value: its own, or the content of its file without the end of the last line. */
  readonly values: Record<string, string | undefined>;
  /** Sentences without any content of a file. */
  readonly faults: string[];
  /** Names whose file could not be used. */
  readonly broken: ReadonlySet<string>;
};

/** Reads `names` and their files from `source`. An empty variable or file counts as absent. */
export function readFileVariables(names: readonly string[], source: Environment): FileVariables {
  const faults: string[] = [];
  const broken = new Set<string>();
  const refuse = (name: string, fault: string) => {
    faults.push(fault);
    broken.add(name);
    return undefined;
  };
  const readOne = (name: string): string | undefined => {
    const [own, path] = [given(source, name), given(source, name + SUFFIX)];
    if (path === undefined) return own;
    if (own !== undefined)
      return refuse(name, `${name} and ${name}${SUFFIX}: both are set; remove one of them`);
    try {
      const text = readFileSync(path, "utf8").replace(/\r?\n$/, "");
      return text.trim() === "" ? undefined : text;
    } catch (error) {
      return refuse(name, `${name}${SUFFIX}: ${path} cannot be read (${reasonOf(error)})`);
    }
  };
  const values = Object.fromEntries(names.map((name) => [name, readOne(name)]));
  return { values, faults, broken };
}

function given(source: Environment, name: string): string | undefined {
  const text = source[name];
  return text === undefined || text.trim() === "" ? undefined : text;
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: "no such file",
  EACCES: "this user may not read it",
  EISDIR: "it is a folder",
};

function reasonOf(error: unknown): string {
  const code = (error as NodeJS.ErrnoException).code ?? "unknown error";
  return REASONS[code] ?? code;
}
