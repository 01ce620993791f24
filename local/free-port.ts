/** Loopback TCP ports: whether one is free, one that is, and whether somebody listens. */
import { connect, createServer } from "node:net";

const CONNECT_TIMEOUT_MS = 1_000;

export async function findFreePort(): Promise<number> {
  const port = await bindOnce(0);
  if (port === undefined) throw new Error("no loopback TCP port is free");
  return port;
}

export async function isPortFree(port: number): Promise<boolean> {
  return (await bindOnce(port)) !== undefined;
}

/** The wished port when it is free, else any free one. */
export async function preferPort(wished: number | undefined): Promise<number> {
  return wished !== undefined && (await isPortFree(wished)) ? wished : findFreePort();
}

/** Whether a TCP connection to the loopback port is accepted. */
export function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: "127.0.0.1", port });
    const finish = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(CONNECT_TIMEOUT_MS, () => finish(false));
    socket.once("connect", () => finish(true));
    socket.once("error", () => finish(false));
  });
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
