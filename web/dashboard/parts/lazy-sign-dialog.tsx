/** Loads the dialogs that sign when one of them is first opened. */
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { useAction } from "../frame/action.ts";
import { say } from "../frame/texts.ts";
import { Button, Notice } from "./controls.tsx";

type Dialogs = typeof import("../wallet/lazy-screens.ts").dialogs;

export function LazySignDialog({ children }: { children: (dialogs: Dialogs) => ComponentChildren }) {
  const [dialogs, setDialogs] = useState<Dialogs>();
  const { fault, run } = useAction();
  useEffect(() => {
    void run(async () => setDialogs((await import("../wallet/lazy-screens.ts")).dialogs));
  }, []);
  if (dialogs) return <>{children(dialogs)}</>;
  return fault ? <ScreenLoadFailed /> : null;
}

/** A chunk that the page requests later is gone from the server if a new version was published meanwhile. */
export function ScreenLoadFailed() {
  return (
    <Notice kind="bad">
      <p>{say("This screen could not be loaded. A new version may have been published: reload the page.")}</p>
      <Button onClick={() => location.reload()}>{say("Reload")}</Button>
    </Notice>
  );
}
