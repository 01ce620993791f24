/** What a merchant stores with a link (reference, customer, metadata), and its limits. */

/** Characters, as Postgres counts them. */
export const REFERENCE_MAX = 100;
export const METADATA_PAIRS_MAX = 20;
export const METADATA_KEY_MAX = 40;
export const METADATA_VALUE_MAX = 500;

export type OrderData = {
  reference: string | null;
  /** No other link of the merchant may have this reference. */
  uniqueReference: boolean;
  metadata: Readonly<Record<string, string>>;
  customerEmail: string | null;
  successUrl: string | null;
  cancelUrl: string | null;
};

export const NO_ORDER: OrderData = {
  reference: null,
  uniqueReference: false,
  metadata: {},
  customerEmail: null,
  successUrl: null,
  cancelUrl: null,
};
