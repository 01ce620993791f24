/** What happens to a wallet without this service: the address owner's own transactions, which its user must learn of. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { encodeFunctionData, parseAbi } from "viem";
import {
  encodeAccountCalls,
  encodeAddOwner,
  encodeRemoveOwner,
  toOwner,
} from "../../core/chain/passkey-account.ts";
import { encodeTransfer } from "../../core/chain/usdc.ts";
import { CONTRACTS, type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { localAccount } from "../../local/chain/accounts.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { openClient } from "../support/http-client.ts";
import { randomAddress } from "../support/indexer-lab.ts";
import { addressOwner, changeOwner, newPasskeyOwner, ownersOn, prepareChange } from "../support/owners.ts";
import { confirmSend, prepareSend, waitForSend } from "../support/sends.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { waitForReceipt } from "../support/wait-for-receipt.ts";
import { startWorld, type World } from "../support/world.ts";

const WAIT_MS = 90_000;
const ACCOUNT = 6;
const USDC = NETWORKS["base-sepolia"].usdc.address;

let world: World;
let merchant: Merchant;
beforeAll(async () => {
  world = await startWorld();
  merchant = await signUp(world.baseUrl);
  await fundUsdc(world.chain.rpcUrl, merchant.walletAddress as Hex, 10_000_000n);
  const { add } = await addressOwner(merchant.client, ACCOUNT);
  await changeOwner(merchant, { add });
}, 120_000);
afterAll(() => world?.stop());

/** A transaction of the address owner's own, straight to the wallet. */
async function sendFromAddressOwner(data: Hex): Promise<string> {
  const from = localAccount(ACCOUNT).address;
  const hash = await callRpc(world.chain.rpcUrl, "eth_sendTransaction", [
    { from, to: merchant.walletAddress, data, gas: "0x7a120" },
  ]);
  const receipt = await waitForReceipt(world.chain.rpcUrl, hash);
  expect(receipt.status).toBe("0x1");
  return String(hash);
}

/** Waits for a mail with this in its subject that names the transaction. */
async function mailAbout(subject: string, txHash: string): Promise<string> {
  const deadline = Date.now() + WAIT_MS;
  for (;;) {
    const mails = world.mailbox.messages(merchant.email);
    const found = mails.filter((mail) => mail.subject.includes(subject) && mail.text.includes(txHash));
    if (found.length > 0) {
      expect(found).toHaveLength(1);
      return found[0]?.text ?? "";
    }
    if (Date.now() > deadline)
      throw new Error(
        `no mail "${subject}" about ${txHash}: ${mails.map((mail) => mail.subject).join("; ")}`,
      );
    await Bun.sleep(50);
  }
}

async function trailOf(type: string): Promise<Record<string, unknown>[]> {
  const { body } = await merchant.client.get("/v1/security-events?limit=100");
  return body.data.filter((event: { type: string }) => event.type === type);
}

describe("a change made through the service", () => {
  test("is mailed, and is in the security trail with its signer and its outcome on the chain", async () => {
    const [signed] = await trailOf("owner_change_signed");
    expect(signed).toMatchObject({ details: { action: "ADD", networks: "base-sepolia" } });
    expect(signed?.clientAddress).toBeString();
    const [added] = await trailOf("owner_added");
    const address = localAccount(ACCOUNT).address.toLowerCase();
    expect(added).toMatchObject({ clientAddress: null, details: { isOurs: true, address } });
    const details = added?.details as { txHash: string };
    const text = await mailAbout("An owner was added", details.txHash);
    expect(text).toContain(address);
    expect(text).not.toContain("did not come through");
    // the passkey that the account was deployed with is no change
    expect(await trailOf("owner_added")).toHaveLength(1);
    const [event] = await world.sql<{ data: Record<string, unknown> }[]>`
      select data from events where user_id = ${merchant.userId} and type = 'wallet.owner_added'`;
    expect(event?.data).toMatchObject({ network: "base-sepolia", isOurs: true, address });
  }, 120_000);

  test("a send is mailed as money that left through the service", async () => {
    const send = await prepareSend(merchant, { to: randomAddress(), amount: "1" });
    await confirmSend(merchant, send);
    const done = await waitForSend(merchant, send.sendId);
    const text = await mailAbout("Money left", done.transactionHash);
    expect(text).toContain("1.000000 USDC");
    expect(text).not.toContain("did not come through");
    expect(await trailOf("money_sent_elsewhere")).toHaveLength(0);
  }, 120_000);
});

