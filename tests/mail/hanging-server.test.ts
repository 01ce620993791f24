/** A mail server that accepts connections and says nothing: mails for it must not occupy every job of the worker. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { openMailer } from "../../worker/mail/mailer.ts";

const TIMEOUT_MS = 10_000;
const sockets = new Set<Socket>();
let server: Server;
let greets = false;

beforeAll(async () => {
  server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    if (!greets) return;
    socket.write("220 mail.test\r\n");
    socket.on("data", (line) =>
      socket.write(/^EHLO/i.test(String(line)) ? "250 mail.test\r\n" : "221 bye\r\n"),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterAll(() => {
  for (const socket of sockets) socket.destroy();
  server?.close();
});

test("one mail at a time waits for it, the others fail soon, and all are sent when it is back", async () => {
  const { port } = server.address() as AddressInfo;
  const mailer = openMailer({ smtpUrl: `smtp://127.0.0.1:${port}`, mailFrom: "us@example.test" });
  const connect = async () => {
    const startedMs = performance.now();
    const outcome = await mailer.connect().then(
      (connection) => {
        connection.close();
        return "connected";
      },
      ({ message }: Error) => message,
    );
    return { outcome, tookMs: performance.now() - startedMs };
  };
  expect((await connect()).tookMs).toBeGreaterThan(TIMEOUT_MS - 500);
  const [probe, ...others] = await Promise.all(Array.from({ length: 8 }, connect));
  expect(probe?.tookMs).toBeGreaterThan(TIMEOUT_MS - 500);
  for (const { outcome, tookMs } of others) {
    expect(tookMs).toBeLessThan(TIMEOUT_MS / 2);
    expect(outcome).toContain("another mail is trying it");
  }
  greets = true;
  const all = await Promise.all(Array.from({ length: 8 }, connect));
  expect(all.map(({ outcome }) => outcome)).toEqual(Array.from({ length: 8 }, () => "connected"));
  mailer.close();
}, 60_000);
