/** Who can prove which link a transfer pays: the sender's key, or its contract (ERC-1271). */

import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { hashTypedData } from "viem";
import { accountAddress, accountOriginOf, encodeCreateAccount } from "../../core/chain/passkey-account.ts";
import { encodeTransfer } from "../../core/chain/usdc.ts";
import { buildUserOperation } from "../../core/chain/user-operation.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { createSoftwarePasskey, type SoftwarePasskey } from "../../local/passkey/software-passkey.ts";
import { buildUserOperationCall, readAccountNonce, replaySafeHash } from "../support/account-on-chain.ts";
import { SITE, sign, signOperation } from "../support/passkey-wallets.ts";
import { makePayer, type Payer } from "../support/payer.ts";
import {
  broadcast,
  claim,
  claimOf,
  type EvidenceSide,
  expectReceived,
  indexed,
  linkOf,
  makePerson,
  makeTwins,
  pay,
  prove,
  signCall,
  signTransfer,
  signTypedData,
  startEvidenceSide,
  statusOf,
  type TypedData,
  typedDataOf,
  USDC,
  waitForLink,
} from "./evidence-side.ts";

setDefaultTimeout(120_000);

let side: EvidenceSide;
let payer: Payer;
let chain: Chain;

beforeAll(async () => {
  side = await startEvidenceSide();
  payer = await makePerson(side);
  chain = openChain({ network: "base-sepolia", urls: [side.rpcUrl], timeoutMs: 5_000 });
});
afterEach(() => {
  side.proxy.fault = () => undefined;
});
afterAll(async () => {
  chain?.close();
  await side?.stop();
});

/** A transfer that two links fit, without evidence to decide between them. */
async function payAmbiguous(): Promise<{ meant: string; twin: string; units: bigint; hash: Hex }> {
  const twins = await makeTwins(side);
  return { ...twins, hash: await pay(side, payer, { units: twins.units }) };
}

async function expectPaidByProof(meant: string, twin: string): Promise<void> {
  await waitForLink(side, meant, { status: "PAID", settledBy: "proof", exception: "NONE" });
  expect(await statusOf(side, twin)).toBe("ACTIVE");
}

