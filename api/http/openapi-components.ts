/**
 * Turns inline schemas of a generated document into named components: `$defs` of schemas with an id (`.meta({ id })`), the enumerations that
 * many schemas share, and the error responses. Two different schemas with the same name are a bug and stop the generation.
 */
import { isDeepStrictEqual } from "node:util";
import { API_KEY_SCOPES } from "../../core/domain/api-key-scopes.ts";
import { ERROR_STATUS } from "../../core/domain/errors.ts";
import { EVENT_TYPES } from "../../core/domain/event-types.ts";
import { LINK_EXCEPTIONS, LINK_STATUSES } from "../../core/domain/link.ts";
import { NETWORK_IDS } from "../../core/domain/networks.ts";
import {
  PAYMENT_REFUSALS,
  PAYMENT_STATES,
  TRANSACTION_STATUSES,
  TRANSACTION_TYPES,
} from "../../core/domain/payment.ts";
import { REFUND_STATES } from "../../core/domain/refund.ts";
import { SETTLED_BY } from "../../core/domain/settled-by.ts";
import { USER_STATUSES } from "../../core/domain/user.ts";
import { OPERATION_FAILURES, OPERATION_STATES } from "../../core/domain/wallet-operation.ts";

type Json = Record<string, unknown>;

const ENUMERATIONS: Record<string, readonly string[]> = {
  ApiKeyScope: API_KEY_SCOPES,
  ErrorCode: Object.keys(ERROR_STATUS),
  EventType: EVENT_TYPES,
  LinkException: LINK_EXCEPTIONS,
  LinkStatus: LINK_STATUSES,
  Network: NETWORK_IDS,
  OperationFailure: OPERATION_FAILURES,
  OperationStatus: OPERATION_STATES,
  PaymentRefusal: [...Object.keys(PAYMENT_REFUSALS), "SETTLEMENT_PENDING"],
  PaymentStatus: PAYMENT_STATES,
  RefundStatus: REFUND_STATES,
  SettledBy: SETTLED_BY,
  TransactionStatus: TRANSACTION_STATUSES,
  TransactionType: TRANSACTION_TYPES,
  UserStatus: USER_STATUSES,
};
const keyOf = (values: readonly unknown[]) => values.join("|");
const NAME_BY_VALUES = new Map(
  Object.entries(ENUMERATIONS).map(([name, values]) => [keyOf(values), name] as const),
);

/** Rewrites `part` of a document; what it names is added to `schemas`. */
export function nameComponents(part: unknown, schemas: Json): unknown {
  if (Array.isArray(part)) return part.map((one) => nameComponents(one, schemas));
  if (part === null || typeof part !== "object") return part;
  const { $defs, $schema: _dialect, ...given } = part as Json;
  for (const [name, schema] of Object.entries(($defs ?? {}) as Json)) addComponent(schemas, name, schema);
  const rest = allowNull(withoutSchemaId(given));
  const enumeration = nameEnumeration(rest, schemas);
  if (enumeration) return enumeration;
  if (rest.maximum === Number.MAX_SAFE_INTEGER) delete rest.maximum;
  if (rest.minimum === Number.MIN_SAFE_INTEGER) delete rest.minimum;
  // zod's 300-character pattern of a time repeats what the format says
  if (rest.format === "date-time" || rest.format === "email") delete rest.pattern;
  return Object.fromEntries(
    Object.entries(rest).map(([key, value]) => [
      key,
      key === "$ref" && typeof value === "string"
        ? value.replace("#/$defs/", "#/components/schemas/")
        : nameComponents(value, schemas),
    ]),
  );
}

/** zod writes a schema's id into it; a property named `id` is an object, never text. */
function withoutSchemaId({ id, ...schema }: Json): Json {
  return id === undefined || typeof id === "string" ? schema : { id, ...schema };
}

