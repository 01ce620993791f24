/** The colour and logo of the payment pages, and the shops that may embed them. */
import { useState } from "preact/hooks";
import { useAction } from "../frame/action.ts";
import { useLoad } from "../frame/load.ts";
import { call } from "../frame/service.ts";
import { itemOf, say } from "../frame/texts.ts";
import { Button, Field } from "../parts/controls.tsx";
import { Fault, Form, Loading, Panel } from "../parts/forms.tsx";

const DEFAULT_COLOR = "#0b50e6";
const READ_AT_ONCE = 0x8000;

export function PageBranding() {
  const loaded = useLoad("GET /v1/settings/pages");
  const [color, setColor] = useState<string>();
  const [origins, setOrigins] = useState<string>();
  const { isBusy, fault, field, change } = useAction();
  const changeLooks = (work: () => Promise<unknown>) => change(["/v1/settings/pages"], work);
  const save = () =>
    changeLooks(async () => {
      const frameOrigins = origins?.split(/[\s,]+/).filter(Boolean);
      const body = {
        ...(color === undefined ? {} : { accentColor: color }),
        ...(frameOrigins ? { frameOrigins } : {}),
      };
      await call("PATCH /v1/settings/pages", { body });
      setColor(undefined);
      setOrigins(undefined);
    });
  const upload = (file: File) =>
    changeLooks(async () => call("POST /v1/settings/pages/logo", { body: { image: await toBase64(file) } }));
  const reset = () => changeLooks(() => call("PATCH /v1/settings/pages", { body: { accentColor: null } }));
  return (
    <Panel title={say("Payment pages")} isPadded>
      <Loading of={loaded} rows={3}>
        {(looks) => (
          <Form class="form slim" onSubmit={save}>
            <div class="looks">
              {looks.logoUrl && <img src={new URL(looks.logoUrl).pathname} alt={say("Your logo")} />}
              <div class="file">
                <label for="logo">{say("Logo")}</label>
                <input
                  id="logo"
                  type="file"
                  accept="image/png,image/jpeg,image/webp"
                  onChange={(event) => {
                    const [file] = event.currentTarget.files ?? [];
                    if (file) void upload(file);
                  }}
                />
              </div>
              {looks.logoUrl && (
                <Button
                  isBusy={isBusy}
                  onClick={() => changeLooks(() => call("DELETE /v1/settings/pages/logo"))}
                >
                  {say("Remove the logo")}
                </Button>
              )}
            </div>
            <Field
              label={say("Colour of buttons and links")}
              type="color"
              value={color ?? looks.accentColor ?? DEFAULT_COLOR}
              onInput={setColor}
              hint={say("Pages darken or lighten it until it is readable.")}
            />
            <Field
              label={say("Shops that may show the pages in a frame")}
              isLong
              value={origins ?? looks.frameOrigins.join("\n")}
              onInput={setOrigins}
              placeholder="https://shop.example"
              spellcheck={false}
              hint={say("One origin per line. No other site may show them.")}
            />
            <Fault
              of={
                itemOf(field) < 0 ? fault : `${say("Line {number}", { number: itemOf(field) + 1 })}: ${fault}`
              }
            />
            <div class="actions">
              <Button
                kind="main"
                type="submit"
                isBusy={isBusy}
                isOff={color === undefined && origins === undefined}
              >
                {say("Save")}
              </Button>
              {looks.accentColor && (
                <Button isBusy={isBusy} onClick={reset}>
                  {say("Default colour")}
                </Button>
              )}
            </div>
          </Form>
        )}
      </Loading>
    </Panel>
  );
}

/** In chunks: a function call takes a limited number of arguments. */
async function toBase64(file: File): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let binary = "";
  for (let at = 0; at < bytes.length; at += READ_AT_ONCE)
    binary += String.fromCharCode(...bytes.subarray(at, at + READ_AT_ONCE));
  return btoa(binary);
}
