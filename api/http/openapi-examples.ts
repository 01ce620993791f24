/** Examples in the document, recorded from real responses by `bun tests/http/record-examples.ts`; a test compares them with the schemas. */
import recorded from "./openapi-examples.json" with { type: "json" };

type Content = Record<string, { example?: unknown }>;
type Operation = {
  operationId: string;
  requestBody?: { content?: Content };
  responses?: Record<string, { $ref?: string; content?: Content }>;
};
type Example = { body?: unknown; status?: string; answer?: unknown };

export const EXAMPLES: Readonly<Record<string, Example>> = recorded.operations;
export const ERROR_EXAMPLE: unknown = recorded.error;

export function addExamples(operations: readonly Operation[], shared: Record<string, unknown>): void {
  for (const { operationId, requestBody, responses = {} } of operations) {
    const { body, status = "", answer } = EXAMPLES[operationId] ?? {};
    const asked = requestBody?.content?.["application/json"];
    if (asked && body !== undefined) asked.example = body;
    if (answer === undefined) continue;
    const { $ref, content } = responses[status] ?? {};
    const named = $ref && (shared[$ref.split("/").at(-1) ?? ""] as { content?: Content });
    const answered = (named || { content }).content?.["application/json"];
    if (answered) answered.example = answer;
  }
}
