/** The recovery wallet makes the new passkey an owner, on each network by a transaction of its own. On one of them it signs in. */
import { useEffect, useState } from "preact/hooks";
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
import type { Registered } from "./registered.ts";

/** Sign-in options have a limit of 10 requests per minute. */
const POLL_MS = 8_000;

type Props = { registered: Registered; onSignedIn: () => void };

export function OwnerStep({ registered: { email, passkeyId, transactions }, onSignedIn }: Props) {
  const [wallet, setWallet] = useState<Wallet>();
  const [hashes, setHashes] = useState<Readonly<Record<string, string>>>({});
  const [isOwner, setOwner] = useState(false);
  const { isBusy, fault, run } = useAction();
  useEffect(() => {
    if (isOwner) return;
    const look = () => void signsIn({ email, passkeyId }).then((isThere) => isThere && setOwner(true));
    look();
    const timer = setInterval(look, POLL_MS);
    return () => clearInterval(timer);
  }, [isOwner]);
  const send = (chosen: Wallet, transaction: Registered["transactions"][number]) =>
    run(async () => {
      const hash = await sendAsOwner(chosen, transaction);
      setHashes((known) => ({ ...known, [transaction.network]: hash }));
    });
  const signIn = () =>
    run(async () => {
      const options = await call("POST /v1/auth/options", { body: { email }, isQuiet: true });
      if (!options.success) throw new Error(say("This account has no passkey yet. Sign in from the start."));
      await signInWithPasskey(email, options);
      onSignedIn();
    });
  return (
    <div class="steps">
      <h1>{say("Make the new passkey an owner")}</h1>
      <p class="muted">
        {say(
          "Your recovery wallet sends a transaction on each network and pays its gas, a few cents of ETH.",
        )}
      </p>
      <ul class="rows flush">
        {transactions.map((transaction) => {
          const { network } = transaction;
          const hash = hashes[network];
          return (
            <li key={network}>
              <span class="what">
                {nameOfNetwork(network)}
                {transaction.waitsForOwner && !hash && (
                  <span class="muted">
                    {say(
                      "Your account is being deployed here first. If the wallet is refused, try again later.",
                    )}
                  </span>
                )}
              </span>
              {hash ? (
                <Hash of={hash} network={network} />
              ) : (
                wallet && (
                  <Button
                    isBusy={isBusy}
                    label={say("Send on {network}", { network: nameOfNetwork(network) })}
                    onClick={() => send(wallet, transaction)}
                  >
                    {say("Send")}
                  </Button>
                )
              )}
            </li>
          );
        })}
      </ul>
      <Fault of={fault} />
      {!wallet && !isOwner && <WalletChoice isBusy={isBusy} onChoose={setWallet} />}
      {isOwner ? (
        <>
          <Notice kind="ok">
            {say("The new passkey is an owner. Sign in, then remove the lost one under Wallet.")}
          </Notice>
          <Button kind="main" isBusy={isBusy} onClick={signIn}>
            {say("Sign in with the new passkey")}
          </Button>
        </>
      ) : (
        Object.keys(hashes).length > 0 && (
          <p class="muted" role="status">
            {say("Sent. Waiting until the network has confirmed it…")}
          </p>
        )
      )}
    </div>
  );
}

/** False also while the service does not answer. */
async function signsIn({ email, passkeyId }: Pick<Registered, "email" | "passkeyId">): Promise<boolean> {
  const options = await call("POST /v1/auth/options", { body: { email }, isQuiet: true }).catch(
    () => undefined,
  );
  return options?.success === true && options.allowCredentials.some(({ id }) => id === passkeyId);
}
