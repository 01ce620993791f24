/** The one place where failures become answers. A caller is told what it can mend; everything else is a 500 without details, and a log line. */
import { Elysia, NotFoundError, ParseError, ValidationError } from "elysia";
import { invalid, ServiceError } from "../../core/domain/errors.ts";
import { findAllowedMethods, type RouteTable } from "./allowed-methods.ts";
import type { ApiDeps } from "./deps.ts";
import { type ErrorBody, errorBody } from "./envelope.ts";
import { requestContext } from "./request-context.ts";

/** `routes` is read when a path is not found, to tell a wrong method from an unknown path. */
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

/** An answer that breaks its own schema is our fault, never the caller's. Its values stay out of the log. */
function fromValidation(error: ValidationError): ServiceError {
  const issue: { path?: unknown; message?: unknown } | undefined = error.all[0];
  const path = fieldOf(issue?.path);
  const field = path === "" || path === "root" ? error.type : path;
  const message = typeof issue?.message === "string" ? issue.message : "is not valid";
  if (error.type !== "response") return invalid(field, message);
  return internalError(new Error(`our own answer breaks its schema at ${field}: ${message}`));
}

function internalError(cause: unknown): ServiceError {
  return new ServiceError("INTERNAL_ERROR", "Something went wrong on our side", { cause });
}

/** zod gives the path as keys (Elysia says "root" for none), typebox as "/a/b". */
function fieldOf(path: unknown): string {
  if (Array.isArray(path)) return path.map(String).join(".");
  return typeof path === "string" ? path.split("/").filter(Boolean).join(".") : "";
}

/** Our own body parser's refusal arrives wrapped. */
function fromParse(error: ParseError): ServiceError {
  if (error.cause instanceof ServiceError) return error.cause;
  return invalid("body", "cannot be read");
}

function fromNotFound(request: Request, routes: RouteTable): ServiceError {
  const methods = findAllowedMethods(routes, pathOf(request));
  if (methods.length === 0 || methods.includes(request.method))
    return new ServiceError("NOT_FOUND", "There is nothing here");
  return new ServiceError("VALIDATION_ERROR", `${request.method} is not allowed here`, {
    status: 405,
    details: { field: "method", issue: "not_allowed" },
    headers: { allow: methods.join(", ") },
  });
}

/** `{"a":{"toString":1}}` where a text was expected: building Elysia's own message throws this TypeError. */
function isUnprintableInput(error: unknown): boolean {
  return (
    error instanceof TypeError && /No default value|Cannot convert object to primitive/.test(error.message)
  );
}

/** U+0000 in a text or a JSON value: Postgres refuses it (SQLSTATE 22021, 22P05) when a schema let it through. */
function isUnstorableText(error: unknown): boolean {
  return error instanceof Error && "code" in error && (error.code === "22021" || error.code === "22P05");
}

function pathOf(request: Request): string {
  return URL.parse(request.url)?.pathname ?? "/";
}
