/** TypeScript types of chosen operations of the OpenAPI document, with the components they name. */
import {
  type Answer,
  type OpenApiDocument,
  type Operation,
  type Parameter,
  resolve,
} from "../../api/http/openapi-document.ts";
import { findNames, renderComponents, typeOf } from "./render-types.ts";

/** `export type <name> = { <key>: { query; body; answer } }`, and before it the named types it needs, with `further` ones. */
export function renderOperations(
  document: OpenApiDocument,
  chosen: readonly { key: string; operation: Operation }[],
  { name, note, further = [] }: { name: string; note: string; further?: readonly string[] },
): string {
  const { schemas } = document.components;
  const operations = chosen.map(({ key, operation }) => ({ key, parts: partsOf(document, operation) }));
  const roots = [operations, further.map((one) => ({ $ref: `#/components/schemas/${one}` }))];
  const lines = operations.map(({ key, parts }) => {
    const { query, body, answers } = parts;
    const answer = [...new Set(answers.map((schema) => (schema ? typeOf(schema) : "unknown")))].join(" | ");
    return `  ${JSON.stringify(key)}: { query: ${typeOfQuery(query)}; body: ${body ? typeOf(body) : "undefined"}; answer: ${answer || "unknown"} };`;
  });
  return [
    `/** ${note} */`,
    renderComponents(schemas, findNames(schemas, roots)),
    `export type ${name} = {\n${lines.join("\n")}\n};\n`,
  ].join("\n");
}

const jsonOf = (part: Answer | undefined) => part?.content?.["application/json"]?.schema;

function partsOf(document: OpenApiDocument, { parameters = [], requestBody, responses = {} }: Operation) {
  return {
    query: parameters.map((one) => resolve(document, one)).filter((one) => one.in === "query"),
    body: jsonOf(requestBody),
    answers: Object.entries(responses)
      .filter(([status]) => status.startsWith("2"))
      .map(([, content]) => jsonOf(resolve(document, content))),
  };
}

function typeOfQuery(parameters: Parameter[]): string {
  if (parameters.length === 0) return "undefined";
  const fields = parameters.map(({ name, schema = {} }) => `${JSON.stringify(name)}?: ${typeOf(schema)}`);
  return `{ ${fields.join("; ")} }`;
}
