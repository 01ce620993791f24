/**
 * Loaded by a container's process before its program: a port of the container's loopback address leads to the test chain on the host. Its wallet
 * contracts are a stand-in, which the service accepts in production from a node of its own machine alone.
 */
import { connect, createServer } from "node:net";
import { env } from "node:process";

const server = createServer((client) => {
  const node = connect(Number(env.NODE_RELAY_PORT), env.NODE_RELAY_HOST);
  client.pipe(node).pipe(client);
  client.on("error", () => node.destroy());
  node.on("error", () => client.destroy());
});
server.listen(Number(env.NODE_PORT), "127.0.0.1").unref();
