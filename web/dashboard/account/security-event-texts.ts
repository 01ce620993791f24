/** The texts of security events. */
import { nameOfNetwork } from "../frame/page-data.ts";
import type { Answer } from "../frame/service.ts";
import { formatAmount, say, sayCount, shorten } from "../frame/texts.ts";
import { nameOfRole, type Role } from "./roles.ts";

type Event = Answer<"GET /v1/security-events">["data"][number];
type Method = Answer<"GET /v1/auth/sessions">["data"][number]["method"];

const METHODS: Readonly<Record<Method, string>> = {
  otp: "by e-mail code",
  passkey: "by passkey",
  wallet_setup: "by wallet setup",
  google: "with Google",
  test: "by a test",
  recovery: "for a recovery",
};

const EVENTS: Readonly<Record<Event["type"], string>> = {
  otp_sent: "Code sent",
  otp_refused: "Wrong code",
  otp_locked: "Too many wrong codes",
  email_verified: "Address confirmed",
  sign_in: "Signed in",
  sign_in_refused: "Sign-in refused",
  sign_out: "Signed out",
  session_ended: "Session ended",
  other_sessions_ended: "All other sessions ended",
  passkey_renamed: "Passkey renamed",
  passkey_added: "Passkey added",
  passkey_refused: "Passkey refused",
  passkey_counter_regression: "A passkey may have been copied",
  recovery_refused: "Recovery refused",
  recovery_started: "Recovery started",
  owner_change_signed: "Change of owners signed",
  owner_added: "Owner added",
  owner_removed: "Owner removed",
  wallet_upgraded: "The wallet's contract was replaced",
  money_sent_elsewhere: "Money was sent without this service",
  identity_linked: "Google account linked",
  identity_unlinked: "Google account unlinked",
  identity_refused: "Google account refused",
  api_key_created: "API key created",
  api_key_revoked: "API key revoked",
  name_changed: "Merchant name changed",
  settings_changed: "Settings changed",
  return_secret_rotated: "Return secret renewed",
  webhook_endpoint_created: "Webhook endpoint added",
  webhook_endpoint_changed: "Webhook endpoint changed",
  webhook_endpoint_deleted: "Webhook endpoint deleted",
  webhook_secret_rotated: "Webhook secret renewed",
  transfer_assigned: "Payment assigned to a link",
  transfer_unassigned: "Assignment undone",
  member_invited: "Person invited",
  member_invitation_ended: "Invitation ended",
  member_joined: "Member joined",
  member_role_changed: "Role changed",
  member_removed: "Member removed",
};

type Value = Event["details"][string];
const asIs = (value: Value) => String(value);
const roleOf = (value: Value) => nameOfRole(value as Role);
const networksOf = (value: Value) =>
  String(value)
    .split(",")
    .map((network) => nameOfNetwork(network))
    .join(", ");
const countOf = (value: Value) => sayCount(Number(value), "{count} session", "{count} sessions");

/** What a reader can use, in the order in which it is said; ids that no screen shows are left out. */
const DETAILS: Readonly<Record<string, (value: Value) => string | false>> = {
  method: (value) => nameOfMethod(value as Method),
  action: (value) => (value === "ADD" ? say("Addition") : say("Removal")),
  name: asIs,
  email: asIs,
  from: (value) => `${roleOf(value)} →`,
  to: roleOf,
  role: roleOf,
  scopes: asIs,
  host: asIs,
  changed: (value) => String(value).split(", ").map(nameOfField).join(", "),
  enabled: (value) => onOff(value === true),
  scheduledExport: (value) => say(SCHEDULED_EXPORT[String(value)] ?? String(value)),
  ownRates: (value) => say(OWN_RATES[String(value)] ?? String(value)),
  currency: asIs,
  dateFrom: (value) => `${value} –`,
  dateTo: asIs,
  days: (value) => sayCount(Number(value), "{count} day", "{count} days"),
  rate: (value) => value !== null && String(value),
  outcome: (value) => say(OUTCOMES[String(value)] ?? String(value)),
  amount: (value) => `${formatAmount(String(value))} USDC`,
  address: (value) => shorten(String(value)),
  implementation: (value) => shorten(String(value)),
  linkId: asIs,
  network: networksOf,
  networks: networksOf,
  txHash: (value) => shorten(String(value)),
  count: countOf,
  endedSessions: countOf,
  isOurs: (value) => value === false && say("not through this service"),
  isOwnWish: (value) => value === true && say("at their own request"),
  webhookEndpoints: (value) =>
    Number(value) > 0 &&
    sayCount(
      Number(value),
      "{count} webhook endpoint stays active: check where it sends",
      "{count} webhook endpoints stay active: check where they send",
    ),
  claimPolicy: (value) => `${say("Trust signed claims only")}: ${onOff(value === "proven")}`,
  matchByAmount: (value) => `${say("Match by the plain amount")}: ${onOff(value === true)}`,
  accentColor: (value) => value !== null && String(value),
  frameOrigins: asIs,
};
const OUTCOMES: Readonly<Record<string, string>> = {
  ACCEPTED: "Accepted",
  DECLINED: "Declined",
  REVOKED: "Revoked",
};

const SCHEDULED_EXPORT: Readonly<Record<string, string>> = {
  created: "Scheduled export created",
  paused: "Scheduled export paused",
  resumed: "Scheduled export resumed",
  deleted: "Scheduled export deleted",
};
const OWN_RATES: Readonly<Record<string, string>> = {
  stored: "Own exchange rates stored",
  removed: "Own exchange rates removed",
};
/** Labels of the settings and of a webhook endpoint's fields, as their forms show them. */
const FIELDS: Readonly<Record<string, string>> = {
  legalName: "Legal name",
  postalAddress: "Postal address",
  taxId: "Tax ID",
  timeZone: "Time zone of the books",
  monthlyStatements: "Monthly statements",
  fiatCurrency: "Currency of the books",
  rateSource: "Exchange rates",
  usdcRate: "Value of one USDC",
  documentLanguage: "Language of receipts when the payer's is not known",
  datev: "Numbers for DATEV",
  url: "Address of your server",
  description: "Description",
  eventTypes: "Events",
};
const nameOfField = (field: string) => say(FIELDS[field] ?? field);

const onOff = (isOn: boolean) => (isOn ? say("On") : say("Off"));

export const nameOfMethod = (method: Method) => say(METHODS[method]);
export const nameOfEvent = ({ type }: Event) => say(EVENTS[type]);

export function describeEvent({ actor, details }: Event): string {
  return Object.entries(DETAILS)
    .filter(([name]) => name !== "email" || details.email !== actor?.email)
    .map(([name, tell]) => details[name] !== undefined && tell(details[name]))
    .filter(Boolean)
    .join(" · ")
    .replace(/([→–]) ·/, "$1");
}
