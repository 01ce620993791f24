/** Exports with a name: which columns of which movements in which format, created on request or by a schedule. */
import { useState } from "preact/hooks";
import { useAction } from "../frame/action.ts";
import { useLoad } from "../frame/load.ts";
import { call } from "../frame/service.ts";
import { say, sayCount } from "../frame/texts.ts";
import { Confirm } from "../parts/confirm-dialog.tsx";
import { Button, Dialog, Field } from "../parts/controls.tsx";
import { Form, Loading, Panel, Submit } from "../parts/forms.tsx";
import { Empty, Name, Screen } from "../parts/page-parts.tsx";
import { Files } from "./files.tsx";
import { nameOfFormat } from "./formats.ts";
import type { Profile } from "./profile.ts";
import { ProfileForm } from "./profile-form.tsx";
import { Schedules } from "./schedules.tsx";

/** `of` undefined: a new one. */
type Opened = { what: "form" | "run" | "delete"; of?: Profile };

export function SavedExports() {
  const loaded = useLoad("GET /v1/export-profiles");
  const [opened, setOpened] = useState<Opened>();
  const close = () => setOpened(undefined);
  const add = (
    <Button kind="main" onClick={() => setOpened({ what: "form" })}>
      {say("New saved export")}
    </Button>
  );
  const { what, of } = opened ?? {};
  return (
    <Screen
      title={say("Saved exports")}
      lead={say("Your own columns and titles, in the format that your accounting program reads.")}
      actions={add}
    >
      <Panel title={say("Saved")}>
        <Loading of={loaded} rows={3}>
          {({ data: { profiles } }) =>
            profiles.length === 0 ? (
              <Empty title={say("None yet")} action={add}>
                {say("Save an export once, then create its file for any days, or let a schedule create it.")}
              </Empty>
            ) : (
              <ul class="rows">
                {profiles.map((profile) => (
                  <ProfileRow key={profile.id} profile={profile} onOpen={setOpened} />
                ))}
              </ul>
            )
          }
        </Loading>
      </Panel>
      <Schedules profiles={loaded.value?.data.profiles ?? []} />
      <Files />
      {what === "form" && <ProfileForm profile={of} onClose={close} />}
      {what === "run" && of && <Run profile={of} onClose={close} />}
      {what === "delete" && of && (
        <Confirm
          title={say("Delete {name}?", { name: of.name })}
          word={say("Delete")}
          work={() => call("DELETE /v1/export-profiles/{id}", { id: of.id })}
          changes={["/v1/export-"]}
          onClose={close}
          closeText={say("Keep it")}
        >
          {say("Its schedules end with it. Files already created stay.")}
        </Confirm>
      )}
    </Screen>
  );
}

function ProfileRow({ profile, onOpen }: { profile: Profile; onOpen: (opened: Opened) => void }) {
  const { name, format, columns, fiatCurrency } = profile;
  const open = (what: Opened["what"]) => () => onOpen({ what, of: profile });
  return (
    <li>
      <span class="what">
        <Name of={name} />
        <span class="muted">
          {[
            say(nameOfFormat(format)),
            columns ? sayCount(columns.length, "{count} column", "{count} columns") : say("All columns"),
            fiatCurrency,
          ]
            .filter(Boolean)
            .join(" · ")}
        </span>
      </span>
      <Button label={say("Create the file of {name}", { name })} onClick={open("run")}>
        {say("Create the file")}
      </Button>
      <Button label={say("Change {name}", { name })} onClick={open("form")}>
        {say("Change")}
      </Button>
      <Button kind="danger" label={say("Delete {name}", { name })} onClick={open("delete")}>
        {say("Delete")}
      </Button>
    </li>
  );
}

function Run({ profile: { id, name }, onClose }: { profile: Profile; onClose: () => void }) {
  const [days, setDays] = useState({ dateFrom: "", dateTo: "" });
  const action = useAction();
  const make = () =>
    action.change(["/v1/transactions/exports"], async () => {
      const body = Object.fromEntries(Object.entries(days).filter(([, day]) => day));
      await call("POST /v1/export-profiles/{id}/export", { id, body, headers: { prefer: "respond-async" } });
      onClose();
    });
  return (
    <Dialog title={name} onClose={onClose} narrow>
      <Form onSubmit={make}>
        <Field
          label={say("First day")}
          type="date"
          value={days.dateFrom}
          onInput={(dateFrom) => setDays({ ...days, dateFrom })}
          autofocus
        />
        <Field
          label={say("Last day")}
          type="date"
          value={days.dateTo}
          onInput={(dateTo) => setDays({ ...days, dateTo })}
          hint={say("Leave empty for everything so far.")}
        />
        <Submit action={action} text={say("Create the file")} onClose={onClose} />
      </Form>
    </Dialog>
  );
}
