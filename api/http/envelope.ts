/** What all responses share: the error envelope, how errors are mapped to it, and the general `data` + `meta` form. */
import { Elysia, NotFoundError, ParseError, ValidationError } from "elysia";
import { z } from "zod";
import {
  ERROR_STATUS,
  type ErrorCode,
  type ErrorDetails,
  invalid,
  ServiceError,
} from "../../core/domain/errors.ts";
import { findAllowedMethods, type RouteTable } from "./allowed-methods.ts";
import type { ApiDeps } from "./deps.ts";
import { requestContext } from "./request-context.ts";

export type Meta = { requestId: string; timestamp: string };
export type ErrorBody = {
  error: { code: ErrorCode; message: string; details?: ErrorDetails };
  meta: Meta;
};

export function metaOf(requestId: string): Meta {
  return { requestId, timestamp: new Date().toISOString() };
}

export function errorBody(
  requestId: string,
  code: ErrorCode,
  message: string,
  details?: ErrorDetails,
): ErrorBody {
  return { error: { code, message, ...(details ? { details } : {}) }, meta: metaOf(requestId) };
}

/** ISO 8601 with milliseconds, as `Date.toISOString` writes it. */
export const isoTime = z.iso.datetime();
export const metaSchema = z
  .object({ requestId: z.string(), timestamp: isoTime })
  .meta({ id: "ResponseMeta" });

/** A response in the general form. */
export const withMeta = <Data extends z.ZodType>(data: Data) => z.object({ data, meta: metaSchema });
/** The same for a paginated list. */
export const pageSchema = <Item extends z.ZodType>(item: Item) =>
  z.object({
    data: z.array(item),
    pagination: z.object({ hasNextPage: z.boolean(), nextCursor: z.string().nullable(), limit: z.int() }),
    meta: metaSchema,
  });
/** A response with a message. */
export const successSchema = <Data extends z.ZodType>(data: Data) =>
  z.object({ success: z.literal(true), data, message: z.string() });
export const success = <Data>(data: Data, message: string) => ({ success: true as const, data, message });

export const errorSchema = z
  .object({
    error: z.object({
      code: z.enum(Object.keys(ERROR_STATUS) as [ErrorCode, ...ErrorCode[]]),
      message: z.string(),
      details: z.looseObject({ field: z.string().optional(), issue: z.string().optional() }).optional(),
    }),
    meta: metaSchema,
  })
  .meta({ description: "The error envelope" })
  .meta({ id: "ApiError" });

type ErrorStatus = 400 | 401 | 403 | 404 | 405 | 409 | 413 | 422 | 429 | 500;

/** `response: { 200: …, ...errorResponses(400, 401) }`: documents the envelope for these statuses; 500 is always included. */
export function errorResponses<const Statuses extends readonly ErrorStatus[]>(
  ...statuses: Statuses
): Record<Statuses[number] | 500, typeof errorSchema> {
  const entries = [...statuses, 500].map((status) => [status, errorSchema]);
  return Object.fromEntries(entries) as Record<Statuses[number] | 500, typeof errorSchema>;
}

/**
 * The one place where errors become responses: callers see what they can correct; everything else is a 500 without details and a log line.
 * `routes` is read when a path is not found, to tell a wrong method from an unknown path.
 */
export const errorMapper = (deps: ApiDeps, routes: () => RouteTable) =>
  new Elysia({ name: "error-mapper" })
    .use(requestContext(deps))
    .onError({ as: "global" }, ({ error, request, set, requestId, log }): ErrorBody => {
      const failure = toServiceError(error, request, routes);
      if (failure.status >= 500)
        log.error({ err: failure.cause ?? failure, path: pathOf(request) }, "failed");
      set.status = failure.status;
      set.headers["content-type"] = "application/json; charset=utf-8";
      for (const [name, value] of Object.entries(failure.headers)) set.headers[name] = value;
      return errorBody(requestId, failure.errorCode, failure.message, failure.details);
    });

function toServiceError(error: unknown, request: Request, routes: () => RouteTable): ServiceError {
  if (error instanceof ServiceError) return error;
  if (error instanceof ValidationError) return fromValidation(error);
  if (error instanceof ParseError) return fromParse(error);
  if (error instanceof NotFoundError) return fromNotFound(request, routes());
  if (isUnprintableInput(error)) return invalid("body", "is not well formed");
  if (isUnstorableText(error)) return invalid("body", "contains a character that cannot be stored");
  return internalError(error);
}

