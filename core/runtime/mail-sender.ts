/** The sender of all mails: one address, with or without a name. */

/** Outside of quotes some characters begin something else: a second address, a group, a comment (RFC 5322). */
const SPECIAL = String.raw`\p{Cc}()<>\[\]:;@\\,"`;
const DOT_ATOM = String.raw`[^\s.${SPECIAL}]+(?:\.[^\s.${SPECIAL}]+)*`;
const HOST = String.raw`[\p{L}\p{N}]+(?:-+[\p{L}\p{N}]+)*(?:\.[\p{L}\p{N}]+(?:-+[\p{L}\p{N}]+)*)*`;
const QUOTED = String.raw`"(?:[^"\\\p{Cc}]|\\[^\p{Cc}])*"`;
/** `name@host`, `Name <name@host>` or `"Name, Inc." <name@host>`. */
const SENDER = new RegExp(
  String.raw`^(?:(?:${QUOTED}|[^${SPECIAL}])*<${DOT_ATOM}@${HOST}>|${DOT_ATOM}@${HOST})$`,
  "u",
);

export const MAIL_SENDER =
  "must be an address, for example Payments <no-reply@example.com>; a name with , : ; @ ( ) belongs in quotes";

export const isMailSender = (text: string): boolean => SENDER.test(text);
