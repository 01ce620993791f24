/** Variables given as files: `JWT_SECRET_FILE=/run/secrets/jwt` instead of `JWT_SECRET`, as container secrets and systemd credentials are. */
import { isUtf8 } from "node:buffer";
import { closeSync, existsSync, openSync, readSync } from "node:fs";
import { isAbsolute } from "node:path";

type Environment = Readonly<Record<string, string | undefined>>;

const SUFFIX = "_FILE";
/** Far more than any list of keys. A limit is needed because a device such as /dev/zero never ends. */
const VALUE_MAX_BYTES = 65_536;

export type FileVariables = {
  /** Each name's value: its own, or the content of its file; without space around it, and never empty. */
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
    const bytes = readBounded(path);
    const fault = faultOf(bytes, path);
    if (fault) return refuse(name, `${name}${SUFFIX}: ${fault}`);
    return trimmed(bytes.toString("utf8"));
  };
  const values = Object.fromEntries(names.map((name) => [name, readOne(name)]));
  return { values, faults, broken };
}

function faultOf(bytes: Buffer | Error, path: string): string | undefined {
  // possibly the value itself, which no message may repeat
  if (bytes instanceof Error && !isAbsolute(path) && !existsSync(path))
    return "is not the path of a file; give a path, or set the variable without _FILE to the value itself";
  if (bytes instanceof Error) return `${path} cannot be read (${reasonOf(bytes)})`;
  if (bytes.length > VALUE_MAX_BYTES)
    return `${path} has more than ${VALUE_MAX_BYTES} bytes; use a file that holds only the value`;
  return isUtf8(bytes) ? undefined : `${path} is not text; write the bytes as hex (openssl rand -hex 32)`;
}

/** The beginning of a file, up to one byte more than a value may have. */
function readBounded(path: string): Buffer | Error {
  const buffer = Buffer.alloc(VALUE_MAX_BYTES + 1);
  let length = 0;
  let file: number | undefined;
  try {
    file = openSync(path, "r");
    // a pipe gives what is in it, so that one read is not enough
    while (length < buffer.length) {
      const read = readSync(file, buffer, length, buffer.length - length, null);
      if (read === 0) break;
      length += read;
    }
    return buffer.subarray(0, length);
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

function given(source: Environment, name: string): string | undefined {
  return trimmed(source[name] ?? "");
}

/** Without the line end or space that an editor, `echo` or a file of Windows has left at an end of it. */
function trimmed(text: string): string | undefined {
  return text.trim() || undefined;
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
