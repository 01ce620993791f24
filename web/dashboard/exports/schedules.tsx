/** Saved exports that are created every week or month, and the outcome of the last one. */
import { useState } from "preact/hooks";
import { useAction } from "../frame/action.ts";
import { useLoad } from "../frame/load.ts";
import { forMerchant } from "../frame/merchant.ts";
import { type Answer, call } from "../frame/service.ts";
import { formatDate, say, sayReason } from "../frame/texts.ts";
import { Confirm } from "../parts/confirm-dialog.tsx";
import { Button, Choice, Dialog } from "../parts/controls.tsx";
import { Fault, Form, Loading, Panel, Submit } from "../parts/forms.tsx";
import { Empty, Name, Status } from "../parts/page-parts.tsx";
import type { Profile } from "./profile.ts";

type Schedule = Answer<"GET /v1/export-schedules">["data"]["schedules"][number];

const FREQUENCIES = [
  ["monthly", "Every month"],
  ["weekly", "Every week"],
] as const;
const DELIVERIES = [
  ["mail", "By mail to the account's address"],
  ["webhook", "By webhook: export.ready"],
] as const;
const textOf = (options: readonly (readonly [string, string])[], value: string) =>
  say(options.find(([name]) => name === value)?.[1] ?? value);

export function Schedules({ profiles }: { profiles: readonly Profile[] }) {
  const loaded = useLoad("GET /v1/export-schedules");
  const [isAdding, setAdding] = useState(false);
  const add = profiles.length > 0 && <Button onClick={() => setAdding(true)}>{say("New schedule")}</Button>;
  return (
    <Panel title={say("Schedules")} actions={add}>
      <Loading of={loaded} rows={2}>
        {({ data: { schedules } }) =>
          schedules.length === 0 ? (
            <Empty title={say("None yet")}>
              {say(
                "A schedule creates a saved export once a week or month is over and all of it is confirmed.",
              )}
            </Empty>
          ) : (
            <ul class="rows">
              {schedules.map((schedule) => (
                <ScheduleRow key={schedule.id} schedule={schedule} />
              ))}
            </ul>
          )
        }
      </Loading>
      {isAdding && <NewSchedule profiles={profiles} onClose={() => setAdding(false)} />}
    </Panel>
  );
}

function ScheduleRow({ schedule }: { schedule: Schedule }) {
  const { id, profileName: name, frequency, delivery, pausedAt, lastRun } = schedule;
  const [isEnding, setEnding] = useState(false);
  const { isBusy, fault, change } = useAction();
  const body = { paused: pausedAt === null };
  const pause = () =>
    change(["/v1/export-schedules"], () => call("PATCH /v1/export-schedules/{id}", { id, body }));
  return (
    <li>
      <span class="what">
        <Name of={name} />
        <span class="muted">
          {textOf(FREQUENCIES, frequency)} · {textOf(DELIVERIES, delivery)}
        </span>
        {lastRun ? (
          <span>
            <span class="muted">
              {formatDate(lastRun.dateFrom)} – {formatDate(lastRun.dateTo)}
            </span>{" "}
            {lastRun.status && <Status of={lastRun.status} />}
          </span>
        ) : (
          <span class="muted">{say("No period is over yet")}</span>
        )}
        {lastRun?.refusal && <span class="error">{sayReason(lastRun.refusal)}</span>}
        <Fault of={fault} />
      </span>
      <span class={`status ${pausedAt ? "off" : "ok"}`}>{pausedAt ? say("Paused") : say("On")}</span>
      {lastRun?.downloadUrl && lastRun.status === "READY" && (
        <a class="button plain" href={forMerchant(new URL(lastRun.downloadUrl).pathname)} download>
          {say("Download")}
        </a>
      )}
      <Button
        isBusy={isBusy}
        label={pausedAt ? say("Resume {name}", { name }) : say("Pause {name}", { name })}
        onClick={pause}
      >
        {pausedAt ? say("Resume") : say("Pause")}
      </Button>
      <Button kind="danger" label={say("End {name}", { name })} onClick={() => setEnding(true)}>
        {say("End")}
      </Button>
      {isEnding && (
        <Confirm
          title={say("End this schedule?")}
          word={say("End")}
          work={() => call("DELETE /v1/export-schedules/{id}", { id })}
          changes={["/v1/export-schedules"]}
          onClose={() => setEnding(false)}
          closeText={say("Keep it")}
        >
          {say("The saved export stays, as do files already created.")}
        </Confirm>
      )}
    </li>
  );
}

function NewSchedule({ profiles, onClose }: { profiles: readonly Profile[]; onClose: () => void }) {
  const [profileId, setProfile] = useState(profiles[0]?.id ?? "");
  const [frequency, setFrequency] = useState<Schedule["frequency"]>("monthly");
  const [delivery, setDelivery] = useState<Schedule["delivery"]>("mail");
  const action = useAction();
  const make = () =>
    action.change(["/v1/export-schedules"], async () => {
      await call("POST /v1/export-schedules", { body: { profileId, frequency, delivery } });
      onClose();
    });
  return (
    <Dialog title={say("New schedule")} onClose={onClose} narrow>
      <Form onSubmit={make}>
        <Choice
          label={say("Saved export")}
          value={profileId}
          onInput={setProfile}
          options={profiles.map(({ id, name }) => [id, name])}
        />
        <Choice
          label={say("How often")}
          value={frequency}
          onInput={(value) => setFrequency(value as typeof frequency)}
          options={FREQUENCIES.map(([value, text]) => [value, say(text)])}
        />
        <Choice
          label={say("Notification")}
          value={delivery}
          onInput={(value) => setDelivery(value as typeof delivery)}
          options={DELIVERIES.map(([value, text]) => [value, say(text)])}
        />
        <p class="muted small">
          {say(
            "The first file is for the current week or month. It needs your passkey, because the schedule outlasts the session.",
          )}
        </p>
        <Submit action={action} text={say("Start the schedule")} onClose={onClose} />
      </Form>
    </Dialog>
  );
}
