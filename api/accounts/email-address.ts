/** E-mail addresses: trimmed, at most 254 characters, case-insensitive. */
import { z } from "zod";

const EMAIL_MAX_CHARS = 254;

export const emailSchema = z
  .string()
  .trim()
  .toLowerCase()
  .max(EMAIL_MAX_CHARS, `must have at most ${EMAIL_MAX_CHARS} characters`)
  .pipe(z.email("must be an e-mail address"));

/** A user id of this service. */
export const userIdSchema = z.string().regex(/^user_[0-9a-f-]{36}$/, "must be a user id");
