/** Settings: the name that payers see, how transfers are matched, and preferences of this page. */
import { useState } from "preact/hooks";
import { useAction } from "../frame/action.ts";
import { areShortcutsOn, setShortcuts } from "../frame/keyboard-shortcuts.tsx";
import { invalidate, useLoad } from "../frame/load.ts";
import { actingMerchant } from "../frame/merchant.ts";
import type { ScreenProps } from "../frame/screen-props.ts";
import { call, type Given } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { Button, Check, Field, Notice } from "../parts/controls.tsx";
import { Fault, Form, Loading, Panel } from "../parts/forms.tsx";
import { Screen } from "../parts/page-parts.tsx";
import { ownZone } from "../parts/time-zone-choice.tsx";
import { Books } from "./books.tsx";
import { PageBranding } from "./page-branding.tsx";

export function Settings({ me, onChange }: ScreenProps) {
  const [areOn, setOn] = useState(areShortcutsOn);
  return (
    <Screen title={say("Settings")}>
      {/* the name is the person's own */}
      {!actingMerchant() && <MerchantName initial={me.displayName} onChange={onChange} />}
      <PageBranding />
      <Matching />
      <Books />
      <Panel title={say("This page")} isPadded>
        <Check
          label={say("Keyboard shortcuts")}
          isOn={areOn}
          onInput={(isOn) => {
            setShortcuts(isOn);
            setOn(isOn);
          }}
          hint={say("Press ? for a list of them.")}
        />
        <p class="hint">{say("Times are in {zone}, the time zone of this device.", { zone: ownZone })}</p>
      </Panel>
    </Screen>
  );
}

function MerchantName({ initial, onChange }: { initial: string | null; onChange: () => void }) {
  const [name, setName] = useState(initial ?? "");
  const [saved, setSaved] = useState(initial ?? "");
  const { isBusy, fault, run } = useAction();
  const save = () =>
    run(async () => {
      await call("PATCH /v1/auth/me", { body: { displayName: name.trim() || null } });
      setSaved(name);
      onChange();
    });
  return (
    <Panel title={say("Your name, as payers see it")} isPadded>
      <div class="pair">
        <Form onSubmit={save}>
          <Field
            label={say("Merchant name")}
            value={name}
            onInput={setName}
            maxLength={100}
            error={fault}
            hint={say("On payment pages and receipts.")}
          />
          <div class="actions">
            <Button kind="main" type="submit" isBusy={isBusy} isOff={name === saved}>
              {say("Save")}
            </Button>
          </div>
          {name === saved && saved !== (initial ?? "") && <Notice kind="ok">{say("Saved")}</Notice>}
        </Form>
        <div class="preview" aria-hidden="true">
          <p class="name">
            <span class="mark">{Array.from(name || "?")[0]?.toUpperCase()}</span>
            <bdi>{name || say("Your name")}</bdi>
          </p>
          <p class="figure">
            12.50 <span class="unit">USDC</span>
          </p>
          <p class="muted">{say("Two coffees")}</p>
        </div>
      </div>
    </Panel>
  );
}

type Change = NonNullable<Given<"PATCH /v1/settings">["body"]>;

function Matching() {
  const loaded = useLoad("GET /v1/settings");
  const { fault, run } = useAction();
  const change = async (body: Change) => {
    await run(() => call("PATCH /v1/settings", { body }));
    invalidate("/v1/settings");
  };
  return (
    <Panel title={say("Matching of transfers")} isPadded>
      <Loading of={loaded} rows={2}>
        {(settings) => (
          <>
            <Check
              label={say("Match by the plain amount")}
              isOn={settings.matchByAmount}
              onInput={(matchByAmount) => void change({ matchByAmount })}
              hint={say(
                "A transfer of exactly the amount of one open link pays it, without further evidence.",
              )}
            />
            <Check
              label={say("Trust signed claims only")}
              isOn={settings.claimPolicy === "proven"}
              onInput={(isOn) => void change({ claimPolicy: isOn ? "proven" : "early" })}
              hint={say("Between links of one price, only a payer's signature decides.")}
            />
          </>
        )}
      </Loading>
      <Fault of={fault} />
    </Panel>
  );
}
