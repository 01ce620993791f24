/** Every request limit of the service. Counters belong to the signed-in user, else to the client's address. */

type Limit = {
  readonly limit: number;
  readonly windowS: number;
  /** Each route of the class counts by itself; otherwise all of them share one counter. */
  readonly perRoute?: true;
  /** Counted by client address even for a signed-in user. */
  readonly byAddress?: true;
};

const MINUTE = 60;
const HOUR = 3_600;

export const LIMITS = {
  general: { limit: 1_000, windowS: HOUR },
  authentication: { limit: 10, windowS: MINUTE, perRoute: true, byAddress: true },
  googleAuthorize: { limit: 10, windowS: MINUTE, byAddress: true },
  walletSetup: { limit: 10, windowS: HOUR, perRoute: true },
  balance: { limit: 100, windowS: HOUR },
  /** Create link, refund, send. */
  paymentOperations: { limit: 50, windowS: HOUR },
  transactions: { limit: 1_000, windowS: HOUR },
  exports: { limit: 20, windowS: HOUR },
  publicLinkData: { limit: 240, windowS: MINUTE, byAddress: true },
  claims: { limit: 10, windowS: MINUTE, byAddress: true },
  /** Key: the link and the client's address. Taken for a claim that is not known yet. */
  claimsOfLink: { limit: 5, windowS: HOUR },
  x402Requirements: { limit: 120, windowS: MINUTE, byAddress: true },
  x402Pay: { limit: 30, windowS: MINUTE, byAddress: true },
  /** Key: the paying address. Taken with `takeFromLimit` once the payload was read. */
  x402Payer: { limit: 10, windowS: MINUTE },
  facilitatorVerify: { limit: 1_200, windowS: MINUTE, byAddress: true },
  facilitatorSettle: { limit: 1_200, windowS: MINUTE },
  testMode: { limit: 6_000, windowS: MINUTE, byAddress: true },
} as const satisfies Record<string, Limit>;

export type LimitName = keyof typeof LIMITS;

export function limitOf(name: LimitName): Limit {
  return LIMITS[name];
}
