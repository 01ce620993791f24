/**
 * Cause and remedy of each documented code, for the errors page. The compiler enforces that every code is covered; a test, every issue in the
 * sources.
 */
import type { ErrorCode } from "../../core/domain/errors.ts";
import type { PaymentRefusal } from "../../core/domain/payment.ts";
import type { OperationFailure } from "../../core/domain/wallet-operation.ts";

type Entry = readonly [cause: string, remedy: string];

export const ERRORS: Readonly<Record<ErrorCode, Entry>> = {
  VALIDATION_ERROR: [
    "A field is missing, malformed or out of range; `details.field` names it",
    "Correct the request; the same request will fail again",
  ],
  UNAUTHORIZED: [
    "No valid session or API key, or the route does not accept API keys",
    "Send `Authorization: Bearer sk_…`, or sign in again",
  ],
  FORBIDDEN: [
    "Signed in, but scope, role, account status or origin does not allow this",
    "Read `details`: use a key with that scope, ask an owner for that role, or sign in with the passkey again",
  ],
  NOT_FOUND: [
    "The object does not exist, or belongs to another account; the two are indistinguishable",
    "Check the id, and which account the API key or `X-Merchant` belongs to",
  ],
  CONFLICT: [
    "The current state does not allow this; `details.issue` names it",
    "Read the object again before deciding; do not retry blindly",
  ],
  RATE_LIMITED: [
    "Too many requests of this kind",
    "Wait for the seconds in `Retry-After`, then repeat with the same `Idempotency-Key`",
  ],
  INTERNAL_ERROR: [
    "An error on our side, not in your request",
    "Retry with increasing delays and the same `Idempotency-Key`; if it persists, give the operator the `requestId`",
  ],
};

export const PAYMENTS: Readonly<Record<PaymentRefusal | "SETTLEMENT_PENDING", Entry>> = {
  SETTLEMENT_PENDING: [
    "Accepted, but no block holds the payment yet",
    "Send the same authorization again or read `statusUrl`; do not sign a new one until then",
  ],
  INVALID_PAYLOAD_STRUCTURE: [
    "The payment cannot be read: not JSON, not base64, or a field is missing",
    "Compare it with the 402's `accepts`; use a current x402 client",
  ],
  INVALID_SIGNATURE: [
    "The signature is not that of `from` over this authorization",
    "Sign with the EIP-712 domain named in `extra` and the chain's id; check that `from` is the signer",
  ],
  EXPIRED_TRANSFER: [
    "`validBefore` has passed, or too little time is left to reach a block",
    "Read the terms again and sign a new authorization with a later `validBefore`",
  ],
  NOT_YET_VALID: ["`validAfter` is in the future", "Sign with `validAfter: 0`; check your clock"],
  PAYMENT_NOT_ALLOWED: [
    "The token refuses the payer or the recipient, it is paused, or the payer's transactions kept reverting",
    "Pay from another account",
  ],
  NOT_FOUND: ["No link has this id", "Check the link's URL"],
  NONCE_USED: [
    "This authorization has been executed or cancelled on the chain, or belongs to another link",
    "If it paid this link (`txHash` is its transaction), nothing. If it was executed otherwise, its money has moved: find that transaction and ask the merchant. Sign a new one only if it was cancelled",
  ],
  LINK_ALREADY_PAID: [
    "This link has already been paid, or all its `maxPayments` are made or begun",
    "Do not pay now. With `Retry-After`, a place may become free then; otherwise ask the merchant for a new link",
  ],
  PAYMENT_IN_PROGRESS: [
    "Another payment of this link is in progress",
    "Wait and read the link again; pay only if it is `ACTIVE`",
  ],
  IDEMPOTENCY_KEY_REUSED: [
    "The key belongs to another payment of this link",
    "Send the first authorization again, or use a new key for a new one",
  ],
  AMOUNT_EXCEEDS_MAXIMUM: [
    "The authorization is for more than the link requires",
    "Sign exactly the amount in `accepts`",
  ],
  AMOUNT_BELOW_REQUIRED: [
    "The authorization is for less than the link requires",
    "Sign exactly the amount in `accepts`",
  ],
  AMOUNT_REQUIRED: [
    "The payer chooses the amount of this link",
    "Request again with `?amount=` in USDC, at most 5 decimals",
  ],
  RECIPIENT_MISMATCH: [
    "The authorization pays another address than the link's",
    "Sign for `payTo` in `accepts`",
  ],
  NETWORK_MISMATCH: ["The payment is for another network", "Pay on the network named in `accepts`"],
  LINK_NOT_PAYABLE: ["The link has expired or was cancelled", "Ask the merchant for a new link"],
  INSUFFICIENT_FUNDS: [
    "The payer holds less USDC than the authorization transfers",
    "Fund the account and send the same authorization again",
  ],
  AMOUNT_TOO_SMALL_TO_RELAY: [
    "The link's amount is below the minimum that the service relays",
    "Pay it by a plain transfer from a wallet, on the payment page",
  ],
  RELAY_BUDGET_SPENT: [
    "The daily relay budget is used up",
    "Pay by a plain transfer, or try again after midnight UTC",
  ],
  RATE_LIMITED: ["Too many payments from this address", "Wait for the seconds in `Retry-After`"],
  INTERNAL_ERROR: [
    "An error on our side; with `retryable: true` nothing was stored",
    "Send the same authorization again",
  ],
};

