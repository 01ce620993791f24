/** Group commit on a database that is away: everybody hears it soon, nobody waits for the others' turns. */
import { expect, test } from "bun:test";
import type { Socket } from "bun";
import { openAcceptor } from "../../api/x402/accept.ts";
import { openDatabase } from "../../db/postgres/client.ts";

const PAYMENTS = 20;

/** A port that takes connections and drops them, as a database does that is going away. */
function startDroppingServer() {
  let connections = 0;
  const server = Bun.listen({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      open(socket: Socket<undefined>) {
        connections += 1;
        socket.terminate();
      },
      data: () => undefined,
    },
  });
  const url = `postgres://nobody@127.0.0.1:${server.port}/nowhere`;
  return { url, connections: () => connections, stop: () => server.stop(true) };
}

test("error: a lost connection is every payment's answer at once, not one after the other's", async () => {
  const server = startDroppingServer();
  const sql = openDatabase(server.url, { name: "test", maxConnections: 1 });
  const acceptor = openAcceptor(sql, async () => new Set<string>());
  // the first goes alone, the others gather behind it
  const outcomes = await Promise.allSettled(
    Array.from({ length: PAYMENTS }, (_, index) =>
      acceptor.accept({ id: `pay_${index}`, network: "base-sepolia", requestId: null }),
    ),
  );
  expect(new Set(outcomes.map(({ status }) => status))).toEqual(new Set(["rejected"]));
  expect(server.connections()).toBeLessThan(PAYMENTS);
  await sql.end({ timeout: 1 });
  server.stop();
}, 60_000);
