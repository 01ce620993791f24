import { afterAll, describe, expect, test } from "bun:test";
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  bytesToHex,
  concatHex,
  createPublicClient,
  createWalletClient,
  http,
  parseAbi,
  toHex,
  zeroHash,
} from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { headerBytes } from "../../core/chain/encode-header.ts";
import { CONTRACTS, type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { localAccount, localRelayerKeys } from "../../local/chain/accounts.ts";
import { type LocalChain, startChain } from "../../local/chain/chain.ts";
import { assertLoopback, callRpc } from "../../local/chain/rpc.ts";
import { fundEth, fundUsdc } from "../../local/chain/usdc.ts";
import { startTestChain } from "../support/chain.ts";

const USDC_ABI = parseAbi([
  "function name() view returns (string)",
  "function version() view returns (string)",
  "function decimals() view returns (uint8)",
  "function DOMAIN_SEPARATOR() view returns (bytes32)",
  "function balanceOf(address) view returns (uint256)",
  "function transfer(address to, uint256 value) returns (bool)",
]);
const RECIPIENT = "0x00000000000000000000000000000000000000aa";

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

function readToken(chain: LocalChain, functionName: "name" | "version" | "decimals" | "DOMAIN_SEPARATOR") {
  const client = createPublicClient({ transport: http(chain.rpcUrl) });
  const network = Object.values(NETWORKS).find(({ chainId }) => chainId === chain.chainId);
  return client.readContract({ address: network?.usdc.address ?? "0x", abi: USDC_ABI, functionName });
}

function balanceOf(chain: LocalChain, address: `0x${string}`) {
  const client = createPublicClient({ transport: http(chain.rpcUrl) });
  const { address: token } = NETWORKS["base-sepolia"].usdc;
  return client.readContract({ address: token, abi: USDC_ABI, functionName: "balanceOf", args: [address] });
}

async function payOneUsdc(chain: LocalChain) {
  const [key] = localRelayerKeys();
  if (!key) throw new Error("no relayer key");
  const wallet = createWalletClient({ account: privateKeyToAccount(key), transport: http(chain.rpcUrl) });
  const hash = await wallet.writeContract({
    chain: null,
    address: NETWORKS["base-sepolia"].usdc.address,
    abi: USDC_ABI,
    functionName: "transfer",
    args: [RECIPIENT, 1_000_000n],
  });
  return createPublicClient({ transport: http(chain.rpcUrl) }).waitForTransactionReceipt({
    hash,
    pollingInterval: 20,
  });
}

test("has the token domain of Base Sepolia", async () => {
  const chain = await startTestChain();
  expect(await readToken(chain, "name")).toBe("USDC");
  expect(await readToken(chain, "version")).toBe("2");
  expect(await readToken(chain, "decimals")).toBe(6);
  expect(await readToken(chain, "DOMAIN_SEPARATOR")).toBe(
    "0x71f17a3b2ff373b803d70a5a07c046c1a2bc8e89c09ef722fcb047abe94c9818",
  );
  await chain.stop();
});

test("has the token domain of Base on chain id 8453", async () => {
  const chain = await startTestChain({ chainId: 8453 });
  expect(await readToken(chain, "name")).toBe("USD Coin");
  // The real value, from Base's own USDC.
  expect(await readToken(chain, "DOMAIN_SEPARATOR")).toBe(
    "0x02fa7265e7c5d81118673727957699e4d68f74cd74b7db77da710fe8a2c7834f",
  );
  await chain.stop();
});

test("contains EntryPoint v0.6, the passkey account, and 1,000,000 USDC at relayer 0", async () => {
  const chain = await startTestChain();
  const client = createPublicClient({ transport: http(chain.rpcUrl) });
  expect((await client.getCode({ address: CONTRACTS.entryPointV06 }))?.length).toBeGreaterThan(40_000);
  expect(await balanceOf(chain, localAccount(0).address)).toBe(1_000_000_000_000n);
  for (const address of [CONTRACTS.smartWalletFactory, CONTRACTS.smartWalletImplementation]) {
    expect((await client.getCode({ address }))?.length).toBeGreaterThan(1_000);
  }
  await chain.stop();
});

test("answers several calls in one through Multicall3", async () => {
  const chain = await startTestChain();
  const { address } = NETWORKS["base-sepolia"].usdc;
  const answers = await createPublicClient({ transport: http(chain.rpcUrl) }).multicall({
    multicallAddress: CONTRACTS.multicall3,
    allowFailure: false,
    contracts: [
      { address, abi: USDC_ABI, functionName: "decimals" },
      { address, abi: USDC_ABI, functionName: "balanceOf", args: [localAccount(0).address] },
    ],
  });
  expect(answers).toEqual([6, 1_000_000_000_000n]);
  await chain.stop();
});

test("verifies P-256 signatures at 0x100, as Base does", async () => {
  const chain = await startTestChain();
  const pair = await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, ["sign"]);
  const message = new TextEncoder().encode("signed with a passkey's curve");
  const signature = await crypto.subtle.sign({ name: "ECDSA", hash: "SHA-256" }, pair.privateKey, message);
  const publicKey = new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey)).subarray(1);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", message));
  const parts = [digest, new Uint8Array(signature), publicKey];
  const call = (data: `0x${string}`) =>
    callRpc(chain.rpcUrl, "eth_call", [{ to: "0x0000000000000000000000000000000000000100", data }, "latest"]);
  expect(await call(concatHex(parts.map((part) => bytesToHex(part))))).toBe(`0x${"1".padStart(64, "0")}`);
  digest[0] = (digest[0] ?? 0) ^ 1;
  expect(await call(concatHex(parts.map((part) => bytesToHex(part))))).toBe("0x");
  await chain.stop();
});

