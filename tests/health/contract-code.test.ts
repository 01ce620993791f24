/** The code at the wallets' addresses: compared by hash on public networks, reported elsewhere, and never placed when it is another. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { checkContracts } from "../../api/health/checks.ts";
import { CONTRACTS } from "../../core/domain/networks.ts";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import { startChain } from "../../local/chain/chain.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";

let node: TestChain;
let chain: Chain;
beforeAll(async () => {
  node = await startTestChain();
  chain = openChain({ network: "base-sepolia", urls: [node.rpcUrl], timeoutMs: 5_000 });
}, 120_000);
afterAll(async () => {
  chain?.close();
  await node?.stop();
});

test("a local chain's stand-in is reported as such, and refused on a public network", async () => {
  expect(await checkContracts(chain, { isPublic: false })).toEqual({
    status: "healthy",
    details: { walletCode: "local stand-in" },
  });
  // the EntryPoint of local chains is the canonical one, byte for byte
  expect(await checkContracts(chain, { isPublic: true })).toEqual({
    status: "unhealthy",
    error: "not the audited code at walletFactory, walletImplementation",
  });
});

test("an EntryPoint with one more byte is not the audited one", async () => {
  const code = await callRpc(node.rpcUrl, "eth_getCode", [CONTRACTS.entryPointV06, "latest"]);
  await callRpc(node.rpcUrl, "anvil_setCode", [CONTRACTS.entryPointV06, `${code}00`]);
  try {
    const { error } = await checkContracts(chain, { isPublic: true });
    expect(error).toBe("not the audited code at entryPoint, walletFactory, walletImplementation");
  } finally {
    await callRpc(node.rpcUrl, "anvil_setCode", [CONTRACTS.entryPointV06, code]);
  }
});

test("a local chain does not start with wallet code of another hash", async () => {
  await expect(startChain({ blockTimeS: 0, walletCodeUrl: node.rpcUrl })).rejects.toThrow(
    "WALLET_CODE_RPC_URL does not have the audited wallet contracts",
  );
});
