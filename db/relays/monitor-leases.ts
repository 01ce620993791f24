/** The lease to monitor a network's transactions. A worker extends it with each pass, so that N workers cost as much as one. */
import type { NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";

export type MonitorLease = {
  network: NetworkId;
  /** The process; a new one for each start. */
  holder: string;
};

/** Takes or extends the lease; false while another holds it. */
export async function takeMonitorLease(
  tx: Tx,
  { network, holder, leaseMs }: MonitorLease & { leaseMs: number },
): Promise<boolean> {
  const rows = await tx`
    insert into monitor_leases (network, holder, until)
    select ${network}, ${holder}, now() + make_interval(secs => ${leaseMs / 1000}::float8)
    where not exists (
      select from monitor_leases
      where network = ${network} and holder <> ${holder} and until > now()
    )
    on conflict (network) do update
    set holder = excluded.holder, until = excluded.until
    where monitor_leases.holder = excluded.holder or monitor_leases.until <= now()
    returning 1`;
  return rows.length === 1;
}

/** Releases the lease for the next worker. */
export async function releaseMonitorLease(tx: Tx, { network, holder }: MonitorLease): Promise<void> {
  await tx`
    update monitor_leases
    set until = now()
    where network = ${network} and holder = ${holder}`;
}
