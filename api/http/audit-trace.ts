/** Who made a request, from where and with which id: stored with each change, so that the security trail leads back to the request. */
export type Trace = {
  requestId: string;
  clientAddress: string;
  /** The person or API key that acts, if known. */
  actorId?: string;
};