/** A response that does not match its schema is our bug, never the caller's. Its values stay out of the log. */
function fromValidation(error: ValidationError): ServiceError {
  const issue: { path?: unknown; message?: unknown } | undefined = error.all[0];
  const path = fieldOf(issue?.path);
  const field = path === "" || path === "root" ? error.type : path;
  const message = typeof issue?.message === "string" ? issue.message : "is not valid";
  if (error.type !== "response") return invalid(field, message);
  return internalError(new Error(`our response does not match its schema at ${field}: ${message}`));
}

function internalError(cause: unknown): ServiceError {
  return new ServiceError("INTERNAL_ERROR", "Something went wrong on our side", { cause });
}

/** zod gives the path as keys (Elysia "root" for none), typebox as "/a/b". */
function fieldOf(path: unknown): string {
  if (Array.isArray(path)) return path.map(String).join(".");
  return typeof path === "string" ? path.split("/").filter(Boolean).join(".") : "";
}

/** Errors of our body parser arrive wrapped. */
function fromParse(error: ParseError): ServiceError {
  if (error.cause instanceof ServiceError) return error.cause;
  return invalid("body", "cannot be read");
}

function fromNotFound(request: Request, routes: RouteTable): ServiceError {
  const methods = findAllowedMethods(routes, pathOf(request));
  if (methods.length === 0 || methods.includes(request.method))
    return new ServiceError("NOT_FOUND", "Route not found");
  return new ServiceError("VALIDATION_ERROR", `${request.method} is not allowed here`, {
    status: 405,
    details: { field: "method", issue: "not_allowed" },
    headers: { allow: methods.join(", ") },
  });
}

/** `{"a":{"toString":1}}` where a string was expected: Elysia's own message building throws this TypeError. */
function isUnprintableInput(error: unknown): boolean {
  return (
    error instanceof TypeError && /No default value|Cannot convert object to primitive/.test(error.message)
  );
}

/** U+0000 in a string or JSON value that passed its schema: Postgres refuses it (SQLSTATE 22021, 22P05). */
function isUnstorableText(error: unknown): boolean {
  return error instanceof Error && "code" in error && (error.code === "22021" || error.code === "22P05");
}

function pathOf(request: Request): string {
  return URL.parse(request.url)?.pathname ?? "/";
}

type Issue = Parameters<z.core.$ZodErrorMap>[0];

const TYPES: Record<string, string> = {
  string: "must be text",
  number: "must be a number",
  int: "must be a whole number",
  boolean: "must be true or false",
  array: "must be a list",
  object: "must be an object",
  record: "must be an object",
};
const UNITS: Record<string, { one: string; many: string }> = {
  string: { one: "character", many: "characters" },
  array: { one: "entry", many: "entries" },
};

/** Plain messages for schemas in this process that define none: "must be …" or "is …", to be read after the field's name. */
export function useOwnValidationMessages(): void {
  z.config({ customError: describeIssue });
}

function describeIssue(issue: Issue): string | undefined {
  if (issue.input === undefined && issue.code !== "unrecognized_keys") return "is missing";
  switch (issue.code) {
    case "invalid_type":
      return describeType(issue.expected, issue.input);
    case "invalid_value":
      return `must be ${oneOf(issue.values.map(String))}`;
    case "too_small":
      return describeBound(issue.inclusive === false ? "more than" : "at least", issue.minimum, issue.origin);
    case "too_big":
      return describeBound(issue.inclusive === false ? "less than" : "at most", issue.maximum, issue.origin);
    case "invalid_format":
    case "invalid_union":
      return "is not well formed";
    case "invalid_key":
      return `is not a valid key: it ${issue.issues[0]?.message ?? "is not well formed"}`;
    case "unrecognized_keys":
      return `has unknown fields: ${issue.keys.join(", ")}`;
    default:
      return undefined;
  }
}

function describeType(expected: string, input: unknown): string {
  // a repeated key of a query
  if (expected === "string" && Array.isArray(input)) return "must be given once";
  return TYPES[expected] ?? "is not well formed";
}

function describeBound(side: string, bound: number | bigint, origin: string): string {
  const unit = UNITS[origin];
  if (!unit) return `must be ${side} ${bound}`;
  return `must have ${side} ${bound} ${Number(bound) === 1 ? unit.one : unit.many}`;
}

/** "A", "A or B", "A, B or C" */
export function oneOf(values: readonly string[]): string {
  return values.length < 2 ? values.join("") : `${values.slice(0, -1).join(", ")} or ${values.at(-1)}`;
}
