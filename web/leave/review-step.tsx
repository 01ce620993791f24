/** Step 4: everything that will be signed, in full, after a simulation on the chain. */
import { useEffect, useState } from "preact/hooks";
import type { Hex } from "../chain/networks.ts";
import { type Account, readNonce } from "./account.ts";
import { checksummed, formatAmount } from "./amounts.ts";
import { readHead } from "./follow-operation.ts";
import { Busy, Card, Fact, Facts, Hash, Problem } from "./parts.tsx";
import { signWithPasskey } from "./passkey.ts";
import type { Draft } from "./transfer-step.tsx";
import { explain, Fault } from "./user-error.ts";
import {
  buildOperation,
  buildOwnersTransaction,
  buildTransaction,
  operationHash,
  simulateTransaction,
  simulateTransfer,
  type Transaction,
} from "./user-operation.ts";

export type Ready = {
  readonly transaction: Transaction;
  /** Undefined for an address owner, who signs the transaction itself. */
  readonly userOpHash: Hex | undefined;
  readonly fromBlock: Hex;
};

type ReviewStepProps = { account: Account; draft: Draft; onReady: (ready: Ready) => void };
type Check = { kind: "running" } | { kind: "good" } | { kind: "bad"; why: string };

export function ReviewStep({ account, draft, onReady }: ReviewStepProps) {
  const { transfer, signer } = draft;
  const [check, setCheck] = useState<Check>({ kind: "running" });
  const [isSigning, setSigning] = useState(false);
  const [problem, setProblem] = useState<string>();
  useEffect(() => {
    const simulate = async () => {
      await simulateTransfer(account, transfer);
      if (signer.kind === "address")
        await simulateTransaction(account, buildOwnersTransaction(account, transfer), signer.address);
    };
    simulate().then(
      () => setCheck({ kind: "good" }),
      (error) => setCheck({ kind: "bad", why: explain(error) }),
    );
  }, []);

  async function sign(): Promise<void> {
    setSigning(true);
    setProblem(undefined);
    try {
      onReady(
        signer.kind === "address"
          ? await prepareForOwner(account, draft)
          : await signOperation(account, draft),
      );
    } catch (error) {
      setProblem(explain(error));
    } finally {
      setSigning(false);
    }
  }

  return (
    <Card title="4. Check and sign" isCurrent={true}>
      <p class="sum">
        <strong>{formatAmount(transfer.amountUnits)} USDC</strong> to
        <Hash>{checksummed(transfer.to)}</Hash>
      </p>
      <Facts>
        <Fact label="From your wallet">
          <Hash>{checksummed(account.file.address)}</Hash>
        </Fact>
        <Fact label="Network">{account.network.name}</Fact>
        <Fact label="Left in the wallet">
          {formatAmount(account.balanceUnits - transfer.amountUnits)} USDC
        </Fact>
        <Fact label="Gas">
          A few cents of ETH, paid by whoever sends the transaction. Nothing is taken from the USDC.
        </Fact>
      </Facts>
      {signer.kind === "address" ? (
        <OwnersCall account={account} draft={draft} />
      ) : (
        <Operation account={account} draft={draft} />
      )}
      {check.kind === "running" && <Busy>Asking the chain whether this works…</Busy>}
      {check.kind === "good" && <p class="note ok">Simulated: USDC accepts this transfer now.</p>}
      <Problem text={check.kind === "bad" ? check.why : problem} />
      {check.kind === "good" &&
        (isSigning ? (
          <Busy>Waiting for your passkey…</Busy>
        ) : (
          <button type="button" class="button" onClick={sign}>
            {signer.kind === "address" ? "Go on to the browser wallet" : "Sign with the passkey"}
          </button>
        ))}
      <p class="hint">
        Nothing is sent yet. The recipient cannot be changed afterwards, and a transfer cannot be undone.
      </p>
    </Card>
  );
}

function Operation({ account, draft }: { account: Account; draft: Draft }) {
  const operation = buildOperation(account, draft.transfer);
  return (
    <details>
      <summary>Everything that is signed</summary>
      <Facts>
        <Fact label="Hash (the passkey's challenge)">
          <Hash>{operationHash(operation, account.network.chainId)}</Hash>
        </Fact>
        <Fact label="Call">
          execute(USDC, 0, transfer({checksummed(draft.transfer.to)}, {draft.transfer.amountUnits.toString()}
          ))
        </Fact>
        <Fact label="Chain id">{account.network.chainId}</Fact>
        {Object.entries(operation).map(([name, value]) => (
          <Fact key={name} label={name}>
            <Hash>{String(value)}</Hash>
          </Fact>
        ))}
      </Facts>
    </details>
  );
}

function OwnersCall({ account, draft }: { account: Account; draft: Draft }) {
  const { to, data } = buildOwnersTransaction(account, draft.transfer);
  return (
    <details>
      <summary>Everything that is signed</summary>
      <Facts>
        <Fact label="Call">
          execute(USDC, 0, transfer({checksummed(draft.transfer.to)}, {draft.transfer.amountUnits.toString()}
          ))
        </Fact>
        <Fact label="Transaction to">
          <Hash>{checksummed(to)}</Hash>
        </Fact>
        <Fact label="Data">
          <Hash>{data}</Hash>
        </Fact>
      </Facts>
    </details>
  );
}

async function signOperation(account: Account, { transfer, signer }: Draft): Promise<Ready> {
  const { file, owners, network } = account;
  const fromBlock = await readHead(account);
  if ((await readNonce(account)) !== account.nonce)
    throw new Fault(
      "Another operation of this wallet was executed in the meantime. Read the wallet again (step 2).",
    );
  const operation = buildOperation(account, transfer);
  const userOpHash = operationHash(operation, network.chainId);
  const credentials = signer.kind === "anyPasskey" ? [] : file.credentials;
  const signature = await signWithPasskey({ rpId: file.rpId, credentials, hash: userOpHash, owners });
  const transaction = buildTransaction(account, operation, signature);
  await simulateTransaction(account, transaction);
  return { transaction, userOpHash, fromBlock };
}

async function prepareForOwner(account: Account, { transfer }: Draft): Promise<Ready> {
  const transaction = buildOwnersTransaction(account, transfer);
  return { transaction, userOpHash: undefined, fromBlock: await readHead(account) };
}