export const OPERATIONS: Readonly<Record<OperationFailure, Entry>> = {
  INSUFFICIENT_FUNDS: [
    "The wallet's balance was too low when it was sent",
    "Fund the wallet, then prepare again",
  ],
  PAYMENT_NOT_ALLOWED: ["The token refuses a recipient, or is paused", "Leave out that recipient"],
  SIGNATURE_REFUSED: [
    "The account does not accept the passkey's signature",
    "Sign with a passkey that is an owner",
  ],
  ACCOUNT_CHANGED: ["The account's owners or code changed after the preparation", "Prepare again"],
  NONCE_TAKEN: ["Another operation of the wallet was executed first", "Prepare again if it is still wanted"],
  NOT_SENT: ["It was not sent in time; no money moved", "Prepare again"],
  NOT_RUN: ["It was not executed; no money moved", "Prepare again"],
  REVERTED: ["Its calls failed on the chain; no money moved", "Read `failureReason`, then prepare again"],
};

/** Values of `details.issue`: the cause, and its remedy. */
export const ISSUES: Readonly<Record<string, Entry>> = {
  already_active: ["The account is already set up", "Sign in"],
  already_confirmed: ["This was signed before, with another signature", "Read its state; do not sign again"],
  already_member: ["The person is already a member", "Change the role instead"],
  already_owner: ["This is already an owner of the wallet", "Nothing"],
  already_verified: ["The address is already verified", "Sign in, or continue with the wallet setup"],
  bad_checksum: [
    "The address's capitalisation does not match its checksum (EIP-55)",
    "Copy the address again",
  ],
  below_minimum: ["The amount is below the minimum for sends", "Send more; the message names the minimum"],
  cancelled: ["This was cancelled", "Prepare it again"],
  cool_down: ["A code was e-mailed a moment ago", "Wait `details.retryAfterSeconds`"],
  counted_elsewhere: ["The transfer belongs to another link or payment", "Unassign it there first"],
  credential_in_use: ["This passkey is already registered", "Use another passkey, or sign in with it"],
  cross_site: [
    "A page of another site sent the request with your cookie",
    "Call from your server with an API key",
  ],
  disabled: ["The webhook endpoint is disabled", "Enable it first; `disabledReason` says why it is"],
  does_not_pay_this_link: [
    "The transaction contains no transfer that pays this link",
    "Check hash, network, recipient and amount",
  ],
  exceeds_refundable: ["More than the refundable rest of the payment", "Refund at most `details.refundable`"],
  existing_passkey_required: [
    "A wallet on another network is set up with your existing passkey",
    "Answer `passkeyRequest`",
  ],
  gas_budget: ["The daily gas budget for sends is used up", "Try again after midnight UTC"],
  has_refunds: ["Money from this transfer was refunded", "It stays assigned to its link"],
  in_progress: [
    "The first request with this key is still running",
    "Wait a second, then repeat it with the same key",
  ],
  insufficient_funds: ["The wallet's balance is too low", "Fund it, or send less"],
  invalid: ["Not an address", "Use 0x and 40 hexadecimal digits"],
  invalid_json: ["The body is not JSON", "Send valid JSON in UTF-8"],
  invalid_text: ["The text contains an unpaired surrogate", "Escape both halves of the pair, or neither"],
  invalid_or_expired: ["The code or challenge is unknown, used or expired", "Start again with a new one"],
  invalid_signature: ["Not a signature of this claim by the named address", "Sign `details.typedData`"],
  is_use: ["This is one payment of a reusable link", "List the reusable link itself; `parentId` names it"],
  last_sign_in_method: ["There would be no other way into the account", "Add a passkey first"],
  last_owner: ["The wallet would be left without an owner that you can use", "Add another owner first"],
  ledger_behind: [
    "The service has not yet read the chain up to the block at which the refund was prepared",
    "Send the same confirmation again in a moment",
  ],
  member_removed: ["The person is no longer a member with the role owner", "Invite the person again"],
  must_be_application_json: [
    "The body has an unsupported content type",
    "Send `Content-Type: application/json`",
  ],
  network_unreachable: ["The chain's nodes are not responding", "Repeat in a few seconds"],
  networks_out_of_step: ["The networks have had different owner changes", "Change one network at a time"],
  no_owner_passkey: [
    "No passkey of yours is an owner of the wallet on this network",
    "Sign with an owner that is (`/v1/wallets/owners`), or have a passkey of yours added there",
  ],
  no_common_owner: ["No passkey of yours is an owner on all of these networks", "Name one network"],
  nonce_taken: ["Another operation of the wallet came first", "Prepare again"],
  not_a_member: ["You are not a member of the merchant in `X-Merchant`", "Read `merchants` of `/v1/auth/me`"],
  not_allowed: ["The path does not support this method (405)", "Use a method from the `Allow` header"],
  not_assigned: ["The transfer is not assigned to a link", "Nothing to unassign"],
  not_confirmed: ["The transfer is not deep enough in the chain", "Wait until it is `CONFIRMED`"],
  not_deployed: [
    "The wallet is not deployed on this network",
    "Leave out `network`: the first send there adds the owner",
  ],
  not_enabled: ["The service does not serve this network", "Read `/v1/networks`"],
  not_recovering: ["Only a recovery session may do this", "Add an owner in the dashboard instead"],
  not_the_one_started: ["The setup was started for another network", "Finish the one that was started"],
  not_verified: ["The passkey's answer or the proof does not verify", "Start again; check origin and RP id"],
  nothing_to_refund: ["Nothing is left to refund on this link", "Read the link's refunds"],
  operation_in_flight: ["Another operation of the wallet is in progress", "Wait until it is confirmed"],
  other_request: ["The `Idempotency-Key` was used with another request", "Use a new key for a new request"],
  other_wallet: ["The link is paid into another wallet", "Choose a link of the wallet that received it"],
  own_account: ["This is your own account", "Leave out `X-Merchant`"],
  own_address: ["This is the address of the account itself", "Invite another address"],
  owner_on_chain: [
    "A passkey of the member is an owner of the wallet",
    "Remove it in *Wallet → Owners* first",
  ],
  passkey_required: ["The passkey was last used more than 15 minutes ago", "Sign in with it again"],
  payment_in_progress: ["A payment of this link is in progress", "Wait until it is paid or released"],
  payment_not_allowed: ["The token refuses this recipient", "Leave out `details.to`"],
  recovery_session: ["The session may only register a passkey", "Register one and sign in with it"],
  reference_taken: ["Another link of yours has this reference", "Read that link by `?reference=`"],
  refused: ["The export cannot be made; the message says why", "Change its filters or format"],
  removed_owner: [
    "An owner of the first wallet has been removed since",
    "The message says why no wallet is created",
  ],
  reusable_link: ["This is a reusable link, which is paid through its uses", "Open a use and claim on it"],
  role_not_allowed: ["Your role does not allow this", "Ask an owner of the account"],
  session_required: ["The route is for signed-in people", "Use the dashboard"],
  settled_by_evidence: ["The chain's own evidence says what this transfer pays", "It cannot be reassigned"],
  taken: ["The name is already taken", "Choose another name"],
  too_deep: [
    "The JSON is nested too deeply, or the page is too far down a list sorted by amount",
    "Flatten it; use `cursor`, or choose narrower amounts",
  ],
  too_large: ["Body, URL or headers are too large (413, 414, 431)", "Send less"],
  too_many: ["The maximum number has been reached", "Delete one"],
  too_many_attempts: ["Too many wrong codes", "Ask for a new code"],
  too_many_invitations: ["Too many open invitations", "Revoke some"],
  too_many_members: ["The account has reached its maximum number of members", "Remove one"],
  too_many_owners: ["The wallet has reached its lifetime maximum of owners", "Use the existing owners"],
  too_many_requests: [
    "Too many refund requests of this link are open",
    "Have some signed or cancelled first",
  ],
  unknown_history: [
    "The cursor points to events lost in a restore",
    "Read without a cursor, and skip ids you have seen",
  ],
  wallet_exists: ["A wallet already exists on this network", "Use it"],
};
