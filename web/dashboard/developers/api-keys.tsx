/** Keys for the merchant's programs: made with the passkey, shown once, revoked by name. */
import { useState } from "preact/hooks";
import { useAction } from "../frame/action.ts";
import { useLoad } from "../frame/load.ts";
import { type Answer, call, type Given } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { Button, Dialog, Field } from "../parts/controls.tsx";
import { Checks, Form, Loading, Submit } from "../parts/forms.tsx";
import { Empty, Name, Screen, Time } from "../parts/page-parts.tsx";
import { OneTimeSecret } from "./one-time-secret.tsx";

type Key = Answer<"GET /v1/api-keys">["data"][number];
type Scope = NonNullable<Given<"POST /v1/api-keys">["body"]>["scopes"][number];

const SCOPES: Readonly<Record<Scope, string>> = {
  "links:read": "Read links",
  "links:write": "Create and cancel links",
  "payments:read": "Read payments and receipts of links",
  "transactions:read": "Read transactions",
  "wallet:read": "Read the balance",
  exports: "Create exports",
  webhooks: "Webhooks and events",
  "refunds:request": "Request refunds",
  facilitator: "Settle x402 payments",
};

export function ApiKeys() {
  const [isMaking, setMaking] = useState(false);
  const [revoking, setRevoking] = useState<Key>();
  const loaded = useLoad("GET /v1/api-keys");
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
        <Loading of={loaded} rows={3}>
          {({ data: keys }) =>
            keys.length === 0 ? (
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
                      <Name of={key.name} />
                      <code>{key.prefix}…</code>
                      <span class="muted small">
                        {key.scopes.map((scope) => say(SCOPES[scope])).join(" · ")}
                      </span>
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
            )
          }
        </Loading>
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
  const action = useAction();
  const make = () =>
    action.change(["/v1/api-keys"], async () => {
      const { data } = await call("POST /v1/api-keys", { body: { name, scopes: [...scopes] } });
      setSecret(data.key);
    });
  if (secret)
    return (
      <OneTimeSecret
        title={say("Keep this key")}
        secret={secret}
        copy={say("Copy the key")}
        onClose={onClose}
      >
        {say("It is shown only once. Put it where your program reads its secrets.")}
      </OneTimeSecret>
    );
  return (
    <Dialog title={say("New API key")} onClose={onClose}>
      <Form onSubmit={make}>
        <Field
          label={say("Name")}
          value={name}
          onInput={setName}
          required
          maxLength={100}
          placeholder={say("Shop server")}
          autofocus
        />
        <Checks
          legend={say("What it may do")}
          options={(Object.keys(SCOPES) as Scope[]).map((scope) => [scope, say(SCOPES[scope])] as const)}
          value={scopes}
          onInput={setScopes}
        />
        <Submit action={action} text={say("Create key")} isOff={scopes.length === 0} onClose={onClose} />
      </Form>
    </Dialog>
  );
}

/** As it is shown: a page draws spaces in a row as one. */
const asShown = (name: string) => name.trim().replace(/\s+/g, " ");

function Revoke({ apiKey, onClose }: { apiKey: Key; onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const isNamed = asShown(typed) === asShown(apiKey.name);
  const action = useAction();
  const revoke = () =>
    action.change(["/v1/api-keys"], async () => {
      await call("DELETE /v1/api-keys/{id}", { id: apiKey.id });
      onClose();
    });
  return (
    <Dialog title={say("Revoke this key?")} onClose={onClose} narrow>
      <p class="muted">{say("Programs that use it are refused immediately and permanently.")}</p>
      <Form onSubmit={() => isNamed && revoke()}>
        <Field
          label={say("Type its name: {name}", { name: apiKey.name })}
          value={typed}
          onInput={setTyped}
          autocomplete="off"
          spellcheck={false}
          autofocus
        />
        <Submit
          action={action}
          text={say("Revoke")}
          kind="danger"
          isOff={!isNamed}
          onClose={onClose}
          closeText={say("Keep it")}
        />
      </Form>
    </Dialog>
  );
}
