/** The dependencies of every feature's routes. A feature takes this as its one parameter and never imports app.ts. */

import type { NetworkId } from "../../core/domain/networks.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import type { Log } from "../../core/runtime/log.ts";
import type { Metrics } from "../../core/runtime/metrics.ts";
import type { Sql } from "../../db/postgres/client.ts";
import type { Outcomes } from "../../db/postgres/notifications.ts";
import type { Reader } from "../../db/postgres/replica.ts";
import type { ApiConfig } from "../config.ts";
import type { Assets } from "./assets.ts";
import type { Drain } from "./drain.ts";

export type ApiDeps = {
  sql: Sql;
  /** For payments, whose statements never vary: a connection plans each of them once. */
  plannedSql: Sql;
  /** For lists, which a replica may serve. */
  reader: Reader;
  outcomes: Outcomes;
  config: ApiConfig;
  log: Log;
  /** The enabled networks, in the order of NETWORKS. */
  chains: ReadonlyMap<NetworkId, Chain>;
  metrics: Metrics;
  /** The built files of the web pages. */
  assets: Assets;
  drain: Drain;
};
