/** A real SMTP server whose reply the test chooses (RFC 5321 section 4.2: 4yz is transient, 5yz permanent). */
import { once } from "node:events";
import type { Socket } from "node:net";
import { SMTPServer } from "smtp-server";
import { type Mailer, openMailer } from "../../worker/mail/mailer.ts";

const REFUSALS = { "refuses temporarily": 451, "refuses permanently": 550, "knows no such command": 500 };

/** To each recipient, or after each message. */
export type Reply = "accepts" | keyof typeof REFUSALS | "breaks the connection";

export type ScriptedServer = {
  reply: Reply;
  /** Messages, also those after which the connection was broken. */
  readonly received: string[];
  openMailer: () => Mailer;
  stop: () => Promise<void>;
};

export async function startScriptedServer(): Promise<ScriptedServer> {
  const sockets = new Set<Socket>();
  const server = new SMTPServer({
    ...{ authOptional: true, disabledCommands: ["STARTTLS", "AUTH"], disableReverseLookup: true },
    closeTimeout: 200,
    onRcptTo(_to, _session, done) {
      const responseCode = new Map<string, number>(Object.entries(REFUSALS)).get(scripted.reply);
      done(responseCode === undefined ? undefined : Object.assign(new Error("no"), { responseCode }));
    },
    onData(stream, _session, done) {
      const chunks: Buffer[] = [];
      stream.on("data", (chunk: Buffer) => chunks.push(chunk));
      stream.on("end", () => {
        scripted.received.push(Buffer.concat(chunks).toString("latin1"));
        if (scripted.reply === "accepts") done();
        else for (const socket of sockets) socket.destroy();
      });
    },
  });
  const scripted: ScriptedServer = {
    ...{ reply: "accepts", received: [] },
    openMailer() {
      const address = server.server.address();
      const port = typeof address === "object" && address ? address.port : 0;
      return openMailer({ smtpUrl: `smtp://127.0.0.1:${port}`, mailFrom: "no-reply@pay.example.com" });
    },
    stop: () => new Promise<void>((resolve) => server.close(() => resolve())),
  };
  server.on("error", () => {});
  const listener = server.listen(0, "127.0.0.1");
  listener.on("connection", (socket: Socket) => sockets.add(socket));
  await once(listener, "listening");
  return scripted;
}
