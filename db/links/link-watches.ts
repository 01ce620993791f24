/** Which networks have open links whose event stream a client is reading: there the indexer polls faster. */
import type { NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";

/** Extends the watch to `forS` seconds from now. Writes nothing while more than half of that is left. */
export async function noteLinkWatch(tx: Tx, network: NetworkId, forS: number): Promise<void> {
  await tx`
    insert into link_watches as watch (network, watched_until)
    values (${network}, now() + make_interval(secs => ${forS}::float8))
    on conflict (network) do update
    set watched_until = excluded.watched_until
    where watch.watched_until < now() + make_interval(secs => ${forS / 2}::float8)`;
}
