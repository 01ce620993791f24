/** Deploys a user's smart account at its counterfactual address. Idempotent: the factory does nothing for an account that exists. */
import { encodeCreateAccount } from "../../core/chain/passkey-account.ts";
import { recordEvents } from "../../db/events/events.ts";
import { enqueue, type JobPayload } from "../../db/jobs/queue.ts";
import { findDeploymentInFlight, findWalletById, markWalletDeployed } from "../../db/wallets/deployments.ts";
import type { RelayNetwork } from "../sender/relay-network.ts";
import { sendCall } from "../sender/send-relay.ts";

/** Measured 217k with the audited factory; unused gas is not paid for. */
const CREATE_ACCOUNT_GAS = 400_000n;
const POLL_MS = 3_000;

/** Throws when no key can pay or the node is unavailable; the queue retries. */
export async function deployWallet(
  networks: ReadonlyMap<string, RelayNetwork>,
  payload: JobPayload<"deploy_wallet">,
): Promise<void> {
  const [first] = networks.values();
  if (!first) return;
  const wallet = await findWalletById(first.deps.sql, payload.walletId);
  const network = wallet && networks.get(wallet.network);
  if (!wallet || wallet.deployedAt || !network) return;
  // where gas costs money, only its first send or a recovery deploys an account
  if (!network.chain.network.isTestnet && !payload.isForRecovery) return;
  const { deps, chain } = network;
  const code = await chain.request("eth_getCode", [wallet.address, "latest"]);
  if (code !== "0x") {
    await deps.sql.begin(async (tx) => {
      if (!(await markWalletDeployed(tx, wallet.id))) return;
      const data = { network: wallet.network, address: wallet.address };
      await recordEvents(tx, [
        { userId: wallet.userId, type: "wallet.deployed", subjectId: wallet.id, data },
      ]);
    });
    return;
  }
  if (!(await findDeploymentInFlight(deps.sql, wallet.id))) {
    const data = encodeCreateAccount(wallet.owners, wallet.saltNonce);
    const call = { to: wallet.factory, data, gas: CREATE_ACCOUNT_GAS };
    const relay = await sendCall(network, { kind: "DEPLOY", call, walletId: wallet.id });
    if (typeof relay === "string")
      throw new Error(`no relayer key can deploy wallet ${wallet.id} now: ${relay}`);
    deps.log.info(
      { walletId: wallet.id, txHash: relay.txHash, requestId: payload.requestId },
      "deploying wallet",
    );
  }
  await enqueue(deps.sql, "deploy_wallet", payload, { runAt: new Date(Date.now() + POLL_MS) });
}
