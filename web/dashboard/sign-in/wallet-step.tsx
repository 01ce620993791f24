/** The passkey, whose key owns the wallet. Its challenge lives for a minute, so it is fetched when the button is pressed. */
import { useState } from "preact/hooks";
import { useAction } from "../frame/action.ts";
import { page } from "../frame/page-data.ts";
import { makePasskey, usePasskeyOf } from "../frame/passkey.ts";
import { call, Refusal } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { Button, Choice } from "../parts/controls.tsx";
import { Fault, Form } from "../parts/forms.tsx";

type Props = {
  /** Who is signed in. */
  email: string;
  onDone: () => void;
  /** Nobody is signed in any more. */
  onLeave: () => void;
};

export function WalletStep({ email, onDone, onLeave }: Props) {
  const [network, setNetwork] = useState(page.networks[0]?.id ?? "base");
  const { isBusy, fault, run } = useAction();
  const make = () =>
    run(async () => {
      await setUpWallet(network).catch((error: unknown) => {
        // an earlier setup was completed, although its response was lost
        if (!(error instanceof Refusal && error.issue === "wallet_exists")) throw error;
      });
      onDone();
    });
  const leave = () =>
    run(async () => {
      await call("POST /v1/auth/logout", { isQuiet: true });
      onLeave();
    });
  return (
    <Form class="" onSubmit={make}>
      <h1>{say("Create your wallet")}</h1>
      <p class="muted">
        {say(
          "Your device creates a passkey: a key that it unlocks with your fingerprint, face or PIN. Only this passkey can move the money in your wallet.",
        )}
      </p>
      {page.networks.length > 1 && (
        <Choice
          label={say("Network")}
          value={network}
          onInput={(id) => setNetwork(id as typeof network)}
          options={page.networks.map(({ id, name }) => [id, name])}
        />
      )}
      <Fault of={fault} />
      <Button kind="main" type="submit" isBusy={isBusy}>
        {say("Create passkey")}
      </Button>
      <p class="muted small">
        {say("Signed in as")} <bdi class="strong">{email}</bdi>
      </p>
      <Button kind="quiet" isOff={isBusy} onClick={leave}>
        {say("Use another account")}
      </Button>
    </Form>
  );
}

/** Also for a second network, where the same passkey signs. */
export async function setUpWallet(network: "base" | "base-sepolia"): Promise<void> {
  const { challengeId, passkeyChallenge, passkeyRequest } = await call("POST /v1/wallets/setup/start", {
    body: { network },
  });
  const passkeyResponse = passkeyRequest
    ? await usePasskeyOf(passkeyRequest)
    : await makePasskey(passkeyChallenge);
  await call("POST /v1/wallets/setup/complete", { body: { challengeId, network, passkeyResponse } });
}
