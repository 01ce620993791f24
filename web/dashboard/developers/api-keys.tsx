/** Keys for the merchant's programs: made with the passkey, shown once, revoked by name. */
import { useState } from "preact/hooks";
import { invalidate, useLoad } from "../frame/load.ts";
import { type Answer, call, type Given, messageOf } from "../frame/service.ts";
import { say } from "../frame/words.ts";
import { Button, Check, Copy, Dialog, Field, Notice } from "../parts/controls.tsx";
import { Broken, Empty, Screen, Skeleton, Time } from "../parts/page-parts.tsx";

type Key = Answer<"GET /v1/api-keys">["data"][number];
type Scope = NonNullable<Given<"POST /v1/api-keys">["body"]>["scopes"][number];

const SCOPES: Readonly<Record<Scope, string>> = {
  "links:read": "Read links",
  "links:write": "Create and cancel links",
  "transactions:read": "Read transactions",
  exports: "Make exports",
  webhooks: "Webhooks and events",
  "refunds:request": "Request refunds",
  facilitator: "Settle x402 payments",
};

export function ApiKeys() {
  const [isMaking, setMaking] = useState(false);
  const [revoking, setRevoking] = useState<Key>();
  const loaded = useLoad("GET /v1/api-keys");
  const keys = loaded.value?.data;
  const make = (
    <Button kind="main" onClick={() => setMaking(true)}>
      {say("New API key")}
    </Button>
  );
  return (
    <Screen
      title={say("API keys")}
      lead={
        <>
          {say("For your programs.")} <a href="/docs">{say("Documentation")}</a>
        </>
      }
      actions={make}
    >
      <section class="panel" aria-label={say("API keys")}>
        {loaded.error && !keys ? (
          <Broken loaded={loaded} />
        ) : !keys ? (
          <Skeleton rows={3} />
        ) : keys.length === 0 ? (
          <Empty title={say("No API keys yet")} action={make}>
            {say(
              "A key lets a program create links and read payments. It can never move money: that takes your passkey.",
            )}
          </Empty>
        ) : (
          <ul class="rows">
            {keys.map((key) => (
              <li key={key.id} class={key.revokedAt ? "off-row" : undefined}>
                <span class="what">
                  <strong>
                    <bdi>{key.name}</bdi>
                  </strong>
                  <code>{key.prefix}…</code>
                  <span class="muted small">{key.scopes.map((scope) => say(SCOPES[scope])).join(" · ")}</span>
                </span>
                <span class="muted">
                  {key.lastUsedAt ? (
                    <>
                      {say("Used")} <Time of={key.lastUsedAt} />
                    </>
                  ) : (
                    say("Never used")
                  )}
                </span>
                {key.revokedAt ? (
                  <span class="status off">{say("Revoked")}</span>
                ) : (
                  <Button
                    kind="danger"
                    label={say("Revoke {name}", { name: key.name })}
                    onClick={() => setRevoking(key)}
                  >
                    {say("Revoke")}
                  </Button>
                )}
              </li>
            ))}
          </ul>
        )}
      </section>
      {isMaking && <NewKey onClose={() => setMaking(false)} />}
      {revoking && <Revoke apiKey={revoking} onClose={() => setRevoking(undefined)} />}
    </Screen>
  );
}

function NewKey({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState<readonly Scope[]>(["links:read", "links:write"]);
  const [secret, setSecret] = useState<string>();
  const [isKept, setKept] = useState(false);
  const [fault, setFault] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const make = async () => {
    setBusy(true);
    setFault(undefined);
    try {
      const { data } = await call("POST /v1/api-keys", { body: { name, scopes: [...scopes] } });
      setSecret(data.key);
      invalidate("/v1/api-keys");
    } catch (error) {
      setFault(messageOf(error));
    }
    setBusy(false);
  };
  if (secret)
    return (
      <Dialog title={say("Keep this key")} onClose={onClose}>
        <p class="muted">{say("It is shown this once. Put it where your program reads its secrets.")}</p>
        <div class="secret">
          <code>{secret}</code>
          <Copy text={secret} label={say("Copy the key")} />
        </div>
        <Check label={say("I have kept it")} isOn={isKept} onInput={setKept} />
        <div class="actions">
          <Button kind="main" isOff={!isKept} onClick={onClose}>
            {say("Done")}
          </Button>
        </div>
      </Dialog>
    );
  return (
    <Dialog title={say("New API key")} onClose={onClose}>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          void make();
        }}
      >
        <Field
          label={say("Name")}
          value={name}
          onInput={setName}
          required
          maxLength={100}
          placeholder={say("Shop server")}
          autofocus
        />
        <fieldset class="checks">
          <legend>{say("What it may do")}</legend>
          {(Object.keys(SCOPES) as Scope[]).map((scope) => (
            <Check
              key={scope}
              label={say(SCOPES[scope])}
              isOn={scopes.includes(scope)}
              onInput={(isOn) =>
                setScopes(isOn ? [...scopes, scope] : scopes.filter((other) => other !== scope))
              }
            />
          ))}
        </fieldset>
        {fault && <Notice kind="bad">{fault}</Notice>}
        <div class="actions">
          <Button kind="main" type="submit" isBusy={isBusy} isOff={scopes.length === 0}>
            {say("Create key")}
          </Button>
          <Button onClick={onClose}>{say("Cancel")}</Button>
        </div>
      </form>
    </Dialog>
  );
}

function Revoke({ apiKey, onClose }: { apiKey: Key; onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const [fault, setFault] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const revoke = async () => {
    setBusy(true);
    setFault(undefined);
    try {
      await call("DELETE /v1/api-keys/{id}", { id: apiKey.id });
      invalidate("/v1/api-keys");
      onClose();
    } catch (error) {
      setFault(messageOf(error));
      setBusy(false);
    }
  };
  return (
    <Dialog title={say("Revoke this key?")} onClose={onClose} narrow>
      <p class="muted">{say("Programs that use it are refused at once, and for ever.")}</p>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          if (typed === apiKey.name) void revoke();
        }}
      >
        <Field
          label={say("Type its name: {name}", { name: apiKey.name })}
          value={typed}
          onInput={setTyped}
          autocomplete="off"
          spellcheck={false}
          autofocus
        />
        {fault && <Notice kind="bad">{fault}</Notice>}
        <div class="actions">
          <Button kind="danger" type="submit" isBusy={isBusy} isOff={typed !== apiKey.name}>
            {say("Revoke")}
          </Button>
          <Button onClick={onClose}>{say("Keep it")}</Button>
        </div>
      </form>
    </Dialog>
  );
}
