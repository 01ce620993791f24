/** The passkey that takes the lost one's place. */
import { useState } from "preact/hooks";
import { useAction } from "../frame/action.ts";
import { makePasskey } from "../frame/passkey.ts";
import { call } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { Button, Field } from "../parts/controls.tsx";
import { Fault, Form } from "../parts/forms.tsx";
import type { Registered } from "./registered.ts";

type Props = { onMade: (made: Omit<Registered, "email">) => void };

export function NewPasskeyStep({ onMade }: Props) {
  const [name, setName] = useState("");
  const { isBusy, fault, run } = useAction();
  const make = () =>
    run(async () => {
      const { challengeId, passkeyChallenge } = await call("POST /v1/auth/recover/passkey/start", {
        isQuiet: true,
      });
      const passkeyResponse = await makePasskey(passkeyChallenge);
      const body = { challengeId, passkeyResponse, ...(name.trim() ? { name: name.trim() } : {}) };
      onMade(await call("POST /v1/auth/recover/passkey/complete", { body, isQuiet: true }));
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
