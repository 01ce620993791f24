/** The passkey that takes the lost one's place. */
import { useState } from "preact/hooks";
import { bytesOfBase64Url } from "../../chain/bytes.ts";
import { useAction } from "../frame/action.ts";
import { makePasskey } from "../frame/passkey.ts";
import { call } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { Button, Field } from "../parts/controls.tsx";
import { Fault, Form } from "../parts/forms.tsx";
import { ForeignOperation } from "../send/check-signed-operation.ts";
import { explainSigning } from "../send/explain-signing.ts";
import { encodeOwnPasskey, pointOf } from "../wallet/owner-call.ts";
import type { Registered } from "./registered.ts";

type Props = { onMade: (made: Omit<Registered, "email">) => void };

export function NewPasskeyStep({ onMade }: Props) {
  const [name, setName] = useState("");
  const { isBusy, fault, run } = useAction(explainSigning);
  const make = () =>
    run(async () => {
      const { challengeId, passkeyChallenge } = await call("POST /v1/auth/recover/passkey/start", {
        isQuiet: true,
      });
      const passkeyResponse = await makePasskey(passkeyChallenge);
      const body = { challengeId, passkeyResponse, ...(name.trim() ? { name: name.trim() } : {}) };
      const made = await call("POST /v1/auth/recover/passkey/complete", { body, isQuiet: true });
      const { publicKey = "" } = passkeyResponse.response as { publicKey?: string };
      const own = encodeOwnPasskey(pointOf(bytesOfBase64Url(publicKey)));
      // the wallet shows bytes: whether they add this passkey or somebody else's, only this page can tell
      if (made.transactions.some(({ data }) => data.toLowerCase() !== own))
        throw new ForeignOperation("data");
      onMade(made);
    });
  return (
    <Form class="" onSubmit={make}>
      <h1>{say("Create a new passkey")}</h1>
      <p class="muted">
        {say(
          "All other sessions have ended. The new passkey signs in once your wallet has made it an owner.",
        )}
      </p>
      <Field
        label={say("Name of the passkey")}
        value={name}
        onInput={setName}
        maxLength={100}
        placeholder={say("New phone")}
        autofocus
      />
      <Fault of={fault} />
      <Button kind="main" type="submit" isBusy={isBusy}>
        {say("Create passkey")}
      </Button>
    </Form>
  );
}
