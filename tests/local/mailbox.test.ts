import { afterAll, beforeAll, expect, test } from "bun:test";
import { createTransport } from "nodemailer";
import { parseMailMessage } from "../../local/mailbox/mail-message.ts";
import { startTestMailbox, type TestMailbox } from "../support/mailbox.ts";

let mailbox: TestMailbox;
beforeAll(async () => {
  mailbox = await startTestMailbox();
});
afterAll(() => mailbox.stop());

const parse = (lines: string[]) => parseMailMessage(Buffer.from(lines.join("\r\n")), ["to@example.com"]);

test("reads text, html and subject of a mail received by SMTP", async () => {
  const transport = createTransport(mailbox.smtpUrl);
  const text = `Your code is 042117.\nGrüße — ${"a long line ".repeat(20)}`;
  await transport.sendMail({
    from: "Payments <no-reply@example.com>",
    to: "ann@example.com",
    subject: "Ihr Bestätigungscode für die Anmeldung, gültig für zehn Minuten ✓",
    text,
    html: "<p>Your code is <b>042117</b> ✓</p>",
  });
  const mail = await mailbox.waitForMail("Ann@Example.com");
  expect(mail.subject).toBe("Ihr Bestätigungscode für die Anmeldung, gültig für zehn Minuten ✓");
  expect(mail.from).toBe("Payments <no-reply@example.com>");
  expect(mail.to).toEqual(["ann@example.com"]);
  expect(mail.text.replaceAll("\r\n", "\n").trimEnd()).toBe(text.trimEnd());
  expect(mail.html.trim()).toBe("<p>Your code is <b>042117</b> ✓</p>");
});

test("lists mails by recipient over HTTP, newest first", async () => {
  const transport = createTransport(mailbox.smtpUrl);
  for (const subject of ["first", "second"]) {
    await transport.sendMail({ from: "a@example.com", to: "bob@example.com", subject, text: subject });
  }
  await mailbox.waitForMail("bob@example.com", { count: 2 });
  const list = (await (await fetch(`${mailbox.httpUrl}/messages?to=bob@example.com`)).json()) as {
    messages: { id: string; subject: string }[];
  };
  expect(list.messages.map(({ subject }) => subject)).toEqual(["second", "first"]);
  const one = await fetch(`${mailbox.httpUrl}/messages/${list.messages[1]?.id}`);
  expect(await one.json()).toMatchObject({ subject: "first", to: ["bob@example.com"] });
  expect((await fetch(`${mailbox.httpUrl}/messages/none`)).status).toBe(404);
});

test("shows the mails as a page in which mail contents are escaped", async () => {
  const transport = createTransport(mailbox.smtpUrl);
  const text = "<script>alert(1)</script>";
  await transport.sendMail({ from: "a@example.com", to: "eve@example.com", subject: text, text });
  await mailbox.waitForMail("eve@example.com");
  const page = await (await fetch(mailbox.httpUrl)).text();
  expect(page).not.toContain("<script>");
  expect(page).toContain("&#60;script&#62;");
});

test("joins folded headers and drops the space between encoded words", async () => {
  const mail = await parse(["Subject: =?utf-8?B?w6Q=?=", " =?iso-8859-1?Q?=E4_b?= plain", "", "x"]);
  expect(mail.subject).toBe("ää b plain");
});

test("decodes quoted-printable with soft line breaks, and base64 over several lines", async () => {
  const quoted = await parse([
    "Content-Type: text/plain; charset=utf-8",
    "Content-Transfer-Encoding: quoted-printable",
    "",
    "one =E2=82=AC =3D t=",
    "wo",
  ]);
  expect(quoted.text).toBe("one € = two");
  const base64 = await parse([
    "Content-Type: text/plain",
    "Content-Transfer-Encoding: base64",
    "",
    "aGVsbG8g",
    "d29ybGQ=",
  ]);
  expect(base64.text).toBe("hello world");
});

test("finds the parts of a nested multipart mail", async () => {
  const mail = await parse([
    'Content-Type: multipart/mixed; boundary="outer"',
    "",
    "a note for old readers",
    "--outer",
    "Content-Type: multipart/alternative; boundary=in.ner+1",
    "",
    "--in.ner+1",
    "Content-Type: text/plain",
    "",
    "plain words",
    "--in.ner+1",
    "Content-Type: text/html",
    "",
    "<p>words</p>",
    "--in.ner+1--",
    "--outer",
    "Content-Type: application/pdf",
    "",
    "%PDF",
    "--outer--",
  ]);
  expect(mail.text).toBe("plain words");
  expect(mail.html).toBe("<p>words</p>");
});

test("a mail without parts, headers or end is read as far as possible", async () => {
  expect((await parse(["no header at all"])).text).toBe("");
  expect((await parse(["Content-Type: multipart/mixed; boundary=b", "", "--b", "", "cut"])).text).toBe("cut");
});