describe("a plain key", () => {
  test("signs the service's typed data", async () => {
    const { meant, twin, hash } = await payAmbiguous();
    const { body } = await claim(side, meant, { hash, address: payer.address });
    expect(body.typedData).toEqual(await typedDataOf(side, meant, hash));
    const signature = await signTypedData(payer, body.typedData as TypedData);
    const answer = await claim(side, meant, { hash, address: payer.address, signature });
    expect([answer.status, answer.body.proofRequired]).toEqual([200, undefined]);
    await expectPaidByProof(meant, twin);
    expect(await claimOf(side, meant, hash)).toMatchObject({ state: "MATCHED", proof: "EOA" });
  });

  test("proves before its transfer is mined: the link is PENDING, and paid by it", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const signed = await signTransfer(side, payer, { to: side.wallet, units });
    const answer = await prove(side, meant, { hash: signed.hash, person: payer });
    expect([answer.status, answer.body]).toEqual([200, { success: true, linkId: meant, status: "PENDING" }]);
    // an unproven claim for the other link has no effect
    const theft = await claim(side, twin, { hash: signed.hash, address: payer.address });
    expect([theft.status, theft.body.proofRequired]).toEqual([200, true]);
    await broadcast(side, signed);
    await indexed(side);
    await expectPaidByProof(meant, twin);
  });

  test("proves repeatedly with the same answer", async () => {
    const { meant, twin, hash } = await payAmbiguous();
    for (let round = 0; round < 3; round++)
      expect((await prove(side, meant, { hash, person: payer })).status).toBe(200);
    await expectPaidByProof(meant, twin);
    const again = await prove(side, meant, { hash, person: payer });
    expect([again.status, again.body.status]).toEqual([200, "PAID"]);
    expect((await side.sql`select 1 from claims where link_id = ${meant}`).length).toBe(1);
  });

  const tampered: [string, (data: TypedData, twin: string) => TypedData][] = [
    ["statement", (data) => withMessage(data, { statement: `${data.message.statement} ` })],
    ["link", (data, twin) => withMessage(data, { linkId: twin })],
    ["recipient", (data) => withMessage(data, { recipient: USDC })],
    ["transaction", (data) => withMessage(data, { transactionHash: `0x${"12".repeat(32)}` })],
    ["host", (data) => ({ ...data, domain: { ...data.domain, name: "pay.example.org" } })],
    ["version", (data) => ({ ...data, domain: { ...data.domain, version: "2" } })],
    ["chain", (data) => ({ ...data, domain: { ...data.domain, chainId: 8453 } })],
  ];
  test.each(tampered)("error: a signature over another %s is 400 invalid_signature", async (_, change) => {
    const { meant, twin, units, hash } = await payAmbiguous();
    const signature = await signTypedData(payer, change(await typedDataOf(side, meant, hash), twin));
    const { status, body } = await claim(side, meant, { hash, address: payer.address, signature });
    expect([status, body.error.code, body.error.details]).toEqual([
      400,
      "VALIDATION_ERROR",
      { field: "signature", issue: "invalid_signature" },
    ]);
    expect(await claimOf(side, meant, hash)).toBeUndefined();
    expect(await linkOf(side, meant)).toMatchObject({ status: "ACTIVE", amountUnits: units });
    await expectReceived(side, hash, [meant, twin]);
  });

  test("error: another key's signature is 400, also for an address of its own", async () => {
    const { meant, hash } = await payAmbiguous();
    const stranger = makePayer();
    const typedData = await typedDataOf(side, meant, hash);
    const signature = await signTypedData(stranger, typedData);
    expect((await claim(side, meant, { hash, address: payer.address, signature })).status).toBe(400);
    // validly signed, but not by the sender
    const foreign = await claim(side, meant, { hash, address: stranger.address, signature });
    expect([foreign.status, foreign.body.error.details.issue]).toEqual([400, "does_not_pay_this_link"]);
    expect((await side.sql`select 1 from claims where link_id = ${meant}`).length).toBe(0);
  });

  test.each(["0x", "0x1", "1234", `0x${"zz".repeat(65)}`, `0x${"11".repeat(8_192)}`])(
    "error: a malformed signature, or one that is too long, is 400: %#",
    async (signature) => {
      const { meant, hash } = await payAmbiguous();
      const answer = await claim(side, meant, { hash, address: payer.address, signature: signature as Hex });
      expect([answer.status, answer.body.error.details.field]).toEqual([400, "signature"]);
    },
  );

  test.each([1, 64, 65, 66, 8_191])("error: %i random bytes are 400 invalid_signature", async (bytes) => {
    const { meant, hash } = await payAmbiguous();
    const signature: Hex = `0x${"ab".repeat(bytes)}`;
    const answer = await claim(side, meant, { hash, address: payer.address, signature });
    expect([answer.status, answer.body.error.details.issue]).toEqual([400, "invalid_signature"]);
  });

  test("proves while no node answers, and is settled when one does", async () => {
    const { meant, twin, hash } = await payAmbiguous();
    side.proxy.fault = () => ({ kind: "status", status: 503 });
    const answer = await prove(side, meant, { hash, person: payer });
    expect(answer.status).toBe(200);
    side.proxy.fault = () => undefined;
    await expectPaidByProof(meant, twin);
  });
});

function withMessage(data: TypedData, message: Partial<TypedData["message"]>): TypedData {
  return { ...data, message: { ...data.message, ...message } };
}

