/** A loopback mail server that delivers nothing: received mails can be read over HTTP. */
import { once } from "node:events";
import { SMTPServer } from "smtp-server";
import { parseMailMessage, type StoredMail } from "./mail-message.ts";
import { renderMailbox } from "./page.ts";

export type Mailbox = {
  smtpUrl: string;
  httpUrl: string;
  /** Newest first, for one address or all. */
  messages: (to?: string) => StoredMail[];
  stop: () => Promise<void>;
};

const KEPT_MAX = 1_000;
const MAIL_BYTES_MAX = 5 * 1024 * 1024;
const CLOSE_TIMEOUT_MS = 1_000;

/** Ports are free ones unless given. */
export async function startMailbox(ports: { smtpPort?: number; httpPort?: number } = {}): Promise<Mailbox> {
  const mails: StoredMail[] = [];
  const messages = (to?: string) =>
    to === undefined ? mails : mails.filter((mail) => mail.to.some((address) => isSameAddress(address, to)));

  const smtp = new SMTPServer({
    authOptional: true,
    disabledCommands: ["STARTTLS", "AUTH"],
    disableReverseLookup: true,
    closeTimeout: CLOSE_TIMEOUT_MS,
    size: MAIL_BYTES_MAX,
    onData(stream, session, done) {
      const chunks: Buffer[] = [];
      stream.on("data", (chunk: Buffer) => chunks.push(chunk));
      stream.on("end", () => {
        if (stream.sizeExceeded) return done(new Error(`A mail may have ${MAIL_BYTES_MAX} bytes.`));
        const recipients = session.envelope.rcptTo.map(({ address }) => address);
        parseMailMessage(Buffer.concat(chunks), recipients).then((message) => {
          mails.unshift({ id: crypto.randomUUID(), receivedAt: new Date().toISOString(), ...message });
          mails.length = Math.min(mails.length, KEPT_MAX);
          done();
        }, done);
      });
    },
  });
  // A client that disconnects in the middle of a mail is ignored.
  smtp.on("error", () => {});
  const listener = smtp.listen(ports.smtpPort ?? 0, "127.0.0.1");
  await once(listener, "listening");
  const address = listener.address();
  const smtpPort = typeof address === "object" && address ? address.port : 0;

  const web = Bun.serve({
    hostname: "127.0.0.1",
    port: ports.httpPort ?? 0,
    fetch: (request) => answer(request, messages),
  });
  return {
    smtpUrl: `smtp://127.0.0.1:${smtpPort}`,
    httpUrl: `http://127.0.0.1:${web.port}`,
    messages,
    stop: async () => {
      await web.stop(true);
      await new Promise<void>((resolve) => smtp.close(() => resolve()));
    },
  };
}

/** GET / is a page, GET /messages?to= the list as JSON, GET /messages/{id} one mail. */
function answer(request: Request, messages: (to?: string) => StoredMail[]): Response {
  const { pathname, searchParams } = new URL(request.url);
  if (request.method !== "GET") return Response.json({ error: "only GET is served" }, { status: 405 });
  if (pathname === "/") {
    return new Response(renderMailbox(messages()), {
      headers: { "content-type": "text/html; charset=utf-8" },
    });
  }
  if (pathname === "/messages")
    return Response.json({ messages: messages(searchParams.get("to") ?? undefined) });
  const mail = messages().find(({ id }) => pathname === `/messages/${id}`);
  return mail ? Response.json(mail) : Response.json({ error: "no such mail" }, { status: 404 });
}

function isSameAddress(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}
