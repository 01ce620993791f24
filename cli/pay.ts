/** `pay LINK`: with the local chain's test wallet (--test), or with PAYER_PRIVATE_KEY and a limit (--max). */
import { privateKeyToAccount } from "viem/accounts";
import { type PayOptions, payLink, type Signer } from "../sdk/pay-link.ts";
import { parseUsdc, UsageError } from "./arguments.ts";
import { formatUsdc, printFacts } from "./output.ts";
import { type Command, parseLink, type Settings } from "./settings.ts";

const PRIVATE_KEY = /^0x[0-9a-fA-F]{64}$/;
const BASE_SEPOLIA = 84_532;
/** The limit without --max, for test money only. */
const TEST_MAX = 1_000_000;

export const pay: Command = async (given, settings, output) => {
  const id = parseLink(given.positionals[0] ?? "", settings);
  const isTest = given.has("test");
  const [max, amount] = [given.text("max"), given.text("amount")];
  if (!isTest && max === undefined) throw new UsageError("pay needs --max, or --test for test money");
  const options: PayOptions = {
    maxAmount: max === undefined ? TEST_MAX : parseUsdc(max, "max"),
    amount: amount === undefined ? undefined : parseUsdc(amount, "amount"),
  };
  const { payerKey } = settings;
  const account = payerKey === undefined ? await testWallet(id, settings, isTest) : toAccount(payerKey);
  // the test wallet only exists with a local chain, whatever its network is called
  const chainIds = isTest && payerKey !== undefined ? [BASE_SEPOLIA] : undefined;
  const aiUrl = `${settings.url}/v1/x402/${id}`;
  const paid = await payLink(aiUrl, account, { ...options, chainIds });
  const value = {
    linkId: id,
    amount: formatUsdc(Number(paid.amountUnits) / 1e6),
    payer: account.address,
    transactionHash: paid.txHash,
    paymentId: paid.paymentId,
  };
  output.value(value, () =>
    printFacts([
      ["Paid", `${value.amount} USDC`],
      ["Link", id],
      ["From", account.address],
      ["Transaction", paid.txHash],
    ]),
  );
  return 0;
};

function toAccount(key: string): Signer {
  if (!PRIVATE_KEY.test(key)) throw new UsageError("PAYER_PRIVATE_KEY must be 0x and 64 hex digits");
  return privateKeyToAccount(key as `0x${string}`);
}

/** The account that the local node signs for; a service elsewhere has none. */
async function testWallet(linkId: string, { url }: Settings, isTest: boolean): Promise<Signer> {
  if (!isTest)
    throw new UsageError("Set PAYER_PRIVATE_KEY, or pass --test for the local chain's test wallet");
  const ask = async (method: string, params: unknown[]) => {
    const answer = await fetch(`${url}/v1/test/wallet`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ linkId, method, params }, (_key, value) =>
        typeof value === "bigint" ? String(value) : value,
      ),
    });
    if (answer.status === 404)
      throw new UsageError(
        `${url} has no test wallet; only \`npm start\` provides one. Set PAYER_PRIVATE_KEY to a key with test USDC instead`,
      );
    const { result, error } = (await answer.json()) as { result?: unknown; error?: { message: string } };
    if (result === undefined) throw new Error(error?.message ?? `${method} was answered ${answer.status}`);
    return result;
  };
  const [address] = (await ask("eth_requestAccounts", [])) as [`0x${string}`];
  return {
    address,
    async signTypedData(typedData) {
      const { domain, types } = typedData;
      const EIP712Domain = [
        { name: "name", type: "string" },
        { name: "version", type: "string" },
        { name: "chainId", type: "uint256" },
        { name: "verifyingContract", type: "address" },
      ];
      const { name, version, chainId, verifyingContract } = domain;
      const whole = {
        ...typedData,
        domain: { name, version, chainId, verifyingContract },
        types: { EIP712Domain, ...types },
      };
      return (await ask("eth_signTypedData_v4", [address, whole])) as `0x${string}`;
    },
  };
}