test("sets USDC and ETH balances without a transaction", async () => {
  const chain = await startTestChain();
  const client = createPublicClient({ transport: http(chain.rpcUrl) });
  const before = await client.getBlockNumber();
  await fundUsdc(chain.rpcUrl, RECIPIENT, 1_234_567n);
  await fundEth(chain.rpcUrl, RECIPIENT, 5n);
  expect(await balanceOf(chain, RECIPIENT)).toBe(1_234_567n);
  expect(await client.getBalance({ address: RECIPIENT })).toBe(5n);
  expect(await client.getBlockNumber({ cacheTime: 0 })).toBe(before);
  await chain.stop();
});

test("block times follow this machine's clock", async () => {
  const chain = await startTestChain();
  const nowS = () => Math.floor(Date.now() / 1000);
  for (let count = 0; count < 10; count++) {
    const beforeS = nowS();
    await callRpc(chain.rpcUrl, "evm_mine");
    const block = (await callRpc(chain.rpcUrl, "eth_getBlockByNumber", ["latest", false])) as {
      timestamp: string;
    };
    expect(Number(block.timestamp)).toBeWithin(beforeS, nowS() + 1);
  }
  await chain.stop();
});

test("mines every second when configured to", async () => {
  const chain = await startTestChain({ blockTimeS: 1 });
  const before = Number(await callRpc(chain.rpcUrl, "eth_blockNumber"));
  const receipt = await payOneUsdc(chain);
  expect(Number(receipt.blockNumber)).toBeGreaterThan(before);
  const deadline = Date.now() + 45_000;
  const head = async () => Number(await callRpc(chain.rpcUrl, "eth_blockNumber"));
  while ((await head()) <= Number(receipt.blockNumber) && Date.now() < deadline) await Bun.sleep(50);
  expect(await head()).toBeGreaterThan(Number(receipt.blockNumber));
  await chain.stop();
});

