/** Every failure of the SDK is one of these; branch on the class or on `code`. */

/** The service answered with a refusal or a failure. `code` and `details` are those of its `ApiError`. */
export class ApiError extends Error {
  override readonly name: string = "ApiError";
  readonly status: number;
  readonly code: string;
  readonly details: Readonly<Record<string, unknown>>;
  /** Names the request in the service's logs. */
  readonly requestId: string | undefined;

  constructor(answer: {
    status: number;
    code: string;
    message: string;
    details?: Record<string, unknown> | undefined;
    requestId?: string | undefined;
  }) {
    super(answer.message);
    this.status = answer.status;
    this.code = answer.code;
    this.details = answer.details ?? {};
    this.requestId = answer.requestId;
  }
}

/** No answer arrived: whether the request was carried out is unknown. */
export class ConnectionError extends Error {
  override readonly name = "ConnectionError";
}

/** The payment was not made: the link asks for more than allowed, is not payable, or refused the authorization. */
export class PaymentError extends ApiError {
  override readonly name = "PaymentError";
}

/** A message that the endpoint must not trust. */
export class WebhookError extends Error {
  override readonly name = "WebhookError";
}
