/**
 * Relays signed by a remote signer with `eth_signTransaction` (Web3Signer, in front of a KMS, an HSM or Vault). Its response is not trusted:
 * it is accepted only if it is, byte for byte, the requested transaction with a signature by the relayer's key.
 */
import type { Hex } from "../domain/networks.ts";
import { RpcTransportError } from "../rpc/errors.ts";
import { toQuantity } from "../rpc/parse-answers.ts";
import { isLowS, toAddress } from "./recover-payer.ts";
import { secp256k1 } from "./secp256k1.ts";
import { prepareRelay, type RelayTransaction } from "./sign-relay.ts";

const TIMEOUT_MS = 2_000;
const ANSWER_MAX_BYTES = 512 * 1024;

/** No signature: nothing is known about the transaction, and we have no bytes of it. Handled like an unresponsive node. */
export class SignerError extends RpcTransportError {}

export type SignerKey = { address: Hex; signerUrl: string };

/** Throws SignerError when the signer does not answer in time, refuses, or answers with anything else. */
export async function signRemotely(
  { address, signerUrl }: SignerKey,
  transaction: RelayTransaction,
): Promise<{ raw: Hex; hash: Hex }> {
  const { digest, sealWith } = prepareRelay(transaction, () => address);
  const { chainId, nonce, to, data, gas, maxFeePerGas, maxPriorityFeePerGas } = transaction;
  const answer = await callSigner(signerUrl, "eth_signTransaction", [
    {
      type: "0x2",
      from: address,
      to,
      data,
      value: "0x0",
      chainId: toQuantity(chainId),
      nonce: toQuantity(nonce),
      gas: toQuantity(gas),
      maxFeePerGas: toQuantity(maxFeePerGas),
      maxPriorityFeePerGas: toQuantity(maxPriorityFeePerGas),
    },
  ]);
  const raw = rawOf(answer);
  const signature = raw && signatureOf(raw);
  if (!signature) throw new SignerError("malformed", "the signer answered no signed transaction");
  const publicKey = secp256k1.recover(digest, signature.rs, signature.parity);
  if (!publicKey || toAddress(publicKey) !== address)
    throw new SignerError("malformed", `the signer's answer is not this transaction signed by ${address}`);
  if (!isLowS(signature.rs))
    throw new SignerError("malformed", "the signer answered a signature with a high s (EIP-2)");
  const sealed = sealWith(signature);
  if (sealed.raw !== raw)
    throw new SignerError("malformed", "the signer answered another transaction than it was asked to sign");
  return sealed;
}

/** The addresses that a signer holds keys of, lower case. Throws SignerError. */
export async function listSignerAccounts(signerUrl: string): Promise<Hex[]> {
  const answer = await callSigner(signerUrl, "eth_accounts", []);
  if (!Array.isArray(answer)) throw new SignerError("malformed", "the signer answered no list of accounts");
  return answer.map((one) => String(one).toLowerCase() as Hex);
}

/** Credentials in the URL are sent as a header and never appear in messages. */
async function callSigner(signerUrl: string, method: string, params: readonly unknown[]): Promise<unknown> {
  const url = new URL(signerUrl);
  const credentials =
    url.username && `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
  url.username = "";
  url.password = "";
  let text: string;
  let status: number;
  try {
    const response = await fetch(url, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        ...(credentials ? { authorization: `Basic ${Buffer.from(credentials).toString("base64")}` } : {}),
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
      redirect: "error",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    status = response.status;
    text = await response.text();
  } catch (error) {
    const isTimeout = error instanceof Error && error.name === "TimeoutError";
    if (isTimeout) throw new SignerError("timeout", `the signer did not answer within ${TIMEOUT_MS} ms`);
    throw new SignerError("unreachable", `the signer at ${url.host} is unreachable`);
  }
  if (status !== 200) throw new SignerError("node-error", `the signer answered HTTP ${status}`);
  if (text.length > ANSWER_MAX_BYTES) throw new SignerError("malformed", "the signer's answer is too long");
  return resultOf(text);
}

function resultOf(text: string): unknown {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    throw new SignerError("malformed", "the signer answered no JSON");
  }
  const { result, error } = (body ?? {}) as {
    result?: unknown;
    error?: { code?: unknown; message?: unknown } | null;
  };
  if (error)
    throw new SignerError(
      "node-error",
      `the signer refused: ${String(error.code)} ${String(error.message).slice(0, 200)}`,
    );
  return result;
}

/** A string as Web3Signer answers, or `{raw}` as geth and Clef do. */
function rawOf(answer: unknown): Hex | undefined {
  const raw = typeof answer === "object" && answer !== null && "raw" in answer ? answer.raw : answer;
  if (typeof raw !== "string" || !/^0x02(?:[0-9a-f]{2})+$/i.test(raw)) return undefined;
  return raw.toLowerCase() as Hex;
}

/** Of an EIP-1559 transaction: its last three fields. Undefined where they are not where they must be. */
function signatureOf(raw: Hex): { rs: Uint8Array; parity: number } | undefined {
  const bytes = Buffer.from(raw.slice(4), "hex");
  const fields = readFields(bytes);
  const [parity, r, s] = fields?.slice(-3) ?? [];
  if (fields?.length !== 12 || !parity || !r || !s || parity.length > 1 || r.length > 32 || s.length > 32)
    return undefined;
  const bit = parity[0] ?? 0;
  if (bit > 1) return undefined;
  const rs = Buffer.alloc(64);
  r.copy(rs, 32 - r.length);
  s.copy(rs, 64 - s.length);
  return { rs, parity: bit };
}

/** The items of the outermost list (RLP), each without its length; undefined for anything malformed. */
function readFields(list: Buffer): Buffer[] | undefined {
  const outer = readItem(list, 0);
  if (!outer || outer.end !== list.length || (list[0] ?? 0) < 0xc0) return undefined;
  const fields: Buffer[] = [];
  for (let at = outer.start; at < outer.end; ) {
    const item = readItem(list, at);
    if (!item || item.end > outer.end) return undefined;
    fields.push(list.subarray(item.start, item.end));
    at = item.end;
  }
  return fields;
}

function readItem(bytes: Buffer, at: number): { start: number; end: number } | undefined {
  const head = bytes[at];
  if (head === undefined) return undefined;
  if (head < 0x80) return { start: at, end: at + 1 };
  const base = head < 0xc0 ? 0x80 : 0xc0;
  const short = head - base;
  if (short < 56) return within(bytes, at + 1, short);
  const sizeBytes = short - 55;
  if (sizeBytes > 4 || at + 1 + sizeBytes > bytes.length) return undefined;
  return within(bytes, at + 1 + sizeBytes, bytes.readUIntBE(at + 1, sizeBytes));
}

function within(bytes: Buffer, start: number, length: number): { start: number; end: number } | undefined {
  return start + length <= bytes.length ? { start, end: start + length } : undefined;
}
