/** A mail server that accepts connections and says nothing, at first or after the message: mails for it must not occupy every job of the worker. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { type Mail, openMailer } from "../../worker/mail/mailer.ts";

const TIMEOUT_MS = 4_000;
const TIMEOUTS = { connectMs: TIMEOUT_MS, answerMs: TIMEOUT_MS };
const MAIL: Mail = {
  ...{ to: "you@example.test", subject: "s", text: "t", html: "<p>t</p>", messageId: "<1@a.test>" },
};
const sockets = new Set<Socket>();
let server: Server;
/** The last command it answers; none while it is undefined. */
let answersUntil: "EHLO" | "DATA" | "." | undefined;

beforeAll(async () => {
  server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    if (answersUntil === undefined) return;
    socket.write("220 mail.test\r\n");
    socket.on("data", (piece) => {
      const line = String(piece);
      if (line.startsWith("QUIT")) socket.write("221 bye\r\n");
      else if (line.startsWith("DATA")) socket.write("354 go on\r\n");
      else if (/^(EHLO|MAIL|RCPT)/.test(line) || (answersUntil === "." && line.endsWith("\r\n.\r\n")))
        socket.write("250 ok\r\n");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterAll(() => {
  for (const socket of sockets) socket.destroy();
  server?.close();
});

test("one mail at a time waits for it, the others fail soon, and all are sent when it is back", async () => {
  const { port } = server.address() as AddressInfo;
  const mailer = openMailer({ smtpUrl: `smtp://127.0.0.1:${port}`, mailFrom: "us@example.test" }, TIMEOUTS);
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
    expect(tookMs).toBeLessThan(TIMEOUT_MS - 500);
    expect(outcome).toContain("another mail is trying it");
  }
  answersUntil = "EHLO";
  const all = await Promise.all(Array.from({ length: 8 }, connect));
  expect(all.map(({ outcome }) => outcome)).toEqual(Array.from({ length: 8 }, () => "connected"));
  mailer.close();
}, 60_000);

test("one mail at a time waits for its decision on a message, the others fail soon, until it decides again", async () => {
  const { port } = server.address() as AddressInfo;
  const mailer = openMailer({ smtpUrl: `smtp://127.0.0.1:${port}`, mailFrom: "us@example.test" }, TIMEOUTS);
  const send = async (mail: Mail = MAIL) => {
    const startedMs = performance.now();
    const outcome = await mailer
      .connect()
      .then(async (connection) => {
        try {
          return (await connection.deliver(mail)).outcome;
        } finally {
          connection.close();
        }
      })
      .catch(({ message }: Error) => message);
    return { outcome, tookMs: performance.now() - startedMs };
  };
  answersUntil = "DATA";
  expect((await send()).outcome).toBe("unknown");
  const [probe, ...others] = await Promise.all(Array.from({ length: 8 }, () => send()));
  expect(probe?.outcome).toBe("unknown");
  for (const { outcome, tookMs } of others) {
    expect(tookMs).toBeLessThan(TIMEOUT_MS - 500);
    expect(outcome).toContain("another mail is trying it");
  }
  answersUntil = ".";
  // a mail whose delivery throws does not keep the turn
  const unreadable: Mail = {
    ...MAIL,
    get html(): string {
      throw new Error("this mail has no text");
    },
  };
  expect((await send(unreadable)).outcome).toBe("this mail has no text");
  expect((await send()).outcome).toBe("accepted");
  const all = await Promise.all(Array.from({ length: 8 }, () => send()));
  expect(all.map(({ outcome }) => outcome)).toEqual(Array.from({ length: 8 }, () => "accepted"));
  mailer.close();
}, 90_000);
