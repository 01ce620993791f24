/** The state of an action behind a button: busy while it runs, and its error. */
import { useState } from "preact/hooks";
import { invalidate } from "./load.ts";
import { messageOf, Refusal } from "./service.ts";

export type Action = {
  isBusy: boolean;
  fault: string | undefined;
  /** The field that the API reports as the cause. */
  field: string | undefined;
  /** True when `act` succeeded. */
  run: (act: () => Promise<unknown>) => Promise<boolean>;
  /** The same for an action that invalidates what was read under these paths. */
  change: (paths: readonly string[], act: () => Promise<unknown>) => Promise<boolean>;
};

/** `explain`: the message for an error that `act` throws. */
export function useAction(explain: (error: unknown) => string = messageOf): Action {
  const [error, setError] = useState<unknown>();
  const [isBusy, setBusy] = useState(false);
  const run = async (act: () => Promise<unknown>) => {
    setBusy(true);
    setError(undefined);
    try {
      await act();
      return true;
    } catch (cause) {
      setError(cause);
      return false;
    } finally {
      setBusy(false);
    }
  };
  return {
    isBusy,
    fault: error === undefined ? undefined : explain(error),
    field: error instanceof Refusal ? error.field : undefined,
    run,
    change: (paths, act) =>
      run(async () => {
        await act();
        invalidate(...paths);
      }),
  };
}
