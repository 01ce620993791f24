/** The SDK's types, written from the OpenAPI document: the operations that it calls, with the components they name. */
import { readDocument } from "../support/openapi-document.ts";
import { renderOperations } from "../support/render-operations.ts";

export const SDK_TYPES = "sdk/wire.ts";

const OPERATIONS = [
  "createPaymentLink",
  "getPaymentLink",
  "listPaymentLinks",
  "cancelPaymentLink",
  "listLinkPayments",
  "getPaymentLinkStats",
  "getPublicPaymentLink",
  "listTransactions",
  "summarizeTransactions",
  "exportTransactions",
  "getExport",
  "requestRefund",
  "getRefund",
  "listRefunds",
  "listEvents",
] as const;

/** The file's text. */
export async function renderSdkTypes(): Promise<string> {
  const document = await readDocument();
  const all = Object.values(document.paths).flatMap((item) => Object.values(item));
  const chosen = OPERATIONS.map((key) => {
    const operation = all.find(({ operationId }) => operationId === key);
    if (!operation) throw new Error(`the document has no operation ${key}`);
    return { key, operation };
  });
  const note = "Written by `bun run wire-types` from the OpenAPI document; a test compares both.";
  return renderOperations(document, chosen, {
    name: "Operations",
    note,
    further: ["ApiError", "WebhookMessage"],
  });
}
