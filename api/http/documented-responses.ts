/**
 * `detail: { responses: documentedResponses({ … }) }`: documents answers that Elysia must not validate or strip, such as streams,
 * files and bodies put together elsewhere. Takes a zod schema for JSON, or a media type for anything else.
 */
import { z } from "zod";
import { errorSchema } from "./envelope.ts";
import { toJsonSchema } from "./json-schema.ts";

/** `json`: the same answer as JSON, beside the media types. */
type Described = z.ZodType | { mediaTypes: readonly string[]; description: string; json?: z.ZodType };

type Content = Record<string, { schema: object }>;
type Responses = Record<string, { description: string; content: Content }>;

/** 500 with the error envelope is always among them. Several routes with the same answers give them a name, and share them as components. */
export function documentedResponses(responses: Record<number, Described>, name?: string): Responses {
  const all: Record<number, Described> = { 500: errorSchema, ...responses };
  return Object.fromEntries(
    Object.entries(all).map(([status, described]) => {
      const shared = name && described !== errorSchema ? { "x-component": `${name}${status}` } : {};
      return [status, { ...toResponse(described), ...shared }];
    }),
  );
}

/** `detail: { requestBody: documentedBody(schema) }`: a JSON body that the route reads by itself. */
export function documentedBody(schema: z.ZodType): { required: boolean; content: Content } {
  return {
    required: !schema.safeParse(undefined).success,
    content: { "application/json": { schema: toJsonSchema(schema) } },
  };
}

function toResponse(described: Described): Responses[string] {
  if (!(described instanceof z.ZodType)) {
    const schema = { type: "string" };
    const content: Content = Object.fromEntries(
      described.mediaTypes.map((mediaType) => [mediaType, { schema }]),
    );
    if (described.json) content["application/json"] = { schema: toJsonSchema(described.json) };
    return { description: described.description, content };
  }
  const schema = toJsonSchema(described);
  return {
    description: described.description ?? "A JSON answer",
    content: { "application/json": { schema } },
  };
}
