/** The recovery wallet signs that it wants to recover the account of this address; then a code is mailed there. */
import { useState } from "preact/hooks";
import type { Wallet } from "../../checkout/wallets.ts";
import { useAction } from "../frame/action.ts";
import { call, Refusal } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { Field } from "../parts/controls.tsx";
import { Fault, Form } from "../parts/forms.tsx";
import { WalletChoice } from "../parts/wallet-choice.tsx";
import { explainSigning } from "../send/explain-signing.ts";
import { connect, signStatement } from "../wallet/browser-wallet.ts";

/** What the code is entered together with. */
export type Proof = { email: string; address: string; signature: string };

type Props = { initial: string; onProven: (proof: Proof) => void };

export function ProofStep({ initial, onProven }: Props) {
  const [email, setEmail] = useState(initial);
  const action = useAction((error) =>
    error instanceof Refusal && error.issue === "not_verified"
      ? say("This wallet's account is not an owner of the account with this e-mail address.")
      : explainSigning(error),
  );
  const prove = (wallet: Wallet) =>
    action.run(async () => {
      const to = email.trim();
      const address = await connect(wallet);
      const { challengeId, typedData } = await call("POST /v1/auth/recover/start", {
        ...{ body: { email: to, address }, isQuiet: true },
      });
      const expected = { primaryType: "Recover" as const, message: {} };
      const signature = await signStatement(wallet, { signer: address, typedData, expected });
      await call("POST /v1/auth/recover/code", {
        ...{ body: { email: to, address, challengeId, signature }, isQuiet: true },
      });
      onProven({ email: to, address, signature });
    });
  return (
    <Form class="" onSubmit={() => undefined}>
      <h1>{say("Recover your account")}</h1>
      <p class="muted">
        {say(
          "If you have another passkey of this account, sign in with that. Otherwise the recovery wallet that you added opens the account again: it signs, we mail you a code, and you create a new passkey.",
        )}
      </p>
      <Field
        label={say("E-mail address")}
        type="email"
        name="email"
        value={email}
        onInput={setEmail}
        autocomplete="email"
        required
        maxLength={254}
        autofocus
      />
      <Fault of={action.fault} />
      <WalletChoice isBusy={action.isBusy} isOff={!email.includes("@")} onChoose={prove} />
    </Form>
  );
}
