/** The question before something is deleted, removed, or ended. */
import type { ComponentChildren } from "preact";
import { useAction } from "../frame/action.ts";
import { Dialog } from "./controls.tsx";
import { Submit } from "./forms.tsx";

type ConfirmProps = {
  title: string;
  /** Label of the button. */
  word: string;
  work: () => Promise<unknown>;
  /** Paths that it invalidates. */
  changes?: readonly string[];
  onClose: () => void;
  closeText?: string;
  children: ComponentChildren;
};

export function Confirm({ title, word, work, changes = [], onClose, closeText, children }: ConfirmProps) {
  const action = useAction();
  const end = () =>
    action.change(changes, async () => {
      await work();
      onClose();
    });
  return (
    <Dialog title={title} onClose={onClose} narrow>
      <p class="muted">{children}</p>
      <Submit
        action={action}
        text={word}
        kind="danger"
        onClick={end}
        onClose={onClose}
        {...(closeText ? { closeText } : {})}
      />
    </Dialog>
  );
}
