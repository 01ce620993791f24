/** Mails that must not be missing: tried again until a server has decided, and then no more. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { once } from "node:events";
import type { Socket } from "node:net";
import { SMTPServer } from "smtp-server";
import { openLog } from "../../core/runtime/log.ts";
import { insertInvitation } from "../../db/members/invitations.ts";
import { addNotice } from "../../db/notices/notices.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { type Mailer, openMailer } from "../../worker/mail/mailer.ts";
import { sendInvitation } from "../../worker/mail/send-invitation.ts";
import { sendNotice } from "../../worker/mail/send-notice.ts";
import { seedUser } from "../support/passkey-rows.ts";
import { createTestDatabase, TEST_POOL, type TestDatabase } from "../support/postgres.ts";

const REFUSALS = { "refuses for now": 451, "refuses for good": 550, "knows no such command": 500 } as const;
let db: TestDatabase;
let sql: Sql;
let server: SMTPServer;
let mailer: Mailer;
/** What the server says to each recipient, or after each message. */
let reply: "accepts" | keyof typeof REFUSALS | "breaks the connection";
let messages = 0;
const sockets = new Set<Socket>();

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { ...TEST_POOL, maxConnections: 2 });
  server = new SMTPServer({
    ...{ authOptional: true, disabledCommands: ["STARTTLS", "AUTH"], disableReverseLookup: true },
    closeTimeout: 200,
    onRcptTo(_to, _session, done) {
      const responseCode = reply in REFUSALS ? REFUSALS[reply as keyof typeof REFUSALS] : undefined;
      done(responseCode && Object.assign(new Error("no"), { responseCode }));
    },
    onData(stream, _session, done) {
      stream.on("data", () => {});
      stream.on("end", () => {
        messages += 1;
        if (reply === "accepts") done();
        else for (const socket of sockets) socket.destroy();
      });
    },
  });
  server.on("error", () => {});
  const listener = server.listen(0, "127.0.0.1");
  listener.on("connection", (socket: Socket) => sockets.add(socket));
  await once(listener, "listening");
});
beforeEach(() => {
  messages = 0;
  const address = server.server.address();
  const port = typeof address === "object" && address ? address.port : 0;
  mailer = openMailer({ smtpUrl: `smtp://127.0.0.1:${port}`, mailFrom: "no-reply@pay.example.com" });
});
afterEach(() => mailer.close());
afterAll(async () => {
  await new Promise<void>((resolve) => server.close(() => resolve()));
  await sql?.end({ timeout: 5 });
  await db?.drop();
});

/** A function that runs the job of a new mail. */
const MAILS = {
  async notice() {
    const userId = await seedUser(sql);
    const kind = "statement_ready";
    await sql.begin((tx) => addNotice(tx, { userId, kind, key: "the first", details: { month: "2026-10" } }));
    const [row] = await sql<{ id: bigint }[]>`select id from notices where user_id = ${userId}`;
    const noticeId = String(row?.id);
    return () => sendNotice({ sql, mailer, log, config }, { noticeId });
  },
  async invitation() {
    const merchantId = await seedUser(sql);
    const id = `inv_${crypto.randomUUID()}`;
    const email = "clerk@example.com";
    await sql.begin((tx) =>
      insertInvitation(tx, { id, merchantId, email, role: "viewer", invitedBy: merchantId }),
    );
    return () => sendInvitation({ sql, mailer, log, config }, { invitationId: id, requestId: undefined });
  },
};
const log = openLog("test", "silent");
const config = { baseUrl: "https://pay.example.com" };

describe.each([
  ["a notice", "notice"],
  ["an invitation", "invitation"],
] as const)("the mail of %s", (_name, kind) => {
  test("is sent once to a server that accepts it, however often its job runs", async () => {
    const run = await MAILS[kind]();
    reply = "accepts";
    await run();
    await run();
    expect(messages).toBe(1);
  });

  test.each(["refuses for now", "breaks the connection"] as const)(
    "is sent again after a server that %s",
    async (first) => {
      const run = await MAILS[kind]();
      reply = first;
      await expect(run()).rejects.toThrow("may not have been mailed");
      reply = "accepts";
      messages = 0;
      await run();
      expect(messages).toBe(1);
    },
  );

  test.each(["refuses for good", "knows no such command"] as const)(
    "is not sent again after a server that %s",
    async (first) => {
      const run = await MAILS[kind]();
      reply = first;
      await run();
      reply = "accepts";
      await run();
      expect(messages).toBe(0);
    },
  );
});

test("a worker that stops connects to no mail server any more", async () => {
  mailer.close();
  await expect(mailer.connect()).rejects.toThrow("the mailer is closed");
});
