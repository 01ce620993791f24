/** What a remote signer answers is checked field by field, signature included, before it counts. */
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { privateKeyToAccount } from "viem/accounts";
import { listSignerAccounts, SignerError, signRemotely } from "../../core/chain/remote-signer.ts";
import { type RelayTransaction, signRelay } from "../../core/chain/sign-relay.ts";
import { CONTRACTS, type Hex } from "../../core/domain/networks.ts";
import { makePayer } from "../support/payer.ts";
import { type Behaviour, type RemoteSigner, startRemoteSigner } from "../support/remote-signer.ts";

const [KEY, OTHER] = [makePayer().privateKey, makePayer().privateKey];
const address = privateKeyToAccount(KEY).address.toLowerCase() as Hex;
const TRANSACTION: RelayTransaction = {
  ...{ chainId: 84_532, nonce: 7n, to: CONTRACTS.multicall3, data: "0x82ad56cb00", gas: 90_000n },
  ...{ maxFeePerGas: 2_000n, maxPriorityFeePerGas: 3n },
};
const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
let signer: RemoteSigner;

beforeAll(async () => {
  signer = await startRemoteSigner([KEY, OTHER]);
});
afterAll(() => signer.stop());
afterEach(() => signer.behave(async () => "honest"));

const sign = (transaction = TRANSACTION) => signRemotely({ address, signerUrl: signer.url }, transaction);

test("signs like the local key, byte for byte, even for nonce 0 and as {raw}", async () => {
  expect(await sign()).toEqual(signRelay(KEY, TRANSACTION));
  const first = { ...TRANSACTION, nonce: 0n };
  signer.behave(async (_, make) => ({ result: { raw: await make(), tx: {} } }));
  expect(await sign(first)).toEqual(signRelay(KEY, first));
});

test("names the accounts that a signer holds", async () => {
  const other = privateKeyToAccount(OTHER).address.toLowerCase() as Hex;
  expect(await listSignerAccounts(signer.url)).toEqual([address, other]);
});

/** The same signature with s and the parity mirrored: valid for ecrecover, refused by the chain. */
function mirror(raw: Hex): Hex {
  const s = BigInt(`0x${raw.slice(-64)}`);
  const at = raw.length - 2 * (32 + 1 + 32 + 1 + 1);
  const parity = raw.slice(at, at + 2) === "80" ? "01" : "80";
  return `0x${raw.slice(2, at)}${parity}${raw.slice(at + 2, -64)}${(ORDER - s).toString(16).padStart(64, "0")}`;
}

const lies: [string, Behaviour][] = [
  ["another nonce", async (_, make) => ({ result: await make({ nonce: "0x8" }) })],
  ["another recipient", async (_, make) => ({ result: await make({ to: CONTRACTS.entryPointV06 }) })],
  ["other data", async (_, make) => ({ result: await make({ data: "0x82ad56cb01" }) })],
  ["another chain", async (_, make) => ({ result: await make({ chainId: "0x2105" }) })],
  ["more gas", async (_, make) => ({ result: await make({ gas: "0x15f91" }) })],
  ["a higher fee", async (_, make) => ({ result: await make({ maxFeePerGas: "0x7d1" }) })],
  ["a higher tip", async (_, make) => ({ result: await make({ maxPriorityFeePerGas: "0x4" }) })],
  ["another key", async (_, make) => ({ result: await make({ from: privateKeyToAccount(OTHER).address }) })],
  ["a byte behind the transaction", async (_, make) => ({ result: `${await make()}00` })],
  ["a cut transaction", async (_, make) => ({ result: (await make()).slice(0, -2) })],
  ["a signature with a high s", async (_, make) => ({ result: mirror(await make()) })],
  ["a legacy transaction", async () => ({ result: "0xf86c0a85" })],
  ["null", async () => ({ result: null })],
  ["an error", async () => ({ error: { code: -32000, message: "locked" } })],
];
for (const [what, behaviour] of lies) {
  test(`error: an answer with ${what} is refused`, async () => {
    signer.behave(behaviour);
    expect(await sign().catch((error) => error)).toBeInstanceOf(SignerError);
  });
}

test("error: an answer that encodes the same signature in another way is refused", async () => {
  let transaction = TRANSACTION;
  // a parity of 0 is an empty string in RLP, here it is written as a byte
  const parityAt = (raw: Hex) => raw.length - 2 * (32 + 1 + 32 + 1 + 1);
  const isPlain = ({ raw }: { raw: Hex }) => raw.slice(parityAt(raw), parityAt(raw) + 4) === "80a0";
  while (!isPlain(signRelay(KEY, transaction)))
    transaction = { ...transaction, nonce: BigInt(transaction.nonce) + 1n };
  signer.behave(async (_, make) => {
    const raw = await make();
    return { result: `${raw.slice(0, parityAt(raw))}00${raw.slice(parityAt(raw) + 2)}` };
  });
  const error = await sign(transaction).catch((thrown) => thrown);
  expect(error).toBeInstanceOf(SignerError);
  expect(error.message).toBe("the signer answered another transaction than it was asked to sign");
});

test("error: a transaction that no relay sends is never shown to the signer", async () => {
  const asked = signer.requests.length;
  const theft = { ...TRANSACTION, to: makePayer().address, data: "0x" as const };
  expect(await sign(theft).catch((error) => error)).toBeInstanceOf(RangeError);
  expect(signer.requests).toHaveLength(asked);
});

test("error: no message contains the credentials of the signer's URL", async () => {
  const signerUrl = "http://user:hunter2@127.0.0.1:1/";
  const error = await signRemotely({ address, signerUrl }, TRANSACTION).catch((thrown) => thrown);
  expect(error).toBeInstanceOf(SignerError);
  expect(`${error.message} ${error.stack}`).not.toContain("hunter2");
});
