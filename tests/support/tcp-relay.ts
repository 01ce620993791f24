/** A port of its own in front of a server: what the server says can be delayed, all connections can be cut, and the port can move to another server. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export type TcpRelay = {
  port: number;
  /** Ends every connection at once, with what is still on its way; new ones are refused until `open`. */
  cut: () => void;
  /** From now on connections lead to this port of the same machine. */
  open: (targetPort: number) => void;
  stop: () => Promise<void>;
};

type Chunk = { dueMs: number; bytes: Buffer };

/** `delayMs`: how long every byte of the server's is held back, in order. Default 0. `host`: the address it listens at, default loopback. */
export async function startTcpRelay(options: {
  targetPort: number;
  delayMs?: number;
  host?: string;
}): Promise<TcpRelay> {
  const delayMs = options.delayMs ?? 0;
  let targetPort: number | undefined = options.targetPort;
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    if (targetPort === undefined) return void client.destroy();
    const upstream = connect({ host: "127.0.0.1", port: targetPort, noDelay: true });
    client.setNoDelay(true);
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(socket);
      socket.on("error", () => socket.destroy());
      socket.on("close", () => {
        sockets.delete(socket);
        other.destroy();
      });
    }
    client.pipe(upstream);
    if (delayMs === 0) upstream.pipe(client);
    else passLater(upstream, client, delayMs);
  });
  server.listen(0, options.host ?? "127.0.0.1");
  await once(server, "listening");
  const cut = () => {
    targetPort = undefined;
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    cut,
    open(port) {
      targetPort = port;
    },
    async stop() {
      cut();
      server.close();
      await once(server, "close");
    },
  };
}

/** Each chunk after its delay; one timer at a time keeps the order. What is held back when a side closes is lost. */
function passLater(from: Socket, to: Socket, delayMs: number): void {
  const waiting: Chunk[] = [];
  let timer: NodeJS.Timeout | undefined;
  const passDue = () => {
    timer = undefined;
    const nowMs = performance.now();
    while (waiting[0] && waiting[0].dueMs <= nowMs) to.write(waiting.shift()?.bytes ?? Buffer.alloc(0));
    if (waiting[0]) timer = setTimeout(passDue, waiting[0].dueMs - nowMs);
  };
  from.on("data", (bytes: Buffer) => {
    waiting.push({ dueMs: performance.now() + delayMs, bytes });
    timer ??= setTimeout(passDue, delayMs);
  });
  const drop = () => {
    clearTimeout(timer);
    waiting.length = 0;
  };
  from.on("close", drop);
  to.on("close", drop);
}
