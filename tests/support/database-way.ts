/** A way to Postgres on which answers get lost: with their connections, or without a word. */
import type { Socket } from "bun";

export type DatabaseWay = {
  url: string;
  /** From now on: when `isDone`, the answers on all ways are dropped with their connections. Once. */
  cutWhen: (isDone: () => Promise<boolean>) => void;
  cuts: () => number;
  /** Nothing passes any more on the connections that are open now, and none of them is closed. Returns how many. */
  freeze: () => number;
  stop: () => void;
};

type Side = { other: Socket<Side> | undefined; early: Buffer[]; passing: Promise<void>; isFrozen: boolean };

export function startDatabaseWay(databaseUrl: string): DatabaseWay {
  const target = new URL(databaseUrl);
  const clients = new Set<Socket<Side>>();
  let isDue: (() => Promise<boolean>) | undefined;
  let cuts = 0;
  const newSide = (other?: Socket<Side>): Side => ({
    other,
    early: [],
    passing: Promise.resolve(),
    isFrozen: false,
  });

  async function pass(client: Socket<Side> | undefined, chunk: Buffer): Promise<void> {
    if (isDue && (await isDue())) {
      if (!isDue) return;
      isDue = undefined;
      cuts += clients.size;
      for (const one of clients) {
        one.data.other?.terminate();
        one.terminate();
      }
      clients.clear();
      return;
    }
    if (client && clients.has(client) && !client.data.isFrozen) client.write(chunk);
  }

  const fromServer = {
    data(socket: Socket<Side>, chunk: Buffer) {
      const copy = Buffer.from(chunk);
      const { data } = socket;
      data.passing = data.passing.then(() => pass(data.other, copy));
    },
    close(socket: Socket<Side>) {
      if (!socket.data.other?.data.isFrozen) socket.data.other?.end();
    },
    error: (socket: Socket<Side>) => void socket.data.other?.terminate(),
  };

  const server = Bun.listen<Side>({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      async open(client) {
        client.data = newSide();
        clients.add(client);
        const port = Number(target.port);
        const other = await Bun.connect<Side>({
          ...{ hostname: target.hostname, port, socket: fromServer, data: newSide(client) },
        });
        client.data.other = other;
        for (const chunk of client.data.early.splice(0)) other.write(chunk);
      },
      data(client, chunk) {
        if (client.data.isFrozen) return;
        if (client.data.other) client.data.other.write(chunk);
        else client.data.early.push(Buffer.from(chunk));
      },
      close(client) {
        clients.delete(client);
        client.data.other?.end();
      },
      error: (client) => void client.data.other?.terminate(),
    },
  });

  const own = new URL(databaseUrl);
  own.port = String(server.port);
  own.hostname = "127.0.0.1";
  return {
    url: own.toString(),
    cutWhen(isDone) {
      isDue = isDone;
    },
    cuts: () => cuts,
    freeze() {
      for (const one of clients) one.data.isFrozen = true;
      return clients.size;
    },
    stop: () => server.stop(true),
  };
}
