/** Loads everything beyond the first screens when any of it is first needed. */
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Button, Notice } from "../parts/controls.tsx";
import { useAction } from "./action.ts";
import { say } from "./texts.ts";

type Parts = typeof import("../later-screens.ts");

let parts: Parts | undefined;

type Props = {
  children: (parts: Parts) => ComponentChildren;
  /** Shown while it is loaded. */
  placeholder?: ComponentChildren;
};

export function Later({ children, placeholder = null }: Props) {
  const [, setTurn] = useState(0);
  const { fault, run } = useAction();
  useEffect(() => {
    if (parts) return;
    void run(async () => {
      parts = await import("../later-screens.ts");
      setTurn((turn) => turn + 1);
    });
  }, []);
  if (parts) return <>{children(parts)}</>;
  if (!fault) return <>{placeholder}</>;
  // it is gone from the server if a new version was published meanwhile
  return (
    <Notice kind="bad">
      <p>{say("This screen could not be loaded. A new version may have been published: reload the page.")}</p>
      <Button onClick={() => location.reload()}>{say("Reload")}</Button>
    </Notice>
  );
}
