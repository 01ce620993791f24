/** A new endpoint, and its secret, which is shown once. */
import { useState } from "preact/hooks";
import { invalidate } from "../frame/load.ts";
import { call, type Given, messageOf } from "../frame/service.ts";
import { say } from "../frame/words.ts";
import { Button, Check, Copy, Dialog, Field, Notice } from "../parts/controls.tsx";

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
  const [fault, setFault] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const make = async () => {
    setBusy(true);
    setFault(undefined);
    try {
      const body = {
        url: url.trim(),
        description: description.trim(),
        ...(types.length > 0 ? { eventTypes: [...types] } : {}),
      };
      const { data } = await call("POST /v1/webhook-endpoints", { body });
      invalidate("/v1/webhook-endpoints");
      onClose();
      onMade(data.secret);
    } catch (error) {
      setFault(messageOf(error));
      setBusy(false);
    }
  };
  return (
    <Dialog title={say("Add endpoint")} onClose={onClose}>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          void make();
        }}
      >
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
        <fieldset class="checks">
          <legend>{say("Events (none chosen: every event)")}</legend>
          {COMMON.map((type) => (
            <Check
              key={type}
              label={<code>{type}</code>}
              isOn={types.includes(type)}
              onInput={(isOn) => setTypes(isOn ? [...types, type] : types.filter((other) => other !== type))}
            />
          ))}
        </fieldset>
        {fault && <Notice kind="bad">{fault}</Notice>}
        <div class="actions">
          <Button kind="main" type="submit" isBusy={isBusy}>
            {say("Add endpoint")}
          </Button>
          <Button onClick={onClose}>{say("Cancel")}</Button>
        </div>
      </form>
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
