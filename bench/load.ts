/** A closed-loop HTTP load over keep-alive sockets, cheap enough that the server is the bottleneck. */

export type Load = {
  port: number;
  connections: number;
  seconds: number;
  /** The head of the n-th request, without the blank line at its end. */
  request: (index: number) => string;
};

export type LoadResult = {
  requests: number;
  seconds: number;
  /** Sorted. */
  timesMs: number[];
  /** Responses by status. */
  statuses: Record<number, number>;
};

const HEAD_END = "\r\n\r\n";
const LENGTH = /\r\ncontent-length: (\d+)/i;

export async function drive({ port, connections, seconds, request }: Load): Promise<LoadResult> {
  const result: LoadResult = { requests: 0, seconds, timesMs: [], statuses: {} };
  const deadline = performance.now() + seconds * 1_000;
  const started = performance.now();
  let index = 0;
  const one = () =>
    new Promise<void>((resolve, reject) => {
      let sentMs = 0;
      let received = "";
      const send = (socket: Bun.Socket<undefined>) => {
        sentMs = performance.now();
        received = "";
        socket.write(`${request(index++)}${HEAD_END}`);
      };
      Bun.connect({
        hostname: "127.0.0.1",
        port,
        socket: {
          open: send,
          data(socket, bytes) {
            received += bytes.toString("latin1");
            if (!isWhole(received)) return;
            const now = performance.now();
            result.timesMs.push(now - sentMs);
            result.requests += 1;
            const status = Number(received.slice(9, 12));
            result.statuses[status] = (result.statuses[status] ?? 0) + 1;
            if (now < deadline) send(socket);
            else socket.end();
          },
          close: () => resolve(),
          error: (_socket, error) => reject(error),
        },
      }).catch(reject);
    });
  await Promise.all(Array.from({ length: connections }, one));
  result.seconds = (performance.now() - started) / 1_000;
  result.timesMs.sort((a, b) => a - b);
  return result;
}

function isWhole(received: string): boolean {
  const headEnd = received.indexOf(HEAD_END);
  if (headEnd < 0) return false;
  const length = Number(LENGTH.exec(received.slice(0, headEnd))?.[1] ?? 0);
  return received.length >= headEnd + HEAD_END.length + length;
}
