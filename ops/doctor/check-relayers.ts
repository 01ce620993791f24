/** The relayers' ETH: without any nothing is relayed. */
import { listSignerAccounts, SignerError } from "../../core/chain/remote-signer.ts";
import { openChain } from "../../core/rpc/chain-client.ts";
import { parseQuantity } from "../../core/rpc/parse-answers.ts";
import type { WorkerConfig } from "../../worker/config.ts";
import { advice, type Finding, fault, good } from "./finding.ts";
import type { Configuration } from "./read-configuration.ts";

const TIMEOUT_MS = 5_000;

export async function checkRelayers({ api, worker }: Configuration): Promise<Finding[]> {
  if (!api || !worker) return [];
  const found = worker.chains.map(async ({ id, rpcUrls }) => {
    const addresses = (worker.relayerKeys.get(id) ?? []).map(({ address }) => address);
    const chain = openChain({ network: id, urls: rpcUrls, timeoutMs: TIMEOUT_MS });
    try {
      const outcomes = await chain.batch(
        addresses.map((address) => ({ method: "eth_getBalance", params: [address, "latest"] })),
      );
      const poor = addresses.filter((_, index) => {
        const outcome = outcomes[index];
        if (!outcome?.ok) throw outcome?.error ?? new Error("a balance was not answered");
        return parseQuantity(outcome.result, "eth_getBalance") < api.relayerBalanceFloorWei;
      });
      return judge(id, addresses, poor, api.relayerBalanceFloorWei);
    } catch {
      // the node's own check says why
      return [];
    } finally {
      chain.close();
    }
  });
  return [...(await Promise.all(found)).flat(), ...(await checkSigners(worker.relayerKeys))];
}

/** Each signer holds the keys that it is to sign with. */
async function checkSigners(keys: WorkerConfig["relayerKeys"]): Promise<Finding[]> {
  const remote = [...keys].flatMap(([network, ofNetwork]) =>
    ofNetwork.flatMap((key) => ("signerUrl" in key ? [{ network, ...key }] : [])),
  );
  const found = [...Map.groupBy(remote, ({ network, signerUrl }) => `${network} ${signerUrl}`).values()].map(
    async (wanted): Promise<Finding[]> => {
      const [first] = wanted;
      if (!first) return [];
      try {
        const held = await listSignerAccounts(first.signerUrl);
        const missing = wanted.filter(({ address }) => !held.includes(address)).map(({ address }) => address);
        if (missing.length > 0)
          return [
            fault(
              "relayer",
              `the signer of ${first.network} has no key of ${missing.join(", ")}: load it there, or correct RELAYER_SIGNER_ADDRESSES`,
            ),
          ];
        return [good("relayer", `the signer of ${first.network} holds ${wanted.length} key(s)`)];
      } catch (error) {
        if (!(error instanceof SignerError)) throw error;
        return [
          fault(
            "relayer",
            `${error.message}: start it, or correct ${first.signerVariable} (${first.network})`,
          ),
        ];
      }
    },
  );
  return (await Promise.all(found)).flat();
}

function judge(
  network: string,
  addresses: readonly string[],
  poor: readonly string[],
  floorWei: bigint,
): Finding[] {
  const send = `send ETH on ${network} to ${poor.join(", ")} (at least ${toEther(floorWei)} ETH each)`;
  if (poor.length === addresses.length)
    return [fault("relayer", `no relayer key can pay gas on ${network}: ${send}`)];
  if (poor.length > 0) return [advice("relayer", `${poor.length} relayer key(s) are low on gas: ${send}`)];
  return [good("relayer", `${addresses.length} key(s) can pay gas on ${network}`)];
}

function toEther(wei: bigint): string {
  const digits = wei.toString().padStart(19, "0");
  return `${digits.slice(0, -18)}.${digits.slice(-18)}`.replace(/\.?0+$/, "");
}
