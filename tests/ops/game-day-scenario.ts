/** What a scenario of the exercise is given, and what it gives back. */
import type { ServiceProgram } from "../../local/processes/service-process.ts";
import type { Lab } from "../support/relay-lab.ts";
import type { RemoteSigner } from "../support/remote-signer.ts";
import type { ProcessName } from "../support/world.ts";
import type { Prometheus, Target } from "./prometheus.ts";

const POLL_MS = 30;

export type GameDay = {
  lab: Lab;
  signer: RemoteSigner;
  prometheus: Prometheus;
  targets: readonly Target[];
  /** How a process is started from its next start on, when not from its sources in the project's folder. */
  programs: Map<ProcessName, ServiceProgram>;
};
/** `provoke` returns the cure. `cureText`: the runbook's words for it. */
export type Scenario = {
  alert: string;
  cureText: string;
  provoke: (day: GameDay) => Promise<() => Promise<unknown>>;
};

/** Runs `work` again and again, `width` at a time, until the returned function is called. */
export function repeat(work: () => Promise<unknown>, width = 1): () => Promise<void> {
  let isOver = false;
  const loops = Array.from({ length: width }, async () => {
    for (let round = 0; !isOver && round < 10_000; round++) {
      await work().catch(() => undefined);
      await Bun.sleep(POLL_MS);
    }
  });
  return async () => {
    isOver = true;
    await Promise.all(loops);
  };
}
