/** A worker that runs one mail job, to be killed by a test. */
import { openLog } from "../../core/runtime/log.ts";
import { openDatabase } from "../../db/postgres/client.ts";
import { openMailer } from "../../worker/mail/mailer.ts";
import { sendOtpEmail } from "../../worker/mail/send-otp-email.ts";

const { DATABASE_URL = "", SMTP_URL = "", OTP_PEPPER = "", OTP_ID = "" } = process.env;
const sql = openDatabase(DATABASE_URL, { name: "one-mail" });
const mailer = openMailer({ smtpUrl: SMTP_URL, mailFrom: "no-reply@pay.example.com" });
const config = { otpPeppers: [OTP_PEPPER] as const, baseUrl: "https://pay.example.com" };
await sendOtpEmail(
  { sql, mailer, log: openLog("one-mail", "silent"), config },
  { otpId: OTP_ID, userId: "" },
);
await sql.end();
