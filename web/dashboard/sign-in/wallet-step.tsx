/** The passkey, whose key owns the wallet. Its challenge lives for a minute, so it is fetched when the button is pressed. */
import { useState } from "preact/hooks";
import { page } from "../frame/page-data.ts";
import { makePasskey, usePasskeyOf } from "../frame/passkey.ts";
import { call, messageOf } from "../frame/service.ts";
import { say } from "../frame/words.ts";
import { Button, Choice, Notice } from "../parts/controls.tsx";

export function WalletStep({ onDone }: { onDone: () => void }) {
  const [network, setNetwork] = useState(page.networks[0]?.id ?? "base");
  const [fault, setFault] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const make = async () => {
    setBusy(true);
    setFault(undefined);
    try {
      await setUpWallet(network);
      onDone();
    } catch (error) {
      setFault(messageOf(error));
      setBusy(false);
    }
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void make();
      }}
    >
      <h1>{say("Create your wallet")}</h1>
      <p class="muted">
        {say(
          "Your device makes a passkey: a key that it unlocks with your finger, face or PIN. It alone can move what your wallet holds.",
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
      {fault && <Notice kind="bad">{fault}</Notice>}
      <Button kind="main" type="submit" isBusy={isBusy}>
        {say("Create passkey")}
      </Button>
    </form>
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
