/** Step 2: the network and any of its nodes, from which the account's state is read. */
import { useState } from "preact/hooks";
import { type Hex, NETWORKS, type Network, networkOf } from "../chain/networks.ts";
import { type Account, readAccount } from "./account.ts";
import { checksummed, formatAmount } from "./amounts.ts";
import { Busy, Card, Fact, Facts, Hash, Problem } from "./parts.tsx";
import { openRpc } from "./rpc.ts";
import { explain } from "./user-error.ts";
import type { WalletFile } from "./wallet-file.ts";

type NetworkStepProps = {
  file: WalletFile;
  account: Account | undefined;
  onAccount: (account: Account) => void;
  onChange: (() => void) | undefined;
};

const TITLE = "2. Network and node";

export function NetworkStep({ file, account, onAccount, onChange }: NetworkStepProps) {
  const [network, setNetwork] = useState(() => firstOf(file));
  const [url, setUrl] = useState<string>(network.rpcUrl);
  const [isReading, setReading] = useState(false);
  const [problem, setProblem] = useState<string>();

  function choose(chainId: number): void {
    const chosen = networkOf(chainId);
    if (!chosen) return;
    // a typed URL stays
    if (NETWORKS.some(({ rpcUrl }) => rpcUrl === url)) setUrl(chosen.rpcUrl);
    setNetwork(chosen);
  }

  async function read(): Promise<void> {
    setReading(true);
    setProblem(undefined);
    try {
      onAccount(await readAccount(openRpc(url), network, file));
    } catch (error) {
      setProblem(explain(error));
    } finally {
      setReading(false);
    }
  }

  if (account)
    return (
      <Card title={TITLE} isCurrent={false} onChange={onChange}>
        <Summary account={account} />
      </Card>
    );
  return (
    <Card title={TITLE} isCurrent={true}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          read();
        }}
      >
        <label for="network">Network</label>
        <select
          id="network"
          value={network.chainId}
          onChange={({ currentTarget }) => choose(Number(currentTarget.value))}
        >
          {NETWORKS.map(({ chainId, name }) => (
            <option key={chainId} value={chainId}>
              {name}
            </option>
          ))}
        </select>
        <label for="node">Node (RPC URL)</label>
        <input
          id="node"
          type="text"
          inputMode="url"
          autocomplete="off"
          spellcheck={false}
          required
          value={url}
          onInput={({ currentTarget }) => setUrl(currentTarget.value)}
        />
        <p class="hint">
          Any node of the network does. It sees your wallet's address, but cannot move anything.
        </p>
        <Problem text={problem} />
        {isReading ? (
          <Busy>Reading the wallet…</Busy>
        ) : (
          <button type="submit" class="button">
            Read the wallet
          </button>
        )}
      </form>
    </Card>
  );
}

function firstOf({ chainIds }: WalletFile): Network {
  const known = NETWORKS.filter(({ chainId }) => chainIds.includes(chainId));
  return known[0] ?? (NETWORKS[0] as Network);
}

function Summary({ account }: { account: Account }) {
  const { network, rpc, balanceUnits, isDeployed, owners } = account;
  return (
    <Facts>
      <Fact label="Holds">
        <strong>{formatAmount(balanceUnits)} USDC</strong> on {network.name}
      </Fact>
      <Fact label="Node">{new URL(rpc.url).host}</Fact>
      <Fact label="Account">{isDeployed ? "deployed" : "not deployed yet; the transfer does it"}</Fact>
      <Fact label="Owners">
        <ul>
          {owners.map(({ index, bytes }) => (
            <li key={index}>
              {bytes.length === 66 ? (
                <>
                  address <Hash>{checksummed(ownerAddress(bytes))}</Hash>
                </>
              ) : (
                <>
                  passkey <Hash>{`${bytes.slice(0, 10)}…${bytes.slice(-8)}`}</Hash>
                </>
              )}
            </li>
          ))}
        </ul>
      </Fact>
    </Facts>
  );
}

/** Of an owner that is an address padded to one word. */
export function ownerAddress(bytes: Hex): Hex {
  return `0x${bytes.slice(26)}`;
}
