import type { NetworkId } from "../../core/domain/networks.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import type { Log } from "../../core/runtime/log.ts";
import type { Sql } from "../../db/postgres/client.ts";
import type { Outcomes } from "../../db/postgres/notifications.ts";
import type { RelayLimits } from "./relay-limits.ts";

/** What paying needs. */
export type X402Deps = {
  readonly sql: Sql;
  readonly outcomes: Outcomes;
  readonly log: Log;
  readonly chains: ReadonlyMap<NetworkId, Chain>;
  readonly config: { readonly baseUrl: string; readonly payWaitMs: number } & RelayLimits;
};