/** "This or null" as one schema with two types, however it was written; an enumeration then includes null. */
function allowNull(schema: Json): Json {
  const choices = schema.anyOf as Json[] | undefined;
  const [only, ...others] = choices?.filter(({ type }) => type !== "null") ?? [];
  if (!only || others.length > 0 || choices?.length === 1 || typeof only.type !== "string")
    return namesNull(schema);
  const { anyOf: _choices, ...rest } = schema;
  return namesNull({ ...only, ...rest, type: [only.type, "null"] });
}

function namesNull(schema: Json): Json {
  const { enum: values, type } = schema;
  if (!Array.isArray(values) || !Array.isArray(type) || values.includes(null)) return schema;
  return { ...schema, enum: [...values, null] };
}

function addComponent(schemas: Json, name: string, schema: unknown): void {
  const named = nameComponents(schema, schemas);
  schemas[name] ??= named;
  if (!isDeepStrictEqual(schemas[name], named)) throw new Error(`two different schemas are named ${name}`);
}

/** A shared enumeration becomes a reference; one that may also be null, a choice of both. */
function nameEnumeration(schema: Json, schemas: Json): Json | undefined {
  const values = schema.enum;
  if (!Array.isArray(values)) return undefined;
  const texts = values.filter((value) => value !== null);
  const name = NAME_BY_VALUES.get(keyOf(texts));
  if (!name) return undefined;
  schemas[name] ??= { type: "string", enum: texts };
  const { type, enum: _values, ...rest } = schema;
  const reference = { $ref: `#/components/schemas/${name}` };
  if (texts.length === values.length && !Array.isArray(type)) return { ...rest, ...reference };
  return { ...rest, anyOf: [reference, { type: "null" }] };
}

const ERROR_NAMES: Record<string, { name: string; description: string }> = {
  400: { name: "BadRequest", description: "The request is not valid; `error.details` names the field" },
  401: { name: "Unauthorized", description: "No valid session or API key" },
  403: { name: "Forbidden", description: "Signed in, but not allowed to do this" },
  404: { name: "NotFound", description: "It does not exist, or is not yours" },
  405: { name: "MethodNotAllowed", description: "Method not allowed; see the Allow header" },
  409: { name: "Conflict", description: "The current state does not allow this" },
  413: { name: "TooLarge", description: "The body is too large" },
  422: { name: "Unprocessable", description: "Well-formed, but not allowed by a rule" },
  429: { name: "TooManyRequests", description: "A rate limit was exceeded" },
  431: { name: "HeadersTooLarge", description: "The request's headers are too large" },
  500: { name: "ServerError", description: "An error of the service" },
};
const IS_API_ERROR = "#/components/schemas/ApiError";

/**
 * Responses with the plain error envelope become references to one component per status, as do responses that
 * several routes share (`x-component`, see documented-responses.ts).
 */
export function nameAnswers(responses: Json, shared: Json): Json {
  return Object.fromEntries(
    Object.entries(responses).map(([status, response]) => {
      const { "x-component": given, ...answer } = response as Json;
      const known = isApiError(answer) ? ERROR_NAMES[status] : undefined;
      const name = known?.name ?? given;
      if (typeof name !== "string") return [status, describePlainly(answer)];
      shared[name] ??= { ...answer, ...headersOf(status), ...(known && { description: known.description }) };
      return [status, { $ref: `#/components/responses/${name}` }];
    }),
  );
}

function isApiError({ content }: Json): boolean {
  const { "application/json": json } = (content ?? {}) as Record<string, { schema?: Json } | undefined>;
  return json?.schema?.$ref === IS_API_ERROR;
}

function headersOf(status: string): Json {
  const name = { 402: "PAYMENT-REQUIRED", 429: "Retry-After" }[status];
  return name ? { headers: { [name]: { $ref: `#/components/headers/${name}` } } } : {};
}

/** The plugin's default description of a response only repeats the status. */
function describePlainly(answer: Json): Json {
  const isOwnText = /^(Response for status \d+|A JSON answer)$/.test(String(answer.description));
  return isOwnText ? { ...answer, description: "OK" } : answer;
}
