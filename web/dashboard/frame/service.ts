/** API calls, typed by the OpenAPI document. A call that needs the passkey waits for it and is repeated, so nothing typed is lost. */
import type { Wire } from "../../wire.ts";
import { say, sayError } from "./texts.ts";

type Name = keyof Wire;
export type Answer<Of extends Name> = Wire[Of]["answer"];
type Loose<Fields> = { [Key in keyof Fields]?: Fields[Key] | undefined };

export type Given<Of extends Name> = {
  /** For `{id}` or `{linkId}` in the path. */
  id?: string;
  query?: Loose<Wire[Of]["query"]>;
  body?: Wire[Of]["body"];
  headers?: Record<string, string>;
  /** A refusal is returned to the caller at once, without asking for the passkey. */
  isQuiet?: boolean;
};

export class Refusal extends Error {
  readonly status: number;
  readonly code: string;
  /** The invalid field, if the API names one. */
  readonly field: string | undefined;
  readonly issue: string | undefined;
  constructor(status: number, code: string, message: string, details?: { field?: string; issue?: string }) {
    super(message);
    this.status = status;
    this.code = code;
    this.field = details?.field;
    this.issue = details?.issue;
  }
}

/** The service answered, and did not do it. */
export const isRefused = (error: unknown): error is Refusal =>
  error instanceof Refusal && error.status >= 400 && error.status < 500;

/** Why the passkey is requested: the session has ended, or the call needs a recently used passkey. */
export type PasskeyReason = "session" | "fresh";
type PasskeyPrompt = (reason: PasskeyReason) => Promise<boolean>;
let askForPasskey: PasskeyPrompt | undefined;

let merchantId: string | undefined;

/** The account every call acts for; undefined: the signed-in person's own. */
export function setMerchant(id: string | undefined): void {
  merchantId = id;
}

export function onPasskeyNeeded(prompt: PasskeyPrompt | undefined): void {
  askForPasskey = prompt;
}

export async function call<Of extends Name>(name: Of, given: Given<Of> = {}): Promise<Answer<Of>> {
  let answer = await send(name, given);
  // events trigger reads, which may be sent with the cookie of a session that a response is just replacing
  if (answer.status === 401 && !given.isQuiet && name.startsWith("GET ")) answer = await send(name, given);
  const reason = given.isQuiet ? undefined : passkeyReason(answer);
  if (!reason || !askForPasskey || (isDeclined && name.startsWith("GET "))) return take(answer);
  if (await askForPasskey(reason)) return take(await send(name, given));
  noteDecline();
  return take(answer);
}

/** After "Not now" the page's automatic reads do not prompt again until the person does something. */
let isDeclined = false;
function noteDecline(): void {
  isDeclined = true;
  const options = { once: true, capture: true };
  const end = () => {
    isDeclined = false;
  };
  addEventListener("pointerdown", end, options);
  addEventListener("keydown", end, options);
}

type Reply = { status: number; body: unknown; retryAfterS: number };

async function send<Of extends Name>(name: Of, { id, query, body, headers }: Given<Of>): Promise<Reply> {
  const [method = "GET", path = ""] = name.split(" ");
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query ?? {}))
    if (value !== undefined && value !== "") search.set(key, String(value));
  const url = `${path.replace(/\{\w+\}/, encodeURIComponent(id ?? ""))}${search.size > 0 ? `?${search}` : ""}`;
  try {
    const response = await fetch(url, {
      method,
      headers: {
        accept: "application/json",
        ...(body ? { "content-type": "application/json" } : {}),
        ...(merchantId ? { "x-merchant": merchantId } : {}),
        ...headers,
      },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    const isJson = /json/.test(response.headers.get("content-type") ?? "");
    const answer = isJson ? await response.json() : await response.text();
    // the membership has ended: the page restarts in the person's own account
    const issue = issueOf({ body: answer });
    if (merchantId && issue === "not_a_member") location.assign("/");
    // the session of a recovery has no other screen
    if (issue === "recovery_session" && location.pathname !== "/recover") location.assign("/recover");
    return {
      status: response.status,
      body: answer,
      retryAfterS: Number(response.headers.get("retry-after")),
    };
  } catch {
    throw new Refusal(0, "OFFLINE", say("The service did not answer. Check your connection and try again."));
  }
}

type Failed = {
  error?: { code: string; message: string; details?: { field?: string; issue?: string } };
  message?: string;
};

function passkeyReason({ status, body }: Reply): PasskeyReason | undefined {
  const { error } = body as Failed;
  if (status === 401 && error) return "session";
  return status === 403 && issueOf({ body }) === "passkey_required" ? "fresh" : undefined;
}

const issueOf = ({ body }: Pick<Reply, "body">) => (body as Failed).error?.details?.issue;

function take<Body>({ status, body }: Reply): Body {
  if (status >= 200 && status < 300) return body as Body;
  const { error, message } = body as Failed;
  throw new Refusal(
    status,
    error?.code ?? "UNKNOWN",
    error || message
      ? sayError(error?.message ?? message ?? "", error?.details?.field)
      : say("The service answered {status}.", { status }),
    error?.details,
  );
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
