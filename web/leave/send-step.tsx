/** Step 5: anybody may send the signed operation. The page follows it from the signature on, whoever sends it. */
import { useEffect, useState } from "preact/hooks";
import type { Hex } from "../chain/networks.ts";
import { openInLinks, type Wallet, type Wallets, watchWallets } from "../checkout/wallets.ts";
import type { Account } from "./account.ts";
import { connect, send } from "./browser-wallet.ts";
import { follow, type Outcome } from "./follow-operation.ts";
import { Busy, Card, CopyButton, Fact, Facts, Hash, Problem } from "./parts.tsx";
import type { Ready } from "./review-step.tsx";
import type { Signer } from "./transfer-step.tsx";
import { explain, Fault } from "./user-error.ts";
import { simulateTransaction } from "./user-operation.ts";

type SendStepProps = {
  account: Account;
  ready: Ready;
  signer: Signer;
  onOutcome: (outcome: Outcome) => void;
  onAgain: () => void;
};
type Progress =
  | { kind: "choosing" }
  | { kind: "asking"; wallet: string }
  | { kind: "sent"; txHash: Hex }
  | { kind: "unknown"; wallet: string; reason: string };

export function SendStep({ account, ready, signer, onOutcome, onAgain }: SendStepProps) {
  const { transaction, userOpHash, fromBlock } = ready;
  const [wallets, setWallets] = useState<Wallets>({ found: [], outside: [], isSearching: true });
  const [progress, setProgress] = useState<Progress>({ kind: "choosing" });
  const [problem, setProblem] = useState<string>();
  const [nodeProblem, setNodeProblem] = useState<string>();
  const txHash = progress.kind === "sent" ? progress.txHash : undefined;
  useEffect(() => watchWallets(setWallets), []);
  useEffect(() => {
    const stop = new AbortController();
    const sought = { account, userOpHash, txHash, fromBlock };
    follow(sought, { onProblem: setNodeProblem, signal: stop.signal }).then((outcome) => {
      if (outcome && !stop.signal.aborted) onOutcome(outcome);
    });
    return () => stop.abort();
  }, [txHash]);

  async function sendWith(wallet: Wallet): Promise<void> {
    setProblem(undefined);
    setProgress({ kind: "asking", wallet: wallet.name });
    try {
      const payer = await connect(wallet, account);
      refuseOthers(signer, payer);
      await simulateTransaction(account, transaction, payer);
      const sending = await send(wallet, payer, transaction);
      setProgress(
        sending.isSent === true
          ? { kind: "sent", txHash: sending.txHash }
          : { kind: "unknown", wallet: wallet.name, reason: sending.reason },
      );
    } catch (error) {
      setProblem(explain(error));
      setProgress({ kind: "choosing" });
    }
  }

  const isOperation = userOpHash !== undefined;
  return (
    <Card title="5. Send" isCurrent={true}>
      {isOperation && progress.kind === "choosing" && (
        <p>
          <strong>Signed, not sent yet.</strong> A browser wallet with a little ETH on {account.network.name}{" "}
          sends it and pays the gas. It can be any wallet: it gets no power over yours.
        </p>
      )}
      {!isOperation && progress.kind === "choosing" && (
        <p>Choose the browser wallet that holds the owner address. It signs, sends, and pays the gas.</p>
      )}
      <Problem text={problem} />
      {progress.kind === "choosing" && <WalletChoice wallets={wallets} onChoose={sendWith} />}
      {progress.kind === "asking" && <Busy>Confirm in {progress.wallet}…</Busy>}
      {progress.kind === "sent" && (
        <>
          <Busy>Sent. Waiting for a block…</Busy>
          <Facts>
            <Fact label="Transaction">
              <Hash>{progress.txHash}</Hash>
            </Fact>
          </Facts>
        </>
      )}
      {progress.kind === "unknown" && (
        <div class="note warn" role="alert">
          <p>
            <strong>{progress.reason}</strong> It may have sent the transaction all the same. Look at the
            wallet's activity
            {isOperation
              ? "; sending it again does no harm, it can be executed only once."
              : " before you try again."}
          </p>
          <button type="button" class="button second" onClick={() => setProgress({ kind: "choosing" })}>
            Try again
          </button>
        </div>
      )}
      {isOperation && <OtherWays account={account} ready={ready} />}
      {nodeProblem && <p class="note warn">{nodeProblem} The page keeps trying.</p>}
      {isOperation && (
        <p class="hint">
          What you signed stays valid until the wallet's next operation. It pays only this recipient and
          amount, once.
        </p>
      )}
      {progress.kind === "choosing" && (
        <button type="button" class="plain" onClick={onAgain}>
          Start again
        </button>
      )}
    </Card>
  );
}

function WalletChoice({ wallets, onChoose }: { wallets: Wallets; onChoose: (wallet: Wallet) => void }) {
  if (wallets.isSearching) return <Busy>Looking for browser wallets…</Busy>;
  if (wallets.found.length > 0)
    return (
      <>
        {wallets.found.map((wallet) => (
          <button key={wallet.id} type="button" class="button" onClick={() => onChoose(wallet)}>
            {wallet.icon && <img src={wallet.icon} alt="" />}
            <span>Send with {wallet.name}</span>
          </button>
        ))}
      </>
    );
  const isPhone = matchMedia("(pointer: coarse)").matches;
  return (
    <>
      <p class="note">No browser wallet was found on this page.</p>
      {isPhone &&
        openInLinks(location.href).map(({ name, href }) => (
          <a key={name} class="button second" href={href} rel="noopener">
            Open this page in {name}
          </a>
        ))}
    </>
  );
}

/** For a command line, a hardware wallet's own app, or another person. */
function OtherWays({ account, ready: { transaction } }: { account: Account; ready: Ready }) {
  const { to, data, gas } = transaction;
  const command = `cast send ${to} ${data} --gas-limit ${gas} --rpc-url ${account.rpc.url} --interactive`;
  return (
    <details>
      <summary>Send it in another way</summary>
      <p>
        Any account on {account.network.name} can send this transaction, from any program. This page notices
        when it is in a block.
      </p>
      <Facts>
        <Fact label="To">
          <Hash>{to}</Hash> <CopyButton text={to} label="Copy the transaction's recipient" />
        </Fact>
        <Fact label="Value">0</Fact>
        <Fact label="Gas limit">{gas.toString()}</Fact>
        <Fact label="Data">
          <textarea readOnly rows={5} value={data} aria-label="Data of the transaction" />
          <CopyButton text={data} label="Copy the transaction's data" />
        </Fact>
        <Fact label="With Foundry">
          <code class="command">cast send … --interactive</code>{" "}
          <CopyButton text={command} label="Copy the command" />
        </Fact>
      </Facts>
    </details>
  );
}

function refuseOthers(signer: Signer, payer: Hex): void {
  if (signer.kind !== "address" || payer.toLowerCase() === signer.address) return;
  throw new Fault(
    `The wallet's account ${payer} is not the owner address ${signer.address}. Choose that account in it.`,
  );
}
