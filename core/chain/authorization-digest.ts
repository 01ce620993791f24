/** The EIP-712 digest a payer signs for `TransferWithAuthorization` (EIP-3009), encoded by hand into reused buffers for speed. */
import type { Authorization } from "../domain/authorization.ts";
import { type Hex, NETWORK_IDS, NETWORKS, type Network, type NetworkId } from "../domain/networks.ts";
import { keccak256Bytes } from "./keccak.ts";

/** EIP-712 domain of a token. The digest caches by identity: pass the same object for the same token. */
export type TokenDomain = {
  readonly name: string;
  readonly version: string;
  readonly chainId: number;
  readonly verifyingContract: Hex;
};

const WORD_BYTES = 32;
const ADDRESS_BYTES = 20;
const DOMAIN_TYPE = "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)";
const AUTHORIZATION_TYPE =
  "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)";

const DOMAINS = Object.fromEntries(
  NETWORK_IDS.map((id) => {
    const { chainId, usdc } = NETWORKS[id];
    const domain = { name: usdc.name, version: usdc.version, chainId, verifyingContract: usdc.address };
    return [id, domain satisfies TokenDomain];
  }),
) as Record<NetworkId, TokenDomain>;

const separators = new WeakMap<TokenDomain, Uint8Array>();
const structBuffer = Buffer.alloc(7 * WORD_BYTES);
structBuffer.set(keccak256Bytes(Buffer.from(AUTHORIZATION_TYPE)), 0);
const digestBuffer = Buffer.alloc(2 + 2 * WORD_BYTES);
digestBuffer.set([0x19, 0x01], 0);

/** USDC's domain on a network, always the same object. */
export function tokenDomainOf(network: Network): TokenDomain {
  return DOMAINS[network.id];
}

/** 32 bytes to be signed. Throws RangeError when a field has the wrong length, which parsing should have caught. */
export function authorizationDigest(domain: TokenDomain, authorization: Authorization): Uint8Array {
  writeAddress(structBuffer, 1, authorization.from);
  writeAddress(structBuffer, 2, authorization.to);
  writeUint256(structBuffer, 3, authorization.value);
  writeUint256(structBuffer, 4, authorization.validAfter);
  writeUint256(structBuffer, 5, authorization.validBefore);
  writeHex(structBuffer, 6 * WORD_BYTES, authorization.nonce, WORD_BYTES);
  digestBuffer.set(domainSeparator(domain), 2);
  digestBuffer.set(keccak256Bytes(structBuffer), 2 + WORD_BYTES);
  return keccak256Bytes(digestBuffer);
}

/** `DOMAIN_SEPARATOR()` of the token, computed. */
export function domainSeparator(domain: TokenDomain): Uint8Array {
  const known = separators.get(domain);
  if (known) return known;
  const buffer = Buffer.alloc(5 * WORD_BYTES);
  buffer.set(keccak256Bytes(Buffer.from(DOMAIN_TYPE)), 0);
  buffer.set(keccak256Bytes(Buffer.from(domain.name)), WORD_BYTES);
  buffer.set(keccak256Bytes(Buffer.from(domain.version)), 2 * WORD_BYTES);
  writeUint256(buffer, 3, BigInt(domain.chainId));
  writeAddress(buffer, 4, domain.verifyingContract);
  const separator = keccak256Bytes(buffer);
  separators.set(domain, separator);
  return separator;
}

/** The 12 bytes before an address are zero from the start and are never written. */
function writeAddress(buffer: Buffer, word: number, address: Hex): void {
  writeHex(buffer, (word + 1) * WORD_BYTES - ADDRESS_BYTES, address, ADDRESS_BYTES);
}

function writeUint256(buffer: Buffer, word: number, value: bigint): void {
  for (let limb = 3; limb >= 0; limb--) {
    buffer.writeBigUInt64BE(BigInt.asUintN(64, value), word * WORD_BYTES + limb * 8);
    value >>= 64n;
  }
  if (value !== 0n) throw new RangeError("a uint256 is negative or longer than 256 bits");
}

function writeHex(buffer: Buffer, offset: number, hex: Hex, bytes: number): void {
  const written = buffer.write(hex.slice(2), offset, bytes, "hex");
  if (written !== bytes || hex.length !== 2 + 2 * bytes) throw new RangeError(`${hex} is not ${bytes} bytes`);
}
