/**
 * The states of a user:
 *
 *   (none) --register--> REGISTERED --valid OTP--> WALLET_SETUP_PENDING --verified passkey--> ACTIVE
 */
export const USER_STATUSES = ["REGISTERED", "WALLET_SETUP_PENDING", "ACTIVE"] as const;
export type UserStatus = (typeof USER_STATUSES)[number];

export const PERMISSIONS = ["CREATE_PAYMENT_LINK", "VIEW_TRANSACTIONS", "MANAGE_WALLET"] as const;
export type Permission = (typeof PERMISSIONS)[number];

export function permissionsOf(status: UserStatus): readonly Permission[] {
  return status === "ACTIVE" ? PERMISSIONS : [];
}

const COMPLETED_STEPS = {
  REGISTERED: ["registration"],
  WALLET_SETUP_PENDING: ["registration", "email_verification"],
  ACTIVE: ["registration", "email_verification", "wallet_setup", "activation"],
} as const satisfies Record<UserStatus, readonly string[]>;

export function completedStepsOf(status: UserStatus): readonly string[] {
  return COMPLETED_STEPS[status];
}

/** Merchant name shown to payers until one is set: the local part of the e-mail address. */
export function defaultMerchantName(email: string): string {
  return email.slice(0, email.indexOf("@"));
}
