/** Whose turn it is to monitor a network's transactions. A worker keeps it while it comes back in time, so that N workers cost as much as one. */
import type { NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";

export type MonitorTurn = {
  network: NetworkId;
  /** The process; a new one for each start. */
  holder: string;
};

/** Takes or extends the turn; false while it is another's. */
export async function takeMonitorTurn(
  tx: Tx,
  { network, holder, leaseMs }: MonitorTurn & { leaseMs: number },
): Promise<boolean> {
  const rows = await tx`
    insert into monitor_turns (network, holder, until)
    select ${network}, ${holder}, now() + make_interval(secs => ${leaseMs / 1000}::float8)
    where not exists (
      select from monitor_turns
      where network = ${network} and holder <> ${holder} and until > now()
    )
    on conflict (network) do update
    set holder = excluded.holder, until = excluded.until
    where monitor_turns.holder = excluded.holder or monitor_turns.until <= now()
    returning 1`;
  return rows.length === 1;
}

/** Whoever asks next has it. */
export async function endMonitorTurn(tx: Tx, { network, holder }: MonitorTurn): Promise<void> {
  await tx`
    update monitor_turns
    set until = now()
    where network = ${network} and holder = ${holder}`;
}
