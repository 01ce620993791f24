/** A new endpoint, and its secret, which is shown once. */
import { useState } from "preact/hooks";
import { useAction } from "../frame/action.ts";
import { invalidate } from "../frame/load.ts";
import { call, type Given } from "../frame/service.ts";
import { say } from "../frame/words.ts";
import { Button, Check, Copy, Dialog, Field } from "../parts/controls.tsx";
import { Checks, Form, Submit } from "../parts/forms.tsx";

type EventType = NonNullable<NonNullable<Given<"POST /v1/webhook-endpoints">["body"]>["eventTypes"]>[number];

/** What most servers act on; without any choice every event is sent. */
const COMMON: readonly EventType[] = [
  "payment_link.paid",
  "payment_link.expired",
  "payment_link.exception",
  "payment_link.reorged",
  "refund.confirmed",
  "refund.failed",
  "wallet.send_confirmed",
  "transaction.confirmed",
];

export function EndpointForm({ onClose, onMade }: { onClose: () => void; onMade: (secret: string) => void }) {
  const [url, setUrl] = useState("https://");
  const [description, setDescription] = useState("");
  const [types, setTypes] = useState<readonly EventType[]>([]);
  const action = useAction();
  const make = () =>
    action.run(async () => {
      const body = {
        url: url.trim(),
        description: description.trim(),
        ...(types.length > 0 ? { eventTypes: [...types] } : {}),
      };
      const { data } = await call("POST /v1/webhook-endpoints", { body });
      invalidate("/v1/webhook-endpoints");
      onClose();
      onMade(data.secret);
    });
  return (
    <Dialog title={say("Add endpoint")} onClose={onClose}>
      <Form onSubmit={make}>
        <Field
          label={say("Address of your server")}
          type="url"
          value={url}
          onInput={setUrl}
          required
          maxLength={2000}
          autofocus
        />
        <Field label={say("Description")} value={description} onInput={setDescription} maxLength={200} />
        <Checks
          legend={say("Events (none chosen: every event)")}
          options={COMMON.map((type) => [type, <code key={type}>{type}</code>] as const)}
          value={types}
          onInput={setTypes}
        />
        <Submit action={action} text={say("Add endpoint")} onClose={onClose} />
      </Form>
    </Dialog>
  );
}

export function Secret({ secret, onClose }: { secret: string; onClose: () => void }) {
  const [isKept, setKept] = useState(false);
  return (
    <Dialog title={say("Keep this secret")} onClose={onClose}>
      <p class="muted">
        {say(
          "Your server checks each message's signature with it. It is shown this once. After a rotation the old one is good for 24 hours.",
        )}
      </p>
      <div class="secret">
        <code>{secret}</code>
        <Copy text={secret} label={say("Copy the secret")} />
      </div>
      <Check label={say("I have kept it")} isOn={isKept} onInput={setKept} />
      <div class="actions">
        <Button kind="main" isOff={!isKept} onClick={onClose}>
          {say("Done")}
        </Button>
      </div>
    </Dialog>
  );
}
