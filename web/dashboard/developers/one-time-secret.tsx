/** Shows a secret once: the dialog closes when the person confirms that it is stored. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { say } from "../frame/texts.ts";
import { Button, Check, Copy, Dialog } from "../parts/controls.tsx";

type Props = {
  title: string;
  secret: string;
  /** Label of the copy button. */
  copy: string;
  onClose: () => void;
  children: ComponentChildren;
};

export function OneTimeSecret({ title, secret, copy, onClose, children }: Props) {
  const [isKept, setKept] = useState(false);
  return (
    <Dialog title={title} onClose={isKept ? onClose : undefined}>
      <p class="muted">{children}</p>
      <div class="secret">
        <code>{secret}</code>
        <Copy text={secret} label={copy} />
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
