/** An addition that was signed for every network, and that a stranger executed on one of them before the wallet was set up there. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { toHex } from "viem";
import { accountOriginOf, encodeCreateAccount } from "../../core/chain/passkey-account.ts";
import type { UserOperation } from "../../core/chain/user-operation.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { reconcileBalances } from "../../indexer/audit/reconcile-balances.ts";
import { reconcileNonces } from "../../indexer/audit/reconcile-nonces.ts";
import { localAccount } from "../../local/chain/accounts.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { buildUserOperationCall } from "../support/account-on-chain.ts";
import { openTerm, until } from "../support/indexer-lab.ts";
import { newMember } from "../support/members.ts";
import { changeOwner, confirmChange, ownersOn, prepareChange, setUpOn } from "../support/owners.ts";
import { expectRefusal } from "../support/sends.ts";
import { type Merchant, newPasskey, verifiedUser } from "../support/sign-up.ts";
import { waitForReceipt } from "../support/wait-for-receipt.ts";
import { startWorld, type World } from "../support/world.ts";

setDefaultTimeout(180_000);
const STRANGER = localAccount(5).address.toLowerCase() as Hex;

let world: World;
beforeAll(async () => {
  world = await startWorld({ bothNetworks: true });
});
afterAll(() => world?.stop());

const rpc = (method: string, params: unknown[]) => callRpc(world.chain.rpcUrl, method, params);

const atHead = () =>
  until("the indexer is at the head", async () => {
    const [cursor] = await world.sql<{ number: bigint }[]>`
      select number from cursors where network = 'base-sepolia'`;
    return Number(cursor?.number) === Number(await rpc("eth_blockNumber", []));
  });

/** With a wallet on base alone, which no job deploys. */
async function merchantOnBase(): Promise<Merchant> {
  const user = await verifiedUser(world.baseUrl);
  const passkey = await newPasskey(world.baseUrl);
  const started = await user.client.post("/v1/wallets/setup/start", { network: "base" });
  const { status, body } = await user.client.post("/v1/wallets/setup/complete", {
    challengeId: started.body.challengeId,
    passkeyResponse: await passkey.register(started.body.passkeyChallenge),
  });
  expect(status).toBe(200);
  return { ...user, passkey, walletAddress: body.wallet.address };
}

type Signed = {
  accountNonce: bigint;
  callData: Hex;
  callGas: bigint;
  verificationGas: bigint;
  signature: Hex;
};

/** On base-sepolia. */
async function executeAsStranger({ passkey, walletAddress }: Merchant, signed: Signed): Promise<void> {
  const { factory, owners, saltNonce } = accountOriginOf(passkey.publicKey);
  const operation: UserOperation = {
    sender: walletAddress.toLowerCase() as Hex,
    nonce: signed.accountNonce,
    callData: signed.callData,
    callGasLimit: signed.callGas,
    verificationGasLimit: signed.verificationGas,
    signature: signed.signature,
    ...{
      initCode: "0x",
      preVerificationGas: 0n,
      maxFeePerGas: 0n,
      maxPriorityFeePerGas: 0n,
      paymasterAndData: "0x",
    },
  };
  const deployment = { to: factory, data: encodeCreateAccount(owners, saltNonce) };
  const { to, data, gas } = buildUserOperationCall(operation, STRANGER, deployment);
  const hash = await rpc("eth_sendTransaction", [{ from: STRANGER, to, data, gas: toHex(gas) }]);
  expect((await waitForReceipt(world.chain.rpcUrl, hash)).status).toBe("0x1");
}

test("an addition is read from before wallet setup: it ends, and a member whose passkey it added can be removed", async () => {
  const merchant = await merchantOnBase();
  const person = await newMember(merchant, "owner");
  const add = { type: "member", userId: person.userId };
  const prepared = await prepareChange(merchant.client, { add });
  expect((await confirmChange(merchant, prepared)).status).toBe(202);
  const [signed] = await world.sql<Signed[]>`
    select account_nonce, call_data, call_gas, verification_gas, signature
    from wallet_operations where owner_change_id = ${prepared.ownerChangeId}`;
  if (!signed) throw new Error("nothing was signed");
  // beside it a payment that the address got then
  await fundUsdc(world.chain.rpcUrl, merchant.walletAddress as Hex, 2_000_000n);
  await executeAsStranger(merchant, signed);

  // as if the wallet had been set up long after that: these blocks have been read twice by then
  const executedIn = Number(await rpc("eth_blockNumber", []));
  await rpc("anvil_mine", ["0x60"]);
  await atHead();
  await until("the blocks are read a second time", async () => {
    const [cursor] = await world.sql<{ number: bigint | null }[]>`
      select rechecked_number as number from cursors where network = 'base-sepolia'`;
    return Number(cursor?.number ?? 0) > executedIn;
  });
  await world.kill("indexer", "SIGTERM");
  expect((await setUpOn(merchant, "base-sepolia")).status).toBe(200);
  await world.sql`
    update wallets set created_at = now() + interval '1 hour'
    where user_id = ${merchant.userId} and network = 'base-sepolia'`;
  await world.start("indexer");
  const wallet = async () => {
    const [row] = await world.sql<
      { backfilledAt: Date | null; openingUnits: bigint | null; differenceUnits: bigint }[]
    >`
      select backfilled_at, opening_units, difference_units from wallets
      where user_id = ${merchant.userId} and network = 'base-sepolia'`;
    return row;
  };
  await until("the wallet is read", async () => (await wallet())?.backfilledAt != null);
  await rpc("anvil_mine", ["0x60"]);
  const onSepolia = async () => {
    const { body } = await merchant.client.get(`/v1/wallets/owners/changes/${prepared.ownerChangeId}`);
    return body.networks.find(({ network }: { network: string }) => network === "base-sepolia").status;
  };
  await atHead();
  await world.kill("indexer", "SIGTERM");
  const term = await openTerm(world);
  try {
    await reconcileNonces(term);
    expect(await onSepolia()).toBe("CONFIRMED");
    await reconcileBalances(term);
    expect(await wallet()).toMatchObject({ differenceUnits: 0n });
  } finally {
    term.close();
  }
  await world.start("indexer");
  const remove = () => merchant.client.delete(`/v1/members/${person.userId}`);
  expectRefusal(await remove(), 409, { issue: "owner_on_chain" });
  for (const network of ["base-sepolia", "base"] as const) {
    const { owners, waiting } = await ownersOn(merchant.client, network);
    const own = [...owners, ...waiting].find(
      ({ credentialId }) => credentialId === person.passkey.credentialId,
    );
    await changeOwner(merchant, { network, remove: { ownerId: own.ownerId } });
  }
  await until("the member is removed", async () => (await remove()).status === 200);
});
