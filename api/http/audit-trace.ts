/** What a verb writes beside its change, so that a trail leads back to the request. */
export type Trace = {
  requestId: string;
  clientAddress: string;
  /** The person or API key that acts, if known. */
  actorId?: string;
};
