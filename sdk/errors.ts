/** Every failure of the SDK is one of these; branch on the class or on `code`. */

/** The service's explanation of a request that it did not carry out. */
type Refusal = {
  status: number;
  code: string;
  message: string;
  details?: Record<string, unknown> | undefined;
  requestId?: string | undefined;
  retryAfterS?: number | undefined;
};

/** The service answered with a refusal or a failure. `code` and `details` are those of its `ApiError`. */
export class ApiError extends Error {
  override readonly name: string = "ApiError";
  declare readonly status: number;
  declare readonly code: string;
  readonly details: Readonly<Record<string, unknown>>;
  /** Names the request in the service's logs. */
  declare readonly requestId: string | undefined;
  /** Seconds until a retry, if the service specifies it. */
  declare readonly retryAfterS: number | undefined;

  constructor({ message, details = {}, ...answer }: Refusal) {
    super(message);
    this.details = details;
    Object.assign(this, answer);
  }
}

/** No answer arrived: whether the request was carried out is unknown. */
export class ConnectionError extends Error {
  override readonly name: string = "ConnectionError";
}

/** The payment was not made: the link asks for more than allowed, is not payable, or refused the authorization. */
export class PaymentError extends ApiError {
  override readonly name = "PaymentError";
}

/** A message that the endpoint must not trust. */
export class WebhookError extends Error {
  override readonly name = "WebhookError";
}