describe("a change made outside the service", () => {
  test("an owner that the address owner adds and removes itself is mailed each time", async () => {
    const { passkey } = await newPasskeyOwner(merchant.client);
    const added = await sendFromAddressOwner(encodeAddOwner(passkey.publicKey));
    expect(await mailAbout("An owner was added", added)).toContain("did not come through");
    const { owners } = await ownersOn(merchant.client);
    expect(owners).toHaveLength(3);
    // a key that this service has never seen is shown, and does not sign in
    expect(owners[2]).toMatchObject({ index: 2, type: "passkey", credentialId: null, name: null });
    const options = await openClient(world.baseUrl).post("/v1/auth/options", { email: merchant.email });
    expect(options.body.allowCredentials).toHaveLength(1);
    const removed = await sendFromAddressOwner(encodeRemoveOwner(2, toOwner(passkey.publicKey)));
    expect(await mailAbout("An owner was removed", removed)).toContain("did not come through");
    expect(await trailOf("owner_removed")).toMatchObject([{ details: { txHash: removed, isOurs: false } }]);
  }, 120_000);

  test("money that the address owner sends itself is mailed and in the trail", async () => {
    const data = encodeAccountCalls([{ to: USDC, data: encodeTransfer(randomAddress(), 2_000_000n) }]);
    const txHash = await sendFromAddressOwner(data);
    expect(await mailAbout("Money left", txHash)).toContain("did not come through");
    expect(await trailOf("money_sent_elsewhere")).toMatchObject([
      { details: { txHash, amount: "2.000000" } },
    ]);
  }, 120_000);

  test("an owner whose block leaves the chain is removed, and a passkey that was an owner can no longer sign in", async () => {
    const { passkey, add } = await newPasskeyOwner(merchant.client);
    await prepareChange(merchant.client, { add });
    const offered = async () => {
      const { body } = await openClient(world.baseUrl).post("/v1/auth/options", { email: merchant.email });
      return body.allowCredentials.map(({ id }: { id: string }) => id);
    };
    const { rpcUrl } = world.chain;
    const snapshot = await callRpc(rpcUrl, "evm_snapshot");
    const txHash = await sendFromAddressOwner(encodeAddOwner(passkey.publicKey));
    await mailAbout("An owner was added", txHash);
    expect(await offered()).toContain(passkey.credentialId);
    await callRpc(rpcUrl, "evm_revert", [snapshot]);
    await callRpc(rpcUrl, "anvil_mine", ["0x3"]);
    const deadline = Date.now() + WAIT_MS;
    while ((await offered()).includes(passkey.credentialId)) {
      if (Date.now() > deadline)
        throw new Error("the passkey is still offered after its block left the chain");
      await Bun.sleep(50);
    }
    expect(await world.sql`select 1 from account_changes where tx_hash = ${txHash}`).toHaveLength(0);
  }, 120_000);

  test("an upgrade of the account is mailed", async () => {
    const ABI = parseAbi(["function upgradeToAndCall(address implementation, bytes data)"]);
    const data = encodeFunctionData({
      abi: ABI,
      functionName: "upgradeToAndCall",
      args: [CONTRACTS.smartWalletImplementation, "0x"],
    });
    const txHash = await sendFromAddressOwner(data);
    expect(await mailAbout("The code of your wallet was changed", txHash)).toContain("did not come through");
    expect(await trailOf("wallet_upgraded")).toHaveLength(1);
  }, 120_000);
});
