/** Webhook endpoints, and the log of their deliveries. */
import { useState } from "preact/hooks";
import { useAction } from "../frame/action.ts";
import { useLoad } from "../frame/load.ts";
import { setQuery } from "../frame/router.tsx";
import type { ScreenProps } from "../frame/screen-props.ts";
import { call } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { Confirm } from "../parts/confirm-dialog.tsx";
import { Button } from "../parts/controls.tsx";
import { Fault, Loading } from "../parts/forms.tsx";
import { Empty, Screen } from "../parts/page-parts.tsx";
import { DeliveryLog, type Endpoint } from "./delivery-log.tsx";
import { EndpointForm } from "./endpoint-form.tsx";
import { OneTimeSecret } from "./one-time-secret.tsx";

export function Webhooks({ query }: ScreenProps) {
  const [isAdding, setAdding] = useState(false);
  const [secret, setSecret] = useState<string>();
  const loaded = useLoad("GET /v1/webhook-endpoints");
  const shown = loaded.value?.data.find(({ id }) => id === query.get("endpoint"));
  const add = (
    <Button kind="main" onClick={() => setAdding(true)}>
      {say("Add endpoint")}
    </Button>
  );
  return (
    <Screen
      title={say("Webhooks")}
      lead={say("Signed messages to your server (Standard Webhooks), repeated until they arrive.")}
      actions={add}
    >
      <section class="panel" aria-label={say("Endpoints")}>
        <Loading of={loaded} rows={3}>
          {({ data: endpoints }) =>
            endpoints.length === 0 ? (
              <Empty title={say("No endpoints yet")} action={add}>
                {say(
                  "Your server is notified as soon as a payment is confirmed: payment_link.paid, with the whole link.",
                )}
              </Empty>
            ) : (
              <ul class="rows">
                {endpoints.map((endpoint) => (
                  <EndpointRow
                    key={endpoint.id}
                    endpoint={endpoint}
                    isShown={endpoint.id === shown?.id}
                    onSecret={setSecret}
                  />
                ))}
              </ul>
            )
          }
        </Loading>
      </section>
      {shown && <DeliveryLog endpoint={shown} query={query} />}
      {isAdding && <EndpointForm onClose={() => setAdding(false)} onMade={setSecret} />}
      {secret && (
        <OneTimeSecret
          title={say("Keep this secret")}
          secret={secret}
          copy={say("Copy the secret")}
          onClose={() => setSecret(undefined)}
        >
          {say(
            "Your server checks each message's signature with it. It is shown only once. After a rotation the old one stays valid for 24 hours.",
          )}
        </OneTimeSecret>
      )}
    </Screen>
  );
}

type RowProps = { endpoint: Endpoint; isShown: boolean; onSecret: (secret: string) => void };

function EndpointRow({
  endpoint: { id, url, description, eventTypes, enabled, disabledReason, failingSince },
  isShown,
  onSecret,
}: RowProps) {
  const [isDeleting, setDeleting] = useState(false);
  const { isBusy, fault, change } = useAction();
  const changeEndpoint = (work: () => Promise<unknown>) => change(["/v1/webhook-endpoints"], work);
  const rotate = () =>
    changeEndpoint(async () =>
      onSecret((await call("POST /v1/webhook-endpoints/{id}/rotate-secret", { id })).data.secret),
    );
  return (
    <li>
      <span class={`status ${!enabled ? "off" : failingSince ? "bad" : "ok"}`}>
        {!enabled ? say("Switched off") : failingSince ? say("Failing") : say("On")}
      </span>
      <span class="what">
        <bdi class="mono">{url}</bdi>
        <span class="muted small">
          {eventTypes.length === 0 ? say("Every event") : eventTypes.join(", ")}
          {description && ` · ${description}`}
        </span>
        {disabledReason !== "by_owner" && disabledReason && (
          <span class="error">
            {disabledReason === "gone"
              ? say("The server answered 410: the address no longer exists.")
              : say("Nothing was delivered for three days.")}
          </span>
        )}
        <Fault of={fault} />
      </span>
      <Button
        onClick={() => setQuery({ endpoint: isShown ? undefined : id, open: undefined, page: undefined })}
      >
        {isShown ? say("Hide the log") : say("Log")}
      </Button>
      <Button
        isBusy={isBusy}
        onClick={() =>
          changeEndpoint(() => call("PATCH /v1/webhook-endpoints/{id}", { id, body: { enabled: !enabled } }))
        }
      >
        {enabled ? say("Switch off") : say("Switch on")}
      </Button>
      <Button isBusy={isBusy} onClick={rotate}>
        {say("New secret")}
      </Button>
      <Button
        kind="danger"
        isBusy={isBusy}
        label={say("Delete {url}", { url })}
        onClick={() => setDeleting(true)}
      >
        {say("Delete")}
      </Button>
      {isDeleting && (
        <Confirm
          title={say("Delete this endpoint?")}
          word={say("Delete")}
          work={() => call("DELETE /v1/webhook-endpoints/{id}", { id })}
          changes={["/v1/webhook-endpoints"]}
          onClose={() => setDeleting(false)}
          closeText={say("Keep it")}
        >
          {say("{url} gets no further messages, and its log is deleted.", { url })}
        </Confirm>
      )}
    </li>
  );
}
