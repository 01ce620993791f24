/**
 * The reference TypeScript facilitator (@x402/core with the exact scheme of @x402/evm) behind HTTP, without a database, configured for
 * throughput: several relayer keys in turn, each with viem's nonce manager, receipts polled every RECEIPT_POLL_MS. One process
 * in Bun or in Node; started by bench/pay-reference.ts. Prints its port.
 */
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { x402Facilitator } from "@x402/core/facilitator";
import { toFacilitatorEvmSigner } from "@x402/evm";
import { ExactEvmScheme } from "@x402/evm/exact/facilitator";
import { createWalletClient, type Hex, http, publicActions } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { baseSepolia } from "viem/chains";
import { createNonceManager, jsonRpc } from "viem/nonce";

const { RPC_URL = "", RELAYER_KEYS = "", RECEIPT_POLL_MS = "50" } = process.env;
const NETWORK = "eip155:84532";
const facilitators = RELAYER_KEYS.split(",").map((key) => openFacilitator(key as Hex));
let turn = 0;

const server = createServer(async (request, response) => {
  const [payload, requirements] = JSON.parse(await readBody(request));
  const facilitator = facilitators[turn++ % facilitators.length] as x402Facilitator;
  const answer = await facilitator
    .settle(payload, requirements)
    .catch((error: unknown) => ({ success: false, errorReason: String(error) }));
  const body = JSON.stringify(answer);
  response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
  response.end(body);
});
server.listen(0, "127.0.0.1", () => console.log((server.address() as AddressInfo).port));

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8");
}

function openFacilitator(key: Hex): x402Facilitator {
  const account = privateKeyToAccount(key, { nonceManager: createNonceManager({ source: jsonRpc() }) });
  const client = createWalletClient({
    account,
    chain: baseSepolia,
    pollingInterval: Number(RECEIPT_POLL_MS),
    transport: http(RPC_URL, { retryCount: 0 }),
  }).extend(publicActions);
  const signer = toFacilitatorEvmSigner({
    address: account.address,
    getCode: (args) => client.getCode(args),
    readContract: (args) => client.readContract({ ...args, args: args.args ?? [] } as never),
    verifyTypedData: (args) => client.verifyTypedData(args as never),
    writeContract: (args) => client.writeContract({ ...args, args: args.args ?? [] } as never),
    sendTransaction: (args) => client.sendTransaction(args),
    waitForTransactionReceipt: (args) => client.waitForTransactionReceipt(args),
  });
  return new x402Facilitator().register(NETWORK, new ExactEvmScheme(signer));
}
