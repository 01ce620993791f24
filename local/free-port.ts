/** Finds free loopback TCP ports. */
import { createServer } from "node:net";

/** Below the ports that Linux and macOS give to outgoing connections: one of those may be taken between two starts of a server. */
const [FIRST_PORT, PORT_COUNT] = [10_240, 22_528];
/**
 * Seconds pass between the choice of a port and the start of its server, in which another process may choose it too. Processes that start
 * in succession, as in a test run, choose from different slices, and none chooses a port twice.
 */
const SLICES = 64;
const SLICE_PORTS = PORT_COUNT / SLICES;
const ATTEMPTS = 50;
const chosen = new Set<number>();

export async function findFreePort(): Promise<number> {
  const sliceAt = FIRST_PORT + (process.pid % SLICES) * SLICE_PORTS;
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    if (chosen.size > SLICE_PORTS / 2) chosen.clear();
    const port = sliceAt + Math.floor(Math.random() * SLICE_PORTS);
    if (chosen.has(port)) continue;
    chosen.add(port);
    if (await isPortFree(port)) return port;
  }
  const port = await bindOnce(0);
  if (port === undefined) throw new Error("no loopback TCP port is free");
  return port;
}

export async function isPortFree(port: number): Promise<boolean> {
  return (await bindOnce(port)) !== undefined;
}

/** The preferred port when it is free, else any free one. */
export async function preferPort(wished: number | undefined): Promise<number> {
  return wished !== undefined && (await isPortFree(wished)) ? wished : findFreePort();
}

function bindOnce(port: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(undefined));
    server.listen({ host: "127.0.0.1", port, exclusive: true }, () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address ? address.port : undefined));
    });
  });
}
