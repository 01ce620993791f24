/** The screens for bookkeeping in one chunk, which compresses better than one chunk each. */
import { Documents } from "./documents.tsx";
import { ExportList } from "./export-list.tsx";
import { Rates } from "./rates.tsx";
import { SavedExports } from "./saved-exports.tsx";
import { Statements } from "./statements.tsx";

export const screens = {
  "/documents": Documents,
  "/exports": ExportList,
  "/exchange-rates": Rates,
  "/saved-exports": SavedExports,
  "/statements": Statements,
};
