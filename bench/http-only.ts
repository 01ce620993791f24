/** Proxies a node's port without WebSocket: bytes are passed through unchanged, at negligible cost. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export type HttpOnly = { url: string; stop: () => void };

export async function startHttpOnly(port: number): Promise<HttpOnly> {
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const node = connect(port, "127.0.0.1");
    for (const socket of [client, node]) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.on("error", () => undefined);
      socket.on("close", () => {
        sockets.delete(socket);
        client.destroy();
        node.destroy();
      });
    }
    client.once("data", (head) => {
      if (/^upgrade: websocket/im.test(head.toString("latin1"))) {
        client.destroy();
        return;
      }
      node.write(head);
      client.pipe(node);
      node.pipe(client);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    stop() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
