/** The recovery wallet makes the new passkey an owner, on each network by a transaction of its own. On one of them it signs in. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { Wallet } from "../../checkout/wallets.ts";
import { useAction } from "../frame/action.ts";
import { nameOfNetwork } from "../frame/page-data.ts";
import { signInWithPasskey } from "../frame/passkey.ts";
import { call } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { Button, Notice } from "../parts/controls.tsx";
import { Fault } from "../parts/forms.tsx";
import { Hash } from "../parts/page-parts.tsx";
import { WalletChoice } from "../parts/wallet-choice.tsx";
import { sendAsOwner } from "../wallet/browser-wallet.ts";
import { type Registered, storeRegistered } from "./registered.ts";

/** Sign-in options have a limit of 10 requests per minute, which everybody behind one address shares. */
const POLL_MS = 20_000;

type Transaction = Registered["transactions"][number];
type Props = { registered: Registered; onSignedIn: () => void };

export function OwnerStep({ registered, onSignedIn }: Props) {
  const { email, passkeyId, transactions } = registered;
  const [wallet, setWallet] = useState<Wallet>();
  const [hashes, setHashes] = useState(registered.hashes ?? {});
  const [isOwner, setOwner] = useState(false);
  const { isBusy, fault, run } = useAction();
  // of its own: a wallet may never answer, although it has sent
  const signingIn = useAction();
  const [isTried, setTried] = useState(Object.keys(hashes).length > 0);
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  const isSent = Object.keys(hashes).length > 0;
  const [first, second] = transactions;
  const unsent =
    isOwner && first && !second ? [] : transactions.filter(({ network }) => hashes[network] === undefined);
  const isDone = isOwner && unsent.length === 0;
  useEffect(() => {
    if (isOwner) return;
    const look = () => void signsIn({ email, passkeyId }).then((isThere) => isThere && setOwner(true));
    look();
    if (!isTried) return;
    const timer = setInterval(look, POLL_MS);
    return () => clearInterval(timer);
  }, [isOwner, isTried, isSent]);
  const send = (chosen: Wallet, transaction: Transaction) =>
    run(async () => {
      const hash = await sendAsOwner(chosen, transaction, () => setTried(true));
      const known = { ...hashes, [transaction.network]: hash ?? "" };
      storeRegistered({ ...registered, hashes: known });
      setHashes(known);
    });
  const signIn = () =>
    signingIn.run(async () => {
      const options = await call("POST /v1/auth/options", { body: { email }, isQuiet: true });
      if (!options.success) throw new Error(say("This account has no passkey yet. Sign in from the start."));
      await signInWithPasskey(email, options);
      onSignedIn();
    });
  return (
    <div class="steps">
      <h1 ref={heading} tabIndex={-1}>
        {isDone ? say("Account recovered") : say("Make the new passkey an owner")}
      </h1>
      {!isDone && (
        <p class="muted">
          {say(
            "Your recovery wallet sends a transaction on each network and pays its gas, a few cents of ETH.",
          )}
        </p>
      )}
      <ul class="rows flush">
        {transactions.map((transaction) => (
          <TransactionRow
            key={transaction.network}
            transaction={transaction}
            hash={hashes[transaction.network]}
            isBusy={isBusy}
            onSend={wallet && !isDone ? () => send(wallet, transaction) : undefined}
          />
        ))}
      </ul>
      <Fault of={isDone ? signingIn.fault : (fault ?? signingIn.fault)} />
      {!isDone && !wallet && <WalletChoice isBusy={isBusy} onChoose={setWallet} />}
      {!isDone && wallet && (
        <Button kind="quiet" isBusy={isBusy} onClick={() => setWallet(undefined)}>
          {say("Use another wallet")}
        </Button>
      )}
      <p class="muted" role="status">
        {isSent && !isOwner && say("Sent. Waiting until the network has confirmed it…")}
      </p>
      {isOwner && (
        <>
          <Notice kind="ok">
            {say("The new passkey is an owner. Sign in, then remove the lost one under Wallet.")}
          </Notice>
          {unsent.length > 0 && (
            <Notice kind="warn">
              {say("Send on {network} first: without it the new passkey cannot move what is there.", {
                network: unsent.map(({ network }) => nameOfNetwork(network)).join(", "),
              })}
            </Notice>
          )}
          <Button kind="main" isBusy={signingIn.isBusy} onClick={signIn}>
            {say("Sign in with the new passkey")}
          </Button>
        </>
      )}
    </div>
  );
}

type RowProps = {
  transaction: Transaction;
  /** Undefined: not sent yet. */
  hash: string | undefined;
  isBusy: boolean;
  /** Undefined before a wallet is chosen. */
  onSend: (() => unknown) | undefined;
};

/** A transaction can be sent again: a wallet may drop it, or it may have failed. */
function TransactionRow({ transaction: { network, waitsForOwner }, hash, isBusy, onSend }: RowProps) {
  const name = nameOfNetwork(network);
  const isSent = hash !== undefined;
  const text = isSent ? say("Send again") : say("Send");
  const label = isSent
    ? say("Send again on {network}", { network: name })
    : say("Send on {network}", { network: name });
  return (
    <li>
      <span class="what">
        {name}
        {waitsForOwner && !isSent && (
          <span class="muted">
            {say("Your account is being deployed here first. If the wallet is refused, try again later.")}
          </span>
        )}
      </span>
      {hash && <Hash of={hash} network={network} />}
      {onSend && (
        <Button isBusy={isBusy} label={label} onClick={onSend}>
          {text}
        </Button>
      )}
    </li>
  );
}

/** False also while the service does not answer. */
async function signsIn({ email, passkeyId }: Pick<Registered, "email" | "passkeyId">): Promise<boolean> {
  const options = await call("POST /v1/auth/options", { body: { email }, isQuiet: true }).catch(
    () => undefined,
  );
  return options?.success === true && options.allowCredentials.some(({ id }) => id === passkeyId);
}
