/** How long a challenge for a passkey or an owner's address can be answered. For signing a send: operation-lifetime.ts. */

export const CHALLENGE_LIFE_MS = 60_000;
/** As long as a person may take to choose from the browser's list, which is open while the page is. */
export const AUTOFILL_CHALLENGE_LIFE_MS = 10 * 60_000;
/** Proof that an address may become an owner, or recover the account: a hardware wallet has to be found and plugged in. */
export const OWNER_PROOF_LIFE_MS = 10 * 60_000;
