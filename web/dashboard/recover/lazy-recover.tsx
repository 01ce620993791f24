/** Loads the recovery when it is first needed. */
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { useAction } from "../frame/action.ts";
import { ScreenLoadFailed } from "../parts/lazy-sign-dialog.tsx";
import type { RecoverProps } from "./recover.tsx";

export function LazyRecover(props: RecoverProps) {
  const [Recover, setRecover] = useState<ComponentType<RecoverProps>>();
  const { fault, run } = useAction();
  useEffect(() => {
    void run(async () => {
      const loaded = await import("./recover.tsx");
      setRecover(() => loaded.Recover);
    });
  }, []);
  if (Recover) return <Recover {...props} />;
  return fault ? <ScreenLoadFailed /> : null;
}
