/**
 * `detail: { responses: documentedResponses({ … }) }`: documents responses that Elysia must not validate or strip, such as streams,
 * files and bodies built elsewhere. Takes a zod schema for JSON, or a media type for anything else.
 */
import { z } from "zod";
import { errorSchema } from "./envelope.ts";
import { toJsonSchema } from "./json-schema.ts";

/** `json`: the same answer as JSON, beside the media types. */
type Described = z.ZodType | { mediaTypes: readonly string[]; description: string; json?: z.ZodType };

/** `schema`: or a function that creates it, because that takes zod milliseconds and few processes serve the document. */
type Content = Record<string, { schema: object }>;
type Responses = Record<string, { description: string; content: Content }>;

/** 500 with the error envelope is always included. Routes with the same responses give them a name and share them as components. */
export function documentedResponses(responses: Record<number, Described>, name?: string): Responses {
  const all: Record<number, Described> = { 500: errorSchema, ...responses };
  return Object.fromEntries(
    Object.entries(all).map(([status, described]) => {
      const shared = name && described !== errorSchema ? { "x-component": `${name}${status}` } : {};
      return [status, { ...toResponse(described), ...shared }];
    }),
  );
}

/** `detail: { requestBody: documentedBody(schema) }`: a JSON body that the route parses itself. */
export function documentedBody(schema: z.ZodType): { required: boolean; content: Content } {
  return {
    required: !schema.safeParse(undefined).success,
    content: jsonContent(schema),
  };
}

/** Creates the schemas of an operation, in place. */
export function makeSchemas({ requestBody, responses = {} }: DocumentedOperation): void {
  const documented = [requestBody ?? {}, ...Object.values(responses)] as Documented[];
  for (const { content = {} } of documented)
    for (const one of Object.values(content)) if (typeof one.schema === "function") one.schema = one.schema();
}
type Documented = { content?: Record<string, { schema?: unknown }> };
type DocumentedOperation = { requestBody?: object; responses?: Record<string, unknown> };

function jsonContent(schema: z.ZodType): Content {
  return { "application/json": { schema: () => toJsonSchema(schema) } };
}

function toResponse(described: Described): Responses[string] {
  if (!(described instanceof z.ZodType)) {
    const schema = { type: "string" };
    const content: Content = Object.fromEntries(
      described.mediaTypes.map((mediaType) => [mediaType, { schema }]),
    );
    const json = described.json ? jsonContent(described.json) : {};
    return { description: described.description, content: { ...content, ...json } };
  }
  return { description: described.description ?? "A JSON answer", content: jsonContent(described) };
}
