/**
 * The connections of the job queue. graphile-worker 0.18.0 releases its listening client twice when the connection is lost while a runner stops;
 * the second release would be an uncaught error, which ends the process, so it is ignored here. A lost connection does not end the process
 * either, whether the client is idle, in use or being closed: statements on it reject on their own.
 */
import { Pool, type PoolClient, type PoolConfig } from "pg";

type Release = (release?: Error | boolean) => void;
type Connected = (error: Error | undefined, client: PoolClient | undefined, release: Release) => void;

export class QueuePool extends Pool {
  /** `onLost` is called for each lost idle connection, even while the pool is ending. */
  constructor(config: PoolConfig, onLost: (error: Error) => void = () => {}) {
    super(config);
    this.on("error", onLost);
    this.on("connect", (client) => client.on("error", () => {}));
    const connect = this.connect.bind(this) as {
      (): Promise<PoolClient>;
      (connected: Connected): void;
    };
    const connectOnce = (connected?: Connected) => {
      if (!connected) return connect();
      return connect((error, client, release) => connected(error, client, once(release)));
    };
    this.connect = connectOnce as Pool["connect"];
  }
}

function once(release: Release): Release {
  let isReleased = false;
  return (destroy) => {
    if (isReleased) return;
    isReleased = true;
    release(destroy);
  };
}