describe.each([
  ["a chain with state roots", false],
  ["a chain without state roots", true],
] as const)("%s between starts", (_, skipsStateRoots) => {
  test("keeps blocks, balances and receipts", async () => {
    const dataDir = newFolder();
    const first = await startChain({ dataDir, blockTimeS: 0, skipsStateRoots });
    const paid = await payOneUsdc(first);
    await first.stop();
    const second = await startChain({ dataDir, blockTimeS: 0, skipsStateRoots });
    const kept = await createPublicClient({ transport: http(second.rpcUrl) }).getTransactionReceipt({
      hash: paid.transactionHash,
    });
    expect(kept.blockHash).toBe(paid.blockHash);
    expect(await balanceOf(second, RECIPIENT)).toBe(1_000_000n);
    await second.stop();
  });

  test("a kill -9 loses only the last moment", async () => {
    const dataDir = newFolder();
    const script = `
      const { startChain } = await import(${JSON.stringify(join(import.meta.dir, "../../local/chain/chain.ts"))});
      const chain = await startChain({ dataDir: ${JSON.stringify(dataDir)}, blockTimeS: 0, skipsStateRoots: ${skipsStateRoots} });
      console.log(JSON.stringify(chain));
      setInterval(() => {}, 1000);`;
    const owner = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe", stderr: "inherit" });
    const first = await owner.stdout.getReader().read();
    const chain = JSON.parse(new TextDecoder().decode(first.value)) as LocalChain;
    const paid = await payOneUsdc(chain);
    const file = join(dataDir, "84532/state.json");
    const isWritten = () =>
      existsSync(file) &&
      JSON.parse(readFileSync(file, "utf8")).best_block_number >= Number(paid.blockNumber);
    for (const deadline = Date.now() + 60_000; !isWritten() && Date.now() < deadline; ) await Bun.sleep(20);
    owner.kill("SIGKILL");
    await owner.exited;
    const again = await startChain({ dataDir, blockTimeS: 0, skipsStateRoots });
    expect(await balanceOf(again, RECIPIENT)).toBe(1_000_000n);
    await again.stop();
  });

  test("a truncated state file is replaced by the previous one", async () => {
    const dataDir = newFolder();
    const chain = await startChain({ dataDir, blockTimeS: 0, skipsStateRoots });
    await payOneUsdc(chain);
    await chain.stop();
    await (await startChain({ dataDir, blockTimeS: 0, skipsStateRoots })).stop();
    const file = join(dataDir, "84532/state.json");
    writeFileSync(file, readFileSync(file, "utf8").slice(0, 1_000));
    const again = await startChain({ dataDir, blockTimeS: 0, skipsStateRoots });
    expect(await balanceOf(again, RECIPIENT)).toBe(1_000_000n);
    await again.stop();
  });

  test("a chain that ran for days restarts without its old empty blocks, with every transaction", async () => {
    const dataDir = newFolder();
    const chain = await startChain({ dataDir, blockTimeS: 0, skipsStateRoots });
    const paid = await payOneUsdc(chain);
    await chain.stop();
    // The file of a chain with 20,000 more empty blocks, without the time to mine them.
    const file = join(dataDir, "84532/state.json");
    const state = JSON.parse(readFileSync(file, "utf8"));
    const last = state.blocks.find(
      ({ header }: { header: { number: string } }) => Number(header.number) === 2,
    );
    for (let number = 3; number <= 20_000; number++) {
      state.blocks.push({
        ...last,
        transactions: [],
        header: { ...last.header, number: `0x${number.toString(16)}` },
      });
    }
    writeFileSync(file, JSON.stringify({ ...state, best_block_number: 20_000 }));

    const again = await startChain({ dataDir, blockTimeS: 0, skipsStateRoots });
    const kept = JSON.parse(readFileSync(file, "utf8")) as { blocks: unknown[] };
    // The newest 10,000, the two with transactions (the contracts and the payment), and the genesis block, which a fork has elsewhere.
    expect(kept.blocks).toHaveLength(skipsStateRoots ? 10_002 : 10_003);
    const receipt = await callRpc(again.rpcUrl, "eth_getTransactionReceipt", [paid.transactionHash]);
    expect(receipt).toMatchObject({ status: "0x1", blockHash: paid.blockHash });
    await again.stop();
  });
});

