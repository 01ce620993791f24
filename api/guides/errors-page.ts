/** The errors page: every code with its cause and remedy, generated from the lists that the service itself uses. */
import { ERROR_STATUS } from "../../core/domain/errors.ts";
import { PAYMENT_REFUSALS, standardReason } from "../../core/domain/payment.ts";
import { ERRORS, ISSUES, OPERATIONS, PAYMENTS } from "./error-causes.ts";
import { row, table } from "./markdown-table.ts";

const INTRODUCTION = `# Errors

Every refusal names a code, a sentence for people and, where it helps, the field. Branch on \`error.code\` and \`error.details.issue\`, never on the message.

\`\`\`sh
curl -s "$BASE_URL/v1/payment-links" \\
  -H "Authorization: Bearer $API_KEY" \\
  -H "Content-Type: application/json" \\
  -d '{ "amount": 0, "description": "Nothing" }' | jq .error
\`\`\`

<!-- test: curl -s "$BASE_URL/v1/payment-links" -H "Authorization: Bearer $API_KEY" -H "Content-Type: application/json" -d '{ "amount": 0, "description": "x" }' | jq -e '.error.code == "VALIDATION_ERROR" and .error.details.field == "amount"' -->

\`meta.requestId\` finds the request in the operator's logs. A 4xx is refused again when it is repeated unchanged, except 429. A 5xx and a lost connection leave the outcome unknown: repeat with the same [\`Idempotency-Key\`](idempotency.md).`;

export function renderErrors(): string {
  const codes = Object.entries(ERRORS).map(([code, entry]) => {
    const status = ERROR_STATUS[code as keyof typeof ERROR_STATUS];
    return row(
      `\`${code}\``,
      code === "VALIDATION_ERROR" ? "400, 405, 413, 414, 431" : String(status),
      ...entry,
    );
  });
  const payments = Object.entries(PAYMENTS).map(([code, entry]) => {
    if (code === "SETTLEMENT_PENDING") return row("`SETTLEMENT_PENDING`", "202", ...entry);
    const refusal = code as keyof typeof PAYMENT_REFUSALS;
    const standard = standardReason(refusal);
    const name = standard === code ? `\`${code}\`` : `\`${code}\` (\`${standard}\`)`;
    return row(name, String(PAYMENT_REFUSALS[refusal]), ...entry);
  });
  const operations = Object.entries(OPERATIONS).map(([code, entry]) => row(`\`${code}\``, ...entry));
  const issues = Object.entries(ISSUES).map(([issue, entry]) => row(`\`${issue}\``, ...entry));
  return [
    INTRODUCTION,
    "## Codes of the API",
    table(["code", "status", "cause", "what to do"], codes),
    "## Refused payments (x402)",
    "The `error` field of the response; in brackets the reason that x402 headers and the facilitator carry. With 402 nothing was paid.",
    table(["code", "status", "cause", "what to do"], payments),
    "## Failed sends and refunds",
    "`failureReason` of a send or refund that is `FAILED`.",
    table(["code", "cause", "what to do"], operations),
    "## Issues",
    "`error.details.issue`, beside the code. For an invalid field, the issue is the rule as a sentence, such as `must be at most 100`. For a conflict with an object's state, it is that state, such as `CANCELLED`.",
    table(["issue", "cause", "what to do"], issues),
  ].join("\n\n");
}
