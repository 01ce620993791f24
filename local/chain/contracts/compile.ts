/**
 * Compiles passkey-account.sol into passkey-account.json: runtime codes ready for `anvil_setCode` at the wallet's public
 * addresses. Run manually after a change: `bun local/chain/contracts/compile.ts`.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { keccak256, pad, toHex } from "viem";
import { CONTRACTS, type Hex } from "../../../core/domain/networks.ts";

type Source = { ast: unknown };
type Code = {
  evm: {
    deployedBytecode: {
      object: string;
      immutableReferences: Record<string, { start: number; length: number }[]>;
    };
  };
};
type Output = {
  errors?: { severity: string; formattedMessage: string }[];
  sources: Record<string, Source>;
  contracts: Record<string, Record<string, Code>>;
};
type Solc = {
  compile: (input: string, callbacks: { import: (path: string) => { contents: string } }) => string;
};

const FOLDER = new URL("./", import.meta.url);
const SOURCE = "passkey-account.sol";
const requireHere = createRequire(import.meta.url);

/** What the constructors of the inherited contracts would have stored at the final address. */
const IMMUTABLES: Readonly<Record<string, Hex>> = {
  __self: CONTRACTS.smartWalletImplementation,
  _cachedThis: CONTRACTS.smartWalletImplementation,
  // No chain has id 0, so the domain is recomputed on every chain.
  _cachedChainId: "0x00",
  _cachedDomainSeparator: "0x00",
  _cachedNameHash: keccak256(toHex("Coinbase Smart Wallet")),
  _cachedVersionHash: keccak256(toHex("1")),
};

function compile(): Output {
  const solc: Solc = requireHere("solc");
  const input = {
    language: "Solidity",
    sources: { [SOURCE]: { content: readFileSync(new URL(SOURCE, FOLDER), "utf8") } },
    settings: {
      viaIR: true,
      optimizer: { enabled: true, runs: 999_999 },
      evmVersion: "cancun",
      // Without it a comment or a path changes the code.
      metadata: { appendCBOR: false },
      outputSelection: { "*": { "": ["ast"], "*": ["evm.deployedBytecode"] } },
    },
  };
  const read = (path: string) => ({ contents: readFileSync(requireHere.resolve(path), "utf8") });
  const output: Output = JSON.parse(solc.compile(JSON.stringify(input), { import: read }));
  const errors = output.errors?.filter(({ severity }) => severity === "error") ?? [];
  if (errors.length > 0) throw new Error(errors.map((error) => error.formattedMessage).join("\n"));
  return output;
}

/** Ids of the immutable variables in every source, by name. */
function immutableNames(node: unknown, names = new Map<string, string>()): Map<string, string> {
  if (typeof node !== "object" || node === null) return names;
  const { nodeType, mutability, id, name } = node as Record<string, unknown>;
  if (nodeType === "VariableDeclaration" && mutability === "immutable") names.set(String(id), String(name));
  for (const child of Object.values(node)) immutableNames(child, names);
  return names;
}

function runtimeCode(output: Output, contract: string): Hex {
  const code = output.contracts[SOURCE]?.[contract]?.evm.deployedBytecode;
  if (!code) throw new Error(`the compiler gave no ${contract}`);
  const bytes = Buffer.from(code.object, "hex");
  const names = immutableNames(Object.values(output.sources).map(({ ast }) => ast));
  for (const [id, places] of Object.entries(code.immutableReferences)) {
    const value = IMMUTABLES[names.get(id) ?? ""];
    if (value === undefined) throw new Error(`no value for the immutable ${names.get(id)}`);
    for (const { start } of places) bytes.set(Buffer.from(pad(value).slice(2), "hex"), start);
  }
  return `0x${bytes.toString("hex")}`;
}

const output = compile();
const codes = {
  factory: { runtimeCode: runtimeCode(output, "PasskeyAccountFactory") },
  implementation: { runtimeCode: runtimeCode(output, "PasskeyAccount") },
};
await Bun.write(new URL("passkey-account.json", FOLDER), `${JSON.stringify(codes, null, 2)}\n`);
for (const [name, { runtimeCode: code }] of Object.entries(codes)) {
  process.stdout.write(`${name}: ${code.length / 2 - 1} bytes\n`);
}
