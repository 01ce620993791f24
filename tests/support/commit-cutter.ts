/** A way to Postgres on which one process's commits get lost: before they arrive, or after they were done and before anybody hears of it. */
import type { Socket, TCPSocketListener } from "bun";

export type CommitCutter = {
  url: string;
  /** Share of commits that are cut, 0 to 1. */
  share: number;
  cuts: { before: number; after: number };
  stop: () => void;
};

type Side = { other: Socket<Side> | undefined; early: Buffer[]; isWatched: boolean; cutNext: boolean };

const COMMIT = Buffer.from("commit\0");

/** The first two commits are always cut, one of each kind, so that no run goes without. */
function isDue({ share, cuts }: CommitCutter, random: () => number): boolean {
  return share > 0 && (cuts.before + cuts.after < 2 || random() < share);
}

/** Cuts only connections whose application_name is `name`. */
export function startCommitCutter(databaseUrl: string, name: string, random: () => number): CommitCutter {
  const target = new URL(databaseUrl);
  const newSide = (): Side => ({ other: undefined, early: [], isWatched: false, cutNext: false });
  const mark = Buffer.from(`application_name\0${name}\0`);

  const fromServer = {
    open(socket: Socket<Side>) {
      for (const chunk of socket.data.early.splice(0)) socket.write(chunk);
    },
    data(socket: Socket<Side>, chunk: Buffer) {
      const client = socket.data.other;
      if (client?.data.cutNext) {
        cutter.cuts.after += 1;
        client.terminate();
        socket.terminate();
        return;
      }
      client?.write(chunk);
    },
    close: (socket: Socket<Side>) => void socket.data.other?.end(),
    error: (socket: Socket<Side>) => void socket.data.other?.terminate(),
  };

  const server: TCPSocketListener<Side> = Bun.listen<Side>({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      async open(client) {
        client.data = newSide();
        const data = { ...newSide(), other: client, early: client.data.early };
        const port = Number(target.port);
        client.data.other = await Bun.connect<Side>({
          ...{ hostname: target.hostname, port, socket: fromServer, data },
        });
      },
      data(client, chunk) {
        const side = client.data;
        if (chunk.includes(mark)) side.isWatched = true;
        if (side.isWatched && chunk.includes(COMMIT) && isDue(cutter, random)) {
          if (cutter.cuts.before <= cutter.cuts.after) {
            cutter.cuts.before += 1;
            side.other?.terminate();
            client.terminate();
            return;
          }
          side.cutNext = true;
        }
        if (side.other) side.other.write(chunk);
        else side.early.push(Buffer.from(chunk));
      },
      close: (client) => void client.data.other?.end(),
      error: (client) => void client.data.other?.terminate(),
    },
  });

  const own = new URL(databaseUrl);
  own.port = String(server.port);
  own.hostname = "127.0.0.1";
  const cutter: CommitCutter = {
    url: own.toString(),
    share: 0,
    cuts: { before: 0, after: 0 },
    stop: () => server.stop(true),
  };
  return cutter;
}