describe("a contract (ERC-1271)", () => {
  type Wallet = { passkey: SoftwarePasskey; address: Hex; deployment: { to: Hex; data: Hex } };

  async function newWallet(isDeployed = true): Promise<Wallet> {
    const passkey = await createSoftwarePasskey(SITE);
    const origin = accountOriginOf(passkey.publicKey);
    const address = accountAddress(origin);
    const deployment = { to: origin.factory, data: encodeCreateAccount(origin.owners, origin.saltNonce) };
    if (isDeployed) await broadcast(side, await signCall(side, payer, deployment));
    await indexed(side);
    return { passkey, address, deployment };
  }

  /** A transfer by the wallet itself, in a user operation sent by another account. */
  async function payFrom({ passkey, address }: Wallet, units: bigint): Promise<Hex> {
    await fundUsdc(side.rpcUrl, address, units);
    const calls = [{ to: USDC, data: encodeTransfer(side.wallet, units) }];
    const nonce = await readAccountNonce(chain, address);
    const operation = await signOperation(passkey, buildUserOperation({ sender: address, nonce, calls }));
    const hash = await broadcast(
      side,
      await signCall(side, payer, buildUserOperationCall(operation, payer.address)),
    );
    await indexed(side);
    return hash;
  }

  async function signWith({ passkey, address }: Wallet, linkId: string, hash: Hex): Promise<Hex> {
    const { domain, ...typedData } = await typedDataOf(side, linkId, hash);
    const digest = hashTypedData({ ...typedData, domain: { ...domain, chainId: BigInt(domain.chainId) } });
    return sign(passkey, replaySafeHash(address, domain.chainId, digest));
  }

  test("proves with its passkey", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const wallet = await newWallet();
    const hash = await payFrom(wallet, units);
    await expectReceived(side, hash, [meant, twin]);
    const signature = await signWith(wallet, meant, hash);
    const answer = await claim(side, meant, { hash, address: wallet.address, signature });
    expect(answer.status).toBe(200);
    await expectPaidByProof(meant, twin);
    expect(await claimOf(side, meant, hash)).toMatchObject({ state: "MATCHED", proof: "CONTRACT" });
  });

  test("error: another wallet's passkey, or its signature for the other link, is 400", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const [wallet, other] = [await newWallet(), await newWallet()];
    const hash = await payFrom(wallet, units);
    const foreign = [
      await signWith(other, meant, hash),
      await signWith({ ...wallet, passkey: other.passkey }, meant, hash),
      await signWith(wallet, twin, hash),
    ];
    for (const signature of foreign) {
      const answer = await claim(side, meant, { hash, address: wallet.address, signature });
      expect([answer.status, answer.body.error.details.issue]).toEqual([400, "invalid_signature"]);
    }
    expect(await claimOf(side, meant, hash)).toBeUndefined();
  });

  test("error: a wallet that is not on the chain is 400", async () => {
    const { meant, hash } = await payAmbiguous();
    const wallet = await newWallet(false);
    const signature = await signWith(wallet, meant, hash);
    const answer = await claim(side, meant, { hash, address: wallet.address, signature });
    expect([answer.status, answer.body.error.details.issue]).toEqual([400, "invalid_signature"]);
  });

  test("error: 500 retryable while no node answers, with nothing stored; then it proves", async () => {
    const { meant, twin, units } = await makeTwins(side);
    const wallet = await newWallet();
    const hash = await payFrom(wallet, units);
    const signature = await signWith(wallet, meant, hash);
    side.proxy.fault = () => ({ kind: "status", status: 503 });
    const { status, body } = await claim(side, meant, { hash, address: wallet.address, signature });
    expect([status, body.error.code, body.error.details]).toEqual([
      500,
      "INTERNAL_ERROR",
      { field: "signature", retryable: true },
    ]);
    expect(await claimOf(side, meant, hash)).toBeUndefined();
    side.proxy.fault = () => undefined;
    expect((await claim(side, meant, { hash, address: wallet.address, signature })).status).toBe(200);
    await expectPaidByProof(meant, twin);
  });
});
