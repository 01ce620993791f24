/** Checks each node separately: its chain, its age, the methods the indexer uses, and the code of the contracts. */
import { checkContracts } from "../../api/health/checks.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import { openChain } from "../../core/rpc/chain-client.ts";
import { readHead } from "../../core/rpc/head.ts";
import type { ChainSettings } from "../../core/runtime/chain-env.ts";
import { isOnThisMachine } from "../../core/runtime/public-url.ts";
import { advice, type Finding, fault, good } from "./finding.ts";

const TIMEOUT_MS = 5_000;
const HEAD_AGE_MAX_S = 60;
/** Base's sequencer stamps its blocks ahead by less. */
const HEAD_AHEAD_MAX_S = 5;

export async function checkChains(
  chains: readonly ChainSettings[],
  { isProduction }: { isProduction: boolean },
): Promise<Finding[]> {
  const found = chains.map(async ({ id, rpcUrls }) => {
    const nodes = await Promise.all(rpcUrls.map((url) => checkNode(id, url, isProduction)));
    const alone =
      isProduction && rpcUrls.length === 1
        ? [
            advice(
              "chain",
              `${id} has only one node: add one of another provider, separated by a comma; the indexer compares them, and the service keeps running when one fails`,
            ),
          ]
        : [];
    return [...nodes.flat(), ...alone];
  });
  return (await Promise.all(found)).flat();
}

async function checkNode(network: NetworkId, url: string, isProduction: boolean): Promise<Finding[]> {
  const name = `${network} at ${new URL(url).host}`;
  const chain = openChain({ network, urls: [url], timeoutMs: TIMEOUT_MS });
  try {
    const head = await readHead(chain);
    const logs = chain.request("eth_getLogs", [
      { blockHash: head.hash, address: chain.network.usdc.address },
    ]);
    const [contracts] = await Promise.all([
      checkContracts(chain, { isPublic: isProduction && !isOnThisMachine(url) }),
      logs,
    ]);
    const ageS = Math.round(Date.now() / 1000) - head.timestampS;
    const findings: Finding[] = [];
    if (contracts.status === "unhealthy")
      findings.push(fault("chain", `${name}: ${contracts.error}; this node serves another chain`));
    if (ageS > HEAD_AGE_MAX_S && !isOnThisMachine(url))
      findings.push(
        fault(
          "chain",
          `${name}: its newest block is ${ageS} s old; the node lags, or this machine's clock is ahead`,
        ),
      );
    if (ageS < -HEAD_AHEAD_MAX_S)
      findings.push(
        fault(
          "clock",
          `this machine's clock is ${-ageS} s behind the newest block of ${name}: synchronise it with NTP`,
        ),
      );
    return findings.length > 0
      ? findings
      : [good("chain", `${name} answers: block ${head.number}, ${Math.max(0, ageS)} s old`)];
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    return [fault("chain", `${name} cannot be used: ${text}; correct ${variableOf(network)}`)];
  } finally {
    chain.close();
  }
}

function variableOf(network: NetworkId): string {
  return `RPC_URL_${network.toUpperCase().replaceAll("-", "_")}`;
}
