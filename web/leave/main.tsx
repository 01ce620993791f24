/** The page that moves a wallet's funds without the service, in steps, each based on the result of the previous one. */
import { render } from "preact";
import { useState } from "preact/hooks";
import type { Account } from "./account.ts";
import { DoneStep } from "./done-step.tsx";
import { FileStep } from "./file-step.tsx";
import type { Outcome } from "./follow-operation.ts";
import { NetworkStep } from "./network-step.tsx";
import { type Ready, ReviewStep } from "./review-step.tsx";
import { SendStep } from "./send-step.tsx";
import { type Draft, TransferStep } from "./transfer-step.tsx";
import type { WalletFile } from "./wallet-file.ts";

type State = {
  file?: WalletFile;
  account?: Account;
  draft?: Draft;
  ready?: Ready;
  outcome?: Outcome;
};

function Page() {
  const [state, setState] = useState<State>({});
  const { file, account, draft, ready, outcome } = state;
  // once something is signed, the earlier steps are fixed
  const back = (to: State) => (ready && !outcome ? undefined : () => setState(to));
  /** A late result is dropped if an earlier step was changed meanwhile: it would restore another file or recipient. */
  const take = (made: State) =>
    setState((now) =>
      now.file === file && now.account === account && now.draft === draft ? { ...now, ...made } : now,
    );
  return (
    <>
      <FileStep file={file} onFile={(taken) => setState({ file: taken })} onChange={back({})} />
      {file && !outcome && (
        <NetworkStep
          file={file}
          account={account}
          onAccount={(read) => take({ account: read })}
          onChange={back({ file })}
        />
      )}
      {file && account && !outcome && (
        <TransferStep
          account={account}
          draft={draft}
          onDraft={(made) => setState({ file, account, draft: made })}
          onChange={back({ file, account })}
        />
      )}
      {account && draft && !ready && (
        <ReviewStep account={account} draft={draft} onReady={(made) => take({ ready: made })} />
      )}
      {file && account && draft && ready && !outcome && (
        <SendStep
          account={account}
          ready={ready}
          signer={draft.signer}
          onOutcome={(found) => take({ outcome: found })}
          onAgain={() => setState({ file })}
        />
      )}
      {account && file && draft && outcome && (
        <DoneStep
          account={account}
          transfer={draft.transfer}
          outcome={outcome}
          onAgain={() => setState({ file })}
        />
      )}
    </>
  );
}

const place = document.getElementById("steps");
if (place) {
  place.replaceChildren();
  render(<Page />, place);
}
