/** Group commit on an unavailable database: all payments fail at once, none waits for the others. */
import { expect, test } from "bun:test";
import type { Socket } from "bun";
import { openAcceptor } from "../../api/x402/group-commit.ts";
import { openDatabase } from "../../db/postgres/client.ts";

const PAYMENTS = 20;

/** A port that takes connections and drops them, as a database that shuts down does. */
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

test("error: a lost connection rejects every waiting payment together, not one after the other", async () => {
  const server = startDroppingServer();
  const sql = openDatabase(server.url, { name: "test", maxConnections: 1 });
  const acceptor = openAcceptor(sql, async () => new Set<string>());
  // the first is committed alone, the others wait for the next group
  const outcomes = await Promise.allSettled(
    Array.from({ length: PAYMENTS }, (_, index) =>
      acceptor.accept({ id: `pay_${index}`, network: "base-sepolia", requestId: null }),
    ),
  );
  expect(new Set(outcomes.map(({ status }) => status))).toEqual(new Set(["rejected"]));
  expect(server.connections()).toBeLessThan(PAYMENTS);
  await sql.end({ timeout: 1 });
  server.stop();
}, 120_000);
