/** The last step: the result on the chain. */
import { useEffect, useState } from "preact/hooks";
import type { Hex } from "../chain/networks.ts";
import { type Account, readBalance } from "./account.ts";
import { checksummed, formatAmount } from "./amounts.ts";
import type { Outcome } from "./follow-operation.ts";
import { Card, Fact, Facts, Hash } from "./parts.tsx";
import { explain } from "./user-error.ts";
import type { Transfer } from "./user-operation.ts";

type DoneStepProps = { account: Account; transfer: Transfer; outcome: Outcome; onAgain: () => void };

export function DoneStep({ account, transfer, outcome, onAgain }: DoneStepProps) {
  const [balance, setBalance] = useState("…");
  useEffect(() => {
    readBalance(account).then(
      (units) => setBalance(`${formatAmount(units)} USDC`),
      (error) => setBalance(explain(error)),
    );
  }, []);
  return (
    <Card title={titleOf(outcome)} isCurrent={true}>
      {outcome.kind === "moved" && (
        <p class="note ok" role="status">
          {formatAmount(transfer.amountUnits)} USDC were sent to {checksummed(transfer.to)} in block{" "}
          {outcome.block.toString()}.
        </p>
      )}
      {outcome.kind === "failed" && (
        <p class="note bad" role="alert">
          The transaction is in a block, but the transfer in it failed
          {outcome.reason ? `: ${outcome.reason}` : ""}. The USDC are still in the wallet. Read the wallet
          again and retry.
        </p>
      )}
      {outcome.kind === "replaced" && (
        <p class="note warn" role="alert">
          Another operation of this wallet was executed instead. What you signed here can not be executed any
          more. Read the wallet again.
        </p>
      )}
      <Facts>
        {outcome.kind !== "replaced" && (
          <Fact label="Transaction">
            <a
              href={`${account.network.explorerUrl}${outcome.txHash}`}
              target="_blank"
              rel="noopener noreferrer"
            >
              <Hash>{outcome.txHash satisfies Hex}</Hash>
            </a>
          </Fact>
        )}
        <Fact label="The wallet holds now">{balance}</Fact>
      </Facts>
      <button type="button" class="button second" onClick={onAgain}>
        Read the wallet again
      </button>
    </Card>
  );
}

function titleOf({ kind }: Outcome): string {
  if (kind === "moved") return "Done";
  return kind === "failed" ? "Nothing was moved" : "Replaced";
}
