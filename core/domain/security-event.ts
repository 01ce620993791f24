/** The events of a user's security trail. */
export const SECURITY_EVENT_TYPES = [
  "otp_sent",
  "otp_refused",
  "otp_locked",
  "email_verified",
  "sign_in",
  "sign_in_refused",
  "sign_out",
  "session_ended",
  "other_sessions_ended",
  "passkey_renamed",
  "passkey_added",
  "passkey_refused",
  "passkey_counter_regression",
  "owner_change_signed",
  "identity_linked",
  "identity_refused",
  "api_key_created",
  "api_key_revoked",
  "name_changed",
  "settings_changed",
  "return_secret_rotated",
  "transfer_assigned",
  "transfer_unassigned",
] as const;
export type SecurityEventType = (typeof SECURITY_EVENT_TYPES)[number];
export type SecurityEventDetails = Record<string, string | number | boolean | null>;
