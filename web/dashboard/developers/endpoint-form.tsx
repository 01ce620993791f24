/** A new endpoint. */
import { useState } from "preact/hooks";
import { useAction } from "../frame/action.ts";
import { call, type Given } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { Dialog, Field } from "../parts/controls.tsx";
import { Checks, Form, Submit } from "../parts/forms.tsx";

type EventType = NonNullable<NonNullable<Given<"POST /v1/webhook-endpoints">["body"]>["eventTypes"]>[number];

/** The events most servers act on; if none is chosen, every event is sent. */
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
    action.change(["/v1/webhook-endpoints"], async () => {
      const body = {
        url: url.trim(),
        description: description.trim(),
        ...(types.length > 0 ? { eventTypes: [...types] } : {}),
      };
      const { data } = await call("POST /v1/webhook-endpoints", { body });
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
