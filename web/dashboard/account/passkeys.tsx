/** The account's passkeys and their names. */
import { useState } from "preact/hooks";
import { invalidate, useLoad } from "../frame/load.ts";
import { type Answer, call, messageOf } from "../frame/service.ts";
import { say } from "../frame/words.ts";
import { Button, Field } from "../parts/controls.tsx";
import { Broken, Skeleton, Time } from "../parts/page-parts.tsx";

type Passkey = Answer<"GET /v1/auth/passkeys">["data"][number];

export function Passkeys() {
  const loaded = useLoad("GET /v1/auth/passkeys");
  const passkeys = loaded.value?.data;
  return (
    <section class="panel" aria-labelledby="passkeys">
      <h2 id="passkeys">{say("Passkeys")}</h2>
      {loaded.error && !passkeys ? (
        <Broken loaded={loaded} />
      ) : !passkeys ? (
        <Skeleton rows={1} />
      ) : (
        <ul class="rows">
          {passkeys.map((passkey) => (
            <PasskeyRow key={passkey.id} passkey={passkey} />
          ))}
        </ul>
      )}
    </section>
  );
}

function PasskeyRow({ passkey: { id, name, synced, createdAt, lastUsedAt } }: { passkey: Passkey }) {
  const [typed, setTyped] = useState<string>();
  const [fault, setFault] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const rename = async () => {
    setBusy(true);
    setFault(undefined);
    try {
      await call("PATCH /v1/auth/passkeys/{id}", { id, body: { name: typed?.trim() || null } });
      invalidate("/v1/auth/passkeys", "/v1/wallets/owners");
      setTyped(undefined);
    } catch (error) {
      setFault(messageOf(error));
    }
    setBusy(false);
  };
  if (typed !== undefined)
    return (
      <li>
        <form
          class="form slim"
          onSubmit={(event) => {
            event.preventDefault();
            void rename();
          }}
        >
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
        </form>
      </li>
    );
  return (
    <li>
      <span class="what">
        <strong>
          <bdi>{name ?? say("Passkey without a name")}</bdi>
        </strong>
        <span class="muted">
          {synced
            ? say("Copied between your devices")
            : say("On one device only: add another owner, or its loss is the loss of the money")}
        </span>
      </span>
      <span class="muted">
        {lastUsedAt ? say("Used") : say("Made")} <Time of={lastUsedAt ?? createdAt} />
      </span>
      <Button onClick={() => setTyped(name ?? "")}>{say("Rename")}</Button>
    </li>
  );
}
