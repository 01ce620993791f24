/** How long a challenge for a passkey or an owner's address can be answered. For signing a send: operation-lifetime.ts. */

export const CHALLENGE_LIFE_MS = 60_000;
/** Long enough for a person to choose from the browser's autofill list, which stays open as long as the page. */
export const AUTOFILL_CHALLENGE_LIFE_MS = 10 * 60_000;
/** For proofs that an address may become an owner or recover the account: finding and connecting a hardware wallet takes time. */
export const OWNER_PROOF_LIFE_MS = 10 * 60_000;
