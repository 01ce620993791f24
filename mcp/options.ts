/** What the tools of a server depend on. */
import type { Client } from "../sdk/client.ts";

export type McpOptions = {
  service: Client;
  /** Origin of the service. */
  baseUrl: string;
  /** Aborted when the caller disconnects or the process stops; ends waiting calls. */
  signal?: AbortSignal | undefined;
};
