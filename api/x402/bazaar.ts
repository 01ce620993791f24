/** How an agent calls a link's resource, as x402's `bazaar` extension describes it; given for links that their merchant lists. */
import { formatUnits } from "../../core/domain/money.ts";
import { choiceOf } from "../../core/domain/reusable-link.ts";

export const JSON_SCHEMA = "https://json-schema.org/draft/2020-12/schema";
const METHOD = "GET";

type Choice = { minUnits?: bigint | null; maxUnits?: bigint | null };

/** The response to a payer: the outcome of the payment. */
const OUTPUT_EXAMPLE = {
  success: true,
  txHash: `0x${"0".repeat(64)}`,
  networkId: "base",
  error: null,
  settled: true,
};

/** The extension of version 2: an example in `info`, and the JSON Schema it fits. */
export function describeCall(link: Choice) {
  const query = describeQuery(link);
  return {
    bazaar: {
      info: {
        input: { type: "http", method: METHOD, queryParams: query?.example ?? {} },
        output: { type: "json", example: OUTPUT_EXAMPLE },
      },
      schema: {
        $schema: JSON_SCHEMA,
        type: "object",
        properties: {
          input: {
            type: "object",
            properties: {
              type: { type: "string", const: "http" },
              method: { type: "string", enum: [METHOD] },
              queryParams: {
                type: "object",
                properties: query?.properties ?? {},
                required: query?.required ?? [],
              },
            },
            required: ["type", "method"],
            additionalProperties: false,
          },
          output: {
            type: "object",
            properties: { type: { type: "string" }, example: { type: "object" } },
            required: ["type"],
          },
        },
        required: ["input"],
      },
    },
  };
}

/** `outputSchema` of version 1. */
export function describeCallInVersion1(link: Choice) {
  const query = describeQuery(link);
  const queryParams = query ? { queryParams: { amount: query.properties.amount.description } } : {};
  return {
    input: { type: "http", method: METHOD, discoverable: true, ...queryParams },
    output: OUTPUT_EXAMPLE,
  };
}

/** Undefined when the price is fixed. */
function describeQuery(link: Choice) {
  const choice = choiceOf(link);
  if (!choice) return undefined;
  const min = formatUnits(choice.minUnits);
  const description = `USDC, from ${min} to ${formatUnits(choice.maxUnits)}, at most 5 decimals`;
  return {
    example: { amount: min },
    properties: { amount: { type: "string", pattern: "^[0-9]+([.][0-9]+)?$", description } },
    required: ["amount"],
  };
}
