/** The documented error codes and the one error class that carries them to the edge. */

export const ERROR_STATUS = {
  VALIDATION_ERROR: 400,
  UNAUTHORIZED: 401,
  FORBIDDEN: 403,
  NOT_FOUND: 404,
  CONFLICT: 409,
  RATE_LIMITED: 429,
  INTERNAL_ERROR: 500,
} as const;
export type ErrorCode = keyof typeof ERROR_STATUS;

export type ErrorDetails = { field?: string; issue?: string } & Record<string, unknown>;

/** A failure that is reported to the caller. The message is safe to show; `cause` stays internal. */
export class ServiceError extends Error {
  readonly errorCode: ErrorCode;
  readonly details: ErrorDetails | undefined;
  readonly headers: Readonly<Record<string, string>>;
  /** HTTP status when it is not the code's usual one (405, 413). */
  readonly status: number;

  constructor(
    errorCode: ErrorCode,
    message: string,
    options: {
      details?: ErrorDetails;
      headers?: Record<string, string>;
      status?: number;
      cause?: unknown;
    } = {},
  ) {
    super(message, { cause: options.cause });
    this.name = "ServiceError";
    this.errorCode = errorCode;
    this.details = options.details;
    this.headers = options.headers ?? {};
    this.status = options.status ?? ERROR_STATUS[errorCode];
  }
}

/** 400 for one field. An issue is a code, or text to be read after the field's name: "must be …", "is …". */
export function invalid(
  field: string,
  issue: string,
  message = issue.includes(" ") ? `${field} ${issue}` : `${field}: ${issue}`,
): ServiceError {
  return new ServiceError("VALIDATION_ERROR", message, { details: { field, issue } });
}

export function notFound(what: string): ServiceError {
  return new ServiceError("NOT_FOUND", `${what} not found`);
}

export function conflict(message: string, details?: ErrorDetails): ServiceError {
  return new ServiceError("CONFLICT", message, details ? { details } : {});
}
