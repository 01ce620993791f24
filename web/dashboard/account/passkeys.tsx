/** The account's passkeys and their names. */
import { useState } from "preact/hooks";
import { useAction } from "../frame/action.ts";
import { useLoad } from "../frame/load.ts";
import { type Answer, call } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { Button, Field } from "../parts/controls.tsx";
import { Form, Loading, Panel } from "../parts/forms.tsx";
import { Name, Time } from "../parts/page-parts.tsx";

type Passkey = Answer<"GET /v1/auth/passkeys">["data"][number];

export function Passkeys() {
  const loaded = useLoad("GET /v1/auth/passkeys");
  return (
    <Panel title={say("Passkeys")}>
      <Loading of={loaded} rows={1}>
        {({ data: passkeys }) => (
          <ul class="rows">
            {passkeys.map((passkey) => (
              <PasskeyRow key={passkey.id} passkey={passkey} />
            ))}
          </ul>
        )}
      </Loading>
    </Panel>
  );
}

function PasskeyRow({ passkey: { id, name, synced, createdAt, lastUsedAt, signsIn } }: { passkey: Passkey }) {
  const [typed, setTyped] = useState<string>();
  const { isBusy, fault, change } = useAction();
  const rename = () =>
    change(["/v1/auth/passkeys", "/v1/wallets/owners"], async () => {
      await call("PATCH /v1/auth/passkeys/{id}", { id, body: { name: typed?.trim() || null } });
      setTyped(undefined);
    });
  if (typed !== undefined)
    return (
      <li>
        <Form class="form slim" onSubmit={rename}>
          <Field
            label={say("Name of the passkey")}
            value={typed}
            onInput={setTyped}
            maxLength={100}
            error={fault}
            autofocus
          />
          <div class="actions">
            <Button kind="main" type="submit" isBusy={isBusy}>
              {say("Save")}
            </Button>
            <Button onClick={() => setTyped(undefined)}>{say("Cancel")}</Button>
          </div>
        </Form>
      </li>
    );
  return (
    <li>
      <span class="what">
        <Name of={name ?? say("Passkey without a name")} />
        {!signsIn && (
          <span class="muted">{say("Not a confirmed owner of the wallet: it cannot sign you in")}</span>
        )}
        <span class="muted">
          {synced
            ? say("Synced across your devices")
            : say("On one device only: add another owner, or losing it means losing the money")}
        </span>
      </span>
      <span class="muted">
        {lastUsedAt ? say("Used") : say("Created")} <Time of={lastUsedAt ?? createdAt} />
      </span>
      <Button onClick={() => setTyped(name ?? "")}>{say("Rename")}</Button>
    </li>
  );
}
