/** Mails that must not be missing: tried again until a server has decided, and then no more. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { openLog } from "../../core/runtime/log.ts";
import { insertInvitation } from "../../db/members/invitations.ts";
import { addNotice } from "../../db/notices/notices.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import type { Mailer } from "../../worker/mail/mailer.ts";
import { sendInvitation } from "../../worker/mail/send-invitation.ts";
import { sendNotice } from "../../worker/mail/send-notice.ts";
import { seedUser } from "../support/passkey-rows.ts";
import { createTestDatabase, TEST_POOL, type TestDatabase } from "../support/postgres.ts";
import { type ScriptedServer, startScriptedServer } from "./scripted-server.ts";

let db: TestDatabase;
let sql: Sql;
let server: ScriptedServer;
let mailer: Mailer;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { ...TEST_POOL, maxConnections: 2 });
  server = await startScriptedServer();
});
beforeEach(() => {
  server.received.length = 0;
  server.reply = "accepts";
  mailer = server.openMailer();
});
afterEach(() => mailer.close());
afterAll(async () => {
  await server?.stop();
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
    server.reply = "accepts";
    await run();
    await run();
    expect(server.received).toHaveLength(1);
  });

  test.each(["refuses temporarily", "breaks the connection"] as const)(
    "is sent again after a server that %s",
    async (first) => {
      const run = await MAILS[kind]();
      server.reply = first;
      await expect(run()).rejects.toThrow("may not have been mailed");
      server.reply = "accepts";
      server.received.length = 0;
      await run();
      expect(server.received).toHaveLength(1);
    },
  );

  test.each(["refuses permanently", "knows no such command"] as const)(
    "is not sent again after a server that %s",
    async (first) => {
      const run = await MAILS[kind]();
      server.reply = first;
      await run();
      server.reply = "accepts";
      await run();
      expect(server.received).toHaveLength(0);
    },
  );
});

test("a worker that stops connects to no mail server any more", async () => {
  mailer.close();
  await expect(mailer.connect()).rejects.toThrow("the mailer is closed");
});
