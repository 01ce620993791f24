/**
 * The connections of the job queue. graphile-worker 0.18.0 gives its listening client back twice when the connection is lost while a runner
 * stops: the second time is an uncaught error, which ends the process. Here it does nothing.
 */
import { Pool, type PoolClient, type PoolConfig } from "pg";

type Release = (release?: Error | boolean) => void;
type Connected = (error: Error | undefined, client: PoolClient | undefined, release: Release) => void;

export class QueuePool extends Pool {
  constructor(config: PoolConfig) {
    super(config);
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