const readBlock = (chain: LocalChain, tag: string) =>
  callRpc(chain.rpcUrl, "eth_getBlockByNumber", [tag, false]) as Promise<
    Record<"hash" | "parentHash" | "stateRoot", Hex>
  >;

test("no two chains without state roots have a block in common, and each keeps its genesis block", async () => {
  const dataDir = newFolder();
  const hashes: (readonly [Hex, Hex])[] = [];
  for (const folder of [dataDir, dataDir, newFolder(), undefined]) {
    const chain = await startChain({
      blockTimeS: 0,
      skipsStateRoots: true,
      ...(folder ? { dataDir: folder } : {}),
    });
    hashes.push([(await readBlock(chain, "0x0")).hash, (await readBlock(chain, "0x1")).hash]);
    await chain.stop();
  }
  expect(hashes[1]).toEqual(hashes[0]);
  expect(new Set(hashes.flat()).size).toBe(6);
});

test("without state roots a block has none, and the genesis block's hash is that of its header", async () => {
  const chain = await startTestChain({ skipsStateRoots: true });
  const paid = await payOneUsdc(chain);
  expect((await readBlock(chain, toHex(paid.blockNumber))).stateRoot).toBe(zeroHash);
  const first = await readBlock(chain, "0x0");
  expect(headerBytes(first)).toBeString();
  expect((await readBlock(chain, "0x1")).parentHash).toBe(first.hash);
  await chain.stop();
});

test("a chain whose folder was removed does not affect the one started in its place", async () => {
  const dataDir = newFolder();
  const removed = await startChain({ dataDir, blockTimeS: 0, skipsStateRoots: true });
  await payOneUsdc(removed);
  rmSync(dataDir, { recursive: true });
  const begun = await startChain({ dataDir, blockTimeS: 0, skipsStateRoots: true });
  const first = await readBlock(begun, "0x0");
  await begun.stop();
  await removed.stop();
  const again = await startChain({ dataDir, blockTimeS: 0, skipsStateRoots: true });
  expect((await readBlock(again, "0x1")).parentHash).toBe(first.hash);
  expect(await balanceOf(again, RECIPIENT)).toBe(0n);
  await again.stop();
});

test("error: the state of a chain with another genesis block is refused", async () => {
  const [dataDir, other] = [newFolder(), newFolder()];
  for (const folder of [dataDir, other])
    await (await startChain({ dataDir: folder, blockTimeS: 0, skipsStateRoots: true })).stop();
  copyFileSync(join(other, "84532/state.json"), join(dataDir, "84532/state.json"));
  const mixed = startChain({ dataDir, blockTimeS: 0, skipsStateRoots: true });
  await expect(mixed).rejects.toThrow("is the state of another local chain. Remove its folder");
  // its lock and its node are given back
  rmSync(dataDir, { recursive: true });
  await (await startChain({ dataDir, blockTimeS: 0, skipsStateRoots: true })).stop();
});

test("a chain that was started with state roots keeps them", async () => {
  const dataDir = newFolder();
  const chain = await startChain({ dataDir, blockTimeS: 0 });
  const first = await readBlock(chain, "0x0");
  await chain.stop();
  const again = await startChain({ dataDir, blockTimeS: 0, skipsStateRoots: true });
  const paid = await payOneUsdc(again);
  expect((await readBlock(again, "0x0")).hash).toBe(first.hash);
  expect((await readBlock(again, toHex(paid.blockNumber))).stateRoot).not.toBe(zeroHash);
  await again.stop();
});

test("refuses a node that is not on this machine", () => {
  expect(() => assertLoopback("https://mainnet.example.org")).toThrow("not for mainnet.example.org");
  expect(() => assertLoopback("http://10.0.0.1:8545")).toThrow("not for 10.0.0.1");
  expect(() => assertLoopback("http://127.0.0.1:8545")).not.toThrow();
});

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "local-chain-"));
  folders.push(folder);
  return folder;
}
