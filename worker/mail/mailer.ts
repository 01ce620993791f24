/**
 * Outgoing e-mail over SMTP, in two steps: connect, then deliver. Callers record their state in between, so
 * only when a mail server is reachable. A delivery is accepted, refused or unknown (the connection
 * broke after the server had the message); only the first two are conclusive. Retries: db/jobs/queue.ts.
 */
import type MailComposer from "nodemailer/lib/mail-composer";
import type SMTPConnection from "nodemailer/lib/smtp-connection";

export type MailAttachment = {
  filename: string;
  content: Buffer | string;
  contentType: string;
  /** Content id of an image that the HTML refers to as `cid:`. */
  cid?: string;
};
export type Mail = {
  to: string;
  subject: string;
  text: string;
  html: string;
  messageId: string;
  attachments?: MailAttachment[];
};

export type Delivery =
  | { outcome: "accepted" }
  | { outcome: "refused"; isPermanent: boolean; reply: string }
  | { outcome: "unknown"; reply: string };

export type MailConnection = { deliver(mail: Mail): Promise<Delivery>; close(): void };
export type Mailer = { connect(): Promise<MailConnection>; close(): void };

/** `connectMs`: for the name, the connection and the greeting each; `answerMs`: for every reply after them. */
const TIMEOUTS = { connectMs: 10_000, answerMs: 20_000 };
const PROBE_WAIT_MS = 1_500;
const PERMANENT_FROM = 500;

/** `smtpUrl` in nodemailer's format: smtp://user:pass@host:587, smtps://…, with options in the query. */
export function openMailer(
  { smtpUrl, mailFrom }: { smtpUrl: string; mailFrom: string },
  { connectMs, answerMs } = TIMEOUTS,
): Mailer {
  const open = new Set<SMTPConnection>();
  let isClosed = false;
  let isFailing = false;
  let probe: Promise<void> | undefined;

  async function connect(): Promise<MailConnection> {
    const { parseConnectionUrl, Connection, Composer } = await loadPackage();
    if (isClosed) throw new Error("the mailer is closed");
    const { auth, ...options } = parseConnectionUrl(smtpUrl);
    const connection = new Connection({
      ...options,
      connectionTimeout: connectMs,
      greetingTimeout: connectMs,
      dnsTimeout: connectMs,
      socketTimeout: answerMs,
    });
    open.add(connection.once("end", () => open.delete(connection)));
    await opened(connection);
    if (auth?.user) await loggedIn(connection, { user: auth.user, pass: auth.pass ?? "" });
    return {
      deliver: (mail) => deliver(connection, new Composer({ from: mailFrom, ...mail })),
      close: () => connection.quit(),
    };
  }

  return {
    /**
     * Of the mails for a server that failed last, one at a time connects and delivers, and the others wait a moment for what becomes of it: a
     * server that hangs would occupy all jobs.
     */
    async connect() {
      if (probe) await Promise.race([probe, Bun.sleep(PROBE_WAIT_MS)]);
      if (isFailing && probe)
        throw new Error("the mail server is unavailable, and another mail is trying it");
      const turn = Promise.withResolvers<void>();
      if (isFailing) probe = turn.promise;
      const end = (hasFailed: boolean) => {
        isFailing = hasFailed;
        if (probe === turn.promise) probe = undefined;
        turn.resolve();
      };
      try {
        const connection = await connect();
        let isDelivering = false;
        return {
          async deliver(mail) {
            isDelivering = true;
            let isDecided = false;
            try {
              const delivery = await connection.deliver(mail);
              isDecided = delivery.outcome !== "unknown";
              return delivery;
            } finally {
              end(!isDecided);
            }
          },
          close() {
            if (!isDelivering) end(false);
            connection.close();
          },
        };
      } catch (error) {
        end(true);
        throw error;
      }
    },
    close() {
      isClosed = true;
      for (const connection of open) connection.close();
    },
  };
}

/** Loaded with the first e-mail, because startup does not need it. */
async function loadPackage() {
  const [composer, shared, connection] = await Promise.all([
    import("nodemailer/lib/mail-composer"),
    import("nodemailer/lib/shared"),
    import("nodemailer/lib/smtp-connection"),
  ]);
  const { parseConnectionUrl } = shared;
  return { parseConnectionUrl, Composer: composer.default, Connection: connection.default };
}

function opened(connection: SMTPConnection): Promise<void> {
  return new Promise((resolve, reject) => {
    connection.once("error", reject);
    connection.connect((error) => (error ? reject(error) : resolve()));
  });
}

function loggedIn(connection: SMTPConnection, auth: { user: string; pass: string }): Promise<void> {
  return new Promise((resolve, reject) => {
    connection.once("error", reject);
    connection.login(auth, (error) => (error ? reject(error) : resolve()));
  });
}

async function deliver(connection: SMTPConnection, composer: MailComposer): Promise<Delivery> {
  const message = composer.compile();
  const envelope = message.getEnvelope();
  const bytes = await message.build();
  return new Promise((resolve) => {
    const onError = (error: { responseCode?: number | undefined; message: string }) =>
      resolve(toDelivery(error));
    connection.once("error", onError);
    connection.send({ from: envelope.from, to: envelope.to }, bytes, (error) =>
      error ? onError(error) : resolve({ outcome: "accepted" }),
    );
  });
}

/** A reply is the server's decision. Without one it may still have accepted the message. */
function toDelivery(error: { responseCode?: number | undefined; message: string }): Delivery {
  if (error.responseCode === undefined) return { outcome: "unknown", reply: error.message };
  return { outcome: "refused", isPermanent: error.responseCode >= PERMANENT_FROM, reply: error.message };
}
